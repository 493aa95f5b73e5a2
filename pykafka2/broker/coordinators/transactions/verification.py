"""Verification of a transaction's first batch in a partition, and the resulting error codes.

Pure functions (KIP-890): `verification_request` is the AddPartitionsToTxn for the coordinator,
`verification_codes` returns the code of each partition in its response, and `for_produce` and `for_offsets`
return the producer's code. Verifications.begin creates the guard. Sources: Kafka 4.3's
AddPartitionsToTxnManager, ReplicaManager and GroupCoordinatorService.
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
    """The transaction features of a producer, by the version of its Produce request."""

    OLD_ERRORS = "no TRANSACTION_ABORTABLE"
    ABORTABLE = "TRANSACTION_ABORTABLE"
    ADDS_PARTITIONS = "transaction.version 2: a produce adds the partition"

    @classmethod
    def of_produce(cls, version: int) -> TransactionSupport:
        if version >= FIRST_PRODUCE_THAT_ADDS:
            return cls.ADDS_PARTITIONS
        return cls.ABORTABLE if version >= FIRST_PRODUCE_WITH_ABORTABLE else cls.OLD_ERRORS


# The leader got no answer; the producer retries this error in every version.
_UNVERIFIED: Final = frozenset(
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
    """Return a request of version 4 or 5 that verifies the partitions, or adds them."""
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
    """Return the code of each requested partition; 0 accepts its batch."""
    (transaction,) = request.transactions
    partitions = [(topic.name, index) for topic in transaction.topics for index in topic.partitions]
    if response.error_code:
        # A coordinator that denies verification cannot be trusted to know the transaction.
        is_forbidden = response.error_code == errors.ClusterAuthorizationFailed.code
        code = errors.InvalidTxnState.code if is_forbidden else response.error_code
        return dict.fromkeys(partitions, _answered(code, support))
    found = {
        (topic.name, partition.partition_index): partition.partition_error_code
        for result in response.results_by_transaction
        if result.transactional_id == transaction.transactional_id
        for topic in result.topic_results
        for partition in topic.results_by_partition
    }
    missing = errors.CoordinatorNotAvailable.code
    return {partition: _answered(found.get(partition, missing), support) for partition in partitions}


def _answered(code: int, support: TransactionSupport) -> int:
    if code == errors.ProducerFenced.code:
        return errors.InvalidProducerEpoch.code  # to which a producer can respond by an abort
    if code == errors.TransactionAbortable.code and support is TransactionSupport.OLD_ERRORS:
        return errors.InvalidTxnState.code
    return code


def for_produce(code: int, support: TransactionSupport) -> int:
    """Return the code for the Produce response."""
    if code in _UNVERIFIED:
        return errors.NotEnoughReplicas.code
    if code == errors.ConcurrentTransactions.code and support is not TransactionSupport.ADDS_PARTITIONS:
        return errors.NotEnoughReplicas.code
    return code


def for_offsets(code: int) -> int:
    """Return the code for the TxnOffsetCommit response (Kafka's GroupCoordinatorService)."""
    if code == errors.NetworkException.code:
        return errors.CoordinatorLoadInProgress.code  # retried without another lookup
    if code in (errors.UnknownTopicOrPartition.code, errors.NotEnoughReplicas.code):
        return errors.CoordinatorNotAvailable.code
    return errors.NotCoordinator.code if code == errors.NotLeaderOrFollower.code else code
