"""Records of a batch straight into columns.

Runs on the application's thread.  Most topics have stretches of records that differ in nothing but the bytes
of their keys, values and times: lengths are the same.  Such a stretch is recognised by comparing the bytes
that say so, all records at once, and needs no loop in Python; what is not alike is decoded one by one.
Accepts and refuses exactly what decoder.py does; a property test keeps the two alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pykafka2.compression import MAX_OUTPUT_BYTES
from pykafka2.errors import CorruptData
from pykafka2.records.batch import RecordBatch
from pykafka2.records.columns import Columns
from pykafka2.records.headers import read_headers
from pykafka2.records.layouts import FIRST_TRY, Layout, PlannedRun, matching, offset_bytes, plans
from pykafka2.records.opening import (
    has_gaps,
    open_batch,
    raise_corrupt,
    raise_leftover,
    raise_out_of_order,
)
from pykafka2.records.runs import Bytes, Field, Rows, UniformRun
from pykafka2.records.varint import MAX_VARLONG_BYTES, read_raw
from pykafka2.types import LOG_APPEND_TIME, Headers

# Fewer records of one layout than this are not worth the comparing.
SHORTEST_RUN = 4
LONG_RUN = 32
# A batch whose records are alike has a run for each size of its offsets and its times; one of more than so
# many runs is not worth a look at each.
MOST_RUNS = 12
# At most so many records are decoded one by one before a run is looked for again.
LONGEST_PATIENCE = 256
# Times further from the first one than this many bytes hold are decoded one by one.
MAX_TIME_BYTES = 4


def decode_columns(
    batch: RecordBatch,
    columns: Columns | None = None,
    where: str = "records",
    first_offset: int = 0,
    max_records: int | None = None,
    check_crcs: bool = True,
    max_output_bytes: int = MAX_OUTPUT_BYTES,
) -> Columns:
    """Add the batch's records from first_offset on, at most max_records of them, to columns (new if None).

    The records before a damaged one are in the columns when the error is raised, for a caller that gave them.

    Raises:
        CorruptMessage, CorruptData, UnsupportedCompressionType, CodecUnavailable: as `decode_tuples` does.
    """
    columns = Columns() if columns is None else columns
    before = len(columns)
    columns.count_batch(batch.last_offset, batch.size_bytes, batch.timestamp_type)
    buffer = open_batch(batch, where, check_crcs, max_output_bytes)
    try:
        decode_opened(batch, buffer, columns, where, first_offset)
    finally:
        if max_records is not None:
            columns.shorten(before + max_records)
    return columns


def decode_opened(batch: RecordBatch, buffer: bytes, columns: Columns, where: str, first_offset: int) -> None:
    """The same for a batch whose bytes are checked and decompressed."""
    _ColumnDecoder(batch, buffer, columns, where, first_offset).run()


def decode_alike(batch: RecordBatch, buffer: bytes, columns: Columns, where: str, first_offset: int) -> bool:
    """The same if the records are laid out alike, in a few long runs; otherwise nothing is added.

    Three times as quick as array_decoder.py, which looks at each record.
    """
    decoder = _ColumnDecoder(batch, buffer, Columns(), where, first_offset)
    plan = decoder.plan()
    if plan is None:
        return False
    for run in decoder.planned_runs(plan):
        columns.add(run, first_offset)
    return True


class _ColumnDecoder:
    """One pass over one batch."""

    __slots__ = (
        "_base_timestamp",
        "_batch",
        "_buffer",
        "_columns",
        "_first_offset",
        "_has_create_time",
        "_has_gaps",
        "_where",
    )

    def __init__(
        self, batch: RecordBatch, buffer: bytes, columns: Columns, where: str, first_offset: int
    ) -> None:
        self._batch = batch
        self._buffer = buffer
        self._columns = columns
        self._where = where
        self._first_offset = first_offset
        self._has_create_time = batch.timestamp_type != LOG_APPEND_TIME
        self._base_timestamp = batch.base_timestamp if self._has_create_time else batch.max_timestamp
        self._has_gaps = has_gaps(batch)

    def run(self) -> None:
        batch, buffer = self._batch, self._buffer
        known = self._known_plan()
        if known is not None:
            for run in self.planned_runs(known):
                self._columns.add(run, self._first_offset)
            return
        plan: list[PlannedRun] = []
        position, index, count = 0, 0, batch.count
        patience = count if self._has_gaps else 1
        while index < count:
            stop = min(index + patience, count)
            is_alone = stop - index == 1
            at, layout, position = self._one_by_one(index, stop, position)
            index = stop
            patience = min(patience * 2, LONGEST_PATIENCE)
            if layout is not None and index < count:
                found = self._uniform(index, at, layout, position)
                if found is not None:
                    if is_alone:
                        plan.append(self._planned(len(found) + 1, index - 1, at, layout))
                    self._columns.add(found, self._first_offset)
                    index += len(found)
                    position = found.start + len(found) * found.stride
                    if len(found) >= LONG_RUN:
                        patience = 1
        if position != len(buffer):
            raise_leftover(batch, len(buffer) - position, self._where)
        if plan and sum(one.count for one in plan) == count:
            plans.keep(len(buffer), count, plan)

    def plan(self) -> Sequence[PlannedRun] | None:
        """The runs that the batch consists of, if it consists of a few; nothing is added to the columns that
        anybody wants."""
        known = self._known_plan()
        if known is not None or self._has_gaps:
            return known
        found: list[PlannedRun] = []
        position, index, count = 0, 0, self._batch.count
        while index < count:
            try:
                at, layout, position = self._one_by_one(index, index + 1, position)
            except CorruptData:
                return None
            if layout is None or len(found) == MOST_RUNS:
                return None
            length = 1
            if index + 1 < count:
                run = self._uniform(index + 1, at, layout, position)
                if run is None:
                    return None
                length += len(run)
                position = at + length * layout.stride
            found.append(self._planned(length, index, at, layout))
            index += length
        if position != len(self._buffer):
            return None
        plans.keep(len(self._buffer), count, found)
        return found

    def planned_runs(self, plan: Sequence[PlannedRun]) -> Iterator[UniformRun]:
        return (self._run_of(one.index, one.start, one.count, one.layout) for one in plan)

    def _planned(self, count: int, index: int, at: int, layout: Layout) -> PlannedRun:
        """A run whose first record, the one with this index, showed how it is laid out."""
        frame = [(one, self._buffer[at + one]) for one in layout.frame(offset_bytes(index)[0])]
        return PlannedRun(index, at, count, layout, frame)

    def _known_plan(self) -> Sequence[PlannedRun] | None:
        """What an earlier batch of as many bytes and records was made of, if this one is so, too."""
        if self._has_gaps:
            return None
        buffer, plan = self._buffer, plans.find(len(self._buffer), self._batch.count)
        if plan is None or any(
            matching(buffer, one.start, one.count, one.layout, one.frame) != one.count for one in plan
        ):
            return None
        return plan

    def _one_by_one(self, index: int, stop: int, position: int) -> tuple[int, Layout | None, int]:
        """Decode the records from `index` up to `stop`.

        Where the last one begins, how it is laid out (if others may be laid out so), and where it ends.

        Hot: 0.45 us a record of 100 bytes; the lines are those of `decoder.decode_tuples`.
        """
        batch, buffer = self._batch, self._buffer
        base_offset, has_create_time, has_gaps = batch.base_offset, self._has_create_time, self._has_gaps
        base_timestamp = timestamp = self._base_timestamp
        offsets: list[int] = []
        timestamps: list[int] = []
        keys: Bytes = []
        values: Bytes = []
        all_headers: dict[int, Headers] = {}
        add_time, add_key, add_value = timestamps.append, keys.append, values.append
        last_delta = 0
        previous = base_offset - 1
        offset = base_offset + index
        begin = after_length = after_time = key_at = value_at = size = 0
        try:
            for offset in range(base_offset + index, base_offset + stop):
                begin = position
                length = buffer[position]
                if length < 0x80:
                    position += 1
                elif (byte := buffer[position + 1]) < 0x80:
                    length = length & 0x7F | byte << 7
                    position += 2
                else:
                    length, position = read_raw(buffer, position)
                after_length = position

                delta = buffer[position + 1]
                if delta < 0x80:
                    position += 2
                elif (byte := buffer[position + 2]) < 0x80:
                    delta = delta & 0x7F | byte << 7
                    position += 3
                else:
                    delta, position = read_raw(buffer, position + 1, MAX_VARLONG_BYTES)
                if delta != last_delta and has_create_time:
                    timestamp = base_timestamp + ((delta >> 1) ^ -(delta & 1))
                    last_delta = delta
                after_time = position

                if has_gaps:
                    raw_offset, position = read_raw(buffer, position)
                    if raw_offset & 1:
                        raise CorruptData("a negative offset delta")
                    offset = base_offset + (raw_offset >> 1)
                    if not previous < offset <= batch.last_offset:
                        raise_out_of_order(offset, previous, batch)
                    previous = offset
                    offsets.append(offset)
                else:
                    delta = offset - base_offset
                    position += 1 if delta < 64 else 2 if delta < 8192 else 3

                size = buffer[position]
                if size == 1:
                    key = None
                    position += 1
                    key_at = position
                else:
                    if size < 0x80:
                        position += 1
                    elif (byte := buffer[position + 1]) < 0x80:
                        size = size & 0x7F | byte << 7
                        position += 2
                    else:
                        size, position = read_raw(buffer, position)
                    if size & 1:
                        raise CorruptData("a key of negative length")
                    key_at = position
                    key = buffer[position : position + (size >> 1)]
                    position += size >> 1

                size = buffer[position]
                if size == 1:
                    value = None
                    position += 1
                    value_at = position
                else:
                    if size < 0x80:
                        position += 1
                    elif (byte := buffer[position + 1]) < 0x80:
                        size = size & 0x7F | byte << 7
                        position += 2
                    else:
                        size, position = read_raw(buffer, position)
                    if size & 1:
                        raise CorruptData("a value of negative length")
                    value_at = position
                    value = buffer[position : position + (size >> 1)]
                    position += size >> 1

                if buffer[position]:
                    headers: Headers = []
                    position = read_headers(buffer, position, headers)
                    size = -1
                else:
                    headers = []
                    position += 1
                if (position - after_length) << 1 != length:
                    raise CorruptData("its fields do not end where its length says")
                if headers:
                    all_headers[len(values)] = headers
                add_time(timestamp)
                add_key(key)
                add_value(value)
        except (IndexError, CorruptData) as error:
            raise_corrupt(batch, offset, self._where, error)
        finally:
            count = len(values)
            found = offsets[:count] if has_gaps else range(base_offset + index, base_offset + index + count)
            self._columns.add(
                Rows(found, timestamps[:count], keys[:count], values, all_headers), self._first_offset
            )
        time = Field(after_length + 1 - begin, after_time - after_length - 1)
        if has_gaps or size < 0 or time.size > MAX_TIME_BYTES:
            return begin, None, position
        key_field = Field(key_at - begin, -1 if key is None else len(key))
        value_field = Field(value_at - begin, -1 if value is None else len(value))
        return begin, Layout(position - begin, time, key_field, value_field), position

    def _uniform(self, index: int, at: int, layout: Layout, position: int) -> UniformRun | None:
        """The records from `index` on that are laid out like the one at `at`, if they are some."""
        buffer, stride = self._buffer, layout.stride
        if position >= len(buffer) or buffer[position] != buffer[at]:
            return None
        width, limit = offset_bytes(index - 1)
        most = min(min(limit, self._batch.count) - index, (len(buffer) - position) // stride)
        frame = [(one, buffer[at + one]) for one in layout.frame(width)]
        count, wanted = 0, FIRST_TRY
        while count < most:
            tried = min(wanted, most - count)
            matched = matching(buffer, position + count * stride, tried, layout, frame)
            count += matched
            if matched < tried:
                break
            wanted *= 8
        if count < SHORTEST_RUN:
            return None
        return self._run_of(index, position, count, layout)

    def _run_of(self, index: int, start: int, count: int, layout: Layout) -> UniformRun:
        first = self._batch.base_offset + index
        return UniformRun(
            self._buffer,
            start,
            layout.stride,
            range(first, first + count),
            self._base_timestamp,
            layout.time if self._has_create_time else None,
            layout.key,
            layout.value,
        )
