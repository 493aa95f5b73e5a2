"""The share partitions that one broker leads: their fetches, acknowledgements and sessions (KIP-932).

A share partition is created by the first fetch, which then waits until the share coordinator has returned its
state. It ends when the broker no longer leads the partition, when the coordinator has a newer state epoch, or
when the group has no session here any more. Like Kafka's SharePartitionManager. Access requires the cluster's
lock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from pykafka2.broker.base.image import ClusterImage, Key, TopicImage
from pykafka2.broker.coordinators.inter_broker import ShareStateClient
from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.broker.node import Node
from pykafka2.broker.replication.purgatory import Purgatory
from pykafka2.broker.replication.replica_manager import ReplicaManager
from pykafka2.broker.server.request_context import Origin
from pykafka2.broker.share.fetching import (
    DelayedShareFetch,
    ShareFetchParams,
    ShareFetchResult,
    ShareReader,
)
from pykafka2.broker.share.options import ShareGroupOptions, ShareOptions
from pykafka2.broker.share.sessions import ShareSessions
from pykafka2.broker.share.share_partition import Acknowledgement, SharePartition, Status
from pykafka2.broker.share.surroundings import (
    SendDeadLetters,
    SharePartitionKey,
    Surroundings,
)
from pykafka2.errors import (
    BrokerError,
    FencedStateEpoch,
    GroupIdNotFound,
    LeaderNotAvailable,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    UnknownTopicOrPartition,
)

FENCING = (NotLeaderOrFollower, FencedStateEpoch, GroupIdNotFound, UnknownTopicOrPartition)
"""Errors after which the state must be read again, or another broker leads."""

NOT_HOSTED = "This server does not host this topic-partition."
"""Kafka's text for acknowledgements of a share partition that the broker does not have."""

OffsetAt = Callable[[PartitionLog, int], int]
"""Callback: (log, timestamp in milliseconds) -> the first offset from then on, or -1."""


class SharePartitionManager:
    """The share partitions of one broker, from its start to its stop."""

    def __init__(
        self,
        node: Node,
        replicas: ReplicaManager,
        options: ShareOptions,
        persister: ShareStateClient,
        send_dead_letters: SendDeadLetters,
        offset_at: OffsetAt,
    ) -> None:
        self._node = node
        self._replicas = replicas
        self._offset_at = offset_at
        self.options = options
        self.sessions = ShareSessions(node.config.int("group.share.max.share.sessions"))
        self.fetches: Purgatory[Key | SharePartitionKey] = Purgatory("share-fetch", node.wheel)
        self.partitions: dict[SharePartitionKey, SharePartition] = {}
        self._reader = ShareReader(replicas, self._end_if_fenced)
        self._around = Surroundings(
            node.wheel, self.options, persister, self, send_dead_letters, self._can_acquire
        )

    # ------------------------------------------------------------------ fetching

    def fetch(
        self,
        params: ShareFetchParams,
        keys: Sequence[SharePartitionKey],
        on_done: Callable[[list[ShareFetchResult]], object],
        now: float,
    ) -> DelayedShareFetch | None:
        """Acquire records for a member, now or when there are enough; `on_done` gets the results.

        Return the operation if it waits.
        """
        if not keys or params.limits.max_records <= 0 or params.max_bytes <= 0:
            on_done([])
            return None
        failed: dict[SharePartitionKey, BrokerError] = {}
        partitions = []
        for key in keys:
            try:
                partitions.append(self._find_or_create(key))
            except BrokerError as error:
                failed[key] = error
        operation = DelayedShareFetch(
            now + params.max_wait, self._reader, params, partitions, failed, on_done
        )
        for one in partitions:
            self._initialize(one, operation, now)
        watched = [key for one in partitions for key in (one.key, one.key.place)]
        self.fetches.try_complete_else_watch(operation, watched, now)
        return None if operation.is_completed else operation

    def _find_or_create(self, key: SharePartitionKey) -> SharePartition:
        known = self.partitions.get(key)
        if known is not None:
            return known
        replica = self._replicas.leader_of(key.place)
        if replica.log.topic_id != key.topic_id:
            raise UnknownTopicOrPartition(f"{key.topic} was created again")
        created = self.partitions[key] = SharePartition(key, replica.leader_epoch, self._around)
        return created

    def _initialize(self, one: SharePartition, operation: DelayedShareFetch, now: float) -> None:
        if one.status is not Status.EMPTY:
            if one.status is Status.INITIALIZING:
                one.waiting.append(operation)
            return
        one.waiting.append(operation)

        def done(error: BrokerError | None, at: float) -> None:
            waiting, one.waiting = one.waiting, []
            if error is not None:
                for fetch in waiting:
                    fetch.failed[one.key] = error
                self._remove(one, at)
            self._can_acquire(one.key, at)

        one.initialize(done, now)

    def _can_acquire(self, key: SharePartitionKey, now: float) -> None:
        """Try the fetches of a group that wait for a partition."""
        self.fetches.check(key, now)

    def on_moved(self, place: Key, now: float) -> None:
        """Handle new records of a partition."""
        self.fetches.check(place, now)

    # ------------------------------------------------------------------ acknowledging

    def acknowledge(
        self,
        member_id: str,
        acknowledged: Mapping[SharePartitionKey, Sequence[Acknowledgement]],
        on_done: Callable[[dict[SharePartitionKey, BrokerError | None]], object],
        now: float,
    ) -> None:
        """Apply a member's acknowledgements; `on_done` gets the result of each partition."""
        results: dict[SharePartitionKey, BrokerError | None] = dict.fromkeys(acknowledged)
        pending = set(acknowledged)

        def done(key: SharePartitionKey, error: BrokerError | None, at: float) -> None:
            results[key] = error
            pending.discard(key)
            if not pending:
                on_done(results)

        def acknowledged_by(one: SharePartition, error: BrokerError | None, at: float) -> None:
            self._end_if_fenced(one, error, at)
            done(one.key, error, at)

        if not acknowledged:
            on_done(results)
        for key, acknowledgements in acknowledged.items():
            one = self.partitions.get(key)
            if one is None:
                done(key, UnknownTopicOrPartition(NOT_HOSTED), now)
            else:
                one.acknowledge(member_id, acknowledgements, partial(acknowledged_by, one), now)

    # ------------------------------------------------------------------ members

    def release_member(self, group_id: str, member_id: str, now: float) -> bool:
        """End the session of a member and release its records. Return False if it has no session."""
        session = self.sessions.remove((group_id, member_id))
        if session is None:
            return False
        for key, one in list(self.partitions.items()):
            if key.group_id == group_id and (key.topic_id, key.partition) in session.partitions:
                one.release(member_id, partial(self._end_if_fenced, one), now)
        return True

    def disconnected(self, origin: Origin, now: float) -> None:
        """Handle the end of a client's connection: release the records of its members."""
        for session in self.sessions.opened_by(origin):
            self.release_member(*session.key, now)
        for group_id in self.sessions.disconnected(origin):
            self._end_if_empty(group_id, now)

    def _end_if_empty(self, group_id: str, now: float) -> None:
        """End the share partitions of a group without sessions."""
        if not self.sessions.members_of(group_id):
            for one in [one for key, one in self.partitions.items() if key.group_id == group_id]:
                self._remove(one, now)
            self.options.forget(group_id)

    # ------------------------------------------------------------------ leaders

    def apply(self, image: ClusterImage, changed: Mapping[str, TopicImage | None], now: float) -> None:
        """End the share partitions that this broker no longer leads in the same epoch.

        All of them, and all sessions, if share groups have been disabled.
        """
        if not self.options.are_groups_enabled:
            self.sessions.clear()
            for one in list(self.partitions.values()):
                self._remove(one, now)
        for key, one in list(self.partitions.items()):
            if key.topic not in changed:
                continue
            partition = image.partition(*key.place)
            topic = image.topics.get(key.topic)
            if (
                partition is None
                or topic is None
                or topic.id != key.topic_id
                or (partition.leader, partition.leader_epoch) != (self._node.id, one.leader_epoch)
            ):
                self._remove(one, now)

    def _end_if_fenced(self, one: SharePartition, error: BrokerError | None, now: float) -> None:
        """End a share partition that got an error of `FENCING`."""
        if isinstance(error, FENCING):
            self._remove(one, now)

    def _remove(self, one: SharePartition, now: float) -> None:
        """End a share partition. Waiting fetches of it get the error with which a fetch would fail now."""
        if self.partitions.get(one.key) is not one:
            return  # late result of one that has ended; its successor is unaffected
        del self.partitions[one.key]
        one.fence()
        self.fetches.check(one.key, now)

    # ------------------------------------------------------------------ used by share partitions

    def start_offset(self, key: SharePartitionKey, leader_epoch: int, options: ShareGroupOptions) -> int:
        """Return where a group without a stored offset starts. Raise a `BrokerError` if that is unknown."""
        replica = self._replicas.leader_of(key.place, leader_epoch)
        log = replica.log
        if options.offset_reset == "earliest":
            return log.log_start_offset
        if replica.high_watermark < replica.leader_epoch_start:
            raise LeaderNotAvailable(f"{key.topic}-{key.partition} has no high watermark yet")
        if options.offset_reset == "latest":
            return log.high_watermark
        found = self._offset_at(log, self._node.clock.wall_ms() - options.reset_duration_ms)
        if not 0 <= found < log.high_watermark:
            raise OffsetNotAvailable(f"{key.topic}-{key.partition} has no record since then")
        return found
