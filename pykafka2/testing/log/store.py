"""Where a partition's batches are kept: the seam between the log's rules and memory or disk.

`MemoryStore` holds the bytes as they came; step 7 puts segments on disk behind the same protocol.  Offsets of
batches only grow; the rules (what may be appended, what may be read) are partition_log.py's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Protocol

from pykafka2.records.batch import RecordBatch


class BatchStore(Protocol):
    """Batches in the order of their offsets."""

    size_bytes: int

    def append(self, batch: RecordBatch) -> None: ...

    def read(self, offset: int, upper_offset: int, max_bytes: int, min_one: bool) -> list[RecordBatch]:
        """Batches from the one that holds `offset` on, none that starts at or after `upper_offset`.

        Whole batches only, of at most `max_bytes` together; with `min_one` the first comes whatever its size.
        """
        ...

    def iterate(self, offset: int = 0) -> Iterator[RecordBatch]:
        """Batches from the one that holds `offset` on."""
        ...

    def last(self) -> RecordBatch | None: ...

    def truncate_to(self, end_offset: int) -> None:
        """Drop every batch with a record at or after `end_offset`."""
        ...

    def drop_before(self, start_offset: int) -> None:
        """Drop every batch whose records are all before `start_offset`."""
        ...

    def clear(self) -> None: ...


class MemoryStore:
    """Batches in a list.  Bytes are immutable and shared by whoever reads them."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self._batches: list[RecordBatch] = []
        self._base_offsets: list[int] = []

    def append(self, batch: RecordBatch) -> None:
        self._batches.append(batch)
        self._base_offsets.append(batch.base_offset)
        self.size_bytes += len(batch.buffer)

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
        while self._batches and self._batches[-1].next_offset > end_offset:
            self.size_bytes -= len(self._batches.pop().buffer)
            self._base_offsets.pop()

    def drop_before(self, start_offset: int) -> None:
        count = 0
        while count < len(self._batches) and self._batches[count].next_offset <= start_offset:
            self.size_bytes -= len(self._batches[count].buffer)
            count += 1
        del self._batches[:count]
        del self._base_offsets[:count]

    def clear(self) -> None:
        self._batches.clear()
        self._base_offsets.clear()
        self.size_bytes = 0

    def _index_of(self, offset: int) -> int:
        """Of the batch that holds `offset`, or of the first one after it."""
        index = bisect_right(self._base_offsets, offset) - 1
        if index < 0:
            return 0
        return index if self._batches[index].next_offset > offset else index + 1
