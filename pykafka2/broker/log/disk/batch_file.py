"""Reads batches at positions of a segment's file. Kafka's FileRecords.

A file that something else has cut or overwritten raises `CorruptMessage`.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final

from pykafka2.broker.log.disk.file_system import File
from pykafka2.errors import CorruptMessage
from pykafka2.records.batch import HEADER_BYTES, LENGTH_END, RecordBatch

PLACE: Final = Struct(">qi11xi")
"""Base offset, length, last offset delta."""
LENGTH: Final = Struct(">i")
LENGTH_AT: Final = 8
WALK_BYTES: Final = 4096


def places(file: File, position: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Iterate over position, base offset, size and last offset delta of the batches up to `end`.

    Read headers only.
    """
    data, start = b"", position
    while position + HEADER_BYTES <= end:
        at = position - start
        if at < 0 or at + PLACE.size > len(data):
            data, start, at = file.read(position, WALK_BYTES), position, 0
        if len(data) < PLACE.size:
            return
        base_offset, length, last_delta = PLACE.unpack_from(data, at)
        size = _checked_size(file, length, position)
        yield position, base_offset, size, last_delta
        position += size


def batches_in(file: File, position: int, size: int) -> Iterator[tuple[int, RecordBatch]]:
    """Iterate over the whole batches in a part of the file, with the position after each."""
    data = memoryview(file.read(position, size))
    at, end = 0, len(data)
    while at + HEADER_BYTES <= end:
        (length,) = LENGTH.unpack_from(data, at + LENGTH_AT)
        stop = at + _checked_size(file, length, position + at)
        if stop > end:
            return
        yield position + stop, RecordBatch(data[at:stop])
        at = stop


def batch_size(file: File, position: int) -> int:
    """Return the size of the batch at this position."""
    data = file.read(position + LENGTH_AT, LENGTH.size)
    if len(data) < LENGTH.size:
        raise too_short(file, position)
    (length,) = LENGTH.unpack(data)
    return _checked_size(file, length, position)


def too_short(file: File, position: int) -> CorruptMessage:
    """Return the error for a file that something else has cut."""
    return CorruptMessage(f"{file.path} ends within the batch at position {position}")


def _checked_size(file: File, length: int, position: int) -> int:
    if length < HEADER_BYTES - LENGTH_END:
        raise CorruptMessage(f"{file.path} at position {position}: batch length {length} is invalid")
    return length + LENGTH_END
