"""A whole fetch, as the Fetch handler passes it to the replicas."""

from __future__ import annotations

import attrs

from pykafka2.broker.base.image import Key
from pykafka2.broker.replication.fetch_session import FetchSession
from pykafka2.broker.replication.reading import FetchItem

CONSUMER = -1
FUTURE_REPLICA = -3
"""A log that moves to another directory of its broker: any replica serves it up to the log's end."""


@attrs.define
class FetchPlan:
    """A whole fetch. `replica_id` is negative for consumers; `may_follow`: a follower can serve it (KIP-392).

    `replica_epoch` is the follower's broker epoch: fetches from before a restart are stale. `rack_id` is the
    consumer's, None if it cannot be sent to another replica. With a `session` the partitions are the dirty
    ones of the session, and `items` is empty.
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
    """The base offsets of the active segments when the fetch began to wait."""
    has_waited: bool = False
    """Whether it was in the purgatory."""
    _by_key: dict[Key, list[FetchItem]] | None = None

    @property
    def is_from_follower(self) -> bool:
        return self.replica_id >= 0

    def current_items(self) -> list[FetchItem]:
        """Return the partitions to read now."""
        return self.items if self.session is None else self.session.current_items()

    def items_of(self, key: Key) -> list[FetchItem]:
        if len(self.items) == 1:
            return self.items if self.items[0].key == key else []
        by_key = self._by_key
        if by_key is None:
            by_key = self._by_key = {}
            for item in self.items:
                by_key.setdefault(item.key, []).append(item)
        return by_key.get(key, [])
