"""Decodes a batch into columns, all records of one layout at once.

Most topics have stretches of records that differ only in the bytes of their keys, values and times: their
lengths are the same. Such a stretch is found by comparing the bytes of the lengths, for all records at once
and without a loop in Python; other records are decoded one by one (decoder.py). Runs on the application's
thread. Accepts and refuses exactly what decoder.py does; a property test compares them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from pykafka2.compression import MAX_OUTPUT_BYTES
from pykafka2.errors import CorruptData
from pykafka2.records.batch import RecordBatch, has_gaps, open_batch
from pykafka2.records.columns import GrowingColumns
from pykafka2.records.decoder import decode_rows, raise_leftover
from pykafka2.records.runs import Field, Rows, UniformRun
from pykafka2.records.varint import read_varint
from pykafka2.slotted import slotted
from pykafka2.types import LOG_APPEND_TIME

SHORTEST_RUN = 4
"""Fewer records of one layout than this are not worth the comparison."""
LONG_RUN = 32
"""After a run of this length, the next one is searched for after one record."""
MOST_RUNS = 12
"""A batch of more runs than this is not worth a look at each: records of one layout have one run for each
size of their offsets and times."""
LONGEST_PATIENCE = 256
"""Most records that are decoded one by one before the next search for a run."""
MOST_PLANS = 32
"""Batches, by size and number of records, whose runs are kept."""
FIRST_TRY = 16
"""Records that are compared first; eight times as many each time after that."""
MAX_TIME_BYTES = 4
"""Timestamp deltas of more bytes are in no layout that others could share."""

_ENDS_VARINT = bytes([1] * 128 + [0] * 128)
"""Translates a byte that ends a varint to 1 and any other to 0."""

Frame = list[tuple[int, int]]
"""Bytes that are the same in all records of a layout: their place within the record, and their value."""


@slotted
class Layout:
    """The places of the fields within a record, counted from its first byte."""

    stride: int
    time: Field
    key: Field
    value: Field

    @classmethod
    def of_record(cls, buffer: bytes, begin: int, end: int, offset_bytes: int) -> Layout | None:
        """Return the layout of a valid record without headers, None if its timestamp is too far off to be of
        a common one."""
        time_at = _after_varint(buffer, begin) + 1
        offset_at = _after_varint(buffer, time_at)
        if offset_at - time_at > MAX_TIME_BYTES:
            return None
        key_size, key_at = read_varint(buffer, offset_at + offset_bytes)
        value_size, value_at = read_varint(buffer, key_at + max(key_size, 0))
        return cls(
            end - begin,
            Field(time_at - begin, offset_at - time_at),
            Field(key_at - begin, key_size),
            Field(value_at - begin, value_size),
        )

    def frame(self, buffer: bytes, begin: int, offset_bytes: int) -> Frame:
        """Return the bytes of the record at `begin` that are equal in all records of this layout: its
        lengths, and the number of headers, which is 0."""
        after_offset = self.time.at + self.time.size + offset_bytes
        places = chain(
            range(self.time.at - 1),  # the byte of attributes after the length has no meaning yet
            range(after_offset, self.key.at),
            range(self.key.at + max(self.key.size, 0), self.value.at),
            range(self.value.at + max(self.value.size, 0), self.stride),
        )
        return [(at, buffer[begin + at]) for at in places]


def _after_varint(buffer: bytes, position: int) -> int:
    while buffer[position] >= 0x80:
        position += 1
    return position + 1


def matching(buffer: bytes, start: int, count: int, layout: Layout, frame: Frame) -> int:
    """Return how many of `count` records from `start` on have this layout before the first that has not."""
    stride = layout.stride
    stop = start + count * stride
    for at, byte in frame:
        column = buffer[start + at : stop : stride]
        if column.count(byte) != count:
            count -= len(column.lstrip(bytes((byte,))))
            stop = start + count * stride
    last = layout.time.at + layout.time.size - 1
    for at in range(layout.time.at, last + 1):
        column = buffer[start + at : stop : stride].translate(_ENDS_VARINT)
        other = column.find(0 if at == last else 1)
        if other >= 0:
            count = other
            stop = start + count * stride
    return count


def offset_bytes(index: int) -> tuple[int, int]:
    """Return the bytes that the offset of the record at this index takes in a batch without gaps, and the
    first index at which it takes more."""
    return (1, 64) if index < 64 else (2, 8192) if index < 8192 else (3, 1 << 20)


@slotted
class PlannedRun:
    """A run of records of one layout: index and place of the first of them, and their number."""

    index: int
    start: int
    count: int
    layout: Layout
    frame: Frame

    @property
    def end(self) -> int:
        return self.start + self.count * self.layout.stride


class Plans:
    """The runs that earlier batches consisted of, by their number of bytes and of records.

    Any thread. For another batch a plan is only a guess, which is compared with the bytes.
    """

    def __init__(self) -> None:
        self._plans: dict[tuple[int, int], Sequence[PlannedRun]] = {}

    def find(self, size: int, count: int) -> Sequence[PlannedRun] | None:
        return self._plans.get((size, count))

    def keep(self, size: int, count: int, plan: Sequence[PlannedRun]) -> None:
        if len(self._plans) >= MOST_PLANS:
            self._plans.clear()
        self._plans[size, count] = plan


plans = Plans()


def decode_columns(
    batch: RecordBatch,
    columns: GrowingColumns | None = None,
    where: str = "records",
    first_offset: int = 0,
    max_records: int | None = None,
    check_crcs: bool = True,
    max_output_bytes: int = MAX_OUTPUT_BYTES,
) -> GrowingColumns:
    """Add the batch's records from first_offset on, at most max_records of them, to columns (new if None).

    When a damaged record raises, the records before it are in the columns that the caller passed.

    Raises:
        CorruptMessage, CorruptData, UnsupportedCompressionType, CodecUnavailable: as `decode_tuples` does.
    """
    columns = GrowingColumns() if columns is None else columns
    before = len(columns)
    columns.count_batch(batch.last_offset, batch.size_bytes, batch.timestamp_type)
    buffer = open_batch(batch, where, check_crcs, max_output_bytes)
    try:
        decode_opened(batch, buffer, columns, where, first_offset)
    finally:
        if max_records is not None:
            columns.shorten(before + max_records)
    return columns


def decode_opened(
    batch: RecordBatch, buffer: bytes, columns: GrowingColumns, where: str, first_offset: int
) -> None:
    """Add the records of a batch whose bytes are checked and decompressed."""
    ColumnDecoder(batch, buffer, columns, where, first_offset).run(batch.count)


def decode_alike(
    batch: RecordBatch, buffer: bytes, columns: GrowingColumns, where: str, first_offset: int
) -> bool:
    """Add the records like `decode_opened` if they are a few long runs; otherwise return False and add none.

    Three times as fast as array_decoder.py, which reads each record.
    """
    decoder = ColumnDecoder(batch, buffer, GrowingColumns(), where, first_offset)
    plan = decoder.plan()
    if plan is None:
        return False
    for run in decoder.planned_runs(plan):
        columns.add(run, first_offset)
    return True


class ColumnDecoder:
    """One pass over a batch whose bytes are checked and decompressed, at once or in parts."""

    __slots__ = (
        "_batch",
        "_buffer",
        "_columns",
        "_first_offset",
        "_has_gaps",
        "_index",
        "_patience",
        "_plan",
        "_position",
        "_previous",
        "_where",
    )

    def __init__(
        self, batch: RecordBatch, buffer: bytes, columns: GrowingColumns, where: str, first_offset: int
    ) -> None:
        self._batch = batch
        self._buffer = buffer
        self._columns = columns
        self._where = where
        self._first_offset = first_offset
        self._has_gaps = has_gaps(batch)
        self._index = self._position = 0
        self._previous = batch.base_offset - 1
        """With gaps: the offset of the last decoded record."""
        self._patience = batch.count if self._has_gaps else 1
        self._plan: list[PlannedRun] = []

    @property
    def is_done(self) -> bool:
        return self._index >= self._batch.count

    @property
    def next_offset(self) -> int:
        """The first offset of the next part, or one before it: offsets between may be missing."""
        return self._previous + 1 if self._has_gaps else self._batch.base_offset + self._index

    def fill(self, columns: GrowingColumns) -> None:
        """Add the next records to other columns."""
        self._columns = columns

    def run(self, limit: int) -> None:
        """Decode up to `limit` records, or more of them if they have one layout."""
        batch, buffer, columns, first_offset = self._batch, self._buffer, self._columns, self._first_offset
        if not self._index:
            known = self._known_plan()
            if known is not None:
                self._index = batch.count
                for run in known:
                    columns.add(self._uniform_run(run), first_offset)
                return
        plan = self._plan
        position, index, count = self._position, self._index, batch.count
        patience, end = self._patience, min(count, self._index + limit)
        while index < end:
            stop = min(index + patience, end)
            is_alone = stop - index == 1
            begin, position, is_plain = self._decode(index, stop, position, columns)
            index = stop
            if self._has_gaps:
                continue
            patience = min(patience * 2, LONGEST_PATIENCE)
            found = self._run_from(index - 1, begin, position) if is_plain and index < count else None
            if found is not None:
                if is_alone and len(plan) <= MOST_RUNS:  # with more of them no plan is kept
                    plan.append(found)
                columns.add(self._uniform_run(found, skip=1), first_offset)
                index += found.count - 1
                position = found.end
                if found.count > LONG_RUN:
                    patience = 1
        self._position, self._index, self._patience = position, index, patience
        if index < count:
            return
        if position != len(buffer):
            raise_leftover(batch, len(buffer) - position, self._where)
        if len(plan) <= MOST_RUNS and plan and sum(run.count for run in plan) == count:
            plans.keep(len(buffer), count, plan)

    def plan(self) -> Sequence[PlannedRun] | None:
        """Return the runs of the batch if it consists of a few; adds no records to the columns."""
        known = self._known_plan()
        if known is not None or self._has_gaps:
            return known
        found: list[PlannedRun] = []
        position, index, count = 0, 0, self._batch.count
        while index < count:
            try:
                begin, position, is_plain = self._decode(index, index + 1, position, GrowingColumns())
            except CorruptData:
                return None
            if not is_plain or len(found) == MOST_RUNS:
                return None
            is_last = index + 1 == count
            run = (self._run_of_one if is_last else self._run_from)(index, begin, position)
            if run is None:
                return None
            found.append(run)
            index += run.count
            position = run.end
        if position != len(self._buffer):
            return None
        plans.keep(len(self._buffer), count, found)
        return found

    def planned_runs(self, plan: Sequence[PlannedRun]) -> Iterator[UniformRun]:
        return map(self._uniform_run, plan)

    def _known_plan(self) -> Sequence[PlannedRun] | None:
        """Return the plan of an earlier batch of as many bytes and records, if it fits this batch too."""
        if self._has_gaps:
            return None
        buffer, plan = self._buffer, plans.find(len(self._buffer), self._batch.count)
        if plan is None or any(
            matching(buffer, run.start, run.count, run.layout, run.frame) != run.count for run in plan
        ):
            return None
        return plan

    def _decode(self, index: int, stop: int, position: int, columns: GrowingColumns) -> tuple[int, int, bool]:
        """Add records to the columns like `decode_rows`, which raises and returns the same."""
        rows = Rows([], [], [], [])
        try:
            return decode_rows(
                self._batch,
                self._buffer,
                self._where,
                index,
                stop,
                position,
                self._previous,
                rows,
            )
        finally:
            count = len(rows.values)
            if rows.offsets:
                self._previous = rows.offsets[-1]
                rows.offsets = rows.offsets[:count]
            else:
                first = self._batch.base_offset + index
                rows.offsets = range(first, first + count)
            del rows.timestamps[count:], rows.keys[count:]
            columns.add(rows, self._first_offset)

    def _run_from(self, index: int, begin: int, end: int) -> PlannedRun | None:
        """Return the run that starts with the record at `begin`, None if it would be short."""
        buffer = self._buffer
        if end >= len(buffer) or buffer[end] != buffer[begin]:
            return None
        run = self._run_of_one(index, begin, end)
        if run is None:
            return None
        stride = run.layout.stride
        most = min(min(offset_bytes(index)[1], self._batch.count) - index - 1, (len(buffer) - end) // stride)
        count, wanted = 0, FIRST_TRY
        while count < most:
            tried = min(wanted, most - count)
            matched = matching(buffer, end + count * stride, tried, run.layout, run.frame)
            count += matched
            if matched < tried:
                break
            wanted *= 8
        run.count += count
        return run if count >= SHORTEST_RUN else None

    def _run_of_one(self, index: int, begin: int, end: int) -> PlannedRun | None:
        width = offset_bytes(index)[0]
        layout = Layout.of_record(self._buffer, begin, end, width)
        if layout is None:
            return None
        return PlannedRun(index, begin, 1, layout, layout.frame(self._buffer, begin, width))

    def _uniform_run(self, run: PlannedRun, skip: int = 0) -> UniformRun:
        """Return the records of a run, except the first `skip` of them."""
        batch, layout = self._batch, run.layout
        has_create_time = batch.timestamp_type != LOG_APPEND_TIME
        first = batch.base_offset + run.index
        return UniformRun(
            self._buffer,
            run.start + skip * layout.stride,
            layout.stride,
            range(first + skip, first + run.count),
            batch.base_timestamp if has_create_time else batch.max_timestamp,
            layout.time if has_create_time else None,
            layout.key,
            layout.value,
        )
