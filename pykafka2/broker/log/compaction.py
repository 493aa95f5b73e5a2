"""Compaction of rolled segments, which keeps the latest record of each key. Kafka's Cleaner of 4.3.

Sans-IO and independent of the storage: reads `Segment`s and writes new ones, in steps of a few milliseconds.
It builds an offset map from the keys of the dirty segments, then rewrites all segments up to the map's end.
Offsets never change. `log_cleaner.py` decides which segments are compacted, and when.

Records of aborted transactions are removed. A marker stays until no batch of its transaction is left.

Kept records are copied as bytes. Their offset and timestamp deltas stay valid, because the batch header keeps
its base offset and timestamp; only a delete horizon changes the base timestamp (KIP-534).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final

import attrs

from pykafka2.broker.log.batch import with_records, without_records
from pykafka2.broker.log.segment import MemorySegment, Segment
from pykafka2.broker.log.segments import MAX_OFFSET_SPAN, NewSegment
from pykafka2.broker.log.transaction_index import AbortedTransaction
from pykafka2.compression import MAX_OUTPUT_BYTES, codec
from pykafka2.compression.steps import Steps
from pykafka2.errors import CorruptData
from pykafka2.records.batch import DELETE_HORIZON_FLAG, HEADER_BYTES, RecordBatch, open_in_steps
from pykafka2.records.varint import MAX_VARLONG_BYTES, read_raw, read_varint, varint
from pykafka2.types import LOG_APPEND_TIME


class CleanedTransactions:
    """Tracks the transactions that are open at the current batch; batches must be read in offset order."""

    __slots__ = ("_aborted", "_committed", "_observed", "_waiting", "kept")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._waiting = deque(sorted(aborted, key=attrgetter("first_offset")))
        self._committed: set[int] = set()
        self._aborted: dict[int, AbortedTransaction] = {}
        self._observed: set[int] = set()
        self.kept: list[AbortedTransaction] = []
        """Aborted transactions that stay in the transaction index."""

    def is_removable(self, batch: RecordBatch) -> bool:
        """Return whether the batch is aborted, or the marker of a transaction without remaining batches."""
        self._begin_up_to(batch.last_offset)
        if batch.is_control:
            return self._is_removable_marker(batch)
        if not batch.is_transactional:
            return False
        if batch.producer_id in self._aborted:
            self._observed.add(batch.producer_id)
            return True
        self._committed.add(batch.producer_id)
        return False

    def _is_removable_marker(self, batch: RecordBatch) -> bool:
        from pykafka2.records.control import read_marker

        if not batch.count:
            return True
        marker = read_marker(batch, check_crcs=False)
        if marker.is_commit:
            was_read = batch.producer_id in self._committed
            self._committed.discard(batch.producer_id)
            return not was_read
        if not marker.is_abort:
            return False
        aborted = self._aborted.pop(batch.producer_id, None)
        if aborted is None:
            return True
        if batch.producer_id not in self._observed:
            return True
        self._observed.discard(batch.producer_id)
        self.kept.append(aborted)
        return False

    def _begin_up_to(self, offset: int) -> None:
        while self._waiting and self._waiting[0].first_offset <= offset:
            aborted = self._waiting.popleft()
            self._aborted.setdefault(aborted.producer_id, aborted)


RawRecord = tuple[int, int, int, int, "bytes | None", bool]
"""Start and end of the record's bytes, offset delta, timestamp delta, key, and whether it has a value."""


def record_slices(body: bytes, count: int, most: int) -> Iterator[list[RawRecord]]:
    """Yield the records of a decompressed batch in lists of at most `most` records.

    Raise `CorruptData` if they are malformed.
    """
    position = 0
    for done in range(0, count, most):
        try:
            records, position = _read(body, position, min(most, count - done))
        except IndexError:
            raise CorruptData(f"the batch ends within a record: {len(body)} bytes, {count} records") from None
        yield records


def _read(body: bytes, position: int, count: int) -> tuple[list[RawRecord], int]:
    """Return the next records and the position after them; varints of one byte are read inline."""
    records: list[RawRecord] = []
    append, end, read = records.append, len(body), read_varint
    for _ in range(count):
        start = position
        raw = body[position]
        if raw < 0x80 and not raw & 1:
            stop = position + 1 + (raw >> 1)
            position += 2
        else:
            length, position = read(body, position)
            if length < 0:
                raise CorruptData(f"a record at byte {start} has length {length}")
            stop = position + length
            position += 1
        if stop > end:
            raise CorruptData(f"the record at byte {start} ends at byte {stop} of {end}")
        raw = body[position]
        if raw < 0x80:
            timestamp_delta = (raw >> 1) ^ -(raw & 1)
            position += 1
        else:
            timestamp_delta, position = read(body, position, MAX_VARLONG_BYTES)
        raw = body[position]
        if raw < 0x80:
            offset_delta = (raw >> 1) ^ -(raw & 1)
            position += 1
        else:
            offset_delta, position = read(body, position)
        raw = body[position]
        if raw < 0x80:
            size = (raw >> 1) ^ -(raw & 1)
            position += 1
        else:
            size, position = read(body, position)
        if size < 0:
            key = None
        else:
            key = body[position : position + size]
            position += size
        raw = body[position]
        if raw < 0x80:
            size = (raw >> 1) ^ -(raw & 1)
            position += 1
        else:
            size, position = read(body, position)
        if position + size > stop:
            raise CorruptData(f"the fields of the record at byte {start} are longer than the record")
        append((start, stop, offset_delta, timestamp_delta, key, size >= 0))
        position = stop
    return records, position


def with_timestamp_delta(body: bytes, start: int, end: int, delta: int) -> bytes:
    """Return the record's bytes with another timestamp delta.

    Raise `CorruptData` if the delta does not fit: a client can send any timestamp.
    """
    if not -(2**63) <= delta < 2**63:
        raise CorruptData(f"the timestamp of the record at byte {start} is too far from the delete horizon")
    _, attributes_at = read_raw(body, start)
    _, rest_at = read_raw(body, attributes_at + 1, MAX_VARLONG_BYTES)
    fields = b"".join((body[attributes_at : attributes_at + 1], varint(delta), body[rest_at:end]))
    return varint(len(fields)) + fields


SLICE: Final = 2_000
"""Records read in one step, which takes about 5 ms."""
BATCH_COST: Final = 5
"""The time that a batch takes besides its records, as a number of records."""
MAX_TIMESTAMP: Final = 2**63 - 1
MAX_KEYS: Final = 5_033_164
"""The most keys in an offset map, as with Kafka's default log.cleaner.dedupe.buffer.size."""


@attrs.define(frozen=True)
class LastRecord:
    """The offset of an active producer's last record (None after a marker); its batch is kept."""

    offset: int | None
    epoch: int


@attrs.define(frozen=True)
class CleaningRound:
    """The input of one compaction: rolled segments in offset order, and the limits."""

    segments: Sequence[Segment]
    first_dirty_offset: int
    upper_offset: int
    """The end offset of the last segment."""
    now_ms: int
    delete_retention_ms: int
    max_segment_bytes: int
    last_records: Mapping[int, LastRecord] = attrs.field(factory=dict)
    aborted: Sequence[AbortedTransaction] = ()
    new_segment: NewSegment = MemorySegment
    max_keys: int = MAX_KEYS


@attrs.define
class Cleaned:
    """The result of one compaction: `segments` instead of `replaced`; the log is clean up to `end_offset`."""

    replaced: list[Segment]
    segments: list[Segment]
    end_offset: int
    aborted: list[AbortedTransaction]
    """Aborted transactions whose marker is below `end_offset` and was kept."""
    records_read: int = 0
    records_kept: int = 0


@attrs.define
class OffsetMap:
    """The last offset of each key in the dirty segments, and the last offset that was read."""

    offsets: dict[bytes, int] = attrs.field(factory=dict)
    latest_offset: int = -1


class _Pace:
    """Counts the records and batches of one step."""

    __slots__ = ("_cost",)

    def __init__(self) -> None:
        self._cost = 0

    def is_due(self, cost: int) -> bool:
        self._cost += cost
        if self._cost < SLICE:
            return False
        self._cost = 0
        return True


def clean(work: CleaningRound) -> Steps[Cleaned]:
    """Compact the segments of one log, in steps. The segments of `work` do not change."""
    offsets = yield from build_offset_map(work)
    end_offset = offsets.latest_offset + 1
    replaced = [segment for segment in work.segments if segment.base_offset < end_offset]
    transactions = CleanedTransactions(work.aborted)
    cleaned = Cleaned(replaced, [], end_offset, transactions.kept)
    pace = _Pace()
    for group in groups_by_size(replaced, end_offset, work.max_segment_bytes):
        target = work.new_segment(group[0].base_offset)
        for segment in group:
            for batch in segment.iterate():
                kept = yield from _cleaned_batch(batch, work, offsets, transactions, pace)
                cleaned.records_read += batch.count
                if kept is not None:
                    cleaned.records_kept += kept.count
                    target.append(kept)
                if pace.is_due(BATCH_COST):
                    yield 0
        cleaned.segments.append(target)
    return cleaned


def groups_by_size(segments: Sequence[Segment], end_offset: int, max_bytes: int) -> Iterator[list[Segment]]:
    """Yield groups of adjacent segments; each group is merged into one segment of at most `max_bytes`."""
    group: list[Segment] = []
    size = 0
    for index, segment in enumerate(segments):
        end = segments[index + 1].base_offset if index + 1 < len(segments) else end_offset
        is_full = group and (
            size + segment.size_bytes > max_bytes or end - group[0].base_offset > MAX_OFFSET_SPAN
        )
        if is_full:
            yield group
            group, size = [], 0
        group.append(segment)
        size += segment.size_bytes
    if group:
        yield group


def build_offset_map(work: CleaningRound) -> Steps[OffsetMap]:
    """Return the last offset of each key from the first dirty offset on, without aborted records."""
    found = OffsetMap()
    offsets, first = found.offsets, work.first_dirty_offset
    # Transactions that ended earlier are left out: their markers are not read, so they would never end.
    transactions = CleanedTransactions(one for one in work.aborted if one.last_offset >= first)
    pace = _Pace()
    for index, segment in enumerate(work.segments):
        is_last = index + 1 == len(work.segments)
        end = work.upper_offset if is_last else work.segments[index + 1].base_offset
        if end <= first:
            continue
        for batch in segment.iterate(first):
            is_removable = transactions.is_removable(batch)
            if not (batch.is_control or is_removable):
                body = (yield from _opened(batch)) if batch.codec_id else bytes(batch.buffer[HEADER_BYTES:])
                base = batch.base_offset
                for records in record_slices(body, batch.count, SLICE):
                    if batch.base_offset >= first and len(offsets) + len(records) <= work.max_keys:
                        # The last record of a key wins.
                        offsets.update([(one[4], base + one[2]) for one in records if one[4] is not None])
                    else:
                        for _, _, delta, _, key, _ in records:
                            if key is not None and base + delta >= first:
                                if len(offsets) >= work.max_keys and key not in offsets:
                                    return found  # the next compaction cleans the rest
                                offsets[key] = base + delta
                    if pace.is_due(len(records)):
                        yield len(body)
            found.latest_offset = max(found.latest_offset, batch.last_offset)
            if pace.is_due(BATCH_COST):
                yield 0
        found.latest_offset = max(found.latest_offset, end - 1)  # the segment can end with a gap
    return found


def _opened(batch: RecordBatch) -> Steps[bytes]:
    return bytes((yield from open_in_steps(batch, "the log", False, MAX_OUTPUT_BYTES)))


def _cleaned_batch(
    batch: RecordBatch,
    work: CleaningRound,
    offsets: OffsetMap,
    transactions: CleanedTransactions,
    pace: _Pace,
) -> Steps[RecordBatch | None]:
    """Return the batch with the kept records, without records if it must stay, or None if it is removed."""
    is_removable = transactions.is_removable(batch)
    has_horizon = bool(batch.attributes & DELETE_HORIZON_FLAG)
    is_past_horizon = has_horizon and batch.base_timestamp <= work.now_ms
    drops_all = is_removable and (is_past_horizon if batch.is_control else True)
    is_kept_empty = batch.next_offset == work.upper_offset or _is_last_of_producer(batch, work.last_records)
    if drops_all:
        return without_records(batch) if is_kept_empty else None
    body = (yield from _opened(batch)) if batch.codec_id else bytes(batch.buffer[HEADER_BYTES:])
    kept: list[RawRecord] = []
    latest, base, known = offsets.latest_offset, batch.base_offset, offsets.offsets
    keeps_tombstones, is_control, get = not is_past_horizon, batch.is_control, known.get
    for records in record_slices(body, batch.count, SLICE):
        if is_control:
            kept += records
        else:
            kept += [
                one
                for one in records
                if (base + one[2] > latest)
                or (
                    (key := one[4]) is not None
                    and base + one[2] >= get(key, -1)
                    and (one[5] or keeps_tombstones)
                )
            ]
        if pace.is_due(len(records)):
            yield len(body)
    if not kept:
        return without_records(batch) if is_kept_empty else None
    has_tombstone = not all(has_value for *_, has_value in kept)
    is_emptied_marker = batch.is_control and is_removable
    sets_horizon = (has_tombstone or is_emptied_marker) and not has_horizon
    if len(kept) == batch.count and not sets_horizon:
        return batch
    horizon = min(work.now_ms + work.delete_retention_ms, MAX_TIMESTAMP) if sets_horizon else None
    return _rebuilt(batch, body, kept, horizon)


def _is_last_of_producer(batch: RecordBatch, last_records: Mapping[int, LastRecord]) -> bool:
    """Return whether the batch has a producer's last sequence, or the marker with its last epoch."""
    last = last_records.get(batch.producer_id) if batch.has_producer_id else None
    if last is None:
        return False
    if last.offset is not None:
        return batch.last_offset == last.offset
    return batch.is_control and batch.producer_epoch == last.epoch


def _rebuilt(batch: RecordBatch, body: bytes, kept: list[RawRecord], horizon: int | None) -> RecordBatch:
    """Return the batch with the kept records; `horizon`, if not None, becomes its base timestamp."""
    base_timestamp, attributes = batch.base_timestamp, batch.attributes
    if batch.timestamp_type == LOG_APPEND_TIME:
        max_timestamp = batch.max_timestamp
    else:
        max_timestamp = base_timestamp + max(delta for _, _, _, delta, _, _ in kept)
    if horizon is None:
        pieces = [body[start:end] for start, end, *_ in kept]
    else:
        shift = base_timestamp - horizon
        pieces = [
            with_timestamp_delta(body, start, end, delta + shift) for start, end, _, delta, _, _ in kept
        ]
        base_timestamp, attributes = horizon, attributes | DELETE_HORIZON_FLAG
    data = b"".join(pieces)
    if batch.codec_id:
        data = codec(batch.codec_id).compress(data)
    return with_records(batch, data, len(kept), attributes, base_timestamp, max_timestamp)
