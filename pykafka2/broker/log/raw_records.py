"""Reads the fields of encoded records that compaction needs, and rewrites their timestamps.

Records stay encoded: their bytes are copied, because offset and timestamp deltas refer to the batch's header,
whose base does not change. Only a delete horizon changes the base timestamp (KIP-534).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pykafka2.errors import CorruptData
from pykafka2.records.varint import MAX_VARINT_BYTES, MAX_VARLONG_BYTES, read_raw, read_varint, varint


class RawRecord(NamedTuple):
    """An encoded record: where its bytes start and end, and its fields."""

    start: int
    end: int
    offset_delta: int
    timestamp_delta: int
    key: bytes | None
    has_value: bool


def raw_records(body: bytes, count: int) -> Iterator[RawRecord]:
    """Iterates over the records of a decompressed batch. Raises `CorruptData` if they are malformed."""
    position, end = 0, len(body)
    try:
        for _ in range(count):
            start = position
            length, position = _signed(body, position, MAX_VARINT_BYTES)
            stop = position + length
            if length < 0 or stop > end:
                raise CorruptData(f"a record of {length} bytes at byte {start} of {end}")
            timestamp_delta, position = _signed(body, position + 1, MAX_VARLONG_BYTES)
            offset_delta, position = _signed(body, position, MAX_VARINT_BYTES)
            key_size, position = _signed(body, position, MAX_VARINT_BYTES)
            key = None
            if key_size >= 0:
                key = body[position : position + key_size]
                position += key_size
            value_size, position = _signed(body, position, MAX_VARINT_BYTES)
            if position + max(value_size, 0) > stop:
                raise CorruptData(f"the fields of the record at byte {start} are longer than the record")
            yield RawRecord(start, stop, offset_delta, timestamp_delta, key, value_size >= 0)
            position = stop
    except IndexError:
        raise CorruptData(f"the batch ends within a record: {end} bytes for {count} records") from None


def _signed(body: bytes, position: int, max_bytes: int) -> tuple[int, int]:
    raw = body[position]
    if raw < 0x80:
        return (raw >> 1) ^ -(raw & 1), position + 1
    return read_varint(body, position, max_bytes)


def with_timestamp_delta(body: bytes, record: RawRecord, delta: int) -> bytes:
    """Returns the record's bytes with another timestamp delta."""
    _, attributes_at = read_raw(body, record.start)
    _, rest_at = read_raw(body, attributes_at + 1, MAX_VARLONG_BYTES)
    fields = b"".join((body[attributes_at : attributes_at + 1], varint(delta), body[rest_at : record.end]))
    return varint(len(fields)) + fields
