"""The requests of a transactional producer, and what each error means for the transaction.

Until the end is requested, an abort undoes any failure, so only the loss of the identity is fatal; so is an
end whose outcome cannot be known (KIP-588, KIP-1050). The messages of the errors say what became of the
transaction. Pure; manager.py sends the requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Final

from pykafka2.driver.script_runner import Versions
from pykafka2.errors import (
    BrokerError,
    ClusterAuthorizationFailed,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    KafkaError,
    OperationNotAttempted,
    ProducerFenced,
    SerializationError,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
    UnknownProducerId,
    error_of,
)
from pykafka2.producer.accumulator.batch_records import Identity
from pykafka2.producer.transactions.state import again
from pykafka2.protocol.messages.transaction import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from pykafka2.protocol.primitives import ZERO_UUID
from pykafka2.types import ConsumerGroupMetadata, OffsetAndMetadata, OffsetInTopic, TopicPartition

FEATURE: Final = "transaction.version"
EPOCH_BUMP: Final = 2
"""The transaction.version from which on each end raises the epoch, and brokers add partitions (KIP-890)."""

FIRST_PRODUCE_OF_VERSION_2: Final = 12
FIRST_END_OF_VERSION_2: Final = 5
FIRST_OFFSET_COMMIT_OF_VERSION_2: Final = 5
LAST_OFFSET_COMMIT_WITH_NAMES: Final = 5
LAST_ADD_PARTITIONS_OF_CLIENTS: Final = 3
FIRST_OFFSET_COMMIT_WITH_MEMBER: Final = 3


class Step(Enum):
    """A request to a coordinator."""

    INIT = "InitProducerId"
    ADD_PARTITIONS = "AddPartitionsToTxn"
    ADD_OFFSETS = "AddOffsetsToTxn"
    COMMIT_OFFSETS = "TxnOffsetCommit"
    COMMIT = "EndTxn(commit)"
    ABORT = "EndTxn(abort)"


class Reaction(Enum):
    RETRY = "repeat the request"
    ABORTABLE = "the transaction can only be aborted"
    FATAL = "the producer has failed"


_IDENTITY_IS_LOST = (
    ProducerFenced,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    TransactionalIdAuthorizationFailed,
    ClusterAuthorizationFailed,
)


def reaction_to(step: Step, error: KafkaError) -> Reaction:
    """Return the reaction to an error of a step. Connection errors are retried while a caller waits.

    After InvalidProducerIdMapping no new id is requested: a fenced producer whose transactional id expired
    would get one, and fence the rightful producer (KAFKA-18019).
    """
    # A request that cannot be encoded fails again.
    if error.retriable or not isinstance(error, BrokerError | SerializationError):
        return Reaction.RETRY
    if isinstance(error, _IDENTITY_IS_LOST) or step is Step.INIT:
        return Reaction.FATAL
    if isinstance(error, TransactionAbortable):
        return Reaction.FATAL if step is Step.ABORT else Reaction.ABORTABLE
    if isinstance(error, UnknownProducerId):
        return Reaction.ABORTABLE
    if step is Step.COMMIT:
        # In that state no commit was or will be executed; after other errors the outcome is unknown.
        return Reaction.ABORTABLE if isinstance(error, InvalidTxnState) else Reaction.FATAL
    return Reaction.FATAL if step is Step.ABORT else Reaction.ABORTABLE


def produce_versions(version: int) -> Versions:
    """Return the versions of Produce for batches of a transaction."""
    if version >= EPOCH_BUMP:
        return FIRST_PRODUCE_OF_VERSION_2, None
    return None, FIRST_PRODUCE_OF_VERSION_2 - 1


def end_versions(version: int) -> Versions:
    """Return the versions of EndTxn that end a transaction."""
    if version >= EPOCH_BUMP:
        return FIRST_END_OF_VERSION_2, None
    return None, FIRST_END_OF_VERSION_2 - 1


def offset_commit_versions(
    version: int, group: ConsumerGroupMetadata, request: TxnOffsetCommitRequest
) -> Versions:
    """Return the versions of TxnOffsetCommit that have the member's fields.

    Those with topic ids only if the request has ids for all its topics, as in Java's client.
    """
    if version >= EPOCH_BUMP:
        has_ids = all(topic.topic_id != ZERO_UUID for topic in request.topics)
        return FIRST_OFFSET_COMMIT_OF_VERSION_2, None if has_ids else LAST_OFFSET_COMMIT_WITH_NAMES
    names_member = (group.generation_id, group.member_id, group.group_instance_id) != (-1, "", None)
    lowest = FIRST_OFFSET_COMMIT_WITH_MEMBER if names_member else None
    return lowest, FIRST_OFFSET_COMMIT_OF_VERSION_2 - 1


def add_partitions(
    transactional_id: str, identity: Identity, partitions: Iterable[TopicPartition]
) -> AddPartitionsToTxnRequest:
    """Return the request that adds partitions, up to version 3, which clients use."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=identity[0],
        v3_and_below_producer_epoch=identity[1],
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=name, partitions=numbers) for name, numbers in topics.items()
        ],
    )


def error_of_partitions(answer: AddPartitionsToTxnResponse) -> KafkaError | None:
    """Return the most severe error of all partitions: a fatal one before a retriable one."""
    errors = {
        f"{topic.name}-{partition.partition_index}": partition.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for partition in topic.results_by_partition
        if partition.partition_error_code
    }
    return _most_severe(errors)


def commit_offsets(
    transactional_id: str,
    identity: Identity,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    group: ConsumerGroupMetadata,
    topic_id: Callable[[str], bytes],
) -> TxnOffsetCommitRequest:
    """Return the request that commits a group's offsets with the transaction.

    A topic has the id of its offset (`next_offsets`), otherwise that of the group's metadata, otherwise the
    one that the producer knows (`topic_id`).
    """
    topics: dict[tuple[str, bytes], list[TxnOffsetCommitRequestPartition]] = {}
    for place, committed in offsets.items():
        topic, partition = place
        own = committed.topic_id if isinstance(committed, OffsetInTopic) else b""
        known = own or group.topic_ids.get(place) or topic_id(topic)
        topics.setdefault((topic, known), []).append(
            TxnOffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                committed_metadata=committed.metadata,
            )
        )
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group.group_id,
        producer_id=identity[0],
        producer_epoch=identity[1],
        generation_id_or_member_epoch=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=[
            TxnOffsetCommitRequestTopic(name=name, topic_id=known, partitions=parts)
            for (name, known), parts in topics.items()
        ],
    )


def error_of_offsets(answer: TxnOffsetCommitResponse, request: TxnOffsetCommitRequest) -> KafkaError | None:
    """Return the most severe error of all partitions, like `error_of_partitions`."""
    names = {topic.topic_id: topic.name for topic in request.topics}
    errors = {
        f"{topic.name or names.get(topic.topic_id, '?')}-{partition.partition_index}": partition.error_code
        for topic in answer.topics
        for partition in topic.partitions
        if partition.error_code
    }
    return _most_severe(errors)


def _most_severe(codes: Mapping[str, int]) -> KafkaError | None:
    """Return the most severe error; partitions that were not attempted come last."""
    errors = [error_of(code, f"{place}: {error_of(code)}") for place, code in codes.items()]
    errors.sort(key=lambda error: (isinstance(error, OperationNotAttempted), error.retriable))
    return errors[0] if errors else None


def fatal_error(
    error: KafkaError,
    step: Step | None,
    *,
    transactional_id: str,
    timeout: float,
    is_in_doubt: bool,
) -> KafkaError:
    """Return the error of a producer that has failed. `step` is None for a failed batch.

    Only a commit that was fenced at its first attempt has certainly not been committed.
    """
    is_commit = step is Step.COMMIT
    text = str(error)
    is_fenced = isinstance(error, ProducerFenced | InvalidProducerEpoch)
    is_expired = isinstance(error, InvalidProducerIdMapping)
    if is_expired:
        text = (
            f"transactional_id={transactional_id!r} has another producer id now: it expired, as it was not "
            "used for the brokers' transactional.id.expiration.ms, or another producer has begun"
        )
    elif is_fenced:
        text = (
            f"another producer with transactional_id={transactional_id!r} has begun, or the coordinator has "
            f"ended the transaction after transaction_timeout_ms={timeout * 1000:g}"
        )
    if is_commit and (is_fenced or is_expired) and not is_in_doubt:
        text += "; it was not committed"
    elif is_commit:
        text += "; whether the transaction was committed is not known"
    return again(ProducerFenced() if is_fenced else error, text)


def abortable_error(error: KafkaError, step: Step, *, timeout: float) -> KafkaError:
    """Return the error of a transaction that can only be aborted."""
    if step is Step.COMMIT and isinstance(error, InvalidTxnState):
        limit = f"transaction_timeout_ms={timeout * 1000:g}"
        return again(error, f"the coordinator has ended the transaction otherwise, as after {limit}")
    return error
