"""Reads batches at positions of a segment's file. Kafka's FileRecords.

A file that something else has cut or overwritten raises `CorruptMessage`. Recovery would take messages of the
formats v0 and v1 for damage and cut them off, so a log that has them is refused (Kafka's LegacyRecord).
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final
from zlib import crc32

from pykafka2.broker.log.disk.data_directory import refused
from pykafka2.broker.log.disk.volume import Volume
from pykafka2.broker.log.file_system import File
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


PREFIX: Final = Struct(">qiIb")
"""Offset, size of what follows it, checksum of what follows that, and the format."""
CHECKED_AT: Final = 16
SIZE_END: Final = 12
MIN_SIZES: Final = (14, 22)
"""The least sizes of messages in the formats v0 and v1."""


def check_format(volume: Volume, file: File, position: int) -> None:
    """Raise `ConfigurationError` if a whole message of an old format starts here; `OSError`."""
    data = file.read(position, PREFIX.size)
    if len(data) < PREFIX.size:
        return
    _, size, checksum, magic = PREFIX.unpack(data)
    if magic not in (0, 1) or not MIN_SIZES[magic] <= size <= file.size() - position - SIZE_END:
        return
    if crc32(file.read(position + CHECKED_AT, size + SIZE_END - CHECKED_AT)) == checksum:
        raise refused(
            volume.path,
            f"{file.path} has messages of the format v{magic}, of before Kafka 0.11, at position {position}",
            "Delete the topic, or copy it to a new topic, with a release of Apache Kafka that reads them",
        )
