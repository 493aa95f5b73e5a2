"""What a follower copies from one leader, and what the fetch session between the two knows of it (KIP-227).

Values of follower_fetcher.py, which sends the fetches.  Under the cluster's lock.
"""

from __future__ import annotations

import attrs

from pykafka2.broker.replication.fetch_sessions import INITIAL_EPOCH, NO_SESSION
from pykafka2.broker.replication.key import Key
from pykafka2.broker.replication.replica import Replica


@attrs.define
class Position:
    """What a fetch says of a partition, and what the leader's session therefore knows.  Nobody changes it."""

    offset: int
    leader_epoch: int
    last_fetched_epoch: int
    log_start_offset: int


@attrs.define(eq=False)
class PartitionFetchState:
    """A partition that we copy: which replica, and until when it is left alone after an error."""

    replica: Replica
    leader_epoch: int
    delayed_until: float = 0.0
    asked: Position | None = None
    """As the session with the leader knows it; None if it does not."""

    @property
    def ident(self) -> Ident:
        return self.replica.log.topic_id, self.replica.key[1]

    def position(self) -> Position:
        log = self.replica.log
        return Position(log.log_end_offset, self.leader_epoch, log.epochs.latest, log.log_start_offset)


Ident = tuple[bytes, int]
"""Topic id and partition."""


@attrs.define(eq=False)
class Fetcher:
    """What we copy from one leader, and the fetch session that we have with it.

    Only partitions in `changed` are looked at for the next fetch: what rests costs nothing (KIP-227).
    """

    leader: int
    partitions: dict[Key, PartitionFetchState] = attrs.field(factory=dict)
    by_ident: dict[Ident, PartitionFetchState] = attrs.field(factory=dict)
    """What the session holds."""
    changed: dict[Key, None] = attrs.field(factory=dict)
    delayed: dict[Key, None] = attrs.field(factory=dict)
    forgotten: dict[Ident, None] = attrs.field(factory=dict)
    session_id: int = NO_SESSION
    next_epoch: int = INITIAL_EPOCH
    in_flight: bool = False
    is_answer_void: bool = False
    """Whether the answer to the fetch that is under way is thrown away."""
    delayed_until: float = 0.0

    def add(self, followed: PartitionFetchState) -> None:
        self.partitions[followed.replica.key] = followed
        self.changed[followed.replica.key] = None

    def remove(self, key: Key) -> None:
        followed = self.partitions.pop(key, None)
        self.changed.pop(key, None)
        self.delayed.pop(key, None)
        if followed is not None:
            self.leave_out(followed)

    def leave_out(self, followed: PartitionFetchState) -> None:
        """Have the session forget a partition, for now or for good."""
        followed.asked = None
        if self.by_ident.get(followed.ident) is followed:
            del self.by_ident[followed.ident]
            self.forgotten[followed.ident] = None

    def start_anew(self) -> None:
        """The next fetch is a full one; it ends the session that there was."""
        self.next_epoch = INITIAL_EPOCH
        self.forgotten.clear()
        self.by_ident.clear()
        for key, followed in self.partitions.items():
            followed.asked = None
            self.changed[key] = None

    def delay(self, followed: PartitionFetchState, until: float) -> None:
        followed.delayed_until = until
        self.delayed[followed.replica.key] = None
        self.leave_out(followed)
