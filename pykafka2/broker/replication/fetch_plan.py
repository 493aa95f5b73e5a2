"""A whole fetch, as the Fetch handler gives it to the replicas."""

from __future__ import annotations

import attrs

from pykafka2.broker.replication.fetch_session import FetchSession
from pykafka2.broker.replication.key import Key
from pykafka2.broker.replication.reading import FetchItem

CONSUMER = -1
FUTURE_REPLICA = -3
"""A log that moves to another directory of its own broker: it is served to the end, by any replica."""


@attrs.define
class FetchPlan:
    """A whole fetch.  `replica_id` is negative for consumers; `may_follow`: a follower may serve it
    (KIP-392).

    `replica_epoch` is the follower's broker epoch: what it sent before a restart counts no more.  `rack_id`
    is the consumer's, None where it cannot be sent elsewhere.  With a `session` the partitions are those
    of the session that may have something to tell, and `items` is empty.
    """

    replica_id: int
    items: list[FetchItem]
    min_bytes: int
    max_bytes: int
    read_committed: bool = False
    may_follow: bool = False
    replica_epoch: int = -1
    rack_id: str | None = None
    session: FetchSession | None = None
    first_segments: dict[Key, int] = attrs.field(factory=dict)
    """Where the active segments began when the fetch began to wait."""
    has_waited: bool = False
    """Whether it went through the purgatory."""
    _by_key: dict[Key, list[FetchItem]] | None = None

    @property
    def is_from_follower(self) -> bool:
        return self.replica_id >= 0

    def current_items(self) -> list[FetchItem]:
        """What is to be looked at now."""
        return self.items if self.session is None else self.session.current_items()

    def items_of(self, key: Key) -> list[FetchItem]:
        by_key = self._by_key
        if by_key is None:
            by_key = self._by_key = {}
            for item in self.items:
                by_key.setdefault(item.key, []).append(item)
        return by_key.get(key, [])
