"""One segment of a partition's log: the unit that is rolled, and deleted by retention.

`Segment` separates the log's rules from the storage: `MemorySegment` stores batches as received,
`DiskSegment` (disk/segment_file.py) in a file. Batch offsets only grow; segments.py decides when to roll.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Protocol

from pykafka2.broker.log.file_system import FileRegion
from pykafka2.broker.log.transaction_index import AbortedTransaction
from pykafka2.records.batch import RecordBatch

NO_TIMESTAMP = -1


class Segment(Protocol):
    """Batches in offset order from `base_offset`.

    `first_timestamp` is the maximum timestamp of the first batch (in milliseconds), `largest_timestamp` that
    of all batches; both are -1 if there is none.
    """

    base_offset: int
    size_bytes: int

    @property
    def first_timestamp(self) -> int: ...

    @property
    def largest_timestamp(self) -> int: ...

    @property
    def modified_ms(self) -> int | None:
        """The time of the last write to the file, in milliseconds; None in memory.

        Raises `KafkaStorageError`.
        """
        ...

    @property
    def next_offset(self) -> int:
        """The offset after the last batch; `base_offset` if there is none."""
        ...

    @property
    def is_index_full(self) -> bool:
        """Whether an index has no room for another entry (segment.index.bytes)."""
        ...

    def append(self, batch: RecordBatch) -> None:
        """Raise `KafkaStorageError` if the disk fails; then nothing is appended."""
        ...

    def add_aborted(self, aborted: AbortedTransaction) -> None:
        """Add a transaction whose marker is in this segment to the segment's transaction index."""
        ...

    def read(self, offset: int, upper_offset: int, max_bytes: int, min_one: bool) -> list[RecordBatch]:
        """Read batches from the one that contains `offset`, up to `upper_offset`.

        Batches that start at or after `upper_offset` are not read.

        Whole batches only, at most `max_bytes` in total; with `min_one` the first one is returned whatever
        its size.
        """
        ...

    def region(self, offset: int, upper_offset: int, max_bytes: int, min_one: bool) -> FileRegion | None:
        """Return where the batches that `read` would return are in a file; None in memory."""
        ...

    def iterate(self, offset: int = 0) -> Iterator[RecordBatch]:
        """Iterate over batches from the one that contains `offset`, including batches appended meanwhile."""
        ...

    def offset_before(self, timestamp: int) -> int:
        """Return an offset before which no batch has this timestamp or a later one."""
        ...

    def truncate_to(self, end_offset: int) -> None:
        """Drop every batch with a record at or after `end_offset`."""
        ...

    def delete(self) -> None:
        """Delete the segment, which is no longer part of a log."""
        ...


class MemorySegment:
    """Stores batches in a list. Their bytes are immutable and shared with readers."""

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

    @property
    def modified_ms(self) -> None:
        return None

    @property
    def is_index_full(self) -> bool:
        return False

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

    def region(self, offset: int, upper_offset: int, max_bytes: int, min_one: bool) -> None:
        return None

    def iterate(self, offset: int = 0) -> Iterator[RecordBatch]:
        # Iterate by index without a copy: batches appended meanwhile are included, and truncation ends the
        # loop.
        index = self._index_of(offset)
        while index < len(self._batches):
            yield self._batches[index]
            index += 1

    def offset_before(self, timestamp: int) -> int:
        return self.base_offset

    @property
    def next_offset(self) -> int:
        return self._batches[-1].next_offset if self._batches else self.base_offset

    def add_aborted(self, aborted: AbortedTransaction) -> None:
        """The log's own index is enough in memory."""

    def truncate_to(self, end_offset: int) -> None:
        before = len(self._batches)
        while self._batches and self._batches[-1].next_offset > end_offset:
            self.size_bytes -= len(self._batches.pop().buffer)
            self._base_offsets.pop()
        if len(self._batches) < before:
            timestamps = [batch.max_timestamp for batch in self._batches]
            self.largest_timestamp = max(timestamps, default=NO_TIMESTAMP)
            self.first_timestamp = timestamps[0] if timestamps else NO_TIMESTAMP

    def delete(self) -> None:
        self._batches.clear()
        self._base_offsets.clear()

    def _index_of(self, offset: int) -> int:
        """Return the index of the batch that contains `offset`, or of the first one after it."""
        index = bisect_right(self._base_offsets, offset) - 1
        if index < 0:
            return 0
        return index if self._batches[index].next_offset > offset else index + 1
