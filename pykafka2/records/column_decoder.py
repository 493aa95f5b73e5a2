"""Records of a batch straight into columns.

Runs on the application's thread.  Most topics have stretches of records that differ in nothing but the bytes
of their keys, values and times: lengths are the same.  Such a stretch is recognised by comparing the bytes
that say so, all records at once, and needs no loop in Python; what is not alike is decoded one by one
(row_decoder.py).
Accepts and refuses exactly what decoder.py does; a property test keeps the two alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pykafka2.compression import MAX_OUTPUT_BYTES
from pykafka2.errors import CorruptData
from pykafka2.records.batch import RecordBatch
from pykafka2.records.columns import Columns
from pykafka2.records.layouts import FIRST_TRY, Layout, PlannedRun, matching, offset_bytes, plans
from pykafka2.records.opening import open_batch, raise_leftover
from pykafka2.records.row_decoder import RowDecoder
from pykafka2.records.runs import UniformRun

# Fewer records of one layout than this are not worth the comparing.
SHORTEST_RUN = 4
LONG_RUN = 32
# A batch whose records are alike has a run for each size of its offsets and its times; one of more than so
# many runs is not worth a look at each.
MOST_RUNS = 12
# At most so many records are decoded one by one before a run is looked for again.
LONGEST_PATIENCE = 256


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
    ColumnDecoder(batch, buffer, columns, where, first_offset).run(batch.count)


def decode_alike(batch: RecordBatch, buffer: bytes, columns: Columns, where: str, first_offset: int) -> bool:
    """The same if the records are laid out alike, in a few long runs; otherwise nothing is added.

    Three times as quick as array_decoder.py, which looks at each record.
    """
    decoder = ColumnDecoder(batch, buffer, Columns(), where, first_offset)
    plan = decoder.plan()
    if plan is None:
        return False
    for run in decoder.planned_runs(plan):
        columns.add(run, first_offset)
    return True


class ColumnDecoder:
    """One pass over one batch, at once or in parts."""

    __slots__ = (
        "_batch",
        "_buffer",
        "_columns",
        "_first_offset",
        "_index",
        "_patience",
        "_plan",
        "_position",
        "_rows",
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
        self._rows = RowDecoder(batch, buffer, columns, where, first_offset)
        self._index = self._position = 0
        self._patience = batch.count if self._rows.has_gaps else 1
        self._plan: list[PlannedRun] = []

    @property
    def is_done(self) -> bool:
        return self._index >= self._batch.count

    @property
    def next_offset(self) -> int:
        """The first offset of the next part, or one before it: offsets between may be missing."""
        return self._rows.next_offset if self._rows.has_gaps else self._batch.base_offset + self._index

    def fill(self, columns: Columns) -> None:
        """Add what follows to other columns."""
        self._columns = columns
        self._rows.fill(columns)

    def run(self, most: int) -> None:
        """Decode up to so many records, or more of them if they are laid out alike."""
        batch, buffer = self._batch, self._buffer
        if not self._index:
            known = self._known_plan()
            if known is not None:
                self._index = batch.count
                for run in self.planned_runs(known):
                    self._columns.add(run, self._first_offset)
                return
        rows, plan = self._rows, self._plan
        position, index, count = self._position, self._index, batch.count
        patience, end = self._patience, min(count, self._index + most)
        while index < end:
            stop = min(index + patience, end)
            is_alone = stop - index == 1
            at, layout, position = rows.decode(index, stop, position)
            index = stop
            if not rows.has_gaps:
                patience = min(patience * 2, LONGEST_PATIENCE)
            if layout is not None and index < count:
                found = self._uniform(index, at, layout, position)
                if found is not None:
                    if is_alone and len(plan) <= MOST_RUNS:  # with more of them no plan is kept
                        plan.append(self._planned(len(found) + 1, index - 1, at, layout))
                    self._columns.add(found, self._first_offset)
                    index += len(found)
                    position = found.start + len(found) * found.stride
                    if len(found) >= LONG_RUN:
                        patience = 1
        self._position, self._index, self._patience = position, index, patience
        if index < count:
            return
        if position != len(buffer):
            raise_leftover(batch, len(buffer) - position, self._where)
        if len(plan) <= MOST_RUNS and plan and sum(one.count for one in plan) == count:
            plans.keep(len(buffer), count, plan)

    def plan(self) -> Sequence[PlannedRun] | None:
        """The runs that the batch consists of, if it consists of a few; nothing is added to the columns that
        anybody wants."""
        known = self._known_plan()
        if known is not None or self._rows.has_gaps:
            return known
        rows = self._rows
        found: list[PlannedRun] = []
        position, index, count = 0, 0, self._batch.count
        while index < count:
            try:
                at, layout, position = rows.decode(index, index + 1, position)
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
        """Return the plan of an earlier batch with the same bytes and records, if it fits this batch too."""
        if self._rows.has_gaps:
            return None
        buffer, plan = self._buffer, plans.find(len(self._buffer), self._batch.count)
        if plan is None or any(
            matching(buffer, one.start, one.count, one.layout, one.frame) != one.count for one in plan
        ):
            return None
        return plan

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
            self._rows.base_timestamp,
            layout.time if self._rows.has_create_time else None,
            layout.key,
            layout.value,
        )
