"""Reads the fields of encoded records that compaction needs, and rewrites their timestamps.

Kept records are copied as bytes. Their offset and timestamp deltas stay valid, because the batch header keeps
its base offset and timestamp; only a delete horizon changes the base timestamp (KIP-534).
"""

from __future__ import annotations

from collections.abc import Iterator

from pykafka2.errors import CorruptData
from pykafka2.records.varint import MAX_VARLONG_BYTES, read_raw, read_varint, varint

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
