"""Decodes batches into columns, several at once.

Runs on the application's thread, for `poll_columns` and `read_range`. If numpy is loaded, array_decoder.py
decodes the records of several batches together. column_decoder.py decodes single batches whose records have
one layout, and those that are not as producers write them. Columns and errors are the same either way.
`to_arrow` loads numpy; so does a long read if pyarrow is installed, once that saves more time than it takes.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from types import ModuleType, TracebackType
from typing import Self

from pykafka2.compression import MAX_OUTPUT_BYTES
from pykafka2.compression.steps import Steps
from pykafka2.errors import KafkaError
from pykafka2.records.batch import Buffer, RecordBatch, has_gaps, open_body, open_in_steps
from pykafka2.records.batch_reader import AnyBatch, decode_any_columns, looks_uniform
from pykafka2.records.column_decoder import ColumnDecoder, decode_alike, decode_opened
from pykafka2.records.columns import GrowingColumns

# Bytes of records that are decoded at once: more would not stay in the processor's caches.
GROUP_BYTES = 1 << 19
# Fewer records than this are not worth the arrays.
FEWEST_RECORDS = 48
# Batches of fewer records are decoded together even if the records of each have one layout.
FEWEST_ALIKE = 256
# Batches of more records are decoded in parts of this size, unless the records have one layout.
MOST_AT_ONCE = 1 << 16
# Decoding this many records one by one takes as long as loading numpy: 0.1 s.
WORTH_NUMPY = 100_000


class ColumnGroup:
    """A context manager that adds batches to columns; the columns are complete when it exits.

    Raises CorruptMessage, CorruptData, UnsupportedCompressionType and CodecUnavailable like `decode_columns`,
    while a batch is added or on exit. Then `failed` is the damaged batch, and the records before the damage
    are in the columns.
    """

    def __init__(
        self, columns: GrowingColumns, where: str, check_crcs: bool, max_output_bytes: int = MAX_OUTPUT_BYTES
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
        self._tests_layouts = True
        self.failed: AnyBatch | None = None
        self.end_offset: int | None = None
        """If set, records from this offset on are dropped."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, KafkaError):
            # If an earlier batch is damaged too, its error replaces that of the later one.
            self._flush()
            if self.end_offset is not None:
                self._columns.end_before(self.end_offset)
        if self._arrays is None:
            _without_arrays.add(self._columns.one_by_one - self._one_by_one_before)

    def __len__(self) -> int:
        """Return the number of records in the columns and of those to be added."""
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
        if self._tests_layouts and batch.count >= FEWEST_ALIKE and self._add_alike(batch, body, first_offset):
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
        """Return a batch to be added step by step, after those of the group."""
        return ColumnPart(batch, first_offset, self._where, self._check_crcs, self._max_output_bytes)

    def _add_alike(self, batch: RecordBatch, body: Buffer, first_offset: int) -> bool:
        """Add a batch if its records have one layout; the first that fails the test ends these tests."""
        buffer = bytes(body)
        self._tests_layouts = looks_uniform(batch, buffer)
        if self._tests_layouts:
            self._flush()
            self._tests_layouts = decode_alike(batch, buffer, self._columns, self._where, first_offset)
        return self._tests_layouts

    def _add_alone(self, batch: AnyBatch, first_offset: int) -> None:
        try:
            decode_any_columns(
                batch, self._columns, self._where, first_offset, self._check_crcs, self._max_output_bytes
            )
        except KafkaError:
            self.failed = batch
            raise

    def _flush(self) -> None:
        """Decode the batches that are collected."""
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


class ColumnPart:
    """A batch of up to millions of records, decompressed and decoded step by step from `first_offset` on."""

    def __init__(
        self, batch: RecordBatch, first_offset: int, where: str, check_crcs: bool, max_output_bytes: int
    ) -> None:
        self._batch = batch
        self._first_offset = first_offset
        self._where = where
        self._opening: Steps[Buffer] = open_in_steps(batch, where, check_crcs, max_output_bytes)
        self._decoder: ColumnDecoder | None = None
        self._uncounted_bytes = batch.size_bytes
        self.open_bytes = batch.size_bytes
        """The number of bytes decompressed so far."""

    @property
    def is_done(self) -> bool:
        return self._decoder is not None and self._decoder.is_done

    @property
    def next_offset(self) -> int:
        """The offset at which the next step continues."""
        return self._first_offset if self._decoder is None else self._decoder.next_offset

    def step(self, into: GrowingColumns) -> None:
        """Take one step, which can add records to the columns. Raise like `decode_columns`."""
        batch = self._batch
        if self._decoder is None:
            try:
                self.open_bytes = max(self.open_bytes, next(self._opening))
            except StopIteration as end:
                body = bytes(end.value)
                self.open_bytes = len(body)
                self._decoder = ColumnDecoder(batch, body, into, self._where, self._first_offset)
            return
        before = len(into)
        self._decoder.fill(into)
        try:
            self._decoder.run(MOST_AT_ONCE)
        finally:
            if len(into) > before:  # columns without records are not returned
                into.count_batch(batch.last_offset, self._uncounted_bytes, batch.timestamp_type)
                self._uncounted_bytes = 0


class WithoutArrays:
    """Counts records that were decoded without numpy. Any thread; an inexact count is harmless."""

    def __init__(self) -> None:
        self.records = 0
        self._is_missing = False

    def add(self, records: int) -> None:
        """Add records that were decoded one by one."""
        self.records += records

    def should_end(self) -> bool:
        """Return whether it is time to load numpy; needs pyarrow. Called until numpy is loaded."""
        if self.records < WORTH_NUMPY or self._is_missing:
            return False
        self._is_missing = not all(map(find_spec, ("pyarrow", "numpy")))
        return not self._is_missing

    def give_up(self) -> None:
        """Make `should_end` return False from now on, because numpy cannot be loaded."""
        self._is_missing = True


_without_arrays = WithoutArrays()


def _array_decoder() -> ModuleType | None:
    """Return array_decoder.py if numpy is loaded or worth its 0.1 s and 20 MB, otherwise None."""
    if "numpy" not in sys.modules and not _without_arrays.should_end():
        return None
    try:
        from pykafka2.records import array_decoder
    except ImportError:  # or a numpy that is broken
        _without_arrays.give_up()
        return None
    return array_decoder
