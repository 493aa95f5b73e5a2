"""Batches into columns, several at once.

Runs on the application's thread, for `poll_columns` and `read_range`.  Where numpy is loaded, as it is once
`to_arrow` was called, the records of several batches are found by array_decoder.py; otherwise, and where
records are not as producers write them, by column_decoder.py batch by batch.  Columns are the same either
way, and the same is raised.
"""

from __future__ import annotations

import sys
from types import ModuleType, TracebackType
from typing import Self

from pykafka2.compression import MAX_OUTPUT_BYTES
from pykafka2.errors import KafkaError
from pykafka2.records.batch import Buffer, RecordBatch
from pykafka2.records.column_decoder import decode_opened
from pykafka2.records.columns import Columns
from pykafka2.records.decoder import has_gaps, open_body
from pykafka2.records.legacy import AnyBatch, decode_any_columns

# So many bytes of records are decoded at once: more would not stay in the processor's caches.
GROUP_BYTES = 1 << 19
# Fewer records are not worth the arrays.
FEWEST_RECORDS = 48


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
        self._opened: list[tuple[RecordBatch, Buffer]] = []
        self._bytes = 0
        self._records = 0
        self._first_offset = self._next_offset = 0
        self._have_gaps = False
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
        if not self._opened:
            self._first_offset, self._have_gaps = first_offset, gaps
        self._opened.append((batch, body))
        self._next_offset = batch.next_offset
        self._bytes += len(body)
        self._records += batch.count
        if self._bytes >= GROUP_BYTES:
            self._flush()

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


def _array_decoder() -> ModuleType | None:
    """array_decoder.py, if numpy is loaded already: loading it takes 0.1 s and 20 MB, which few need."""
    if "numpy" not in sys.modules:
        return None
    try:
        from pykafka2.records import array_decoder
    except ImportError:  # a numpy that cannot be used is as good as none
        return None
    return array_decoder
