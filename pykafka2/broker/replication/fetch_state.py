"""The partitions that a follower copies from one leader, and their state in the fetch session (KIP-227).

Values of follower_fetcher.py, which sends the fetches. Access requires the cluster's lock.
"""

from __future__ import annotations

import attrs

from pykafka2.broker.base.image import Key
from pykafka2.broker.replication.fetch_sessions import INITIAL_EPOCH, NO_SESSION
from pykafka2.broker.replication.replica import Replica


@attrs.define
class Position:
    """The position of a partition in a fetch, which the leader's session then holds. Treated as immutable."""

    offset: int
    leader_epoch: int
    last_fetched_epoch: int
    log_start_offset: int


@attrs.define(eq=False)
class PartitionFetchState:
    """A partition that this broker copies: its replica, and its back-off after an error."""

    replica: Replica
    leader_epoch: int
    delayed_until: float = 0.0
    sent: Position | None = None
    """The position that the session with the leader holds; None if it holds none."""

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
    """The partitions copied from one leader, and the fetch session with it.

    Only partitions in `changed` are considered for the next fetch: idle ones cost nothing (KIP-227).
    """

    leader: int
    partitions: dict[Key, PartitionFetchState] = attrs.field(factory=dict)
    by_ident: dict[Ident, PartitionFetchState] = attrs.field(factory=dict)
    """The partitions in the session."""
    changed: dict[Key, None] = attrs.field(factory=dict)
    delayed: dict[Key, None] = attrs.field(factory=dict)
    forgotten: dict[Ident, None] = attrs.field(factory=dict)
    session_id: int = NO_SESSION
    next_epoch: int = INITIAL_EPOCH
    in_flight: bool = False
    discards_response: bool = False
    """Whether the response to the fetch in flight is discarded."""
    delayed_until: float = 0.0

    def add(self, followed: PartitionFetchState) -> None:
        self.partitions[followed.replica.key] = followed
        self.changed[followed.replica.key] = None

    def remove(self, key: Key) -> None:
        followed = self.partitions.pop(key, None)
        self.changed.pop(key, None)
        self.delayed.pop(key, None)
        if followed is not None:
            self.remove_from_session(followed)

    def remove_from_session(self, followed: PartitionFetchState) -> None:
        """Remove a partition from the session, temporarily or permanently."""
        followed.sent = None
        if self.by_ident.get(followed.ident) is followed:
            del self.by_ident[followed.ident]
            self.forgotten[followed.ident] = None

    def reset_session(self) -> None:
        """Make the next fetch a full one, which ends the current session."""
        self.next_epoch = INITIAL_EPOCH
        self.forgotten.clear()
        self.by_ident.clear()
        for key, followed in self.partitions.items():
            followed.sent = None
            self.changed[key] = None

    def delay(self, followed: PartitionFetchState, until: float) -> None:
        followed.delayed_until = until
        self.delayed[followed.replica.key] = None
        self.remove_from_session(followed)
