"""Who is in sync: a leader's broker notes what followers have fetched and asks the controller for changes.

Changes of many partitions go to the controller together, as in Kafka's AlterPartition: a broker that comes
back joins a thousand of them with one fetch.  One request is under way at a time; until it is answered a
partition counts with the larger of its two ISRs, so that a high watermark never runs ahead of a follower
that is joining or not yet out.  Under the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import attrs

from pykafka2.broker.replication.fetch_plan import FetchPlan
from pykafka2.broker.replication.hosted import HostedReplicas
from pykafka2.broker.replication.key import Key
from pykafka2.broker.replication.replica import Replica
from pykafka2.errors import (
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidRequest,
    InvalidUpdateVersion,
    NewLeaderElected,
    OperationNotAttempted,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from pykafka2.protocol.messages.broker_lifecycle import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    BrokerState,
)

ALTER_PARTITION_VERSION = 3

_KNOWS_MORE = frozenset(
    error.code
    for error in (
        UnknownTopicOrPartition,
        UnknownTopicId,
        FencedLeaderEpoch,
        InvalidUpdateVersion,
        InvalidRequest,
        NewLeaderElected,
    )
)
_ENDS = _KNOWS_MORE | {0, IneligibleReplica.code, OperationNotAttempted.code}
"""What is not asked for again; Partition.handleAlterPartitionError of Kafka has the same lists."""

PendingChanges = dict[tuple[bytes, int], tuple[Replica, frozenset[int]]]
"""What a request asks for, by topic id and partition."""

Send = Callable[[AlterPartitionRequest, int, Callable[[Any, float], None], float], None]
"""(request, version, on_answer, now): asks the controller, again and again until it answers."""


class IsrManager:
    """The ISRs and high watermarks of the partitions that one broker leads.  `max_lag` in seconds."""

    def __init__(self, hosted: HostedReplicas, max_lag: float, send: Send) -> None:
        self._hosted = hosted
        self._broker_id = hosted.broker_id
        self._max_lag = max_lag
        self._moved = hosted.moved
        self._send = send
        self._unsent: dict[Key, Replica] = {}
        self._is_asking = False

    def is_stale(self, plan: FetchPlan) -> bool:
        """Whether a follower's fetch was sent before it last registered."""
        broker = self._hosted.image.brokers.get(plan.replica_id)
        return broker is not None and plan.replica_epoch != -1 and plan.replica_epoch < broker.epoch

    def follower_fetched(self, plan: FetchPlan, now: float) -> None:
        """A follower's fetch says how far it has come: ISRs may grow, high watermarks move."""
        if self.is_stale(plan):
            return
        for item in plan.current_items():
            replica = self._hosted.replicas.get(item.key)
            if replica is None or item.error is not None:
                continue
            follower = replica.followers.get(plan.replica_id)
            log_start_before = follower.log_start_offset if follower is not None else -1
            in_session = None if plan.session is None else plan.session.partition_of(item)
            if not replica.note_fetch(plan.replica_id, item, now, in_session, plan.replica_epoch):
                continue
            if item.log_start_offset != log_start_before:
                self._moved[item.key] = True  # a delete-records may have waited for it
            if plan.replica_id not in replica.image.isr and replica.pending_isr is None:
                joining = [one for one in replica.followers_to_add() if self._may_join(replica, one)]
                if joining:
                    self._want(replica, {*replica.image.isr, *joining})
            self.advance_high_watermark(replica, now)
        self._ask(now)

    def expand(self, replicas: Iterable[Replica], now: float) -> None:
        """Let in whoever has caught up and was not allowed to join before: brokers were unfenced, or a change
        was refused.  Their fetches may not name the partition any more (KIP-227).
        """
        for replica in replicas:
            if replica.is_leader and replica.pending_isr is None and self._is_incomplete(replica):
                joining = [
                    one
                    for one in replica.followers_to_add()
                    if self._may_join(replica, one)
                    and now - replica.followers[one].caught_up_at <= self._max_lag
                ]
                if joining:
                    self._want(replica, {*replica.image.isr, *joining})
        self._ask(now)

    def shrink(self, replicas: Iterable[Replica], now: float) -> None:
        """Drop followers that have lagged for too long."""
        led = [replica for replica in replicas if replica.is_leader]
        for replica in led:
            lagging = replica.followers_to_drop(now, self._max_lag)
            if lagging and replica.pending_isr is None:
                self._want(replica, set(replica.image.isr) - set(lagging))
        self._ask(now)
        for replica in led:
            self.advance_high_watermark(replica, now)

    def drop(self, replica: Replica, brokers: Iterable[int], now: float) -> None:
        """Take these followers out, however well they do, and wait for them no longer."""
        for broker in brokers:
            replica.followers[broker].fell_behind()
        left = set(replica.image.isr) - set(brokers)
        if left != set(replica.image.isr):
            self._want(replica, left)
            self._ask(now)

    def advance_high_watermark(self, replica: Replica, now: float) -> None:
        if replica.advance_high_watermark(now, self._max_lag, lambda one: self._may_join(replica, one)):
            self._moved[replica.key] = True

    # ------------------------------------------------------------------ asking the controller

    def _is_incomplete(self, replica: Replica) -> bool:
        return len(replica.image.isr) < len(replica.image.replicas)

    def _may_join(self, replica: Replica, broker_id: int) -> bool:
        """A follower joins under the registration that its fetches name, if that is the one we know."""
        fetched_with = replica.followers[broker_id].broker_epoch
        return self._hosted.image.is_eligible(broker_id) and fetched_with in (
            -1,
            self._hosted.image.brokers[broker_id].epoch,
        )

    def _want(self, replica: Replica, isr: set[int]) -> None:
        replica.pending_isr = frozenset(isr)
        self._unsent[replica.key] = replica

    def _ask(self, now: float) -> None:
        if self._is_asking or not self._unsent:
            return
        asked: PendingChanges = {}
        topics: dict[bytes, list[AlterPartitionRequestPartitionData]] = {}
        for replica in self._unsent.values():
            wanted = replica.pending_isr
            if wanted is None or not replica.is_leader:
                continue
            asked[replica.log.topic_id, replica.key[1]] = (replica, wanted)
            topics.setdefault(replica.log.topic_id, []).append(
                AlterPartitionRequestPartitionData(
                    partition_index=replica.key[1],
                    leader_epoch=replica.leader_epoch,
                    new_isr_with_epochs=[
                        BrokerState(broker_id=one, broker_epoch=self._epoch_of(replica, one))
                        for one in sorted(wanted)
                    ],
                    partition_epoch=replica.image.partition_epoch,
                )
            )
        self._unsent = {}
        if not asked:
            return
        self._is_asking = True
        own = self._hosted.image.brokers.get(self._broker_id)
        request = AlterPartitionRequest(
            broker_id=self._broker_id,
            broker_epoch=-1 if own is None else own.epoch,
            topics=[
                AlterPartitionRequestTopicData(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in topics.items()
            ],
        )
        self._send(
            request, ALTER_PARTITION_VERSION, lambda answer, at: self._on_answer(asked, answer, at), now
        )

    def _epoch_of(self, replica: Replica, broker_id: int) -> int:
        if broker_id != self._broker_id:
            return replica.followers[broker_id].broker_epoch
        own = self._hosted.image.brokers.get(broker_id)
        return -1 if own is None else own.epoch

    def _on_answer(self, asked: PendingChanges, answer: AlterPartitionResponse, now: float) -> None:
        """Take over what the controller decided.

        What it found ineligible is void.  Where it knows more than this broker (another leader, a later
        epoch), an earlier attempt may have been carried out, and somebody else may lead by now: what was
        asked for counts until its image is here, as in Kafka, or this broker would commit records that the
        next leader does not have.  What it could not answer is asked again with the next look at the ISRs.
        """
        self._is_asking = False
        told = {
            (topic.topic_id, partition.partition_index): partition
            for topic in answer.topics
            for partition in topic.partitions
        }
        again: dict[Key, Replica] = {}
        for key, (replica, wanted) in asked.items():
            if replica.pending_isr != wanted:
                continue  # another leader epoch has begun since
            decided = told.get(key)
            if decided is None or decided.error_code not in _ENDS:
                again[replica.key] = replica
            elif decided.error_code not in _KNOWS_MORE:
                replica.pending_isr = None
                if not decided.error_code:
                    _take_over(replica, decided)
                self.advance_high_watermark(replica, now)
            self._moved[replica.key] = True
        self._ask(now)
        self._unsent.update(again)


def _take_over(replica: Replica, decided: AlterPartitionResponsePartitionData) -> None:
    """The answer may be here before the image that says the same."""
    image = replica.image
    if decided.leader_epoch == image.leader_epoch and decided.partition_epoch > image.partition_epoch:
        replica.image = attrs.evolve(image, isr=tuple(decided.isr), partition_epoch=decided.partition_epoch)
