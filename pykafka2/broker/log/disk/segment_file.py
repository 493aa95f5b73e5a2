"""A segment in a file, with its sparse indexes. Kafka's LogSegment and FileRecords.

Batches are read with pread where they are; memory holds no record and no index. A batch gets an index entry
once `index.interval.bytes` have been appended since the last one, so a search reads at most that many bytes
of headers. The batch after each read is remembered, because most reads continue one. Access requires the
cluster's lock.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from struct import Struct
from typing import Final

from pykafka2.broker.log.disk.batch_file import batch_size, batches_in, places, too_short
from pykafka2.broker.log.disk.index_files import OFFSET_ENTRY, TIME_ENTRY, SparseIndex, TransactionIndexFile
from pykafka2.broker.log.disk.volume import DELETED, Volume
from pykafka2.broker.log.file_system import File, FileRegion
from pykafka2.broker.log.segment import NO_TIMESTAMP
from pykafka2.broker.log.transaction_index import AbortedTransaction
from pykafka2.errors import KafkaStorageError
from pykafka2.records.batch import MAX_TIMESTAMP_AT, RecordBatch

TIMESTAMP: Final = Struct(">q")
CHUNK_BYTES: Final = 1 << 20
REMEMBERED: Final = 64
"""Positions of the batches after recent reads."""

LOG: Final = ".log"
OFFSET_INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
TRANSACTION_INDEX: Final = ".txnindex"
CLEANED: Final = ".cleaned"


def file_name(base_offset: int, kind: str, suffix: str = "") -> str:
    """Return the name of a segment's file, such as 00000000000000000042.log."""
    return f"{base_offset:020d}{kind}{suffix}"


class DiskSegment:
    """Batches in `directory`/NNN.log. Created by `create`, or by recovery.py from existing files."""

    def __init__(self, volume: Volume, directory: str, base_offset: int, suffix: str = "") -> None:
        """Describe an empty segment; its files are made by `create` or opened by recovery.py."""
        self.volume = volume
        self.directory = directory
        self.settings = volume.settings
        self.base_offset = base_offset
        self.suffix = suffix
        self.size_bytes = 0
        self.flushed_bytes = 0
        """The size at the last flush."""
        self.end_offset = base_offset
        self.first_at: int | None = NO_TIMESTAMP
        """The maximum timestamp of the first batch; None if it has not been read."""
        self.latest = (NO_TIMESTAMP, base_offset)
        """The largest timestamp, and the last offset of the first batch with it."""
        files = volume.files
        self.log = files.open(self.path_of(LOG))
        self.offsets = SparseIndex(files.open(self.path_of(OFFSET_INDEX)), OFFSET_ENTRY)
        self.times = SparseIndex(files.open(self.path_of(TIME_INDEX)), TIME_ENTRY)
        self.transactions = TransactionIndexFile(files, self.path_of(TRANSACTION_INDEX))
        self.has_gaps = False
        """Whether recovery has found offsets without records, as compaction leaves them."""
        self._unindexed = 0  # bytes since the last index entry
        self._known: OrderedDict[int, int] = OrderedDict()  # offset -> position of its batch

    @classmethod
    def create(cls, volume: Volume, directory: str, base_offset: int, suffix: str = "") -> DiskSegment:
        """Create the files of an empty segment; replace existing ones."""
        segment = cls(volume, directory, base_offset, suffix)
        try:
            for kind in (LOG, OFFSET_INDEX, TIME_INDEX):
                volume.files.open(segment.path_of(kind), creates=True).close()
            if volume.files.exists(segment.path_of(TRANSACTION_INDEX)):
                volume.files.remove(segment.path_of(TRANSACTION_INDEX))
        except OSError as error:
            raise volume.fail(error, f"creating {segment.path_of(LOG)}") from error
        return segment

    def __repr__(self) -> str:
        return f"<segment {self.path_of(LOG)}, {self.size_bytes} bytes, offsets to {self.end_offset}>"

    def path_of(self, kind: str) -> str:
        return f"{self.directory}/{file_name(self.base_offset, kind, self.suffix)}"

    @property
    def next_offset(self) -> int:
        return self.end_offset

    @property
    def first_timestamp(self) -> int:
        if self.first_at is None:
            try:
                data = self.log.read(MAX_TIMESTAMP_AT, TIMESTAMP.size)
            except OSError as error:
                raise self._unreadable(error) from error
            self.first_at = TIMESTAMP.unpack(data)[0] if len(data) == TIMESTAMP.size else NO_TIMESTAMP
        return self.first_at

    @property
    def largest_timestamp(self) -> int:
        return self.latest[0]

    @property
    def modified_ms(self) -> int:
        try:
            return self.volume.files.modified_ms(self.path_of(LOG))
        except OSError as error:
            raise self._unreadable(error) from error

    def set_modified_ms(self, modified_ms: int) -> None:
        """Change the time of the last write. Raise `OSError`."""
        self.volume.files.set_modified_ms(self.path_of(LOG), modified_ms)

    # ------------------------------------------------------------------ appending

    def append(self, batch: RecordBatch) -> None:
        self.volume.check()
        position, entries = self.size_bytes, (self.offsets.count, self.times.count)
        try:
            self.log.write(position, batch.buffer)
            self.count_batch(len(batch.buffer), batch.last_offset, batch.max_timestamp)
        except OSError as error:
            self._undo(position, entries)
            raise self.volume.fail(error, f"appending to {self.log.path}") from error

    def count_batch(self, size: int, last_offset: int, timestamp: int) -> None:
        """Count a batch that is in the file behind the others, and add it to the indexes if it is time."""
        position = self.size_bytes
        if not position:
            self.first_at = timestamp
        if timestamp > self.latest[0]:
            self.latest = (timestamp, last_offset)
        if self._unindexed > self.settings.index_interval_bytes and not self.is_index_full:
            self.offsets.append(last_offset - self.base_offset, position)
            self._index_time()
            self._unindexed = 0
        self._unindexed += size
        self.size_bytes = position + size
        self.end_offset = last_offset + 1

    @property
    def is_index_full(self) -> bool:
        # The last entry of a time index is for the end of its segment, as in Kafka.
        limit = self.settings.max_index_bytes
        return (
            self.offsets.count >= limit // OFFSET_ENTRY.size
            or self.times.count >= limit // TIME_ENTRY.size - 1
        )

    def _index_time(self) -> None:
        timestamp, offset = self.latest
        if timestamp > (self.times.last[0] if self.times.last else NO_TIMESTAMP):
            self.times.append(timestamp, offset - self.base_offset)

    def _undo(self, position: int, entries: tuple[int, int]) -> None:
        """Remove what a failed append may have written; recovery removes it if this fails, too."""
        self.size_bytes = position
        try:
            self.log.truncate(position)
            self.offsets.resize(entries[0])
            self.times.resize(entries[1])
        except OSError:
            pass

    def add_aborted(self, aborted: AbortedTransaction) -> None:
        try:
            self.transactions.append(aborted)
        except OSError as error:
            raise self.volume.fail(error, f"appending to {self.transactions.path}") from error

    def finish(self) -> None:
        """Complete the indexes of a segment that gets no more records."""
        try:
            if self.size_bytes:
                self._index_time()
        except OSError as error:
            raise self.volume.fail(error, f"appending to {self.times.file.path}") from error

    # ------------------------------------------------------------------ reading

    def read(self, offset: int, upper_offset: int, max_bytes: int, min_one: bool) -> list[RecordBatch]:
        region = self.region(offset, upper_offset, max_bytes, min_one)
        if region is None:
            return []
        try:
            return [batch for _, batch in batches_in(self.log, region.position, region.length)]
        except OSError as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: OSError) -> KafkaStorageError:
        files = self.volume.files
        if isinstance(error, FileNotFoundError) and (
            self.suffix.endswith(DELETED) or not files.exists(self.directory)
        ):
            return KafkaStorageError(f"{self.log.path} was deleted")
        return self.volume.fail(error, f"reading {self.log.path}")

    def region(self, offset: int, upper_offset: int, max_bytes: int, min_one: bool) -> FileRegion | None:
        self.volume.check()
        try:
            return self._region(offset, upper_offset, max_bytes, min_one)
        except OSError as error:
            raise self._unreadable(error) from error

    def _region(self, offset: int, upper_offset: int, max_bytes: int, min_one: bool) -> FileRegion | None:
        start = self.position_of(offset)
        if start >= self.size_bytes:
            return None
        end, next_offset = self.size_bytes, self.end_offset
        if upper_offset < self.end_offset:
            end, next_offset = self._end_below(start, upper_offset)
        if end - start > max_bytes:
            end, next_offset = self._end_within(start, start + max_bytes, min_one)
        if end <= start:
            return None
        self._remember(next_offset, end)
        return FileRegion(self.log, start, end - start, next_offset)

    def position_of(self, offset: int) -> int:
        """Return the position of the batch that contains `offset`, or of the first one after it."""
        known = self._known.get(offset)
        if known is not None:
            return known
        if offset >= self.end_offset:
            return self.size_bytes
        entry = self.offsets.floor(offset - self.base_offset)
        for position, base_offset, _, last_delta in self._places(entry[1] if entry else 0):
            if base_offset + last_delta >= offset:
                return position
        return self.size_bytes

    def _end_below(self, start: int, upper_offset: int) -> tuple[int, int]:
        """Return the end of the batches that start below `upper_offset`, and the offset there."""
        position = self.position_of(upper_offset)
        for at, base_offset, size, last_delta in self._places(position):
            if base_offset >= upper_offset:
                return at, base_offset
            if at == position:
                after = base_offset + last_delta + 1  # a batch across the limit is read as a whole
                return max(at + size, start), after
        return self.size_bytes, self.end_offset

    def _end_within(self, start: int, limit: int, min_one: bool) -> tuple[int, int]:
        """Return the end of the last whole batch up to position `limit`, and the offset there."""
        entry = self.offsets.floor(limit, field=1)
        position = max(start, entry[1] if entry else 0)
        end, next_offset = position, -1
        for at, base_offset, size, last_delta in self._places(position):
            if at + size > limit and not (min_one and at == start):
                return at, base_offset
            end, next_offset = at + size, base_offset + last_delta + 1
            if end >= limit:
                break
        return end, next_offset

    def _remember(self, offset: int, position: int) -> None:
        self._known[offset] = position
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    def _places(self, position: int) -> Iterator[tuple[int, int, int, int]]:
        return places(self.log, position, self.size_bytes)

    def read_tail(self, position: int) -> tuple[int, int, int]:
        """Read the headers from here on. Return the offset and position after the last batch.

        And the bytes without an index entry, of the batches after an entry at `position`.
        """
        end_offset, end = self.base_offset, position
        for at, base_offset, size, last_delta in self._places(position):
            if at + size > self.size_bytes:
                break
            end_offset, end = base_offset + last_delta + 1, at + size
        return end_offset, end, end - position

    def set_unindexed(self, size: int) -> None:
        """Set the bytes since the last index entry."""
        self._unindexed = size

    def reset(self) -> None:
        """Make the segment appear empty, before recovery adds its batches. Raise `OSError`."""
        self.size_bytes = self._unindexed = 0
        self.end_offset = self.base_offset
        self.first_at, self.latest = NO_TIMESTAMP, (NO_TIMESTAMP, self.base_offset)
        self._known.clear()
        self.offsets.resize(0)
        self.times.resize(0)

    def iterate(self, offset: int = 0) -> Iterator[RecordBatch]:
        try:
            yield from self._iterate(offset)
        except OSError as error:
            raise self._unreadable(error) from error

    def _iterate(self, offset: int) -> Iterator[RecordBatch]:
        position, size = self.position_of(offset), CHUNK_BYTES
        while position < self.size_bytes:
            end = position
            for end, batch in batches_in(self.log, position, min(size, self.size_bytes - position)):
                if end > self.size_bytes:
                    return  # truncated meanwhile
                yield batch
            needed = CHUNK_BYTES
            if end == position:  # a batch larger than what was read
                needed = batch_size(self.log, position)
                if position + needed > self.size_bytes:
                    return
                if needed <= size:
                    raise too_short(self.log, position)
            position, size = end, needed

    def offset_before(self, timestamp: int) -> int:
        try:
            entry = self.times.floor(timestamp - 1)
        except OSError as error:
            raise self._unreadable(error) from error
        return self.base_offset + (entry[1] if entry else 0)

    # ------------------------------------------------------------------ dropping

    def truncate_to(self, end_offset: int) -> None:
        if end_offset >= self.end_offset:
            return
        try:
            self.cut(self.position_of(end_offset))
            aborted = [one for one in self.transactions.read() if one.last_offset < end_offset]
            self.transactions.replace(aborted)
        except OSError as error:
            raise self.volume.fail(error, f"truncating {self.log.path}") from error

    def cut(self, position: int) -> None:
        """Cut file and indexes at the position of a batch. Raise `OSError`."""
        self._known.clear()
        # Indexes first: after a crash in between, none points behind the end of the file.
        self.offsets.truncate_below(position, field=1)
        last = self.offsets.last
        self.size_bytes = position
        self.end_offset = self.base_offset
        self._unindexed = 0
        for _, base_offset, size, last_delta in self._places(last[1] if last else 0):
            self.end_offset = base_offset + last_delta + 1
            self._unindexed += size
        self.times.truncate_below(self.end_offset - self.base_offset, field=1)
        latest = self.times.last
        self.latest = (
            (NO_TIMESTAMP, self.base_offset) if latest is None else (latest[0], latest[1] + self.base_offset)
        )
        if not position:
            self.first_at = NO_TIMESTAMP
        # Batches after the last entry of the time index can have later timestamps.
        for batch in self.iterate(self.latest[1] + 1 if latest else self.base_offset):
            if batch.max_timestamp > self.latest[0]:
                self.latest = (batch.max_timestamp, batch.last_offset)
        self.log.truncate(position)
        if position < self.flushed_bytes:
            self.log.flush()  # a crash of the machine would restore what was cut
            self.flushed_bytes = position

    def delete(self) -> None:
        """Rename the files; they are removed after file.delete.delay.ms, as readers may hold regions."""
        if self.suffix == CLEANED:
            for path in self.close():
                with suppress(OSError):  # the log has moved, or the file is removed at the next start
                    self.volume.files.remove(path)
            return
        try:
            for path in self.rename(self.suffix + DELETED):
                self.volume.remove_later(path, self.settings.delete_delay)
            self.close()  # an open file keeps its blocks after the removal
        except OSError as error:
            raise self.volume.fail(error, f"deleting {self.log.path}") from error

    def rename(self, suffix: str) -> list[str]:
        """Give the files another suffix. Return their paths. Raise `OSError`."""
        renamed = []
        names = [self.path_of(kind) for kind in self._kinds()]
        self.suffix = suffix
        for path, kind in zip(names, self._kinds(), strict=True):
            self.volume.files.rename(path, self.path_of(kind))
            renamed.append(self.path_of(kind))
        self._set_paths()
        return renamed

    def move_to(self, volume: Volume, directory: str) -> None:
        """Follow a directory that has another path."""
        self.close()
        self.volume, self.directory = volume, directory
        self._set_paths()

    def _set_paths(self) -> None:
        for file, kind in self._open_files():
            file.path = self.path_of(kind)
        self.transactions.path = self.path_of(TRANSACTION_INDEX)

    def close(self) -> list[str]:
        """Close the files, which open themselves again if they are used. Return their paths."""
        for file, _ in self._open_files():
            file.close()
        return [self.path_of(kind) for kind in self._kinds()]

    def flush(self) -> None:
        """Force the files to the disk."""
        for flush in self.later_flushes():
            try:
                flush()
            except OSError as error:
                raise self.volume.fail(error, f"flushing {self.log.path}") from error
        self.flushed_bytes = self.size_bytes

    def later_flushes(self) -> list[Callable[[], None]]:
        """Return functions that flush the files from any thread."""
        flushes = [self.log.later_flush()]
        flushes += [index.file.later_flush() for index in (self.offsets, self.times) if index.count]
        if self.transactions.size_bytes:
            flushes.append(self.transactions.later_flush())
        return flushes

    def _kinds(self) -> list[str]:
        return [LOG, OFFSET_INDEX, TIME_INDEX, *([TRANSACTION_INDEX] if self.transactions.size_bytes else [])]

    def _open_files(self) -> list[tuple[File, str]]:
        return [(self.log, LOG), (self.offsets.file, OFFSET_INDEX), (self.times.file, TIME_INDEX)]
