"""Producers of partitions and their open transactions: describe, find hanging ones, abort (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pykafka2.admin.arguments import partitions_of, texts, whole_number
from pykafka2.admin.cluster_values import HangingTransaction, ProducerState
from pykafka2.admin.offsets import by_topic
from pykafka2.admin.outcomes import Outcomes
from pykafka2.admin.places import at_leaders, at_one
from pykafka2.admin.rounds import Results
from pykafka2.admin.terms import AbortTransactionSpec
from pykafka2.admin.transactions import TransactionsAdmin
from pykafka2.admin.values import TransactionDescription
from pykafka2.driver.pollable import ToNode
from pykafka2.errors import IllegalArgument, KafkaError, TransactionalIdNotFound, error_of
from pykafka2.option_fields import INT64_MAX
from pykafka2.types import TopicPartition

if TYPE_CHECKING:
    from pykafka2.protocol.messages.transaction import WriteTxnMarkersRequest
    from pykafka2.protocol.messages.transaction_admin import DescribeProducersRequest

LATE_MARKERS = 300.0
"""Seconds after a transaction's timeout until it counts as hanging, as in Kafka's tool."""
MAX_EPOCH = 2**15 - 1


class ProducersAdmin(TransactionsAdmin):
    """The calls of `KafkaAdminClient` about producers of partitions. Timeouts are seconds; thread-safe."""

    def describe_producers(
        self,
        partitions: Iterable[TopicPartition],
        *,
        broker_id: int | None = None,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[TopicPartition, tuple[ProducerState, ...]]:
        """Return the idempotent and transactional producers of each partition, by producer id.

        Args:
            broker_id: the replica that responds; None for the leader of each partition.

        Raises:
            ItemsFailed: some failed (unless `raise_errors` is False): `UnknownTopicOrPartition`,
                `NotLeaderOrFollower` if that broker has no replica, `TopicAuthorizationFailed`.
            IllegalArgument: an argument is not valid; no request was sent.
        """
        wanted = partitions_of("partitions", partitions)
        if broker_id is None:
            outcomes = at_leaders(
                self._cluster, "describe_producers", wanted, _describe_request, _read_producers, timeout
            )
        else:
            to = ToNode(whole_number("broker_id", broker_id, 0))
            outcomes = at_one(
                self._cluster,
                "describe_producers",
                wanted,
                _describe_request,
                _read_producers,
                timeout,
                to=to,
                retries=lambda error: False,
            )
        return outcomes.checked("describe_producers", raise_errors)

    def abort_transaction(
        self,
        partition: TopicPartition | AbortTransactionSpec,
        producer_id: int = -1,
        producer_epoch: int = -1,
        *,
        coordinator_epoch: int | None = None,
        timeout: float | None = None,
    ) -> None:
        """Write an abort marker to one partition, which ends a hanging transaction.

        The transaction of a live producer loses its records in this partition: take the arguments from
        `find_hanging_transactions`.

        Args:
            partition: the partition; or all arguments as kafka-python's `AbortTransactionSpec`.
            coordinator_epoch: the epoch of the transaction's coordinator; by default the one that
                `describe_producers` shows.

        Raises:
            InvalidProducerEpoch: the partition has another epoch of this producer.
            TransactionCoordinatorFenced: a newer coordinator has written to the partition.
            UnknownTopicOrPartition: the partition does not exist.
            ClusterAuthorizationFailed: the principal lacks ALTER on the cluster.
            IllegalArgument: an argument is not valid; no request was sent.
        """
        if isinstance(partition, AbortTransactionSpec):
            partition, producer_id, producer_epoch, coordinator_epoch = partition
        (place,) = partitions_of("partition", [partition])
        whole_number("producer_id", producer_id, 0, INT64_MAX)
        whole_number("producer_epoch", producer_epoch, 0, MAX_EPOCH)
        if coordinator_epoch is None:
            coordinator_epoch = self._coordinator_epoch(place, producer_id, timeout)
        else:
            whole_number("coordinator_epoch", coordinator_epoch, -1)
        request = _abort_request(place, producer_id, producer_epoch, coordinator_epoch)
        outcomes = at_leaders(
            self._cluster, "abort_transaction", [place], lambda places: request, _read_markers, timeout
        )
        for error in outcomes.errors.values():
            raise error

    def find_hanging_transactions(
        self,
        *,
        older_than: float = 900.0,
        topics: Iterable[str] | None = None,
        timeout: float | None = None,
    ) -> list[HangingTransaction]:
        """Return transactions that have been open in a log for so long, but not at their coordinator.

        Such a transaction stops read_committed consumers and compaction at its first record until
        `abort_transaction` ends it.

        Args:
            older_than: seconds since the producer's last record in the partition; the largest
                transaction.max.timeout.ms of the brokers. Five minutes are added for late markers.
            topics: names of topics; None for all, internal ones included.

        Raises:
            KafkaError: a broker failed; the result would be incomplete without it.
            IllegalArgument: an argument is not valid; no request was sent.
        """
        if isinstance(older_than, bool) or not isinstance(older_than, int | float) or older_than < 0:
            raise IllegalArgument(f"older_than={older_than!r} must be a number of seconds")
        names = None if topics is None else texts("topics", topics)
        partitions = self._all_partitions(names, timeout)
        latest = self._cluster.driver.clock.wall_ms() - round((older_than + LATE_MARKERS) * 1000)
        open_ones = [
            (partition, state)
            for partition, states in self.describe_producers(partitions, timeout=timeout).items()
            for state in states
            if state.transaction_start_offset is not None and state.last_timestamp < latest
        ]
        if not open_ones:
            return []
        ids = {state.producer_id for _, state in open_ones}
        listed = {
            listing.producer_id: listing.transactional_id
            for listing in self.list_transactions(producer_ids=sorted(ids), timeout=timeout)
        }
        known = self.describe_transactions(listed.values(), timeout=timeout, raise_errors=False)
        for error in known.errors.values():
            if not isinstance(error, TransactionalIdNotFound):
                raise error
        return [
            HangingTransaction(
                partition,
                state.producer_id,
                state.producer_epoch,
                -1 if state.coordinator_epoch is None else state.coordinator_epoch,
                state.transaction_start_offset or 0,
                state.last_timestamp,
                listed.get(state.producer_id),
            )
            for partition, state in open_ones
            if not _is_open(known.succeeded.get(listed.get(state.producer_id, "")), partition, state)
        ]

    def force_terminate_transaction(self, transactional_id: str, *, timeout: float | None = None) -> None:
        """Abort the open transaction of a transactional id and fence its producers (KIP-939).

        Also ends a prepared transaction of two-phase commit, which no timeout ends. An unknown id is
        registered.

        Raises:
            TransactionalIdAuthorizationFailed: the principal lacks WRITE on the transactional id.
            KafkaTimeoutError: the transaction can be terminated or not; call again.
        """
        outcomes = self.fence_producers([transactional_id], timeout=timeout, raise_errors=False)
        for error in outcomes.errors.values():
            raise error

    # ------------------------------------------------------------------ inside

    def _coordinator_epoch(self, partition: TopicPartition, producer_id: int, timeout: float | None) -> int:
        outcomes = self.describe_producers([partition], timeout=timeout, raise_errors=False)
        for error in outcomes.errors.values():
            raise error
        for state in outcomes[partition]:
            if state.producer_id == producer_id:
                return max(0, -1 if state.coordinator_epoch is None else state.coordinator_epoch)
        return 0

    def _all_partitions(self, topics: list[str] | None, timeout: float | None) -> list[TopicPartition]:
        from pykafka2.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

        request = MetadataRequest(
            topics=None if topics is None else [MetadataRequestTopic(name=name) for name in topics],
            allow_auto_topic_creation=False,
        )
        found: list[TopicPartition] = []
        for topic in self._cluster.request(request, timeout=timeout).topics:
            if topic.error_code:
                text = f"topic {topic.name!r}: {error_of(topic.error_code)}"
                raise error_of(topic.error_code, text)
            found += [TopicPartition(topic.name or "", info.partition_index) for info in topic.partitions]
        return sorted(found)


def _is_open(
    transaction: TransactionDescription | None, partition: TopicPartition, state: ProducerState
) -> bool:
    """Return True if the coordinator has the transaction and will end it."""
    return (
        transaction is not None
        and transaction.producer_id == state.producer_id
        and transaction.producer_epoch >= state.producer_epoch
        and partition in transaction.partitions
    )


def _describe_request(partitions: list[TopicPartition]) -> DescribeProducersRequest:
    from pykafka2.protocol.messages.transaction_admin import DescribeProducersRequest, TopicRequest

    return DescribeProducersRequest(
        topics=[
            TopicRequest(name=name, partition_indexes=numbers)
            for name, numbers in by_topic(partitions).items()
        ]
    )


def _read_producers(
    response: Any, partitions: list[TopicPartition]
) -> Results[TopicPartition, tuple[ProducerState, ...]]:
    found: dict[TopicPartition, tuple[ProducerState, ...]] = {}
    errors: dict[TopicPartition, KafkaError] = {}
    for topic in response.topics:
        for entry in topic.partitions:
            partition = TopicPartition(topic.name, entry.partition_index)
            if entry.error_code:
                errors[partition] = error_of(entry.error_code, entry.error_message)
                continue
            found[partition] = tuple(
                ProducerState(
                    state.producer_id,
                    state.producer_epoch,
                    state.last_sequence,
                    state.last_timestamp,
                    None if state.coordinator_epoch < 0 else state.coordinator_epoch,
                    None if state.current_txn_start_offset < 0 else state.current_txn_start_offset,
                )
                for state in sorted(entry.active_producers, key=lambda state: state.producer_id)
            )
    return found, errors


def _abort_request(
    partition: TopicPartition, producer_id: int, producer_epoch: int, coordinator_epoch: int
) -> WriteTxnMarkersRequest:
    from pykafka2.protocol.messages.transaction import (
        WritableTxnMarker,
        WritableTxnMarkerTopic,
        WriteTxnMarkersRequest,
    )

    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                transaction_result=False,
                topics=[
                    WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])
                ],
                coordinator_epoch=coordinator_epoch,
            )
        ]
    )


def _read_markers(response: Any, partitions: list[TopicPartition]) -> Results[TopicPartition, None]:
    done: dict[TopicPartition, None] = {}
    errors: dict[TopicPartition, KafkaError] = {}
    for marker in response.markers:
        for topic in marker.topics:
            for entry in topic.partitions:
                partition = TopicPartition(topic.name, entry.partition_index)
                if entry.error_code:
                    errors[partition] = error_of(entry.error_code)
                else:
                    done[partition] = None
    return done, errors
