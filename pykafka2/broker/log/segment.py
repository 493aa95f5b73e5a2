"""One piece of a partition's log: the unit that is rolled and deleted by retention (a file in Kafka).

`Segment` is the seam between the log's rules and where bytes are: `MemorySegment` keeps them as they came.
Offsets of batches only grow; which batch may come and when a new segment begins is segments.py's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Protocol

from pykafka2.records.batch import RecordBatch

NO_TIMESTAMP = -1


class Segment(Protocol):
    """Batches in the order of their offsets, from `base_offset` on.

    `first_timestamp` is the largest of the first batch (milliseconds), `largest_timestamp` that of all; both
    -1 where there is none.
    """

    base_offset: int
    size_bytes: int
    first_timestamp: int
    largest_timestamp: int

    def append(self, batch: RecordBatch) -> None: ...

    def read(self, offset: int, upper_offset: int, max_bytes: int, min_one: bool) -> list[RecordBatch]:
        """Batches from the one that holds `offset` on, none that starts at or after `upper_offset`.

        Whole batches only, of at most `max_bytes` together; with `min_one` the first comes whatever its size.
        """
        ...

    def iterate(self, offset: int = 0) -> Iterator[RecordBatch]:
        """Batches from the one that holds `offset` on; appends meanwhile are seen."""
        ...

    def last(self) -> RecordBatch | None: ...

    def truncate_to(self, end_offset: int) -> None:
        """Drop every batch with a record at or after `end_offset`."""
        ...

    def close(self) -> None:
        """The segment is deleted: give back what it holds."""
        ...


class MemorySegment:
    """Batches in a list.  Bytes are immutable and shared by whoever reads them."""

    __slots__ = (
        "_base_offsets",
        "_batches",
        "base_offset",
        "first_timestamp",
        "largest_timestamp",
        "size_bytes",
    )

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.size_bytes = 0
        self.first_timestamp = self.largest_timestamp = NO_TIMESTAMP
        self._batches: list[RecordBatch] = []
        self._base_offsets: list[int] = []

    def append(self, batch: RecordBatch) -> None:
        if not self._batches:
            self.first_timestamp = batch.max_timestamp
        self._batches.append(batch)
        self._base_offsets.append(batch.base_offset)
        self.size_bytes += len(batch.buffer)
        if batch.max_timestamp > self.largest_timestamp:
            self.largest_timestamp = batch.max_timestamp

    def read(self, offset: int, upper_offset: int, max_bytes: int, min_one: bool) -> list[RecordBatch]:
        batches = self._batches
        found: list[RecordBatch] = []
        taken = 0
        for index in range(self._index_of(offset), len(batches)):
            batch = batches[index]
            if batch.base_offset >= upper_offset:
                break
            taken += len(batch.buffer)
            if taken > max_bytes and not (min_one and not found):
                break
            found.append(batch)
        return found

    def iterate(self, offset: int = 0) -> Iterator[RecordBatch]:
        # By index over a copy of nothing: appends meanwhile are seen, truncation ends the walk.
        index = self._index_of(offset)
        while index < len(self._batches):
            yield self._batches[index]
            index += 1

    def last(self) -> RecordBatch | None:
        return self._batches[-1] if self._batches else None

    def truncate_to(self, end_offset: int) -> None:
        before = len(self._batches)
        while self._batches and self._batches[-1].next_offset > end_offset:
            self.size_bytes -= len(self._batches.pop().buffer)
            self._base_offsets.pop()
        if len(self._batches) < before:
            timestamps = [batch.max_timestamp for batch in self._batches]
            self.largest_timestamp = max(timestamps, default=NO_TIMESTAMP)
            self.first_timestamp = timestamps[0] if timestamps else NO_TIMESTAMP

    def close(self) -> None:
        self._batches.clear()
        self._base_offsets.clear()

    def _index_of(self, offset: int) -> int:
        """Of the batch that holds `offset`, or of the first one after it."""
        index = bisect_right(self._base_offsets, offset) - 1
        if index < 0:
            return 0
        return index if self._batches[index].next_offset > offset else index + 1
