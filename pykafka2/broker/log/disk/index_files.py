"""The binary files beside a segment: offset, time and transaction index, and the producer snapshot.

| file | entry | source |
|---|---|---|
| `.index` | offset - base offset (int32), position in the segment (int32) | OffsetIndex |
| `.timeindex` | timestamp (int64), offset - base offset (int32) | TimeIndex |
| `.txnindex` | version 0 (int16), producer id, first, last and last stable offset (int64) | AbortedTxn |
| `.snapshot` | version 1 (int16), CRC-32C (uint32), count (int32), producers | ProducerStateManager |

Kafka allocates the indexes of its active segment in advance. After its crash zeros follow the last entry;
they do not fit the segment, so recovery.py rebuilds the indexes. A `SparseIndex` keeps only the last entry
and the block of the last search in memory: the indexes of 10 GiB of logs would take 50 MB. A transaction
index without entries has no file.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from struct import Struct
from typing import Final

import attrs

from pykafka2.broker.log.file_system import File, FileSystem
from pykafka2.broker.log.transaction_index import AbortedTransaction
from pykafka2.errors import CorruptData
from pykafka2.records.batch import crc32c

INDEX_VERSION = 0
SNAPSHOT_VERSION = 1

_TRANSACTION_ENTRY = Struct(">hqqqq")
_SNAPSHOT_HEADER = Struct(">hI")
_COUNT = Struct(">i")
_PRODUCER = Struct(">qhiqiqiq")


@attrs.frozen
class ProducerEntry:
    """A producer's last batch and the first offset of its open transaction; -1 if unknown."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    first_transaction_offset: int


def encode_transaction_index(entries: Iterable[AbortedTransaction]) -> bytes:
    return b"".join(
        _TRANSACTION_ENTRY.pack(
            INDEX_VERSION,
            aborted.producer_id,
            aborted.first_offset,
            aborted.last_offset,
            aborted.last_stable_offset,
        )
        for aborted in entries
    )


def decode_transaction_index(data: bytes, where: str) -> list[AbortedTransaction]:
    """Raise `CorruptData` for a partial entry, another version, or offsets that do not rise."""
    if len(data) % _TRANSACTION_ENTRY.size:
        raise CorruptData(f"{where}: {len(data)} bytes are not a whole number of entries")
    entries: list[AbortedTransaction] = []
    for version, *fields in _TRANSACTION_ENTRY.iter_unpack(data):
        aborted = AbortedTransaction(*fields)
        if version != INDEX_VERSION:
            raise CorruptData(f"{where}: version {version} is not {INDEX_VERSION}")
        if entries and aborted.last_offset <= entries[-1].last_offset:
            raise CorruptData(f"{where}: the entry of offset {aborted.last_offset} is not in order")
        entries.append(aborted)
    return entries


def encode_producer_snapshot(producers: Sequence[ProducerEntry]) -> bytes:
    body = _COUNT.pack(len(producers)) + b"".join(
        _PRODUCER.pack(*attrs.astuple(producer)) for producer in producers
    )
    return _SNAPSHOT_HEADER.pack(SNAPSHOT_VERSION, crc32c(body)) + body


def decode_producer_snapshot(data: bytes, where: str) -> list[ProducerEntry]:
    """Raise `CorruptData` for another version, a wrong checksum or a wrong length."""
    if len(data) < _SNAPSHOT_HEADER.size + _COUNT.size:
        raise CorruptData(f"{where}: {len(data)} bytes are too few for a producer snapshot")
    version, checksum = _SNAPSHOT_HEADER.unpack_from(data)
    if version != SNAPSHOT_VERSION:
        raise CorruptData(f"{where}: version {version} is not {SNAPSHOT_VERSION}")
    body = data[_SNAPSHOT_HEADER.size :]
    if crc32c(body) != checksum:
        raise CorruptData(f"{where}: the checksum does not match")
    (count,) = _COUNT.unpack_from(body)
    if count < 0 or len(body) != _COUNT.size + count * _PRODUCER.size:
        raise CorruptData(f"{where}: {len(data)} bytes do not hold {count} producers")
    return [ProducerEntry(*fields) for fields in _PRODUCER.iter_unpack(body[_COUNT.size :])]


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


class TransactionIndexFile:
    """The aborted transactions in a file, in the order of their markers. All methods raise `OSError`."""

    __slots__ = ("_files", "path", "size_bytes")

    def __init__(self, files: FileSystem, path: str) -> None:
        """Describe a missing file; `open` finds an existing one."""
        self._files = files
        self.path = path
        self.size_bytes = 0

    def open(self) -> None:
        """Take over what is in the file."""
        self.size_bytes = self._files.size(self.path) if self._files.exists(self.path) else 0

    def read(self) -> list[AbortedTransaction]:
        """Return all entries. Raise `CorruptData`."""
        if not self.size_bytes:
            return []
        return decode_transaction_index(self._files.read(self.path), self.path)

    def append(self, aborted: AbortedTransaction) -> None:
        file = self._files.open(self.path, creates=not self.size_bytes)
        data = encode_transaction_index([aborted])
        file.write(self.size_bytes, data)
        file.close()
        self.size_bytes += len(data)

    def replace(self, aborted: Sequence[AbortedTransaction]) -> None:
        """Replace all entries."""
        data = encode_transaction_index(aborted)
        if data:
            self._files.replace(self.path, data)
        elif self.size_bytes:
            self._files.remove(self.path)
        self.size_bytes = len(data)

    def later_flush(self) -> Callable[[], None]:
        """Return a function that flushes the file from any thread."""
        file = self._files.open(self.path)
        flush = file.later_flush()
        file.close()
        return flush
