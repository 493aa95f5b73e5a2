"""Lists, describes and fences transactions (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pykafka2.admin.arguments import texts
from pykafka2.admin.outcomes import Outcomes
from pykafka2.admin.rounds import gathered
from pykafka2.admin.values import ProducerIdAndEpoch, TransactionDescription, TransactionListing
from pykafka2.driver.pollable import TRANSACTION, ToCoordinator, ToNode
from pykafka2.errors import CorruptData, IllegalArgument, KafkaError, error_of
from pykafka2.types import TopicPartition

if TYPE_CHECKING:
    from pykafka2.cluster.client import ClusterClient
    from pykafka2.protocol.messages.transaction import InitProducerIdResponse
    from pykafka2.protocol.messages.transaction_admin import (
        DescribeTransactionsResponse,
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
    ) -> list[TransactionListing]:
        """Returns the transactional ids of all coordinators, sorted.

        `states` (such as "Ongoing", "PrepareCommit", "CompleteAbort") and `producer_ids` filter them; empty
        ones match all. Ids that the principal may not describe are left out.

        Args:
            longer_than: only transactions that have been open for so many seconds (KIP-994, Kafka 3.8).
            pattern: only ids that match this regular expression in RE2's syntax (KIP-1152, Kafka 4.1).

        Raises:
            InvalidRegularExpression: `pattern` is not valid.
            UnsupportedVersion: a broker is too old for a filter.
            IllegalArgument: a state is unknown to the brokers, or an argument is not valid.
            KafkaError: a broker failed; the result would be incomplete without it.
        """
        from pykafka2.protocol.messages.metadata import MetadataRequest
        from pykafka2.protocol.messages.transaction_admin import ListTransactionsRequest

        state_filters, producers = texts("states", states), list(producer_ids)
        brokers = self._cluster.request(
            MetadataRequest(topics=[], allow_auto_topic_creation=False), timeout=timeout
        ).brokers
        found: dict[str, TransactionListing] = {}
        for broker in brokers:
            response = self._cluster.request(
                ListTransactionsRequest(
                    state_filters=state_filters,
                    producer_id_filters=producers,
                    duration_filter=-1 if longer_than is None else round(longer_than * 1000),
                    transactional_id_pattern=pattern,
                ),
                ToNode(broker.node_id),
                timeout,
                _error_of_listing,
            )
            if response.unknown_state_filters:
                raise IllegalArgument(
                    f"states={state_filters!r}: broker {broker.node_id} does not support "
                    f"{', '.join(response.unknown_state_filters)}"
                )
            for state in response.transaction_states:
                found[state.transactional_id] = TransactionListing(
                    state.transactional_id, state.producer_id, state.transaction_state
                )
        return [found[name] for name in sorted(found)]

    def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Outcomes[str, TransactionDescription]:
        """Returns state, producer, timeout in seconds, start and partitions of each transactional id.

        Raises:
            ItemsFailed: some failed (unless `raise_errors` is False), with `TransactionalIdNotFound` for
                unknown ids.
        """
        from pykafka2.protocol.messages.transaction_admin import DescribeTransactionsRequest

        cluster = self._cluster
        # Start all requests before waiting for the first: each id has its own coordinator.
        started = {
            name: cluster.start(
                DescribeTransactionsRequest(transactional_ids=[name]),
                ToCoordinator(TRANSACTION, name),
                timeout,
                _error_of_description,
            )
            for name in texts("transactional_ids", transactional_ids)
        }
        seconds = cluster.options.default_api_timeout if timeout is None else timeout
        found, errors = gathered(started, seconds)
        described = {name: _described(response) for name, response in found.items()}
        return Outcomes(described, errors).checked("describe_transactions", raise_errors)

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
        found, errors = gathered(started, cluster.options.default_api_timeout if timeout is None else timeout)
        fenced = {
            name: ProducerIdAndEpoch(response.producer_id, response.producer_epoch)
            for name, response in found.items()
        }
        return Outcomes(fenced, errors).checked("fence_producers", raise_errors)


def _error_of_fencing(response: InitProducerIdResponse) -> KafkaError | None:
    return error_of(response.error_code) if response.error_code else None


def _error_of_listing(response: ListTransactionsResponse) -> KafkaError | None:
    return error_of(response.error_code) if response.error_code else None


def _error_of_description(response: DescribeTransactionsResponse) -> KafkaError | None:
    if not response.transaction_states:
        return CorruptData("the DescribeTransactions response does not contain the transactional id")
    code = response.transaction_states[0].error_code
    return error_of(code) if code else None


def _described(response: DescribeTransactionsResponse) -> TransactionDescription:
    state = response.transaction_states[0]
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
