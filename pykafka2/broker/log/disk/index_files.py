"""The binary files beside a segment: offset, time and transaction index, and the producer snapshot.

| file | entry | source |
|---|---|---|
| `.index` | offset - base offset (int32), position in the segment (int32) | OffsetIndex |
| `.timeindex` | timestamp (int64), offset - base offset (int32) | TimeIndex |
| `.txnindex` | version 0 (int16), producer id, first, last and last stable offset (int64) | AbortedTxn |
| `.snapshot` | version 1 (int16), CRC-32C (uint32), count (int32), producers | ProducerStateManager |

Kafka allocates the indexes of its active segment in advance, so zeros follow the last entry. Only entries
whose key rises are read; what follows is padding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import NamedTuple

import attrs

from pykafka2.broker.log.transaction_index import AbortedTransaction
from pykafka2.errors import CorruptData
from pykafka2.records.batch import crc32c

INDEX_VERSION = 0
SNAPSHOT_VERSION = 1

_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")
_TRANSACTION_ENTRY = Struct(">hqqqq")
_SNAPSHOT_HEADER = Struct(">hI")
_COUNT = Struct(">i")
_PRODUCER = Struct(">qhiqiqiq")


class OffsetEntry(NamedTuple):
    """The position in the segment (bytes) of the batch whose last offset is `offset`."""

    offset: int
    position: int


class TimeEntry(NamedTuple):
    """The largest timestamp (milliseconds) of the segment up to `offset`."""

    timestamp: int
    offset: int


@attrs.frozen
class ProducerEntry:
    """A producer's last batch and the first offset of its open transaction; -1 if unknown."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    first_transaction_offset: int


def encode_offset_index(entries: Iterable[OffsetEntry], base_offset: int) -> bytes:
    return b"".join(_OFFSET_ENTRY.pack(offset - base_offset, position) for offset, position in entries)


def decode_offset_index(data: bytes, base_offset: int) -> list[OffsetEntry]:
    """Return the entries up to the padding; a partial entry at the end is ignored."""
    entries: list[OffsetEntry] = []
    for relative, position in _whole_entries(_OFFSET_ENTRY, data):
        if relative < 0 or position < 0:
            break
        entry = OffsetEntry(base_offset + relative, position)
        if entries and (entry.offset <= entries[-1].offset or position <= entries[-1].position):
            break
        if not relative and not position and not entries:
            break  # the first batch has no entry: these are zeros
        entries.append(entry)
    return entries


def encode_time_index(entries: Iterable[TimeEntry], base_offset: int) -> bytes:
    return b"".join(_TIME_ENTRY.pack(timestamp, offset - base_offset) for timestamp, offset in entries)


def decode_time_index(data: bytes, base_offset: int) -> list[TimeEntry]:
    """Return the entries up to the padding; a partial entry at the end is ignored."""
    entries: list[TimeEntry] = []
    for timestamp, relative in _whole_entries(_TIME_ENTRY, data):
        entry = TimeEntry(timestamp, base_offset + relative)
        if relative < 0 or (entries and timestamp <= entries[-1].timestamp):
            break
        if not timestamp and not relative:
            break
        entries.append(entry)
    return entries


def encode_transaction_index(entries: Iterable[AbortedTransaction]) -> bytes:
    return b"".join(
        _TRANSACTION_ENTRY.pack(
            INDEX_VERSION,
            aborted.producer_id,
            aborted.first_offset,
            aborted.last_offset,
            aborted.last_stable_offset,
        )
        for aborted in entries
    )


def decode_transaction_index(data: bytes, where: str) -> list[AbortedTransaction]:
    """Raise `CorruptData` for a partial entry, another version, or offsets that do not rise."""
    if len(data) % _TRANSACTION_ENTRY.size:
        raise CorruptData(f"{where}: {len(data)} bytes are not a whole number of entries")
    entries: list[AbortedTransaction] = []
    for version, *fields in _TRANSACTION_ENTRY.iter_unpack(data):
        aborted = AbortedTransaction(*fields)
        if version != INDEX_VERSION:
            raise CorruptData(f"{where}: version {version} is not {INDEX_VERSION}")
        if entries and aborted.last_offset <= entries[-1].last_offset:
            raise CorruptData(f"{where}: the entry of offset {aborted.last_offset} is not in order")
        entries.append(aborted)
    return entries


def encode_producer_snapshot(producers: Sequence[ProducerEntry]) -> bytes:
    body = _COUNT.pack(len(producers)) + b"".join(
        _PRODUCER.pack(*attrs.astuple(producer)) for producer in producers
    )
    return _SNAPSHOT_HEADER.pack(SNAPSHOT_VERSION, crc32c(body)) + body


def decode_producer_snapshot(data: bytes, where: str) -> list[ProducerEntry]:
    """Raise `CorruptData` for another version, a wrong checksum or a wrong length."""
    if len(data) < _SNAPSHOT_HEADER.size + _COUNT.size:
        raise CorruptData(f"{where}: {len(data)} bytes are too few for a producer snapshot")
    version, checksum = _SNAPSHOT_HEADER.unpack_from(data)
    if version != SNAPSHOT_VERSION:
        raise CorruptData(f"{where}: version {version} is not {SNAPSHOT_VERSION}")
    body = data[_SNAPSHOT_HEADER.size :]
    if crc32c(body) != checksum:
        raise CorruptData(f"{where}: the checksum does not match")
    (count,) = _COUNT.unpack_from(body)
    if count < 0 or len(body) != _COUNT.size + count * _PRODUCER.size:
        raise CorruptData(f"{where}: {len(data)} bytes do not hold {count} producers")
    return [ProducerEntry(*fields) for fields in _PRODUCER.iter_unpack(body[_COUNT.size :])]


def _whole_entries(layout: Struct, data: bytes) -> Iterable[tuple[int, int]]:
    return layout.iter_unpack(memoryview(data)[: len(data) // layout.size * layout.size])
