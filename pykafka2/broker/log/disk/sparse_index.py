"""The sparse offset and time index of a segment, read by binary search in the file.

Entries rise in both fields. Only the last entry is in memory: an index of 10 GiB of logs would take 50 MB.
The formats are in index_files.py. Kafka's OffsetIndex and TimeIndex.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from pykafka2.broker.log.disk.file_system import File

OFFSET_ENTRY: Final = Struct(">ii")
"""Offset - base offset, position."""
TIME_ENTRY: Final = Struct(">qi")
"""Timestamp, offset - base offset."""


class SparseIndex:
    """Entries of two integers in a file, which both only grow."""

    __slots__ = ("_layout", "count", "file", "last")

    def __init__(self, file: File, layout: Struct, size_bytes: int = 0) -> None:
        """`size_bytes` is the size of an existing file; a partial entry at its end is ignored."""
        self.file = file
        self._layout = layout
        self.count = size_bytes // layout.size
        self.last: tuple[int, int] | None = self.entry(self.count - 1) if self.count else None

    def entry(self, number: int) -> tuple[int, int]:
        size = self._layout.size
        first, second = self._layout.unpack(self.file.read(number * size, size))
        return first, second

    def append(self, first: int, second: int) -> None:
        """Adds an entry. The file changes first, so an `OSError` leaves the index as it was."""
        self.file.write(self.count * self._layout.size, self._layout.pack(first, second))
        self.last = (first, second)
        self.count += 1

    def floor(self, value: int, field: int = 0) -> tuple[int, int] | None:
        """Returns the last entry whose field is at most `value`, or None."""
        last = self.last
        if last is None:
            return None
        if last[field] <= value:
            return last
        low, high, found = 0, self.count - 1, None
        while low < high:
            middle = (low + high) // 2
            entry = self.entry(middle)
            if entry[field] <= value:
                low, found = middle + 1, entry
            else:
                high = middle
        return found

    def truncate_below(self, value: int, field: int) -> None:
        """Drops the entries whose field is `value` or more."""
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if self.entry(middle)[field] < value:
                low = middle + 1
            else:
                high = middle
        self.resize(low)

    def resize(self, count: int) -> None:
        """Keeps the first `count` entries."""
        self.file.truncate(count * self._layout.size)
        self.count = count
        self.last = self.entry(count - 1) if count else None
