"""The records of a sealed batch, as rows or as encoded columns, and their bytes on the wire.

`RowRecords` takes over the rows of an open batch (open_batch.py) and encodes them when they are sent.
`ColumnRecords` are encoded when `send_many` appends them. Both are renumbered, resent and released in the
same way. Used on the IO thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pykafka2.errors import IllegalState
from pykafka2.native import compiled
from pykafka2.producer.accumulator.batch_sizes import (
    BATCH_OVERHEAD_BYTES,
    LONGER_OVERHEAD_BYTES,
    SMALLEST_RECORD_BYTES,
    BatchPlan,
    overhead_of,
)
from pykafka2.records.batch import RecordBatch, with_producer
from pykafka2.records.decoder import decode_tuples
from pykafka2.records.encoder import NO_HEADERS, Row, encode_headers, encode_only, encode_rows, frame_batch
from pykafka2.records.plain_encoder import encode_plain
from pykafka2.records.rows import FIELDS, Fields, fields_of_rows, has_columns, rows_of

if TYPE_CHECKING:
    from pykafka2.records.column_encoder import EncodedRecords

Identity = tuple[int, int]
"""A producer id and its epoch."""

NO_IDENTITY: Identity = (-1, -1)
NO_SEQUENCE = -1


class BatchRecords(Protocol):
    """The interface of a sealed batch's records.

    Attributes:
        count: number of records; kept when they are released.
        bound_bytes: upper bound of their size before compression.
        raw_bytes: their size before compression; 0 before they are encoded.
        fields: the records as rows (records/rows.py); empty if they are columns or released.
        encoded: the bytes for the wire under the current sequence; None before they are made.
    """

    count: int
    bound_bytes: int
    raw_bytes: int
    fields: Fields
    encoded: bytes | None

    def encode(
        self, plan: BatchPlan, identity: Identity, base_sequence: int, is_transactional: bool
    ) -> bytes:
        """Make `encoded` for this place in the producer's sequence. Raise IllegalState after `release`."""

    def drop_encoded(self) -> None:
        """Discard the bytes, as the batch gets another place in the sequence."""

    def overhead_bytes(self, granted_bytes: int) -> int:
        """Return the memory besides the bytes that were granted."""

    def as_rows(self, plan: BatchPlan, where: str) -> RowRecords:
        """Return the records as rows, which can be split."""

    def release(self) -> Fields:
        """Drop the records, and return their rows for callbacks; none of columns."""


class RowRecords:
    """The rows that callers appended; see `BatchRecords` for the attributes."""

    __slots__ = ("bound_bytes", "count", "encoded", "fields", "raw_bytes")

    def __init__(self, fields: Fields, bound_bytes: int) -> None:
        self.fields = fields
        self.count = len(fields) // FIELDS
        self.bound_bytes = bound_bytes
        self.raw_bytes = 0
        self.encoded: bytes | None = None

    def encode(
        self, plan: BatchPlan, identity: Identity, base_sequence: int, is_transactional: bool
    ) -> bytes:
        if not self.fields:
            raise _released()
        base_timestamp = self.fields[2]
        records, max_timestamp = _encoded(self.fields, base_timestamp)
        self.raw_bytes = len(records)
        self.encoded = frame_batch(
            records,
            self.count,
            base_timestamp,
            max_timestamp,
            plan.codec,
            plan.level,
            producer_id=identity[0],
            producer_epoch=identity[1],
            base_sequence=base_sequence,
            is_transactional=is_transactional,
        )
        return self.encoded

    def drop_encoded(self) -> None:
        self.encoded = None

    def overhead_bytes(self, granted_bytes: int) -> int:
        encoded_bytes = 0 if self.encoded is None else len(self.encoded)
        return overhead_of(self.fields) + max(0, self.bound_bytes - granted_bytes) + encoded_bytes

    def as_rows(self, plan: BatchPlan, where: str) -> RowRecords:
        return self

    def split(self) -> tuple[RowRecords, RowRecords]:
        """Return two halves of about the same size, of two records or more."""
        sizes = [_record_bytes(row) for row in rows_of(self.fields)]
        half, first_bytes, count = sum(sizes) / 2, sizes[0], 1
        while count < len(sizes) - 1 and first_bytes + sizes[count] / 2 < half:
            first_bytes += sizes[count]
            count += 1
        first = RowRecords(self.fields[: count * FIELDS], first_bytes)
        second = RowRecords(self.fields[count * FIELDS :], sum(sizes) - first_bytes)
        first.raw_bytes, second.raw_bytes = first.bound_bytes, second.bound_bytes
        return first, second

    def release(self) -> Fields:
        fields, self.fields, self.encoded = self.fields, [], None
        return fields


class ColumnRecords:
    """Records that `send_many` encoded; see `BatchRecords` for the attributes.

    Their bytes are kept once: a framed batch replaces the records, and a renumbered batch is a copy of it
    with another sequence.
    """

    __slots__ = ("_framed", "_records", "bound_bytes", "count", "encoded", "fields", "raw_bytes")

    def __init__(self, records: EncodedRecords) -> None:
        self._records: EncodedRecords | None = records
        self._framed: bytes | None = None
        """The batch as framed under an earlier sequence."""
        self.fields: Fields = []
        self.count = records.count
        self.bound_bytes = self.raw_bytes = len(records.body)
        self.encoded: bytes | None = None

    def encode(
        self, plan: BatchPlan, identity: Identity, base_sequence: int, is_transactional: bool
    ) -> bytes:
        if self._framed is not None:
            encoded = with_producer(self._framed, *identity, base_sequence)
        elif self._records is not None:
            encoded = frame_batch(
                self._records.body,
                self.count,
                self._records.base_timestamp,
                self._records.max_timestamp,
                plan.codec,
                plan.level,
                producer_id=identity[0],
                producer_epoch=identity[1],
                base_sequence=base_sequence,
                is_transactional=is_transactional,
            )
        else:
            raise _released()
        self.encoded, self._framed, self._records = encoded, None, None
        return encoded

    def drop_encoded(self) -> None:
        self._framed, self.encoded = self.encoded or self._framed, None

    def overhead_bytes(self, granted_bytes: int) -> int:
        return BATCH_OVERHEAD_BYTES  # their bytes are what was granted; compressed, they take less

    def as_rows(self, plan: BatchPlan, where: str) -> RowRecords:
        encoded = self.encoded or self._framed or self.encode(plan, NO_IDENTITY, NO_SEQUENCE, False)
        fields = fields_of_rows(
            (value, key, timestamp, encode_headers(headers) if headers else NO_HEADERS, None)
            for _, timestamp, key, value, headers in decode_tuples(
                RecordBatch(memoryview(encoded)), where, check_crcs=False
            )
        )
        rows = RowRecords(fields, self.bound_bytes)
        self.release()
        return rows

    def release(self) -> Fields:
        self.encoded = self._framed = self._records = None
        return []


def _released() -> IllegalState:
    return IllegalState("the batch is done and has no bytes any more")


def _encoded(fields: Fields, base_timestamp: int) -> tuple[bytes, int]:
    """Return the encoded records and the latest of their timestamps."""
    if compiled is not None:
        written = compiled.encode(fields)
        if written is not None:
            return written
    if len(fields) == FIELDS and fields[2] == base_timestamp:  # the common case of a caller that waits
        return encode_only(fields[0], fields[1], fields[3]), base_timestamp
    if has_columns(fields):
        keys = None if fields[1] is None else fields[1::FIELDS]
        encoded = encode_plain(fields[::FIELDS], fields[2::FIELDS], base_timestamp, keys)
        if encoded is not None:
            return encoded
    return encode_rows(rows_of(fields), base_timestamp)


def _record_bytes(row: Row) -> int:
    """Return the upper bound of the size of a record, uncompressed."""
    value, key, _, headers, _ = row
    sizes = len(value or b"") + len(key or b"") + len(headers)
    return SMALLEST_RECORD_BYTES + LONGER_OVERHEAD_BYTES + sizes
