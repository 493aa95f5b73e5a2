"""State of one share partition: its start offset, and the delivery states of the records after it.

Values only. A write becomes an update record, or after many updates a snapshot record with the whole state;
replaying either gives the next state. Merging, pruning and epochs are those of Kafka 4.4
(PersisterStateBatchCombiner, ShareCoordinatorShard).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, Final

import attrs

from pykafka2.protocol.messages import share_state_records as records

NO_OFFSET: Final = -1
NO_COUNT: Final = -1


@attrs.define(frozen=True)
class StateBatch:
    """Adjacent records with the same delivery state and delivery count; both offsets are included."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int

    @classmethod
    def of(cls, batch: Any) -> StateBatch:
        """Return the batch of a request or a record."""
        return cls(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)


_first_offset = attrgetter("first_offset")
_last_offset = attrgetter("last_offset")


def combined(
    known: Sequence[StateBatch], written: Iterable[StateBatch], start_offset: int
) -> tuple[StateBatch, ...]:
    """Merge written batches into known ones, which are sorted and do not overlap.

    Of overlapping batches the one with the higher delivery count wins, then the one with the higher delivery
    state. Offsets before `start_offset` are dropped; with -1 none are.
    """
    kept = _pruned(known, start_offset)
    added = _pruned(written, start_offset)
    if not added or len(kept) + len(added) == 1:
        return tuple(kept + added)
    # Only known batches that overlap or touch a written one can change.
    low = bisect_left(kept, min(map(_first_offset, added)) - 1, key=_last_offset)
    high = bisect_right(kept, max(map(_last_offset, added)) + 1, key=_first_offset)
    return (*kept[:low], *_swept(kept[low:high] + added), *kept[high:])


def _pruned(batches: Iterable[StateBatch], start_offset: int) -> list[StateBatch]:
    if start_offset == NO_OFFSET:
        return list(batches)
    return [
        batch if batch.first_offset >= start_offset else attrs.evolve(batch, first_offset=start_offset)
        for batch in batches
        if batch.last_offset >= start_offset
    ]


def _swept(batches: Sequence[StateBatch]) -> list[StateBatch]:
    """Return sorted batches that do not overlap, with adjacent equal ones joined."""
    events: list[tuple[int, bool, int, int]] = []
    for batch in batches:
        events.append((batch.first_offset, True, batch.delivery_count, batch.delivery_state))
        events.append((batch.last_offset + 1, False, batch.delivery_count, batch.delivery_state))
    events.sort(key=lambda event: event[0])
    active: dict[tuple[int, int], int] = {}
    swept: list[StateBatch] = []
    since = 0
    for at, is_begin, count, state in events:
        if active and at > since:
            _append(swept, since, at - 1, max(active))
        since = at
        number = active.get((count, state), 0) + (1 if is_begin else -1)
        if number:
            active[count, state] = number
        else:
            del active[count, state]
    return swept


def _append(swept: list[StateBatch], first_offset: int, last_offset: int, winner: tuple[int, int]) -> None:
    count, state = winner
    if swept:
        last = swept[-1]
        is_adjacent = last.last_offset + 1 == first_offset
        if is_adjacent and (last.delivery_count, last.delivery_state) == winner:
            first_offset = swept.pop().first_offset
    swept.append(StateBatch(first_offset, last_offset, state, count))


@attrs.define(frozen=True, kw_only=True)
class ShareState:
    """The state of a share partition. Times are in milliseconds since 1970."""

    snapshot_epoch: int = 0
    """The number of the latest snapshot, which updates repeat."""
    state_epoch: int = 0
    """Increases when the group coordinator sets a new start offset."""
    leader_epoch: int = 0
    start_offset: int = NO_OFFSET
    """The first offset that is still in flight; -1 if the leader must choose it."""
    delivery_complete_count: int = NO_COUNT
    """The number of records after the start offset whose delivery is complete; -1 if it is unknown."""
    batches: tuple[StateBatch, ...] = ()
    created_ms: int = 0
    written_ms: int = 0
    """Differs from `created_ms` after a snapshot that was taken because nothing was written for long."""

    def replayed(self, value: records.ShareUpdateValue) -> ShareState:
        """Return the state after an update."""
        start_offset = self.start_offset if value.start_offset == NO_OFFSET else value.start_offset
        return attrs.evolve(
            self,
            leader_epoch=self.leader_epoch if value.leader_epoch == -1 else value.leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=value.delivery_complete_count,
            batches=combined(self.batches, map(StateBatch.of, value.state_batches), start_offset),
        )

    def snapshot_value(self) -> records.ShareSnapshotValue:
        """Return the record of the whole state."""
        return records.ShareSnapshotValue(
            snapshot_epoch=self.snapshot_epoch,
            state_epoch=self.state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=self.start_offset,
            delivery_complete_count=self.delivery_complete_count,
            create_timestamp=self.created_ms,
            write_timestamp=self.written_ms,
            state_batches=_to_wire(self.batches, records.ShareSnapshotValueStateBatch),
        )

    def update_value(self) -> records.ShareUpdateValue:
        """Return the record of a state whose batches are those that a write adds."""
        return records.ShareUpdateValue(
            snapshot_epoch=self.snapshot_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=self.start_offset,
            delivery_complete_count=self.delivery_complete_count,
            state_batches=_to_wire(self.batches, records.ShareUpdateValueStateBatch),
        )

    @classmethod
    def from_snapshot(cls, value: records.ShareSnapshotValue) -> ShareState:
        """Return the state of a snapshot record."""
        return cls(
            snapshot_epoch=value.snapshot_epoch,
            state_epoch=value.state_epoch,
            leader_epoch=value.leader_epoch,
            start_offset=value.start_offset,
            delivery_complete_count=value.delivery_complete_count,
            batches=tuple(map(StateBatch.of, value.state_batches)),
            created_ms=value.create_timestamp,
            written_ms=value.write_timestamp,
        )

    @classmethod
    def from_update(cls, value: records.ShareUpdateValue) -> ShareState:
        """Return the state of an update whose snapshot is missing."""
        return cls(
            snapshot_epoch=value.snapshot_epoch,
            leader_epoch=value.leader_epoch,
            start_offset=value.start_offset,
            delivery_complete_count=value.delivery_complete_count,
            batches=tuple(map(StateBatch.of, value.state_batches)),
        )


def _to_wire(batches: Iterable[StateBatch], cls: type[Any]) -> list[Any]:
    return [
        cls(
            first_offset=batch.first_offset,
            last_offset=batch.last_offset,
            delivery_state=batch.delivery_state,
            delivery_count=batch.delivery_count,
        )
        for batch in batches
    ]
