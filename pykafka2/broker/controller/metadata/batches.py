"""Record batches of the metadata log and its snapshots: metadata records, or control records of KRaft.

Pure functions between bytes and values. `versioned` selects the version in which a record is written. A batch
has records of one kind, one leader epoch and one timestamp, and applies as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from struct import Struct
from typing import Final

import attrs

from pykafka2.errors import CorruptData, CorruptMessage, KafkaError
from pykafka2.protocol.messages.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from pykafka2.protocol.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
)
from pykafka2.protocol.primitives import read_uvarint, uvarint
from pykafka2.protocol.registry import all_data
from pykafka2.protocol.struct import Data, MetadataRecord
from pykafka2.records.batch import (
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    MAGIC_AT,
    OFFSET_AND_LENGTH,
    RecordBatch,
    open_view,
)
from pykafka2.records.decoder import decode_tuples
from pykafka2.records.encoder import BatchBuilder

FRAME_VERSION = 1

# Versions of records by the lowest metadata.version that has them (MetadataVersion), the newest first.
_VERSIONS: Final[dict[type[MetadataRecord], tuple[tuple[int, int], ...]]] = {
    RegisterBrokerRecord: ((30, 4), (17, 3), (8, 2), (0, 1)),
    BrokerRegistrationChangeRecord: ((30, 3), (17, 2), (0, 1)),
    PartitionRecord: ((23, 2), (17, 1), (0, 0)),
    PartitionChangeRecord: ((23, 2), (17, 1), (0, 0)),
}

# Fields that older versions lack, and that are left out there.
_LACKING: Final[dict[type[MetadataRecord], dict[str, int]]] = {
    RegisterBrokerRecord: {"cordoned_log_dirs": 4, "log_dirs": 3, "is_migrating_zk_broker": 2},
    BrokerRegistrationChangeRecord: {"cordoned_log_dirs": 3, "log_dirs": 2},
    PartitionRecord: {"eligible_leader_replicas": 2, "last_known_elr": 2, "directories": 1},
    PartitionChangeRecord: {"eligible_leader_replicas": 2, "last_known_elr": 2, "directories": 1},
}


def versioned(record: MetadataRecord, metadata_version: int) -> tuple[MetadataRecord, int]:
    """Return a record and its version at this level of metadata.version.

    Fields that this version lacks have their defaults.
    """
    cls = type(record)
    levels = _VERSIONS.get(cls)
    if levels is None:
        return record, 0
    version = next(version for level, version in levels if metadata_version >= level)
    lacking = {name for name, first in _LACKING[cls].items() if version < first}
    if not lacking:
        return record, version
    fields = {entry.name: getattr(record, entry.name) for entry in cls._fields if entry.name not in lacking}
    return cls(**fields), version


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


KINDS: Final[dict[int, type[Data]]] = {
    2: LeaderChangeMessage,
    3: SnapshotHeaderRecord,
    4: SnapshotFooterRecord,
    5: KRaftVersionRecord,
    6: VotersRecord,
}
"""Control records by the type in their key."""

_TYPES = {cls: kind for kind, cls in KINDS.items()}
_CONTROL_KEY = Struct(">hh")  # version, type
_VERSION = Struct(">h")

Versioned = tuple[MetadataRecord, int]
"""A record and the version in which it is written."""


@attrs.frozen
class MetadataBatch:
    """One batch of the metadata log; `controls` is empty unless it is a control batch."""

    base_offset: int
    next_offset: int
    epoch: int
    timestamp_ms: int
    records: Sequence[Versioned] = ()
    controls: Sequence[Data] = ()


def encode_records(records: Sequence[Versioned], base_offset: int, epoch: int, now_ms: int) -> bytes:
    """Return one batch. Raise `ValueError` without records."""
    values = [encode_metadata_record(record, version) for record, version in records]
    return _batch([(None, value) for value in values], base_offset, epoch, now_ms, is_control=False)


def encode_controls(controls: Sequence[Data], base_offset: int, epoch: int, now_ms: int) -> bytes:
    """Return one control batch."""
    entries = [
        (_CONTROL_KEY.pack(0, _TYPES[type(control)]), control.encode(_control_version(control)))
        for control in controls
    ]
    return _batch(entries, base_offset, epoch, now_ms, is_control=True)


def _control_version(control: Data) -> int:
    return control.version if isinstance(control, LeaderChangeMessage) else 0


def _batch(
    entries: Sequence[tuple[bytes | None, bytes]],
    base_offset: int,
    epoch: int,
    now_ms: int,
    *,
    is_control: bool,
) -> bytes:
    builder = BatchBuilder(max_bytes=2**31 - 1)
    for key, value in entries:
        builder.append(now_ms, key, value)
    return builder.build(base_offset=base_offset, partition_leader_epoch=epoch, is_control=is_control)


# ---------------------------------------------------------------------- reading


def valid_bytes(data: bytes, where: str) -> int:
    """Return where the last whole batch ends; what follows is a torn write, which never was acknowledged.

    Raise `CorruptData` if valid batches follow the damage, because these were acknowledged.
    """
    position = 0
    while (end := _valid_end(data, position)) is not None:
        position = end
    later = _next_valid(data, position + 1)
    if later is not None:
        raise CorruptData(
            f"{where}: the batch at byte {position} is damaged, but the one at byte {later} is valid"
        )
    return position


def _valid_end(data: bytes, position: int) -> int | None:
    """Return where the batch at this position ends, or None if it is not valid."""
    if len(data) - position < HEADER_BYTES or data[position + MAGIC_AT] != MAGIC:
        return None
    _, length = OFFSET_AND_LENGTH.unpack_from(data, position)
    end = position + LENGTH_END + length
    if length < HEADER_BYTES - LENGTH_END or end > len(data):
        return None
    try:
        open_view(memoryview(data)[position:end], "batch").verify_crc()
    except (CorruptData, CorruptMessage):
        return None
    return int(end)


def _next_valid(data: bytes, start: int) -> int | None:
    at = data.find(MAGIC, start + MAGIC_AT)
    while at >= 0:
        if _valid_end(data, at - MAGIC_AT) is not None:
            return at - MAGIC_AT
        at = data.find(MAGIC, at + 1)
    return None


def decode_batches(data: bytes, where: str, next_offset: int) -> Iterator[MetadataBatch]:
    """Iterate over whole, valid batches; the first one begins at `next_offset`.

    Raise `CorruptData` with `where` and the offset: damage, a gap, a lower epoch, or a record of a later
    release.
    """
    position, epoch = 0, 0
    while position < len(data):
        end = _valid_end(data, position)
        if end is None:
            raise CorruptData(f"{where}: the batch of offset {next_offset}, at byte {position}, is damaged")
        batch = RecordBatch(memoryview(data)[position:end])
        if batch.base_offset != next_offset:
            raise CorruptData(f"{where}: offset {batch.base_offset} follows where {next_offset} is expected")
        if batch.partition_leader_epoch < epoch:
            raise CorruptData(
                f"{where}: offset {next_offset} has epoch {batch.partition_leader_epoch} after {epoch}"
            )
        yield _decoded(batch, f"{where}, batch of offset {next_offset}")
        position, epoch, next_offset = end, batch.partition_leader_epoch, batch.next_offset


def _decoded(batch: RecordBatch, where: str) -> MetadataBatch:
    records: list[Versioned] = []
    controls: list[Data] = []
    try:
        for _, _, key, value, _ in decode_tuples(batch, where, check_crcs=False, keeps_headers=False):
            if batch.is_control:
                controls.append(_control(key, value, where))
            elif value is None:
                raise CorruptData(f"{where}: a record without a value")
            else:
                records.append(decode_metadata_record(value, where))
    except CorruptData:
        raise
    except KafkaError as error:
        raise CorruptData(f"{where}: {error}") from error
    return MetadataBatch(
        batch.base_offset,
        batch.next_offset,
        batch.partition_leader_epoch,
        batch.max_timestamp,
        records,
        controls,
    )


def _control(key: bytes | None, value: bytes | None, where: str) -> Data:
    if key is None or value is None or len(key) < _CONTROL_KEY.size or len(value) < _VERSION.size:
        raise CorruptData(f"{where}: a control record is too short")
    _, kind = _CONTROL_KEY.unpack_from(key)
    cls = KINDS.get(kind)
    if cls is None:
        raise CorruptData(f"{where}: control records of type {kind} are unknown")
    (version,) = _VERSION.unpack_from(value)
    if cls is not LeaderChangeMessage:
        version = 0
    if not 0 <= version <= cls.LAST_VERSION:
        raise CorruptData(f"{where}: {cls.NAME} has no version {version}")
    return cls.decode(value, version)
