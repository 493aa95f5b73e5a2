"""Records that iteration has polled but not yet returned.

Used on the caller's thread. The positions are beyond these records, so seek and pause must discard or
rewind them (core.py), and a commit stops before them (commit/committer.py). List iterators return
them, a slice at a time, so no Python call is made per record; the length hint of the iterator shows how many
are left.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator
from operator import length_hint
from typing import TYPE_CHECKING, Any

from pykafka2.types import ConsumerRecord, TopicPartition

if TYPE_CHECKING:
    from pykafka2.clock import Clock

Records = dict[TopicPartition, list[ConsumerRecord[Any, Any]]]


class IterationQueue:
    """A queue of records in the order in which they will be returned."""

    def __init__(self) -> None:
        self._records: list[ConsumerRecord[Any, Any]] = []
        self._cut = 0
        """The number of records that were put into slices."""
        self._slice: list[ConsumerRecord[Any, Any]] = []
        self.slice: Iterator[ConsumerRecord[Any, Any]] = iter(self._slice)
        """An iterator over the next records, up to the end of their slice; see `cut`."""
        self.taken: list[ConsumerRecord[Any, Any]] | None = None
        """The records in the queue before the last `take`."""

    def __bool__(self) -> bool:
        # The expression of `_next`, without its call: every poll() evaluates this.
        return self._cut - length_hint(self.slice) < len(self._records)

    @property
    def _next(self) -> int:
        """The index of the next record to be returned."""
        return self._cut - length_hint(self.slice)

    def put(self, polled: Records) -> None:
        """Append the records of a poll."""
        waiting = self._records[self._next :]
        for records in polled.values():
            waiting.extend(records)
        self._replace(waiting)

    @property
    def is_between_slices(self) -> bool:
        return not length_hint(self.slice)

    @property
    def head(self) -> ConsumerRecord[Any, Any] | None:
        """The next record of the slice; None at its end."""
        left = length_hint(self.slice)
        return self._slice[-left] if left else None

    def cut(self, limit: int) -> None:
        """Start the next slice, of up to `limit` records; only between slices."""
        following = self._records[self._cut : self._cut + limit]
        upto, iterator = self._cut + len(following), iter(following)
        # Assignments without a call between them: a signal handler sees all or none.
        self._slice, self.slice, self._cut = following, iterator, upto

    def take(self, limit: int, *, keep: bool, only: Container[tuple[str, int]] | None = None) -> Records:
        """Return up to `limit` records, of `only` these partitions; with `keep` they stay queued."""
        waiting = self._records[self._next :]
        chosen, left = waiting[:limit], waiting[limit:]
        if only is not None:
            of_these = [record for record in waiting if (record.topic, record.partition) in only]
            chosen = of_these[:limit]
            gone = set(map(id, chosen))
            left = [record for record in waiting if id(record) not in gone]
        found: Records = {}
        for record in chosen:
            found.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
        if not keep and found:
            self.taken = waiting
            self._replace(left)
        return found

    def restore_taken(self) -> None:
        """Restore the records of the last `take`, which did not reach the application."""
        taken, self.taken = self.taken, None
        if taken is not None:
            self._replace(taken)

    def first_offset(self, partition: TopicPartition) -> int | None:
        """Return the offset of the partition's first queued record, or None."""
        for record in self._records[self._next :]:
            if (record.topic, record.partition) == partition:
                return record.offset
        return None

    def places(self) -> dict[TopicPartition, tuple[int, int]]:
        """Return, for each partition with queued records, the offset of the first one and the leader epoch of
        the record returned before it (-1 if unknown)."""
        at = self._next
        first: dict[TopicPartition, int] = {}
        for record in self._records[at:]:
            first.setdefault(TopicPartition(record.topic, record.partition), record.offset)
        if not first:
            return {}
        epochs = {
            TopicPartition(record.topic, record.partition): record.leader_epoch
            for record in self._records[:at]
        }
        return {partition: (offset, epochs.get(partition, -1)) for partition, offset in first.items()}

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Drop the records of these partitions."""
        if self and partitions:
            waiting, gone = self._records[self._next :], frozenset(partitions)
            self._replace([record for record in waiting if (record.topic, record.partition) not in gone])

    def keep_only(self, partitions: Container[tuple[str, int]]) -> None:
        """Drop the records of other partitions, which remain if a Ctrl-C interrupted their revocation."""
        waiting = self._records[self._next :]
        kept = [record for record in waiting if (record.topic, record.partition) in partitions]
        if len(kept) < len(waiting):
            self._replace(kept)

    def first_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first queued offset of each of these partitions."""
        places = self.places().items()
        return {partition: offset for partition, (offset, _) in places if partition in partitions}

    def clear(self) -> None:
        self._replace([])

    def _replace(self, records: list[ConsumerRecord[Any, Any]]) -> None:
        before = self._slice
        none: list[ConsumerRecord[Any, Any]] = []
        iterator = iter(none)
        # Without a call between them, as above.
        self._records, self._cut, self._slice, self.slice = records, 0, none, iterator
        before.clear()  # ends iterators over the old slice


WANTED_SECONDS = 0.1
MOST_RECORDS = 500


class SliceLength:
    """The number of records that iteration returns between two checks of commits and the group."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._length = 1
        self._began_at: float | None = None

    def next(self) -> int:
        """Return the length of the next slice; called at the end of the current one."""
        now = self._clock.monotonic()
        if self._began_at is not None:
            took = now - self._began_at
            if took < WANTED_SECONDS / 2:
                self._length = min(self._length * 2, MOST_RECORDS)
            elif took > WANTED_SECONDS:
                self._length = max(int(self._length * WANTED_SECONDS / took), 1)
        self._began_at = now
        return self._length

    def pause(self) -> None:
        """Mark the following time as waiting, which does not count for max_poll_interval_ms."""
        self._began_at = None
