"""Partitions of a transaction: AddPartitionsToTxn (KIP-98, KIP-890), and the markers still to be written.

Pure functions over `Transaction`, in Kafka 4.3's order of checks.

Soft state of one shard: a coordinator that loads a partition schedules all markers of decided transactions
again, so a marker can be written twice, which partitions accept. The runtime holds markers back until the
record of the decision is committed, because a failover could otherwise revoke it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from pykafka2 import errors
from pykafka2.broker.coordinators.internal_topics import OFFSETS_TOPIC
from pykafka2.broker.coordinators.replay import WriteMarkers
from pykafka2.broker.coordinators.settings import Topics
from pykafka2.broker.coordinators.transactions.state import Partition, Transaction, TransactionState
from pykafka2.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    OperationNotAttempted,
    ProducerFenced,
    TransactionAbortable,
    UnknownTopicOrPartition,
)
from pykafka2.protocol.messages.transaction import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)

FIRST_ADD_PARTITIONS_WITH_TRANSACTIONS: Final = 4


def owned_by(transaction: Transaction | None, producer_id: int, epoch: int) -> Transaction:
    """Return the transaction if it belongs to the producer and is not ending.

    Raises:
        BrokerError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
    """
    if transaction is None or transaction.producer_id != producer_id:
        raise InvalidProducerIdMapping(f"the transactional id does not belong to producer {producer_id}")
    if transaction.epoch != epoch:
        raise ProducerFenced(f"{transaction.id}: epoch {epoch} is fenced, {transaction.epoch} is current")
    if transaction.state.is_ending:
        raise ConcurrentTransactions(
            f"{transaction.id} is in {transaction.state.value}; retry when it is complete"
        )
    return transaction


def with_added(
    transaction: Transaction, partitions: frozenset[Partition], client_version: int, now_ms: int
) -> Transaction | None:
    """Return the draft to append; None if all partitions are part of the transaction already."""
    if transaction.state is TransactionState.ONGOING and partitions <= transaction.partitions:
        return None
    return transaction.with_partitions(partitions, now_ms, client_version)


def verified(transaction: Transaction, partitions: frozenset[Partition]) -> dict[Partition, int]:
    """Return 0 for each partition in the transaction, TRANSACTION_ABORTABLE for the others.

    See rule older-producers-are-verified.
    """
    return {
        partition: 0 if partition in transaction.partitions else TransactionAbortable.code
        for partition in partitions
    }


def deleted(partitions: frozenset[Partition], topics: Topics | None) -> frozenset[Partition]:
    """Return the partitions that do not exist; empty if topics are unknown.

    The offsets topic always exists: it is created before a group's coordinator can be found.
    """
    if topics is None:
        return frozenset()
    return frozenset(
        (topic, index)
        for topic, index in partitions
        if topic != OFFSETS_TOPIC and not 0 <= index < topics.partition_count(topic)
    )


def missing(partitions: frozenset[Partition], topics: Topics | None) -> dict[Partition, int]:
    """Return error codes for all partitions if one does not exist; empty if all exist."""
    unknown = deleted(partitions, topics)
    if not unknown:
        return {}
    return {
        partition: UnknownTopicOrPartition.code if partition in unknown else OperationNotAttempted.code
        for partition in partitions
    }


def partitions_of(topics: list[AddPartitionsToTxnTopic]) -> frozenset[Partition]:
    return frozenset((topic.name, index) for topic in topics for index in topic.partitions)


def results_of(
    topics: list[AddPartitionsToTxnTopic], codes: Mapping[Partition, int]
) -> list[AddPartitionsToTxnTopicResult]:
    """Return the result with the code of each partition."""
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=codes[topic.name, index]
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


_WRITTEN: Final = frozenset({0, errors.UnsupportedForMessageFormat.code, errors.UnsupportedVersion.code})

# A newer coordinator or epoch exists: this one must not end the transaction any more.
_FENCED: Final = frozenset({errors.InvalidProducerEpoch.code, errors.TransactionCoordinatorFenced.code})


@attrs.define
class PendingMarkers:
    """A decided transaction: its partitions without a marker, and those where writing failed."""

    decision: WriteMarkers
    unwritten: set[Partition]
    failed: set[Partition] = attrs.field(factory=set)
    is_abandoned: bool = False
    """Fenced: the newer producer or coordinator takes over."""

    @property
    def is_done(self) -> bool:
        return not self.unwritten and not self.is_abandoned

    def is_of(self, order: WriteMarkers) -> bool:
        return attrs.evolve(order, partitions=self.decision.partitions) == self.decision

    def order_all(self) -> WriteMarkers:
        return attrs.evolve(self.decision, partitions=frozenset(self.unwritten))

    def order_failed(self) -> WriteMarkers | None:
        """Return the failed markers again; None if there are none."""
        failed, self.failed = frozenset(self.failed & self.unwritten), set()
        return attrs.evolve(self.decision, partitions=failed) if failed else None

    def note(self, partition: Partition, code: int) -> None:
        """Record the leader's result for the marker of a partition."""
        if code in _FENCED:
            self.is_abandoned = True
        elif code in _WRITTEN:
            self.unwritten.discard(partition)
        elif partition in self.unwritten:
            self.failed.add(partition)

    def drop_deleted(self, topics: Topics | None) -> None:
        """Drop deleted partitions, which need no marker."""
        self.unwritten -= deleted(frozenset(self.unwritten), topics)


def pending_markers_of(transaction: Transaction, coordinator_epoch: int) -> PendingMarkers:
    """Return the pending markers of a transaction in Prepare...: all of its partitions."""
    decision = WriteMarkers(
        transaction.id,
        transaction.producer_id,
        transaction.epoch,
        coordinator_epoch,
        transaction.state is TransactionState.PREPARE_COMMIT,
        transaction.partitions,
        transaction.client_version,
    )
    return PendingMarkers(decision, set(transaction.partitions))
