"""Partitions of a transaction: AddPartitionsToTxn of clients and brokers (KIP-98, KIP-890).

Pure functions over `Transaction`, in Kafka 4.3's order of checks.
"""

from __future__ import annotations

from collections.abc import Mapping

from pykafka2.broker.coordinators.groups.settings import Topics
from pykafka2.broker.coordinators.routing import OFFSETS_TOPIC
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
