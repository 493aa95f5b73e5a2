"""A leader's questions to transaction coordinators: may these partitions' first batches enter?

Takes a guard for each partition whose transaction is not open yet, asks the coordinator of the transactional
id over the brokers' links, and hands on what it said of each partition.  With transaction.version 2
the question itself makes the partitions take part.  One per broker, under the cluster's lock; after
Kafka's AddPartitionsToTxnManager and ReplicaManager.handleProduceAppend.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import attrs

from pykafka2.broker.base.image import NO_LEADER
from pykafka2.broker.coordinators.routing import TRANSACTIONS_TOPIC, partition_for
from pykafka2.broker.coordinators.transactions.verification import (
    TransactionSupport,
    verification_codes,
    verification_request,
)
from pykafka2.broker.node import Node
from pykafka2.broker.replication.peers import Peers
from pykafka2.broker.replication.replica_manager import ReplicaManager
from pykafka2.errors import (
    BrokerError,
    ConcurrentTransactions,
    CoordinatorNotAvailable,
    KafkaError,
    NetworkException,
)
from pykafka2.protocol.messages.transaction import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse

if TYPE_CHECKING:
    from pykafka2.broker.log.verifications import VerificationGuard
    from pykafka2.broker.replication.key import Key

QUESTION_VERSION: Final = 5

Guards = dict["Key", "VerificationGuard"]
Codes = dict["Key", int]
Then = Callable[[Guards, Codes, float], None]
"""(guards, what the coordinator said of each of their partitions, now)"""


@attrs.define(frozen=True)
class VerificationRequest:
    """Whose batches wait: `sequences` has the first sequence for each partition."""

    transactional_id: str
    producer_id: int
    epoch: int
    sequences: Mapping[Key, int]
    support: TransactionSupport


class Verifier:
    """The verifications of one broker."""

    def __init__(self, node: Node, replicas: ReplicaManager, peers: Peers) -> None:
        self._node = node
        self._replicas = replicas
        self._peers = peers
        config = node.config
        self._timeout = config.seconds("request.timeout.ms")
        self._retry_backoff = config.seconds("add.partitions.to.txn.retry.backoff.ms")
        self._retry_time = config.seconds("add.partitions.to.txn.retry.backoff.max.ms")

    def begin(self, asked: VerificationRequest) -> tuple[Guards, dict[Key, BrokerError]]:
        """Guards for the partitions that need one; and at once why others cannot be appended to.

        A partition whose transaction is open is in neither.
        """
        guards: Guards = {}
        errors: dict[Key, BrokerError] = {}
        now_ms = self._node.clock.wall_ms()
        # A dynamic option of the broker.
        is_required: bool = self._node.config.get("transaction.partition.verification.enable")
        has_bump = asked.support is TransactionSupport.ADDS_PARTITIONS
        for key, sequence in asked.sequences.items():
            try:
                log = self._replicas.leader_of(key).log
            except BrokerError as error:
                errors[key] = error
                continue
            log.verifications.required = is_required
            guard = log.begin_verification(asked.producer_id, asked.epoch, sequence, has_bump, now_ms)
            if guard is not None:
                guards[key] = guard
        return guards, errors

    def ask(
        self,
        asked: VerificationRequest,
        guards: Guards,
        then: Then,
        now: float,
        *,
        waits_for_end: bool = False,
    ) -> None:
        """Ask the coordinator about the guards' partitions; `then` is called once.

        With `waits_for_end` it is asked again for a moment while the transaction before is being ended.
        """
        request = verification_request(
            asked.transactional_id, asked.producer_id, asked.epoch, guards, asked.support
        )
        last_retry = now + self._retry_time if waits_for_end else now
        self._send(_PendingVerification(asked, guards, request, then, last_retry), now)

    def _send(self, one: _PendingVerification, now: float) -> None:
        coordinator = self._coordinator_of(one.asked.transactional_id)
        if coordinator is None:
            self._finish(one, {}, CoordinatorNotAvailable.code, now)
            return
        self._peers.ask(
            coordinator,
            one.request,
            QUESTION_VERSION,
            lambda response, at: self._on_answer(one, response, at),
            lambda error, at: self._on_failure(one, error, at),
            self._timeout,
            now,
        )

    def _on_answer(self, one: _PendingVerification, response: AddPartitionsToTxnResponse, now: float) -> None:
        codes = verification_codes(one.request, response, one.asked.support)
        retry_at = now + self._retry_backoff
        if ConcurrentTransactions.code in codes.values() and retry_at <= one.last_retry:
            # The markers of the transaction before are on their way; the producer need not see that.
            self._node.wheel.add(retry_at, lambda at: self._ask_anew(one, at))
            return
        if one.asked.support is TransactionSupport.ADDS_PARTITIONS and self._is_void(one, codes):
            self._ask_anew(one, now)
            return
        self._finish(one, codes, CoordinatorNotAvailable.code, now)

    def _is_void(self, one: _PendingVerification, codes: Codes) -> bool:
        """Whether a marker was appended since it was asked, where the answer lets something in.

        Most often it is that of the transaction before.  Should the one that was asked for have ended
        meanwhile, the next answer says so, as each end raises the epoch.
        """
        for key, guard in one.guards.items():
            if codes.get(key):
                continue
            try:
                log = self._replicas.leader_of(key).log
            except BrokerError:
                continue  # the append says so
            has_open = log.producers.has_open_transaction(one.asked.producer_id, one.asked.epoch)
            if not has_open and not log.verifications.admits(one.asked.producer_id, guard):
                return True
        return False

    def _ask_anew(self, one: _PendingVerification, now: float) -> None:
        """With guards of now: a marker voids those that were given out before it."""
        guards, _ = self.begin(one.asked)
        one.guards = {key: guards.get(key, old) for key, old in one.guards.items()}
        self._send(one, now)

    def _on_failure(self, one: _PendingVerification, error: KafkaError, now: float) -> None:
        self._finish(one, {}, NetworkException.code, now)

    def _finish(self, one: _PendingVerification, codes: Codes, otherwise: int | None, now: float) -> None:
        one.then(one.guards, {key: codes.get(key, otherwise or 0) for key in one.guards}, now)

    def _coordinator_of(self, transactional_id: str) -> int | None:
        """The broker that leads the transactional id's partition, as we know it; None if nobody does."""
        topic = self._node.image.topics.get(TRANSACTIONS_TOPIC)
        if topic is None:
            return None
        leader = topic.partitions[partition_for(transactional_id, len(topic.partitions))].leader
        return None if leader == NO_LEADER else leader


@attrs.define(eq=False)
class _PendingVerification:
    asked: VerificationRequest
    guards: Guards
    request: AddPartitionsToTxnRequest
    then: Then
    last_retry: float
