"""Verifies transactions' first batches in partitions with their transaction coordinators (KIP-890).

Creates a guard for each partition without an open transaction, sends a request to the coordinator of the
transactional id over the brokers' links, and returns the result of each partition. With transaction.version 2
the request also adds the partitions. One per broker, under the cluster's lock; based on Kafka's
AddPartitionsToTxnManager and ReplicaManager.handleProduceAppend.

Pure functions (KIP-890): `verification_request` is the AddPartitionsToTxn for the coordinator,
`verification_codes` returns the code of each partition in its response, and `for_produce` and `for_offsets`
return the producer's code. Verifications.begin creates the guard. Sources: Kafka 4.3's
AddPartitionsToTxnManager, ReplicaManager and GroupCoordinatorService.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Final

import attrs

from pykafka2 import errors
from pykafka2.broker.base.image import NO_LEADER
from pykafka2.broker.coordinators.inter_broker import InterBrokerSender
from pykafka2.broker.coordinators.internal_topics import TRANSACTIONS_TOPIC, partition_for
from pykafka2.broker.coordinators.transactions.state import Partition
from pykafka2.broker.node import Node
from pykafka2.broker.replication.replica_manager import ReplicaManager
from pykafka2.errors import (
    BrokerError,
    ConcurrentTransactions,
    CoordinatorNotAvailable,
    KafkaError,
    NetworkException,
)
from pykafka2.protocol.messages.transaction import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from pykafka2.broker.base.image import Key
    from pykafka2.broker.log.producer_state import VerificationGuard


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


# The leader got no response; the producer retries this error in every version.
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
        return dict.fromkeys(partitions, _producer_code(code, support))
    found = {
        (topic.name, partition.partition_index): partition.partition_error_code
        for result in response.results_by_transaction
        if result.transactional_id == transaction.transactional_id
        for topic in result.topic_results
        for partition in topic.results_by_partition
    }
    missing = errors.CoordinatorNotAvailable.code
    return {partition: _producer_code(found.get(partition, missing), support) for partition in partitions}


def _producer_code(code: int, support: TransactionSupport) -> int:
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


REQUEST_VERSION: Final = 5

Guards = dict["Key", "VerificationGuard"]
Codes = dict["Key", int]
Then = Callable[[Guards, Codes, float], None]
"""Callback: (guards, the coordinator's code for each of their partitions, now)."""


@attrs.define(frozen=True)
class VerificationRequest:
    """A producer whose batches wait; `sequences` has the first sequence for each partition."""

    transactional_id: str
    producer_id: int
    epoch: int
    sequences: Mapping[Key, int]
    support: TransactionSupport


class Verifier:
    """The verifications of one broker."""

    def __init__(self, node: Node, replicas: ReplicaManager, inter_broker: InterBrokerSender) -> None:
        self._node = node
        self._replicas = replicas
        self._inter_broker = inter_broker
        config = node.config
        self._timeout = config.seconds("request.timeout.ms")
        self._retry_backoff = config.seconds("add.partitions.to.txn.retry.backoff.ms")
        self._retry_time = config.seconds("add.partitions.to.txn.retry.backoff.max.ms")

    def begin(self, verification: VerificationRequest) -> tuple[Guards, dict[Key, BrokerError]]:
        """Return guards for partitions that need one, and errors for partitions that cannot be appended to.

        A partition whose transaction is open is in neither.
        """
        guards: Guards = {}
        errors: dict[Key, BrokerError] = {}
        now_ms = self._node.clock.wall_ms()
        # A dynamic option of the broker.
        is_required: bool = self._node.config.get("transaction.partition.verification.enable")
        has_bump = verification.support is TransactionSupport.ADDS_PARTITIONS
        for key, sequence in verification.sequences.items():
            try:
                log = self._replicas.leader_of(key).log
            except BrokerError as error:
                errors[key] = error
                continue
            log.verifications.required = is_required
            guard = log.verifications.begin(
                verification.producer_id, verification.epoch, sequence, has_bump, now_ms
            )
            if guard is not None:
                guards[key] = guard
        return guards, errors

    def verify(
        self,
        verification: VerificationRequest,
        guards: Guards,
        then: Then,
        now: float,
        *,
        waits_for_end: bool = False,
    ) -> None:
        """Send the guards' partitions to the coordinator; `then` is called once.

        With `waits_for_end` it retries for a moment while the previous transaction is being ended.
        """
        request = verification_request(
            verification.transactional_id,
            verification.producer_id,
            verification.epoch,
            guards,
            verification.support,
        )
        last_retry = now + self._retry_time if waits_for_end else now
        self._send(_PendingVerification(verification, guards, request, then, last_retry), now)

    def _send(self, pending: _PendingVerification, now: float) -> None:
        coordinator = self._coordinator_of(pending.verification.transactional_id)
        if coordinator is None:
            self._finish(pending, {}, CoordinatorNotAvailable.code, now)
            return
        self._inter_broker.send(
            coordinator,
            pending.request,
            REQUEST_VERSION,
            lambda response, at: self._on_response(pending, response, at),
            lambda error, at: self._on_failure(pending, error, at),
            self._timeout,
            now,
        )

    def _on_response(
        self, pending: _PendingVerification, response: AddPartitionsToTxnResponse, now: float
    ) -> None:
        codes = verification_codes(pending.request, response, pending.verification.support)
        retry_at = now + self._retry_backoff
        if ConcurrentTransactions.code in codes.values() and retry_at <= pending.last_retry:
            # The markers of the previous transaction are in flight; the producer does not need to know.
            self._node.wheel.add(retry_at, lambda at: self._retry(pending, at))
            return
        if pending.verification.support is TransactionSupport.ADDS_PARTITIONS and self._is_stale(
            pending, codes
        ):
            self._retry(pending, now)
            return
        self._finish(pending, codes, CoordinatorNotAvailable.code, now)

    def _is_stale(self, pending: _PendingVerification, codes: Codes) -> bool:
        """Return whether a marker was appended since the request, and the response accepts something.

        Usually it is the marker of the previous transaction. If the verification transaction itself has ended
        meanwhile, the next response reports that, because each end increments the epoch.
        """
        for key, guard in pending.guards.items():
            if codes.get(key):
                continue
            try:
                log = self._replicas.leader_of(key).log
            except BrokerError:
                continue  # the append reports it
            has_open = log.producers.has_open_transaction(
                pending.verification.producer_id, pending.verification.epoch
            )
            if not has_open and not log.verifications.admits(pending.verification.producer_id, guard):
                return True
        return False

    def _retry(self, pending: _PendingVerification, now: float) -> None:
        """Send the request again with new guards, because a marker invalidates the old ones."""
        guards, _ = self.begin(pending.verification)
        pending.guards = {key: guards.get(key, old) for key, old in pending.guards.items()}
        self._send(pending, now)

    def _on_failure(self, pending: _PendingVerification, error: KafkaError, now: float) -> None:
        self._finish(pending, {}, NetworkException.code, now)

    def _finish(self, pending: _PendingVerification, codes: Codes, otherwise: int | None, now: float) -> None:
        pending.then(pending.guards, {key: codes.get(key, otherwise or 0) for key in pending.guards}, now)

    def _coordinator_of(self, transactional_id: str) -> int | None:
        """Return the known leader of the transactional id's partition; None if it has none."""
        topic = self._node.image.topics.get(TRANSACTIONS_TOPIC)
        if topic is None:
            return None
        leader = topic.partitions[partition_for(transactional_id, len(topic.partitions))].leader
        return None if leader == NO_LEADER else leader


@attrs.define(eq=False)
class _PendingVerification:
    verification: VerificationRequest
    guards: Guards
    request: AddPartitionsToTxnRequest
    then: Then
    last_retry: float
