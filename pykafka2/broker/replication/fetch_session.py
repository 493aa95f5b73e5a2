"""One fetch session (KIP-227): its partitions, and the last response for each.

A session also tracks the partitions that may have something to report (`dirty`): those that moved, and those
just added. A fetch reads only these, so a follower of a thousand idle partitions costs as little as one of
none. fetch_sessions.py creates, finds and evicts sessions. Access requires the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from pykafka2.broker.replication.reading import FetchItem, FetchResult

Ident = tuple[bytes | str, int]
"""Topic id (since version 13) or name, and partition: the key of a partition in a session."""


@attrs.define(eq=False)
class SessionPartition:
    """One partition of a session: its last request and its last response."""

    item: FetchItem
    session: FetchSession | None
    """None once the session has removed the partition."""
    high_watermark: int = -1
    log_start_offset: int = -1

    def has_news(self, result: FetchResult) -> bool:
        """Return whether the response of a partition must be sent at all."""
        return (
            bool(len(result.records))
            or result.error is not None
            or result.diverging is not None
            or result.preferred_read_replica >= 0
            or result.high_watermark != self.high_watermark
            or result.log_start_offset != self.log_start_offset
        )

    def record_response(self, result: FetchResult) -> bool:
        """Record the response of a partition. Return whether it must be sent."""
        has_news = self.has_news(result)
        # After an error the next response is always sent, because the error is over.
        self.high_watermark = -1 if result.error is not None else result.high_watermark
        self.log_start_offset = result.log_start_offset
        return has_news


@attrs.define(eq=False)
class FetchSession:
    """The partitions that one reader fetches from one broker. Times in seconds of the monotonic clock."""

    id: int
    uses_topic_ids: bool
    replica_id: int
    """The follower that uses it, negative for a consumer."""
    created_at: float
    last_used_at: float
    epoch: int = 1
    """The epoch that the next fetch must carry."""
    partitions: dict[Ident, SessionPartition] = attrs.field(factory=dict)
    dirty: dict[Ident, None] = attrs.field(factory=dict)
    unresolved: dict[Ident, None] = attrs.field(factory=dict)
    """Partitions whose topic id is unknown so far."""
    checked_by: object = None
    """The rights that its partitions were last checked with; they are checked again when the object
    changes.
    """
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
        """Return the partitions that a fetch must read, in round-robin order."""
        return [self.partitions[ident].item for ident in self.dirty]

    def fetched(self, now: float) -> None:
        """Record a fetch of this session."""
        self.previous_fetch_at, self.last_fetch_at = self.last_fetch_at, now

    def changed(self, results: Iterable[FetchResult]) -> list[FetchResult]:
        """Return the results that a response would contain now; the session stays as it is."""
        return [
            result
            for result in results
            if (known := self.partition_of(result.item)) is not None and known.has_news(result)
        ]

    def settle(self, results: Iterable[FetchResult]) -> list[FetchResult]:
        """Return the results that the response must contain.

        The other partitions are clean until they move.
        """
        to_send: list[FetchResult] = []
        for result in results:
            ident = self.ident_of(result.item)
            known = self.partitions.get(ident)
            if known is None:
                continue
            if known.record_response(result):
                to_send.append(result)
            if len(result.records):
                # A partition that returned records goes to the end of the round.
                self.dirty.pop(ident, None)
                self.dirty[ident] = None
            elif not (
                result.has_more
                or result.error is not None
                or result.diverging is not None
                or result.preferred_read_replica >= 0
            ):
                self.dirty.pop(ident, None)
        return to_send
