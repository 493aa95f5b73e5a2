"""One fetch session (KIP-227): which partitions its reader follows, and what it was told of each.

A session also knows which of its partitions may have something to tell (`dirty`): those that moved, and
those just asked for.  A fetch looks at these alone, so a follower of a thousand idle partitions costs as
little as one of none.  Made, found and evicted by fetch_sessions.py.  Under the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from pykafka2.broker.replication.reading import FetchItem, FetchResult

Ident = tuple[bytes | str, int]
"""Topic id (version 13 on) or name, and partition: what a session knows a partition by."""


@attrs.define(eq=False)
class SessionPartition:
    """One partition of a session: what was asked last, and what was told last."""

    item: FetchItem
    session: FetchSession | None
    """None once the session has forgotten it."""
    high_watermark: int = -1
    log_start_offset: int = -1

    def note_answer(self, result: FetchResult) -> bool:
        """Note what an answer says; whether it has to be said at all."""
        has_news = (
            bool(len(result.records))
            or result.error is not None
            or result.diverging is not None
            or result.preferred_read_replica >= 0
            or result.high_watermark != self.high_watermark
            or result.log_start_offset != self.log_start_offset
        )
        # After an error the next answer is told whatever it says: the error is over.
        self.high_watermark = -1 if result.error is not None else result.high_watermark
        self.log_start_offset = result.log_start_offset
        return has_news


@attrs.define(eq=False)
class FetchSession:
    """What one reader follows at one broker.  Times in seconds of the monotonic clock."""

    id: int
    uses_topic_ids: bool
    replica_id: int
    """The follower that fetches in it, below 0 for a consumer."""
    created_at: float
    last_used_at: float
    epoch: int = 1
    """The epoch that its next fetch must carry."""
    partitions: dict[Ident, SessionPartition] = attrs.field(factory=dict)
    dirty: dict[Ident, None] = attrs.field(factory=dict)
    unresolved: dict[Ident, None] = attrs.field(factory=dict)
    """Partitions whose topic id nobody knows yet."""
    checked_by: object = None
    """The rights that its partitions were last looked at by; another object, and they are looked at anew."""
    last_fetch_at: float = float("-inf")
    previous_fetch_at: float = float("-inf")

    @property
    def is_from_follower(self) -> bool:
        return self.replica_id >= 0

    def ident_of(self, item: FetchItem) -> Ident:
        return (item.topic_id if self.uses_topic_ids else item.topic), item.partition

    def partition_of(self, item: FetchItem) -> SessionPartition | None:
        return self.partitions.get(self.ident_of(item))

    def current_items(self) -> list[FetchItem]:
        """What a fetch has to look at now, in the order of a fair round."""
        return [self.partitions[ident].item for ident in self.dirty]

    def fetched(self, now: float) -> None:
        """A fetch of this session came in."""
        self.previous_fetch_at, self.last_fetch_at = self.last_fetch_at, now

    def settle(self, results: Iterable[FetchResult]) -> list[FetchResult]:
        """Of what was read, what the answer must tell; the rest had nothing new and rests until it moves."""
        told: list[FetchResult] = []
        for result in results:
            ident = self.ident_of(result.item)
            known = self.partitions.get(ident)
            if known is None:
                continue
            if known.note_answer(result):
                told.append(result)
            if len(result.records):
                # Whoever was served goes to the end of the round.
                self.dirty.pop(ident, None)
                self.dirty[ident] = None
            elif not (
                result.has_more
                or result.error is not None
                or result.diverging is not None
                or result.preferred_read_replica >= 0
            ):
                self.dirty.pop(ident, None)
        return told
