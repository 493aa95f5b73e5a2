"""Batches into columns, several at once.

Runs on the application's thread, for `poll_columns` and `read_range`.  Where numpy is loaded the records of
several batches are found by array_decoder.py.  Batches whose records are laid out alike, and whatever is not
as producers write it, are for column_decoder.py, batch by batch.  Columns are the same either way, and the
same is raised.  `to_arrow` loads numpy; so does reading on, where pyarrow is installed, once that takes no
longer than what it spares.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from types import ModuleType, TracebackType
from typing import Self

from pykafka2.compression import MAX_OUTPUT_BYTES
from pykafka2.errors import KafkaError
from pykafka2.records.batch import Buffer, RecordBatch
from pykafka2.records.column_decoder import decode_alike, decode_opened
from pykafka2.records.column_parts import ColumnPart
from pykafka2.records.columns import Columns
from pykafka2.records.layouts import looks_uniform
from pykafka2.records.legacy import AnyBatch, decode_any_columns
from pykafka2.records.opening import has_gaps, open_body

# So many bytes of records are decoded at once: more would not stay in the processor's caches.
GROUP_BYTES = 1 << 19
# Fewer records are not worth the arrays.
FEWEST_RECORDS = 48
# Batches of fewer records are taken several at once, though all records of each be alike.
FEWEST_ALIKE = 256
# So many records decoded one by one have taken as long as loading numpy takes: 0.1 s.
WORTH_NUMPY = 100_000


class ColumnGroup:
    """A context manager that adds batches to columns; at its end all of them are there.

    It raises CorruptMessage, CorruptData, UnsupportedCompressionType and CodecUnavailable as `decode_columns`
    does, while a batch is added or at the end.  Then `failed` is the damaged batch, and the records before
    the damage are in the columns.
    """

    def __init__(
        self, columns: Columns, where: str, check_crcs: bool, max_output_bytes: int = MAX_OUTPUT_BYTES
    ) -> None:
        self._columns = columns
        self._where = where
        self._check_crcs = check_crcs
        self._max_output_bytes = max_output_bytes
        self._arrays = _array_decoder()
        self._one_by_one_before = columns.one_by_one
        self._opened: list[tuple[RecordBatch, Buffer]] = []
        self._bytes = 0
        self._records = 0
        self._first_offset = self._next_offset = 0
        self._have_gaps = False
        self._looks_for_alike = True
        self.failed: AnyBatch | None = None
        self.end_offset: int | None = None
        """Records at this offset and behind it are left out, if it is given."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, KafkaError):
            # What was wrong with a later batch is no news if an earlier one is damaged too.
            self._flush()
            if self.end_offset is not None:
                self._columns.end_before(self.end_offset)
        if self._arrays is None:
            _without_arrays.add(self._columns.one_by_one - self._one_by_one_before)

    def __len__(self) -> int:
        """The records in the columns, and those that will be."""
        return len(self._columns) + self._records

    def add(self, batch: AnyBatch, first_offset: int) -> None:
        """Add the batch's records from `first_offset` on."""
        if self._arrays is None or not isinstance(batch, RecordBatch) or not batch.count:
            self._flush()
            self._add_alone(batch, first_offset)
            return
        gaps = has_gaps(batch)
        follows = max(self._next_offset, first_offset) <= batch.base_offset
        if self._opened and not (follows and gaps == self._have_gaps):
            self._flush()
        self._columns.count_batch(batch.last_offset, batch.size_bytes, batch.timestamp_type)
        try:
            body = open_body(batch, self._where, self._check_crcs, self._max_output_bytes)
        except KafkaError:
            self._flush()
            self.failed = batch
            raise
        if (
            self._looks_for_alike
            and batch.count >= FEWEST_ALIKE
            and self._add_alike(batch, body, first_offset)
        ):
            return
        if not self._opened:
            self._first_offset, self._have_gaps = first_offset, gaps
        self._opened.append((batch, body))
        self._next_offset = batch.next_offset
        self._bytes += len(body)
        self._records += batch.count
        if self._bytes >= GROUP_BYTES:
            self._flush()

    def part(self, batch: RecordBatch, first_offset: int) -> ColumnPart:
        """A batch that is to be added step by step, behind what the group has."""
        return ColumnPart(batch, first_offset, self._where, self._check_crcs, self._max_output_bytes)

    def _add_alike(self, batch: RecordBatch, body: Buffer, first_offset: int) -> bool:
        """Add a batch whose records are laid out alike; one that is not ends the looking for such batches."""
        buffer = bytes(body)
        self._looks_for_alike = looks_uniform(batch, buffer)
        if self._looks_for_alike:
            self._flush()
            self._looks_for_alike = decode_alike(batch, buffer, self._columns, self._where, first_offset)
        return self._looks_for_alike

    def _add_alone(self, batch: AnyBatch, first_offset: int) -> None:
        try:
            decode_any_columns(
                batch, self._columns, self._where, first_offset, self._check_crcs, self._max_output_bytes
            )
        except KafkaError:
            self.failed = batch
            raise

    def _flush(self) -> None:
        """Decode what is waiting."""
        opened, count = self._opened, self._records
        self._opened, self._bytes, self._records = [], 0, 0
        if self._arrays is not None and count >= FEWEST_RECORDS:
            run = self._arrays.decode_arrays(opened)
            if run is not None:
                self._columns.add(run, self._first_offset)
                return
        for batch, body in opened:
            try:
                decode_opened(batch, bytes(body), self._columns, self._where, self._first_offset)
            except KafkaError:
                self.failed = batch
                raise


class WithoutArrays:
    """Counts what numpy would have been quicker with.  Any thread; a count more or less does not matter."""

    def __init__(self) -> None:
        self.records = 0
        self._is_in_vain = False

    def add(self, records: int) -> None:
        """So many more were decoded one by one."""
        self.records += records

    def should_end(self) -> bool:
        """Whether numpy is to be loaded, where pyarrow is installed anyway; asked again until it is."""
        if self.records < WORTH_NUMPY or self._is_in_vain:
            return False
        self._is_in_vain = not all(map(find_spec, ("pyarrow", "numpy")))
        return not self._is_in_vain

    def give_up(self) -> None:
        """It cannot be loaded."""
        self._is_in_vain = True


_without_arrays = WithoutArrays()


def _array_decoder() -> ModuleType | None:
    """array_decoder.py, if numpy is loaded or worth it: loading it takes 0.1 s and 20 MB, which few need."""
    if "numpy" not in sys.modules and not _without_arrays.should_end():
        return None
    try:
        from pykafka2.records import array_decoder
    except ImportError:  # a numpy that cannot be used is as good as none
        _without_arrays.give_up()
        return None
    return array_decoder
