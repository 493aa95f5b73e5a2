"""Records of the metadata log as values of Kafka records: frame version, API key, version, fields."""

from __future__ import annotations

from functools import cache

from pykafka2.errors import CorruptData
from pykafka2.protocol.primitives import read_uvarint, uvarint
from pykafka2.protocol.registry import all_data
from pykafka2.protocol.struct import MetadataRecord

FRAME_VERSION = 1


def encode_metadata_record(record: MetadataRecord, version: int) -> bytes:
    return uvarint(FRAME_VERSION) + uvarint(record.RECORD_KIND) + uvarint(version) + record.encode(version)


def decode_metadata_record(value: bytes, where: str) -> tuple[MetadataRecord, int]:
    """Return the record and its version.

    Raise `CorruptData`, also for types and versions of later releases.
    """
    try:
        frame_version, position = read_uvarint(value, 0)
        api_key, position = read_uvarint(value, position)
        version, position = read_uvarint(value, position)
    except IndexError:
        raise CorruptData(f"{where}: the record ends within its frame of {len(value)} bytes") from None
    if frame_version != FRAME_VERSION:
        raise CorruptData(f"{where}: frame version {frame_version} is not {FRAME_VERSION}")
    cls = _classes().get(api_key)
    if cls is None:
        raise CorruptData(f"{where}: there is no metadata record with API key {api_key}")
    if not cls.MIN_VERSION <= version <= cls.LAST_VERSION:
        raise CorruptData(f"{where}: {cls.NAME} has no version {version}, only up to {cls.LAST_VERSION}")
    return cls.decode(value[position:], version), version


@cache
def _classes() -> dict[int, type[MetadataRecord]]:
    return {cls.RECORD_KIND: cls for cls in all_data() if issubclass(cls, MetadataRecord)}
