"""Detects messages of the formats v0 and v1, of before Kafka 0.11, which this broker cannot read.

Recovery would take them for damage and cut them off, so a log that has them is refused. Kafka's LegacyRecord.
"""

from __future__ import annotations

from struct import Struct
from typing import Final
from zlib import crc32

from pykafka2.broker.log.disk.data_directory import refused
from pykafka2.broker.log.disk.file_system import File
from pykafka2.broker.log.disk.volume import Volume

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
