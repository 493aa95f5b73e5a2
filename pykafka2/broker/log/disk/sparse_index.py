"""The sparse offset and time index of a segment, read by binary search in the file.

Entries rise in both fields. Only the last entry and the block of the last search are in memory: the indexes
of 10 GiB of logs would take 50 MB. The formats are in index_files.py. Kafka's OffsetIndex and TimeIndex.
"""

from __future__ import annotations

from bisect import bisect_right
from struct import Struct
from typing import Final

from pykafka2.broker.log.disk.file_system import File

OFFSET_ENTRY: Final = Struct(">ii")
"""Offset - base offset, position."""
TIME_ENTRY: Final = Struct(">qi")
"""Timestamp, offset - base offset."""
BLOCK_ENTRIES: Final = 512
"""Entries that a search reads at once. Most searches follow another one in the same block."""


class SparseIndex:
    """Entries of two integers in a file, which both only grow."""

    __slots__ = ("_block", "_block_start", "_held", "_layout", "count", "file", "last")

    def __init__(self, file: File, layout: Struct, size_bytes: int = 0) -> None:
        """`size_bytes` is the size of an existing file; a partial entry at its end is ignored."""
        self.file = file
        self._layout = layout
        self._block = b""
        self._block_start = 0  # the number of its first entry
        self._held: bytearray | None = None
        self.count = size_bytes // layout.size
        self.last: tuple[int, int] | None = self.entry(self.count - 1) if self.count else None

    def entry(self, number: int) -> tuple[int, int]:
        size = self._layout.size
        first, second = self._layout.unpack(self.file.read(number * size, size))
        return first, second

    def append(self, first: int, second: int) -> None:
        """Add an entry. The file changes first, so an `OSError` leaves the index as it was."""
        entry = self._layout.pack(first, second)
        if self._held is None:
            self.file.write(self.count * self._layout.size, entry)
        else:
            self._held += entry
        self.last = (first, second)
        self.count += 1

    def hold(self) -> None:
        """Keep new entries in memory until `write_held`; nothing but `append` can be called in between."""
        self._held = bytearray()

    def write_held(self) -> None:
        """Write the new entries at once. Raise `OSError`."""
        held, self._held = self._held, None
        if held:
            self.file.write(self.count * self._layout.size - len(held), held)

    def floor(self, value: int, field: int = 0) -> tuple[int, int] | None:
        """Return the last entry whose field is at most `value`, or None."""
        last = self.last
        if last is None:
            return None
        if last[field] <= value:
            return last
        number = self._count_up_to(value, field) - 1
        return None if number < 0 else self._in_block(number - self._block_start)

    def truncate_below(self, value: int, field: int) -> None:
        """Drop the entries whose field is `value` or more."""
        self.resize(self._count_up_to(value - 1, field))

    def resize(self, count: int) -> None:
        """Keep the first `count` entries."""
        self.file.truncate(count * self._layout.size)
        self._block = b""
        self.count = count
        self.last = self.entry(count - 1) if count else None

    def _count_up_to(self, value: int, field: int) -> int:
        """Return the number of entries whose field is at most `value`; the last one is in the block."""
        if not self._covers(value, field):
            self._read_block(value, field)
        block, size, unpack_from = self._block, self._layout.size, self._layout.unpack_from
        positions = range(0, len(block) // size * size, size)
        return self._block_start + bisect_right(
            positions, value, key=lambda position: unpack_from(block, position)[field]
        )

    def _covers(self, value: int, field: int) -> bool:
        """Return whether the entries before and after `value` are in the block."""
        size = len(self._block) // self._layout.size
        return size > 0 and self._in_block(0)[field] <= value < self._in_block(size - 1)[field]

    def _in_block(self, at: int) -> tuple[int, int]:
        first, second = self._layout.unpack_from(self._block, at * self._layout.size)
        return first, second

    def _read_block(self, value: int, field: int) -> None:
        """Read the last block that starts with at most `value`, or the first one."""
        low, high = 0, max(self.count - 1, 0) // BLOCK_ENTRIES
        while low < high:
            middle = (low + high + 1) // 2
            if self.entry(middle * BLOCK_ENTRIES)[field] <= value:
                low = middle
            else:
                high = middle - 1
        size = self._layout.size
        self._block_start = low * BLOCK_ENTRIES
        entries = min(self.count - self._block_start, BLOCK_ENTRIES)
        self._block = self.file.read(self._block_start * size, entries * size)
