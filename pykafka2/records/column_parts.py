"""A batch of very many records into columns, in parts.

Runs on the application's thread, for `poll_columns` and `read_range`: a batch can hold eighteen million
records, and columns of all of them would take seconds and gigabytes.
"""

from __future__ import annotations

from pykafka2.compression.steps import Steps
from pykafka2.records.batch import Buffer, RecordBatch
from pykafka2.records.column_decoder import ColumnDecoder
from pykafka2.records.columns import Columns
from pykafka2.records.opening import open_in_steps

# Batches of more records are decoded in parts of so many, unless the records are laid out alike.
MOST_AT_ONCE = 1 << 16


class ColumnPart:
    """One batch, decompressed and decoded step by step from `first_offset` on."""

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
        """The bytes that are decompressed so far."""

    @property
    def is_done(self) -> bool:
        return self._decoder is not None and self._decoder.is_done

    @property
    def next_offset(self) -> int:
        """The offset at which the next step continues."""
        return self._first_offset if self._decoder is None else self._decoder.next_offset

    def step(self, into: Columns) -> None:
        """Take one step, which may add records to the columns.  Raises as `decode_columns`."""
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
