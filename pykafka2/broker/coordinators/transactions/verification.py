"""What a partition's leader asks a transaction's coordinator before the first batch, and what clients hear.

Pure functions (KIP-890): `verification_request` is the AddPartitionsToTxn to send to the coordinator,
`verification_codes` the code of each partition in its answer, `for_produce` and `for_offsets` what a producer
is told of such a code.  The guard that belongs to it is PartitionLog.begin_verification's.  Sources: Kafka
4.3's AddPartitionsToTxnManager, ReplicaManager and GroupCoordinatorService.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final

from pykafka2 import errors
from pykafka2.broker.coordinators.transactions.state import Partition
from pykafka2.protocol.messages.transaction import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

FIRST_PRODUCE_WITH_ABORTABLE: Final = 11
FIRST_PRODUCE_THAT_ADDS: Final = 12


class TransactionSupport(Enum):
    """What a producer understands, by the version of its Produce request."""

    OLD_ERRORS = "no TRANSACTION_ABORTABLE"
    ABORTABLE = "TRANSACTION_ABORTABLE"
    ADDS_PARTITIONS = "transaction.version 2: a produce makes the partition take part"

    @classmethod
    def of_produce(cls, version: int) -> TransactionSupport:
        if version >= FIRST_PRODUCE_THAT_ADDS:
            return cls.ADDS_PARTITIONS
        return cls.ABORTABLE if version >= FIRST_PRODUCE_WITH_ABORTABLE else cls.OLD_ERRORS


# The leader could not ask; the producer is to try again, as it does for this error in every version.
_NOT_ANSWERED: Final = frozenset(
    {
        errors.NetworkException.code,
        errors.CoordinatorLoadInProgress.code,
        errors.CoordinatorNotAvailable.code,
        errors.NotCoordinator.code,
    }
)


def verification_request(
    transactional_id: str,
    producer_id: int,
    epoch: int,
    partitions: Iterable[Partition],
    support: TransactionSupport,
) -> AddPartitionsToTxnRequest:
    """Version 4 or 5: verify that the partitions take part, or make them."""
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=transactional_id,
                producer_id=producer_id,
                producer_epoch=epoch,
                verify_only=support is not TransactionSupport.ADDS_PARTITIONS,
                topics=[AddPartitionsToTxnTopic(name=name, partitions=ids) for name, ids in topics.items()],
            )
        ]
    )


def verification_codes(
    request: AddPartitionsToTxnRequest, response: AddPartitionsToTxnResponse, support: TransactionSupport
) -> dict[Partition, int]:
    """The code for each partition that was asked for; 0 lets its batch in."""
    (asked,) = request.transactions
    partitions = [(topic.name, index) for topic in asked.topics for index in topic.partitions]
    if response.error_code:
        # A coordinator that does not let us ask is one that we cannot trust to know of the transaction.
        is_forbidden = response.error_code == errors.ClusterAuthorizationFailed.code
        code = errors.InvalidTxnState.code if is_forbidden else response.error_code
        return dict.fromkeys(partitions, _answered(code, support))
    found = {
        (topic.name, one.partition_index): one.partition_error_code
        for result in response.results_by_transaction
        if result.transactional_id == asked.transactional_id
        for topic in result.topic_results
        for one in topic.results_by_partition
    }
    missing = errors.CoordinatorNotAvailable.code
    return {one: _answered(found.get(one, missing), support) for one in partitions}


def _answered(code: int, support: TransactionSupport) -> int:
    if code == errors.ProducerFenced.code:
        return errors.InvalidProducerEpoch.code  # which a producer may answer by an abort
    if code == errors.TransactionAbortable.code and support is TransactionSupport.OLD_ERRORS:
        return errors.InvalidTxnState.code
    return code


def for_produce(code: int, support: TransactionSupport) -> int:
    """What the Produce response says."""
    if code in _NOT_ANSWERED:
        return errors.NotEnoughReplicas.code
    if code == errors.ConcurrentTransactions.code and support is not TransactionSupport.ADDS_PARTITIONS:
        return errors.NotEnoughReplicas.code
    return code


def for_offsets(code: int) -> int:
    """What the TxnOffsetCommit response says (Kafka's GroupCoordinatorService)."""
    if code == errors.NetworkException.code:
        return errors.CoordinatorLoadInProgress.code  # retried without another look-up
    if code in (errors.UnknownTopicOrPartition.code, errors.NotEnoughReplicas.code):
        return errors.CoordinatorNotAvailable.code
    return errors.NotCoordinator.code if code == errors.NotLeaderOrFollower.code else code
