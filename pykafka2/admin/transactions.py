"""Transactions seen from outside (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from pykafka2.admin.arguments import texts
from pykafka2.admin.outcomes import Outcomes
from pykafka2.admin.unavailable import not_yet
from pykafka2.admin.values import ProducerIdAndEpoch, TransactionDescription, TransactionListing
from pykafka2.driver.pollable import TRANSACTION, ToCoordinator, ToNode
from pykafka2.errors import CorruptData, IllegalArgument, KafkaError, error_of
from pykafka2.types import TopicPartition

if TYPE_CHECKING:
    from pykafka2.cluster.client import ClusterClient
    from pykafka2.driver.completion import Completion
    from pykafka2.protocol.messages.transaction import InitProducerIdResponse
    from pykafka2.protocol.messages.transaction_admin import (
        DescribeTransactionsResponse,
        ListTransactionsResponse,
    )


R = TypeVar("R")

GRACE = 1.0
"""Seconds: calls end themselves, with better words than a waiter has."""
FENCING_TIMEOUT_MS = 1_000
"""Brokers require a transaction timeout, but no transaction follows; each broker accepts one this short."""


class TransactionsAdmin:
    """The part of `KafkaAdminClient` that is about transactions.  Timeouts are seconds; thread-safe."""

    _cluster: ClusterClient

    def list_transactions(
        self, *, states: Iterable[str] = (), producer_ids: Iterable[int] = (), timeout: float | None = None
    ) -> list[TransactionListing]:
        """All transactional ids of all coordinators, of the states and producer ids given (none: all).

        `states` are Kafka's words, such as "Ongoing", "PrepareCommit", "CompleteAbort".  Those that the
        principal may not describe are left out.  Sorted by transactional id.

        Raises:
            IllegalArgument: the brokers know no such state, or an argument is not what is said above.
            KafkaError: a broker could not be asked; what others know is of no use without it.
        """
        from pykafka2.protocol.messages.metadata import MetadataRequest
        from pykafka2.protocol.messages.transaction_admin import ListTransactionsRequest

        wanted, producers = texts("states", states), list(producer_ids)
        brokers = self._cluster.request(
            MetadataRequest(topics=[], allow_auto_topic_creation=False), timeout=timeout
        ).brokers
        found: dict[str, TransactionListing] = {}
        for broker in brokers:
            answer = self._cluster.request(
                ListTransactionsRequest(state_filters=wanted, producer_id_filters=producers),
                ToNode(broker.node_id),
                timeout,
                _error_of_listing,
            )
            if answer.unknown_state_filters:
                raise IllegalArgument(
                    f"states={wanted!r}: broker {broker.node_id} does not know "
                    f"{', '.join(answer.unknown_state_filters)}"
                )
            for one in answer.transaction_states:
                found[one.transactional_id] = TransactionListing(
                    one.transactional_id, one.producer_id, one.transaction_state
                )
        return [found[name] for name in sorted(found)]

    def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Outcomes[str, TransactionDescription]:
        """State, producer, timeout in seconds, start and partitions of each transactional id.

        Raises:
            ItemsFailed: some failed (unless `raise_errors` is False), with `TransactionalIdNotFound` where no
                coordinator knows the id.
        """
        from pykafka2.protocol.messages.transaction_admin import DescribeTransactionsRequest

        cluster = self._cluster
        # All are asked for before the first is waited for: each has a coordinator of its own.
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
        found, errors = _results(started, seconds)
        described = {name: _described(response) for name, response in found.items()}
        return Outcomes(described, errors).checked("describe_transactions", raise_errors)

    def fence_producers(
        self, transactional_ids: Iterable[str], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Outcomes[str, ProducerIdAndEpoch]:
        """Fence the producers of these transactional ids and abort what they have open.

        When an id's outcome is there, its open transaction is aborted, and its earlier producers can neither
        send nor commit.  A coordinator registers an id that it does not know.  All ids are fenced at once.

        Raises:
            ItemsFailed: some failed (unless `raise_errors` is False).  An id whose error is a
                `KafkaTimeoutError` may be fenced or not; call again.
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
        found, errors = _results(started, cluster.options.default_api_timeout if timeout is None else timeout)
        fenced = {
            name: ProducerIdAndEpoch(response.producer_id, response.producer_epoch)
            for name, response in found.items()
        }
        return Outcomes(fenced, errors).checked("fence_producers", raise_errors)

    def abort_transaction(
        self,
        partition: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        *,
        timeout: float | None = None,
    ) -> None:
        """Write an abort marker for one partition: the way out for a hanging transaction."""
        not_yet("KafkaAdminClient.abort_transaction")

    def find_hanging_transactions(
        self, *, older_than: float = 900.0, timeout: float | None = None
    ) -> list[TransactionDescription]:
        """Transactions that are open in a log, but unknown to their coordinator, for so many seconds."""
        not_yet("KafkaAdminClient.find_hanging_transactions")


def _results(
    started: Mapping[str, Completion[R]], timeout: float
) -> tuple[dict[str, R], dict[str, KafkaError]]:
    """Waits for all calls; returns responses and errors by item.  Cancels the rest on KeyboardInterrupt."""
    found: dict[str, R] = {}
    errors: dict[str, KafkaError] = {}
    try:
        for name, completion in started.items():
            try:
                found[name] = completion.result(timeout + GRACE)
            except KafkaError as error:
                errors[name] = error
    except BaseException:
        for completion in started.values():
            completion.cancel()
        raise
    return found, errors


def _error_of_fencing(answer: InitProducerIdResponse) -> KafkaError | None:
    return error_of(answer.error_code) if answer.error_code else None


def _error_of_listing(answer: ListTransactionsResponse) -> KafkaError | None:
    return error_of(answer.error_code) if answer.error_code else None


def _error_of_description(answer: DescribeTransactionsResponse) -> KafkaError | None:
    if not answer.transaction_states:
        return CorruptData("DescribeTransactions answered nothing of what it was asked for")
    code = answer.transaction_states[0].error_code
    return error_of(code) if code else None


def _described(answer: DescribeTransactionsResponse) -> TransactionDescription:
    told = answer.transaction_states[0]
    return TransactionDescription(
        told.transactional_id,
        told.producer_id,
        told.producer_epoch,
        told.transaction_state,
        told.transaction_timeout_ms / 1000,
        told.transaction_start_time_ms,
        tuple(
            TopicPartition(topic.topic, number)
            for topic in sorted(told.topics, key=lambda one: one.topic)
            for number in sorted(topic.partitions)
        ),
    )
