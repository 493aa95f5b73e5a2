"""The segments of one log, rolled by size and by the time range of their records.

A log always has an active segment, the last one, which receives appends; retention deletes whole segments
from the front (retention.py). Kafka's LocalLog and LogSegments. Access requires the cluster's lock.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter, is_not
from zlib import crc32

import attrs

from pykafka2.broker.log.file_system import FileRegion
from pykafka2.broker.log.segment import NO_TIMESTAMP, MemorySegment, Segment
from pykafka2.records.batch import RecordBatch

NewSegment = Callable[[int], Segment]
"""Callback: base offset -> an empty segment."""

MAX_OFFSET_SPAN = 2**31 - 1
"""Kafka's files store offsets in a segment as 31 bits relative to its base."""


@attrs.define(frozen=True)
class RollLimits:
    """Limits of the active segment: segment.bytes, segment.ms, and segment.jitter.ms that shortens it."""

    max_bytes: int = 1 << 30
    max_age_ms: int = 604_800_000
    max_jitter_ms: int = 0
    min_age_ms: int = attrs.field(init=False)
    """The time range of a segment with the longest jitter."""

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "min_age_ms", self.max_age_ms - min(self.max_jitter_ms, self.max_age_ms))

    def max_age_of(self, base_offset: int, salt: int) -> int:
        """Return the time range of a segment. Its jitter is random in Kafka, and a checksum here."""
        limit = min(self.max_jitter_ms, self.max_age_ms)
        if not limit:
            return self.max_age_ms
        return self.max_age_ms - crc32(b"%d" % base_offset, salt) % limit


class Segments:
    """The segments of one log in offset order."""

    def __init__(
        self, segments: Sequence[Segment], new_segment: NewSegment = MemorySegment, salt: int = 0
    ) -> None:
        """`segments` has at least one, in offset order. `salt` distinguishes the jitter of logs."""
        self.limits = RollLimits()
        self._salt = salt
        self._new_segment = new_segment
        self._segments = [*segments]
        self.size_bytes = sum(segment.size_bytes for segment in segments)

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    @property
    def active(self) -> Segment:
        return self._segments[-1]

    @property
    def base_offset(self) -> int:
        """The base offset of the oldest segment."""
        return self._segments[0].base_offset

    @property
    def _max_age_ms(self) -> int:
        return self.limits.max_age_of(self.active.base_offset, self._salt)

    # ------------------------------------------------------------------ appending

    def append(self, batch: RecordBatch) -> None:
        self._segments[-1].append(batch)
        self.size_bytes += len(batch.buffer)

    def is_full(self, batch: RecordBatch) -> bool:
        """Return whether this batch needs a new segment (Kafka's LogSegment.shouldRoll)."""
        active = self._segments[-1]
        if not active.size_bytes:
            return False
        if active.size_bytes + len(batch.buffer) > self.limits.max_bytes:
            return True
        # Compare record timestamps, so that a replayed log rolls at the same places.
        age_ms = batch.max_timestamp - active.first_timestamp
        has_times = active.first_timestamp >= 0 and batch.max_timestamp >= 0
        if has_times and age_ms > self.limits.min_age_ms and age_ms > self._max_age_ms:
            return True
        if active.is_index_full:
            return True
        return batch.last_offset - active.base_offset > MAX_OFFSET_SPAN

    def roll(self, base_offset: int) -> bool:
        """Start a new segment at the log's end. Return False if the active one is empty."""
        if not self._segments[-1].size_bytes:
            return False
        self._segments.append(self._new_segment(base_offset))
        return True

    # ------------------------------------------------------------------ reading

    def read(self, offset: int, upper_offset: int, max_bytes: int, min_one: bool) -> list[RecordBatch]:
        """Read batches like `Segment.read`; a read ends with its segment, as in Kafka."""
        for index in range(self._index_of(offset), len(self._segments)):
            segment = self._segments[index]
            if segment.base_offset >= upper_offset:
                break
            if segment.size_bytes and segment.next_offset > offset:
                return segment.read(offset, upper_offset, max_bytes, min_one)
        return []

    def region(self, offset: int, upper_offset: int, max_bytes: int, min_one: bool) -> FileRegion | None:
        """Return where the batches that `read` would return are in a file; None if nowhere."""
        for index in range(self._index_of(offset), len(self._segments)):
            segment = self._segments[index]
            if segment.base_offset >= upper_offset:
                break
            if segment.size_bytes and segment.next_offset > offset:
                return segment.region(offset, upper_offset, max_bytes, min_one)
        return None

    def iterate(self, offset: int = 0) -> Iterator[RecordBatch]:
        """Iterate over batches from the one that contains `offset`."""
        index = self._index_of(offset)
        while index < len(self._segments):
            yield from self._segments[index].iterate(offset)
            index += 1

    def base_of(self, offset: int) -> int:
        """Return the base offset of the segment that contains, or would contain, `offset`."""
        return self._segments[self._index_of(offset)].base_offset

    # ------------------------------------------------------------------ dropping

    def truncate_to(self, end_offset: int) -> int:
        """Drop every batch with a record at or after `end_offset`. Return the number of lost segments."""
        count = len(self._segments)
        while len(self._segments) > 1 and self._segments[-1].base_offset >= end_offset:
            self.size_bytes -= self._segments[-1].size_bytes
            self._segments.pop().delete()
        active = self._segments[-1]
        before = active.size_bytes
        active.truncate_to(end_offset)
        self.size_bytes += active.size_bytes - before
        return count - len(self._segments)

    def first_after(self, offset: int) -> int:
        """Return the number of segments that end before `offset`, without the active one."""
        count = 0
        while count + 1 < len(self._segments) and self._segments[count + 1].base_offset <= offset:
            count += 1
        return count

    def drop_first(self, count: int) -> list[Segment]:
        """Remove and return the oldest segments; the caller deletes them. The active one stays."""
        dropped = self._segments[: min(count, len(self._segments) - 1)]
        del self._segments[: len(dropped)]
        self.size_bytes -= sum(segment.size_bytes for segment in dropped)
        return dropped

    def find(self, segments: Sequence[Segment]) -> int | None:
        """Return the index of rolled segments, or None unless all of them still exist."""
        current = self._segments[:-1]
        first = next((at for at, segment in enumerate(current) if segment is segments[0]), None)
        if first is None:
            return None
        end = first + len(segments)
        if len(current) < end or any(map(is_not, current[first:end], segments)):
            return None
        return first

    def replace(self, first: int, replaced: Sequence[Segment], segments: Sequence[Segment]) -> None:
        """Replace the segments from index `first` on by cleaned ones."""
        self._segments[first : first + len(replaced)] = segments
        self.size_bytes += sum(segment.size_bytes for segment in segments)
        self.size_bytes -= sum(segment.size_bytes for segment in replaced)

    def truncate_fully_and_start_at(self, base_offset: int) -> None:
        """Drop everything; the next batch starts at or after `base_offset`."""
        for segment in self._segments:
            segment.delete()
        self._segments = [self._new_segment(base_offset)]
        self.size_bytes = 0

    def _index_of(self, offset: int) -> int:
        """Return the index of the segment that contains `offset`, or of the first one."""
        segments = self._segments
        if offset >= segments[-1].base_offset:
            return len(segments) - 1  # the usual case
        return max(bisect_right(segments, offset, key=attrgetter("base_offset")) - 1, 0)


def timestamp_of(segment: Segment, otherwise: int) -> int:
    """Return the largest timestamp in a segment, or the time of its file if the records have none.

    Without a file returns `otherwise`. Kafka's LogSegment.largestTimestamp. Raise `KafkaStorageError`.
    """
    if segment.largest_timestamp != NO_TIMESTAMP:
        return segment.largest_timestamp
    modified_ms = segment.modified_ms
    return otherwise if modified_ms is None else modified_ms
