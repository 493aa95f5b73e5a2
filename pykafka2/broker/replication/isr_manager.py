"""ISR changes: a leader tracks its followers' fetches and requests ISR changes from the controller.

Changes of many partitions are sent together, as in Kafka's AlterPartition: a returning broker joins a
thousand ISRs with one fetch. One request is in flight at a time. Until its response a partition uses the
larger of its two ISRs, so that a high watermark never runs ahead of a follower that is joining or not yet
removed. Access requires the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import attrs

from pykafka2.broker.base.image import Key
from pykafka2.broker.replication.fetch import FetchParams
from pykafka2.broker.replication.replica import HostedReplicas, Replica
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

_CONTROLLER_IS_AHEAD = frozenset(
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
_FINAL = _CONTROLLER_IS_AHEAD | {0, IneligibleReplica.code, OperationNotAttempted.code}
"""Codes without a retry; Partition.handleAlterPartitionError of Kafka has the same lists."""

PendingChanges = dict[tuple[bytes, int], tuple[Replica, frozenset[int]]]
"""The changes in a request, by topic id and partition."""

Send = Callable[[AlterPartitionRequest, int, Callable[[Any, float], None], float], None]
"""Callback: (request, version, on_response, now); retries until the controller responds."""


class IsrManager:
    """ISRs and high watermarks of the partitions that one broker leads. `max_lag` in seconds."""

    def __init__(self, hosted: HostedReplicas, max_lag: float, send: Send) -> None:
        self._hosted = hosted
        self._broker_id = hosted.broker_id
        self._max_lag = max_lag
        self._moved = hosted.moved
        self._send = send
        self._to_send: dict[Key, Replica] = {}
        self._is_in_flight = False

    def is_stale(self, params: FetchParams) -> bool:
        """Return whether a follower's fetch was sent before its latest registration."""
        broker = self._hosted.image.brokers.get(params.replica_id)
        return broker is not None and params.replica_epoch != -1 and params.replica_epoch < broker.epoch

    def follower_fetched(self, params: FetchParams, now: float) -> None:
        """Handle a follower's fetch: ISRs can grow, high watermarks can advance."""
        if self.is_stale(params):
            return
        for info in params.current_partitions():
            replica = self._hosted.replicas.get(info.key)
            if replica is None or info.error is not None:
                continue
            follower = replica.followers.get(params.replica_id)
            log_start_before = follower.log_start_offset if follower is not None else -1
            in_session = None if params.session is None else params.session.partition_of(info)
            if not replica.record_fetch(params.replica_id, info, now, in_session, params.replica_epoch):
                continue
            if info.log_start_offset != log_start_before:
                self._moved[info.key] = True  # a delete-records can be waiting for it
            if params.replica_id not in replica.image.isr and replica.pending_isr is None:
                joining = [
                    follower_id
                    for follower_id in replica.followers_to_add()
                    if self._may_join(replica, follower_id)
                ]
                if joining:
                    self._request(replica, {*replica.image.isr, *joining})
            self.advance_high_watermark(replica, now)
        self._send_pending(now)

    def expand(self, replicas: Iterable[Replica], now: float) -> None:
        """Add caught-up followers that could not join before.

        Brokers were unfenced since, or a change was rejected.

        Their fetches do not name the partition any more (KIP-227).
        """
        for replica in replicas:
            if replica.is_leader and replica.pending_isr is None and self._is_incomplete(replica):
                joining = [
                    follower_id
                    for follower_id in replica.followers_to_add()
                    if self._may_join(replica, follower_id)
                    and now - replica.followers[follower_id].caught_up_at <= self._max_lag
                ]
                if joining:
                    self._request(replica, {*replica.image.isr, *joining})
        self._send_pending(now)

    def shrink(self, replicas: Iterable[Replica], now: float) -> None:
        """Remove followers that have lagged for too long."""
        led = [replica for replica in replicas if replica.is_leader]
        for replica in led:
            lagging = replica.followers_to_drop(now, self._max_lag)
            if lagging and replica.pending_isr is None:
                self._request(replica, set(replica.image.isr) - set(lagging))
        self._send_pending(now)
        for replica in led:
            self.advance_high_watermark(replica, now)

    def drop(self, replica: Replica, brokers: Iterable[int], now: float) -> None:
        """Remove these followers from the ISR even if they are caught up, and no longer waits for them."""
        for broker in brokers:
            replica.followers[broker].mark_lagging()
        left = set(replica.image.isr) - set(brokers)
        if left != set(replica.image.isr):
            self._request(replica, left)
            self._send_pending(now)

    def advance_high_watermark(self, replica: Replica, now: float) -> None:
        if replica.advance_high_watermark(
            now, self._max_lag, lambda follower_id: self._may_join(replica, follower_id)
        ):
            self._moved[replica.key] = True

    # ------------------------------------------------------------------ requests to the controller

    def _is_incomplete(self, replica: Replica) -> bool:
        return len(replica.image.isr) < len(replica.image.replicas)

    def _may_join(self, replica: Replica, broker_id: int) -> bool:
        """Return whether the broker is eligible, its log directory works, and its fetches are current."""
        fetched_with = replica.followers[broker_id].broker_epoch
        return self._hosted.image.may_lead(replica.image, broker_id) and fetched_with in (
            -1,
            self._hosted.image.brokers[broker_id].epoch,
        )

    def _request(self, replica: Replica, isr: set[int]) -> None:
        replica.pending_isr = frozenset(isr)
        self._to_send[replica.key] = replica

    def _send_pending(self, now: float) -> None:
        if self._is_in_flight or not self._to_send:
            return
        pending: PendingChanges = {}
        topics: dict[bytes, list[AlterPartitionRequestPartitionData]] = {}
        for replica in self._to_send.values():
            wanted = replica.pending_isr
            if wanted is None or not replica.is_leader:
                continue
            pending[replica.log.topic_id, replica.key[1]] = (replica, wanted)
            topics.setdefault(replica.log.topic_id, []).append(
                AlterPartitionRequestPartitionData(
                    partition_index=replica.key[1],
                    leader_epoch=replica.leader_epoch,
                    new_isr_with_epochs=[
                        BrokerState(broker_id=member, broker_epoch=self._epoch_of(replica, member))
                        for member in sorted(wanted)
                    ],
                    partition_epoch=replica.image.partition_epoch,
                )
            )
        self._to_send = {}
        if not pending:
            return
        self._is_in_flight = True
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
            request,
            ALTER_PARTITION_VERSION,
            lambda response, at: self._on_response(pending, response, at),
            now,
        )

    def _epoch_of(self, replica: Replica, broker_id: int) -> int:
        if broker_id != self._broker_id:
            return replica.followers[broker_id].broker_epoch
        own = self._hosted.image.brokers.get(broker_id)
        return -1 if own is None else own.epoch

    def _on_response(self, pending: PendingChanges, response: AlterPartitionResponse, now: float) -> None:
        """Apply the controller's decisions.

        A rejection as ineligible drops the change. If the controller is ahead of this broker (another leader,
        a later epoch), an earlier attempt can have succeeded, and another broker can be the leader by now.
        Then the requested ISR counts until its image arrives, as in Kafka; otherwise this broker would commit
        records that the next leader does not have. Changes without a final response are sent again with the
        next ISR check.
        """
        self._is_in_flight = False
        decisions = {
            (topic.topic_id, partition.partition_index): partition
            for topic in response.topics
            for partition in topic.partitions
        }
        again: dict[Key, Replica] = {}
        for key, (replica, wanted) in pending.items():
            if replica.pending_isr != wanted:
                continue  # another leader epoch has started since
            decided = decisions.get(key)
            if decided is None or decided.error_code not in _FINAL:
                again[replica.key] = replica
            elif decided.error_code not in _CONTROLLER_IS_AHEAD:
                replica.pending_isr = None
                if not decided.error_code:
                    _take_over(replica, decided)
                self.advance_high_watermark(replica, now)
            self._moved[replica.key] = True
        self._send_pending(now)
        self._to_send.update(again)


def _take_over(replica: Replica, decided: AlterPartitionResponsePartitionData) -> None:
    """Apply a response that can arrive before the image with the same change."""
    image = replica.image
    if decided.leader_epoch == image.leader_epoch and decided.partition_epoch > image.partition_epoch:
        replica.image = attrs.evolve(image, isr=tuple(decided.isr), partition_epoch=decided.partition_epoch)
