"""One replica of a partition: its log, its role, its followers, and the high watermark.

Roles change only by `lead` and `follow`, from the controller's image. The replica decides the high watermark
and which followers are in sync: one leaves the ISR if it has not been at the leader's log end for
replica.lag.time.max.ms, and joins when it has reached the high watermark and the start of the leader's epoch.
`ReplicaManager` adds and drops replicas and does what follows (completing requests, notifying the
controller); the modules below it look them up in `HostedReplicas`. Access requires the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from enum import Enum

import attrs

from pykafka2.broker.base.image import ClusterImage, Key, PartitionImage
from pykafka2.broker.config.configs import TopicConfig
from pykafka2.broker.log.leader_epochs import UNKNOWN_EPOCH, EpochEnd
from pykafka2.broker.log.log_files import DiskSettings
from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.broker.log.record_validation import BatchRules
from pykafka2.broker.log.segments import RollLimits
from pykafka2.broker.replication.fetch import CachedPartition, FetchInfo
from pykafka2.errors import (
    FencedLeaderEpoch,
    KafkaStorageError,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
)


def high_watermark(log_ends: Iterable[int]) -> int:
    """Return the smallest log end of the replicas that count, including the leader's.

    All have the records below it.

    An unknown log end (-1) holds it back.
    """
    return min(log_ends)


UNKNOWN_OFFSET = -1
NEVER = float("-inf")


@attrs.define
class FollowerState:
    """A leader's state of a follower; times are of the monotonic clock."""

    broker_id: int
    last_caught_up: float
    log_end_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    last_fetch_at: float = NEVER
    leader_end_at_last_fetch: int = UNKNOWN_OFFSET
    in_session: CachedPartition | None = None
    """Its partition in the session it fetches with, which does not name it while nothing changes."""
    broker_epoch: int = -1
    """The registration under which it fetches (KIP-903)."""

    def fetched(
        self,
        offset: int,
        log_start_offset: int,
        leader_log_end: int,
        now: float,
        in_session: CachedPartition | None = None,
    ) -> None:
        """Record a fetch at `offset`: the follower has everything before it."""
        last_fetch_at = self.last_fetch_at
        # If the partition is new in the session, earlier fetches of the session did not include it.
        if in_session is not None and in_session is self.in_session and in_session.session is not None:
            last_fetch_at = max(last_fetch_at, in_session.session.previous_fetch_at)
        self.in_session = in_session
        if offset >= leader_log_end:
            self.last_caught_up = max(self.last_caught_up, now)
        elif offset >= self.leader_end_at_last_fetch:
            # It has read everything up to the leader's log end at its last fetch, so it was caught up then.
            self.last_caught_up = max(self.last_caught_up, last_fetch_at)
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self.leader_end_at_last_fetch = max(self.leader_end_at_last_fetch, leader_log_end)
        self.last_fetch_at = now

    def mark_lagging(self) -> None:
        """Mark the follower as never caught up, until it fetches at the leader's log end again."""
        self.last_caught_up = NEVER
        self.in_session = None

    @property
    def caught_up_at(self) -> float:
        """The last time the follower had all of the leader's records.

        Later fetches of an idle session count.
        """
        session = None if self.in_session is None else self.in_session.session
        if session is not None and 0 <= self.leader_end_at_last_fetch <= self.log_end_offset:
            return max(self.last_caught_up, session.last_fetch_at)
        return self.last_caught_up

    def is_caught_up(self, leader_log_end: int, now: float, max_lag: float) -> bool:
        """False once it has lagged for longer than `max_lag` seconds."""
        return self.log_end_offset == leader_log_end or now - self.caught_up_at <= max_lag

    def may_join(self, high_watermark: int, leader_epoch_start: int) -> bool:
        return self.log_end_offset >= high_watermark and self.log_end_offset >= leader_epoch_start


class Role(Enum):
    LEADER = "leader"
    FOLLOWER = "follower"


class Replica:
    """A broker's copy of a partition."""

    __slots__ = (
        "_min_insync_replicas",
        "batch_rules",
        "broker_id",
        "config",
        "followers",
        "image",
        "key",
        "leader_epoch_start",
        "log",
        "pending_isr",
        "role",
    )

    def __init__(
        self, broker_id: int, key: Key, log: PartitionLog, image: PartitionImage, config: TopicConfig
    ) -> None:
        self.broker_id = broker_id
        self.key = key
        self.log = log
        self.image = image
        self.configure(config)
        self.role = Role.FOLLOWER
        self.leader_epoch_start = 0
        self.followers: dict[int, FollowerState] = {}
        self.pending_isr: frozenset[int] | None = None
        """The ISR that this leader requested from the controller without a response yet."""

    def __repr__(self) -> str:
        return f"<{self.role.value} of {self.key[0]}-{self.key[1]} on broker {self.broker_id}: {self.log!r}>"

    def configure(self, config: TopicConfig) -> None:
        """Set the topic's configuration, which applies to the following appends."""
        self.config = config
        self.batch_rules = BatchRules.of(config)
        self._min_insync_replicas: int = config.get("min.insync.replicas")
        max_age_ms = config.get("segment.ms")
        if config.is_compacted:
            max_age_ms = min(max_age_ms, config.get("max.compaction.lag.ms"))
        self.log.limit_segments(
            RollLimits(config.get("segment.bytes"), max_age_ms, config.get("segment.jitter.ms"))
        )
        self.log.files.configure(
            DiskSettings(
                config.get("index.interval.bytes"),
                config.get("segment.index.bytes"),
                config.get("file.delete.delay.ms") / 1000,
            )
        )
        self.log.flush_messages = config.get("flush.messages")

    @property
    def is_leader(self) -> bool:
        return self.role is Role.LEADER

    @property
    def leader_epoch(self) -> int:
        return self.image.leader_epoch

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    @property
    def min_isr(self) -> int:
        """min.insync.replicas, limited to the number of replicas."""
        return min(self._min_insync_replicas, len(self.image.replicas))

    @property
    def has_enough_in_sync(self) -> bool:
        return len(self.image.isr) >= self.min_isr

    @property
    def maximal_isr(self) -> Collection[int]:
        """The replicas that must have a record before it is committed: the ISR and any pending one."""
        return self.image.isr if self.pending_isr is None else {*self.image.isr, *self.pending_isr}

    # ------------------------------------------------------------------ roles

    def lead(self, image: PartitionImage, now: float) -> bool:
        """Become the leader (True), or adopt a new ISR."""
        begins = not self.is_leader or image.leader_epoch != self.image.leader_epoch
        if begins or image.partition_epoch != self.image.partition_epoch:
            self.pending_isr = None
        self.image = image
        if begins:
            self.role = Role.LEADER
            self.leader_epoch_start = self.log.log_end_offset
            self.log.epochs.assign(image.leader_epoch, self.leader_epoch_start)
            self.followers = {}
        # The state of new followers is unknown; those in sync get the full lag time to fetch.
        self.followers = {
            replica: self.followers.get(replica)
            or FollowerState(replica, now if replica in image.isr else NEVER)
            for replica in image.replicas
            if replica != self.broker_id
        }
        return begins

    def follow(self, image: PartitionImage) -> bool:
        """Become a follower. Return True if the leader or its epoch is new."""
        changed = self.is_leader or (image.leader, image.leader_epoch) != (
            self.image.leader,
            self.image.leader_epoch,
        )
        self.role = Role.FOLLOWER
        self.image = image
        self.followers = {}
        self.pending_isr = None
        return changed

    # ------------------------------------------------------------------ request checks

    def check_leader(self) -> None:
        if self.role is not Role.LEADER:
            raise NotLeaderOrFollower(
                f"broker {self.broker_id} does not lead {self.key[0]}-{self.key[1]}, "
                f"broker {self.image.leader} does"
            )

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Raise unless the requester's leader epoch is the current one (KIP-320); -1 skips the check."""
        if current_leader_epoch in (UNKNOWN_EPOCH, self.image.leader_epoch):
            return
        if current_leader_epoch < self.leader_epoch:
            raise FencedLeaderEpoch(f"epoch {current_leader_epoch} is older than {self.leader_epoch}")
        if current_leader_epoch > self.leader_epoch:
            raise UnknownLeaderEpoch(f"epoch {current_leader_epoch} is newer than {self.leader_epoch}")

    def divergence(self, last_fetched_epoch: int, fetch_offset: int) -> EpochEnd | None:
        """Return where the requester's log diverges from this one, or None (KIP-595)."""
        if last_fetched_epoch == UNKNOWN_EPOCH:
            return None
        log = self.log
        if last_fetched_epoch == log.epochs.latest and (
            log.log_start_offset <= fetch_offset <= log.log_end_offset
        ):
            return None  # the usual case
        end = self.log.end_of_epoch(last_fetched_epoch)
        if end.epoch == UNKNOWN_EPOCH or end.end_offset == UNKNOWN_EPOCH:
            raise OffsetOutOfRange(f"unknown leader epoch {last_fetched_epoch}")
        if fetch_offset < self.log.log_start_offset:
            # Wherever the logs diverge, a follower before this log's start must restart there.
            raise OffsetOutOfRange(f"offset {fetch_offset} is before {self.log.log_start_offset}")
        if end.epoch < last_fetched_epoch or end.end_offset < fetch_offset:
            return end
        return None

    # ------------------------------------------------------------------ as leader

    def record_fetch(
        self,
        broker_id: int,
        info: FetchInfo,
        now: float,
        in_session: CachedPartition | None = None,
        broker_epoch: int = -1,
    ) -> bool:
        """Record a follower's fetch. Return False if it does not show how far the follower has come."""
        follower = self.followers.get(broker_id)
        if follower is None or not self.log.log_start_offset <= info.offset <= self.log.log_end_offset:
            return False
        if info.current_leader_epoch not in (UNKNOWN_EPOCH, self.leader_epoch):
            return False
        try:
            if self.divergence(info.last_fetched_epoch, info.offset) is not None:
                return False
        except OffsetOutOfRange:
            return False
        follower.broker_epoch = broker_epoch
        follower.fetched(info.offset, info.log_start_offset, self.log.log_end_offset, now, in_session)
        return True

    def advance_high_watermark(self, now: float, max_lag: float, may_join: Callable[[int], bool]) -> bool:
        """Advance the high watermark as far as the replicas allow. Return whether it advanced.

        It does not advance while the ISR is smaller than min.insync.replicas (4.x, KIP-966). Caught-up
        followers that can join the ISR hold it back too, so that they can join.
        """
        if not self.has_enough_in_sync:
            return False
        log_end = self.log.log_end_offset
        if not self.followers:
            return self.log.advance_high_watermark(log_end)
        in_sync = self.maximal_isr
        counting = [
            follower.log_end_offset
            for follower in self.followers.values()
            if follower.broker_id in in_sync
            or (
                follower.log_end_offset >= 0
                and follower.is_caught_up(log_end, now, max_lag)
                and may_join(follower.broker_id)
            )
        ]
        return self.log.advance_high_watermark(high_watermark([log_end, *counting]))

    def low_watermark(self, is_alive: Callable[[int], bool]) -> int:
        """Return the smallest log start of the live replicas.

        -1 while that of a live follower is unknown.
        """
        starts = [
            follower.log_start_offset for follower in self.followers.values() if is_alive(follower.broker_id)
        ]
        return min([self.log.log_start_offset, *starts])

    def followers_to_add(self) -> list[int]:
        """Return the caught-up followers outside the ISR."""
        isr = self.image.isr
        return [
            follower.broker_id
            for follower in self.followers.values()
            if follower.broker_id not in isr
            and follower.may_join(self.log.high_watermark, self.leader_epoch_start)
        ]

    def followers_to_drop(self, now: float, max_lag: float) -> list[int]:
        """Return the followers in the ISR that have lagged for too long."""
        log_end = self.log.log_end_offset
        return [
            follower.broker_id
            for follower in self.followers.values()
            if follower.broker_id in self.image.isr and not follower.is_caught_up(log_end, now, max_lag)
        ]


class HostedReplicas:
    """The replicas of one broker by partition, in the roles that `image` defines."""

    __slots__ = ("broker_id", "image", "moved", "offline", "replicas")

    def __init__(self, broker_id: int, image: ClusterImage) -> None:
        self.broker_id = broker_id
        self.image = image
        self.replicas: dict[Key, Replica] = {}
        self.offline: set[Key] = set()
        """Partitions whose log could not be opened, because its data directory has failed."""
        self.moved: dict[Key, bool] = {}
        """Partitions that moved in this turn; operations that wait for them are tried at its end.

        True: more than the log's end moved, so that an acks=all produce can be complete.
        """

    def leader_of(self, key: Key, current_leader_epoch: int = UNKNOWN_EPOCH) -> Replica:
        """Return this broker's replica if it is the leader in the requester's epoch.

        The epoch is checked first.
        """
        replica = self.replicas.get(key)
        if replica is None or replica.log.files.is_offline:
            replica = self.replica_of(key)  # raises
        if current_leader_epoch != UNKNOWN_EPOCH:
            replica.check_epoch(current_leader_epoch)
        if replica.role is not Role.LEADER:
            replica.check_leader()
        return replica

    def replica_of(self, key: Key) -> Replica:
        """Return this broker's replica.

        Raise `KafkaStorageError` if its data directory has failed, `NotLeaderOrFollower` if only other
        brokers have one, `UnknownTopicOrPartition` if the partition does not exist.
        """
        replica = self.replicas.get(key)
        if replica is not None:
            if replica.log.files.is_offline:
                raise KafkaStorageError(f"the data directory of {key[0]}-{key[1]} is offline")
            return replica
        self.check_known(key)
        if key in self.offline:
            raise KafkaStorageError(f"the data directory of {key[0]}-{key[1]} is offline")
        raise NotLeaderOrFollower(f"broker {self.broker_id} has no replica of {key[0]}-{key[1]}")

    def check_known(self, key: Key) -> None:
        """Raise `UnknownTopicOrPartition` if the partition does not exist."""
        if key not in self.replicas and self.image.partition(*key) is None:
            raise UnknownTopicOrPartition(f"partition {key[0]}-{key[1]} does not exist")

    def chosen(self, keys: Iterable[Key] | None) -> list[Replica]:
        """Return the hosted replicas among these partitions; None means all."""
        if keys is None:
            return list(self.replicas.values())
        return [self.replicas[key] for key in keys if key in self.replicas]

    def is_internal(self, topic: str) -> bool:
        image = self.image.topics.get(topic)
        return image is not None and image.is_internal
