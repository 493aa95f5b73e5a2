"""Lists, describes and fences transactions (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import attrs

from pykafka2.admin.arguments import real_number, texts, whole_number
from pykafka2.admin.outcomes import Listings, Outcomes
from pykafka2.admin.places import at_all_brokers, at_coordinators
from pykafka2.admin.rounds import Results, gathered
from pykafka2.admin.values import ProducerIdAndEpoch, TransactionDescription, TransactionListing
from pykafka2.driver.pollable import TRANSACTION, ToCoordinator
from pykafka2.errors import IllegalArgument, KafkaError, error_of, error_or_none
from pykafka2.option_fields import INT64_MAX
from pykafka2.types import TopicPartition

if TYPE_CHECKING:
    from pykafka2.cluster.client import ClusterClient
    from pykafka2.protocol.messages.transaction import InitProducerIdResponse
    from pykafka2.protocol.messages.transaction_admin import (
        DescribeTransactionsResponse,
        DescribeTransactionsResponseTransactionState,
        ListTransactionsResponse,
    )


FENCING_TIMEOUT_MS = 1_000
"""Brokers require a transaction timeout, but no transaction follows; each broker accepts one this short."""


class TransactionsAdmin:
    """The transaction calls of `KafkaAdminClient`. Timeouts are seconds; thread-safe."""

    _cluster: ClusterClient

    def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than: float | None = None,
        pattern: str | None = None,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Listings[TransactionListing]:
        """Return the transactional ids of all coordinators, sorted.

        `states` (such as "Ongoing", "PrepareCommit", "CompleteAbort") and `producer_ids` filter them; empty
        ones match all. Ids that the principal may not describe are left out.

        Args:
            longer_than: only transactions that have been open for so many seconds (KIP-994, Kafka 3.8).
            pattern: only ids that match this regular expression in RE2's syntax (KIP-1152, Kafka 4.1).
            raise_errors: if False, the transactions of brokers that fail or cannot be reached are missing,
                without waiting for these brokers, and `errors` of the result has the brokers.

        Raises:
            InvalidRegularExpression: `pattern` is not valid.
            UnsupportedVersion: a broker is too old for a filter.
            IllegalArgument: a state is unknown to the brokers, or an argument is not valid.
            KafkaError: a broker failed; the result would be incomplete without it. With `raise_errors=False`
                only if all brokers failed.
        """
        from pykafka2.protocol.messages.transaction_admin import ListTransactionsRequest

        state_filters = texts("states", states)
        producers = [whole_number("producer_ids", one, 0, INT64_MAX) for one in producer_ids]
        duration_ms = -1
        if longer_than is not None:
            duration_ms = min(round(real_number("longer_than", longer_than, minimum=0.0) * 1000), INT64_MAX)
        request = ListTransactionsRequest(
            state_filters=state_filters,
            producer_id_filters=producers,
            duration_filter=duration_ms,
            transactional_id_pattern=pattern,
        )

        def read(response: ListTransactionsResponse, broker: int) -> list[TransactionListing]:
            if response.error_code:
                raise error_of(response.error_code)
            if response.unknown_state_filters:
                raise IllegalArgument(
                    f"states={state_filters!r}: broker {broker} does not support "
                    f"{', '.join(response.unknown_state_filters)}"
                )
            return [
                TransactionListing(state.transactional_id, state.producer_id, state.transaction_state)
                for state in response.transaction_states
            ]

        lists = at_all_brokers(
            self._cluster, "list_transactions", lambda broker: request, read, timeout, waits=raise_errors
        )
        found = {one.transactional_id: one for listings in lists.succeeded.values() for one in listings}
        return Listings([found[name] for name in sorted(found)], lists.errors)

    def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Outcomes[str, TransactionDescription]:
        """Return state, producer, timeout in seconds, start and partitions of each transactional id.

        Raises:
            ItemsFailed: some failed (unless `raise_errors` is False), with `TransactionalIdNotFound` for
                unknown ids.
        """
        from pykafka2.protocol.messages.transaction_admin import DescribeTransactionsRequest

        outcomes = at_coordinators(
            self._cluster,
            "describe_transactions",
            TRANSACTION,
            texts("transactional_ids", transactional_ids),
            lambda names: DescribeTransactionsRequest(transactional_ids=names),
            _read_descriptions,
            timeout,
            with_node=lambda described, node: attrs.evolve(described, coordinator_id=node.id),
        )
        return outcomes.checked("describe_transactions", raise_errors)

    def fence_producers(
        self, transactional_ids: Iterable[str], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Outcomes[str, ProducerIdAndEpoch]:
        """Fence the producers of these transactional ids and abort their open transactions.

        After that, the earlier producers of an id can neither send nor commit. An unknown id is registered.
        All ids are fenced in parallel.

        Raises:
            ItemsFailed: some failed (unless `raise_errors` is False). An id with a `KafkaTimeoutError` can be
                fenced or not; call again.
        """
        from pykafka2.protocol.messages.transaction import InitProducerIdRequest

        cluster = self._cluster
        started = {
            name: cluster.start(
                InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=FENCING_TIMEOUT_MS),
                ToCoordinator(TRANSACTION, name),
                timeout,
                _error_of_fencing,
            )
            for name in texts("transactional_ids", transactional_ids)
        }
        found, errors = gathered(started, cluster.seconds_of(timeout))
        fenced = {
            name: ProducerIdAndEpoch(response.producer_id, response.producer_epoch)
            for name, response in found.items()
        }
        return Outcomes(fenced, errors).checked("fence_producers", raise_errors)


def _error_of_fencing(response: InitProducerIdResponse) -> KafkaError | None:
    return error_or_none(response.error_code)


def _read_descriptions(
    response: DescribeTransactionsResponse, names: list[str]
) -> Results[str, TransactionDescription]:
    found: dict[str, TransactionDescription] = {}
    errors: dict[str, KafkaError] = {}
    for state in response.transaction_states:
        if state.error_code:
            errors[state.transactional_id] = error_of(state.error_code)
        else:
            found[state.transactional_id] = _described(state)
    return found, errors


def _described(state: DescribeTransactionsResponseTransactionState) -> TransactionDescription:
    return TransactionDescription(
        state.transactional_id,
        state.producer_id,
        state.producer_epoch,
        state.transaction_state,
        state.transaction_timeout_ms / 1000,
        state.transaction_start_time_ms,
        tuple(
            TopicPartition(topic.topic, number)
            for topic in sorted(state.topics, key=lambda topic: topic.topic)
            for number in sorted(topic.partitions)
        ),
    )
