"""One replica of one partition on one broker: its log, its role, and as leader its view of the followers.

Roles change only by `lead` and `follow`, told by the controller's image.  The replica decides the high
watermark and who is in sync; what follows from that (completing requests, telling the controller) is the
replica manager's. All calls come under the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import Enum

from pykafka2.broker.base.image import PartitionImage
from pykafka2.broker.config.configs import TopicConfig
from pykafka2.broker.log.batch_rules import BatchRules
from pykafka2.broker.log.leader_epochs import UNKNOWN_EPOCH, EpochEnd
from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.broker.log.segments import RollLimits
from pykafka2.broker.replication.fetch_session import SessionPartition
from pykafka2.broker.replication.high_watermark import effective_min_isr, high_watermark
from pykafka2.broker.replication.in_sync import NEVER, FollowerState
from pykafka2.broker.replication.key import Key
from pykafka2.broker.replication.reading import FetchItem
from pykafka2.errors import FencedLeaderEpoch, NotLeaderOrFollower, OffsetOutOfRange, UnknownLeaderEpoch


class Role(Enum):
    LEADER = "leader"
    FOLLOWER = "follower"


class Replica:
    """A broker's copy of a partition."""

    __slots__ = (
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
        """The ISR that we, as leader, have asked the controller for and have no answer about."""

    def __repr__(self) -> str:
        return f"<{self.role.value} of {self.key[0]}-{self.key[1]} on broker {self.broker_id}: {self.log!r}>"

    def configure(self, config: TopicConfig) -> None:
        """Take over the topic's configuration; it acts from the next append on."""
        self.config = config
        self.batch_rules = BatchRules.of(config)
        self.log.limit_segments(RollLimits(config.get("segment.bytes"), config.get("segment.ms")))

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
        return effective_min_isr(self.config.get("min.insync.replicas"), len(self.image.replicas))

    @property
    def has_enough_in_sync(self) -> bool:
        return len(self.image.isr) >= self.min_isr

    @property
    def maximal_isr(self) -> Collection[int]:
        """Who must have a record before it is committed: the ISR as it is and as it may be by now."""
        return self.image.isr if self.pending_isr is None else {*self.image.isr, *self.pending_isr}

    # ------------------------------------------------------------------ roles

    def lead(self, image: PartitionImage, now: float) -> bool:
        """Lead from now on (True), or learn of a new ISR."""
        begins = not self.is_leader or image.leader_epoch != self.image.leader_epoch
        if begins or image.partition_epoch != self.image.partition_epoch:
            self.pending_isr = None
        self.image = image
        if begins:
            self.role = Role.LEADER
            self.leader_epoch_start = self.log.log_end_offset
            self.log.epochs.assign(image.leader_epoch, self.leader_epoch_start)
            self.followers = {}
        # Nothing is known of new followers; those in sync have the full time to show up.
        self.followers = {
            replica: self.followers.get(replica)
            or FollowerState(replica, now if replica in image.isr else NEVER)
            for replica in image.replicas
            if replica != self.broker_id
        }
        return begins

    def follow(self, image: PartitionImage) -> bool:
        """Follow from now on; True if the leader or its epoch is a new one."""
        changed = self.is_leader or (image.leader, image.leader_epoch) != (
            self.image.leader,
            self.image.leader_epoch,
        )
        self.role = Role.FOLLOWER
        self.image = image
        self.followers = {}
        self.pending_isr = None
        return changed

    # ------------------------------------------------------------------ who may ask

    def check_leader(self) -> None:
        if not self.is_leader:
            raise NotLeaderOrFollower(
                f"broker {self.broker_id} does not lead {self.key[0]}-{self.key[1]}, "
                f"broker {self.image.leader} does"
            )

    def check_epoch(self, current_leader_epoch: int) -> None:
        """The asker's leader epoch must be ours (KIP-320); -1 asks for no check."""
        if current_leader_epoch == UNKNOWN_EPOCH:
            return
        if current_leader_epoch < self.leader_epoch:
            raise FencedLeaderEpoch(f"epoch {current_leader_epoch} is older than {self.leader_epoch}")
        if current_leader_epoch > self.leader_epoch:
            raise UnknownLeaderEpoch(f"epoch {current_leader_epoch} is newer than {self.leader_epoch}")

    def divergence(self, last_fetched_epoch: int, fetch_offset: int) -> EpochEnd | None:
        """Where the asker's log parted from ours, if it did (KIP-595)."""
        if last_fetched_epoch == UNKNOWN_EPOCH:
            return None
        end = self.log.end_of_epoch(last_fetched_epoch)
        if end.epoch == UNKNOWN_EPOCH or end.end_offset == UNKNOWN_EPOCH:
            raise OffsetOutOfRange(f"nothing is known of leader epoch {last_fetched_epoch}")
        if fetch_offset < self.log.log_start_offset:
            # Wherever the logs parted: who is that far behind has to begin anew at our start.
            raise OffsetOutOfRange(f"offset {fetch_offset} is before {self.log.log_start_offset}")
        if end.epoch < last_fetched_epoch or end.end_offset < fetch_offset:
            return end
        return None

    # ------------------------------------------------------------------ as leader

    def note_fetch(
        self,
        broker_id: int,
        asked: FetchItem,
        now: float,
        in_session: SessionPartition | None = None,
        broker_epoch: int = -1,
    ) -> bool:
        """A follower asked to read on; False if that says nothing of how far it has come."""
        follower = self.followers.get(broker_id)
        if follower is None or not self.log.log_start_offset <= asked.offset <= self.log.log_end_offset:
            return False
        if asked.current_leader_epoch not in (UNKNOWN_EPOCH, self.leader_epoch):
            return False
        try:
            if self.divergence(asked.last_fetched_epoch, asked.offset) is not None:
                return False
        except OffsetOutOfRange:
            return False
        follower.broker_epoch = broker_epoch
        follower.fetched(asked.offset, asked.log_start_offset, self.log.log_end_offset, now, in_session)
        return True

    def advance_high_watermark(self, now: float, max_lag: float, may_join: Callable[[int], bool]) -> bool:
        """Move it as far as the replicas allow; True if it moved.

        It stays where it is while fewer replicas are in sync than min.insync.replicas asks for (4.x,
        KIP-966). Followers that are caught up and may join the ISR hold it back too, so that they can.
        """
        if not self.has_enough_in_sync:
            return False
        log_end = self.log.log_end_offset
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
        """The least start of the live replicas' logs; -1 while a live follower has not told its own."""
        starts = [
            follower.log_start_offset for follower in self.followers.values() if is_alive(follower.broker_id)
        ]
        return min([self.log.log_start_offset, *starts])

    def followers_to_add(self) -> list[int]:
        """Followers outside the ISR that have caught up."""
        isr = self.image.isr
        return [
            follower.broker_id
            for follower in self.followers.values()
            if follower.broker_id not in isr
            and follower.may_join(self.log.high_watermark, self.leader_epoch_start)
        ]

    def followers_to_drop(self, now: float, max_lag: float) -> list[int]:
        """Followers in the ISR that have lagged for too long."""
        log_end = self.log.log_end_offset
        return [
            follower.broker_id
            for follower in self.followers.values()
            if follower.broker_id in self.image.isr and not follower.is_caught_up(log_end, now, max_lag)
        ]
