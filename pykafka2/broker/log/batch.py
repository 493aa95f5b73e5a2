"""Operations of a leader on record batches: parsing, assigning offsets, rewriting header or body.

Batches stay encoded: only the 61 bytes of the header are read and written, and records are decoded only if a
rule needs them (validation.py). Built on records/batch.py, whose `RecordBatch` is a view. Nothing here
changes bytes in place, because clients' frames and other replicas share them.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from pykafka2.errors import CorruptMessage, InvalidRecord
from pykafka2.records.batch import (
    CODEC_MASK,
    CRC_START,
    DELETE_HORIZON_FLAG,
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    LOG_APPEND_TIME_FLAG,
    MAGIC,
    MAGIC_AT,
    Buffer,
    RecordBatch,
    crc32c,
)

NO_TIMESTAMP: Final = -1
_PLACE: Final = Struct(">qii")  # base offset, length, leader epoch: the fields outside the checksum


def parse_batch(data: Buffer) -> RecordBatch:
    """Return the single batch in `data`.

    Raise `CorruptMessage` if truncated, `InvalidRecord` for another magic.
    """
    if len(data) < HEADER_BYTES:
        raise CorruptMessage(
            f"a record batch has a header of {HEADER_BYTES} bytes, but only {len(data)} bytes were sent"
        )
    batch = RecordBatch(memoryview(data))
    if batch.magic != MAGIC:
        raise InvalidRecord(f"record batches have magic {MAGIC}, not {batch.magic}")
    if batch.length + LENGTH_END != len(data):
        raise CorruptMessage(
            f"the batch has a length of {batch.length + LENGTH_END} bytes, but {len(data)} bytes were sent"
        )
    return batch


def placed(batch: RecordBatch, base_offset: int, leader_epoch: int) -> RecordBatch:
    """Return a copy of the batch with its offset and leader epoch; the checksum does not change (KIP-98)."""
    place = _PLACE.pack(base_offset, batch.length, leader_epoch)
    return RecordBatch(memoryview(b"".join((place, batch.buffer[MAGIC_AT:]))))


def with_log_append_time(batch: RecordBatch, timestamp_ms: int) -> RecordBatch:
    """Return a copy for a topic with message.timestamp.type=LogAppendTime, with a new checksum."""
    return rewritten(
        batch, batch.attributes | LOG_APPEND_TIME_FLAG, timestamp_ms, batch.buffer[HEADER_BYTES:]
    )


def rewritten(batch: RecordBatch, attributes: int, max_timestamp: int, body: Buffer) -> RecordBatch:
    """Return the same records with another header and possibly a recompressed body, with a new checksum."""
    return with_records(batch, body, batch.count, attributes, batch.base_timestamp, max_timestamp)


def with_records(
    batch: RecordBatch, body: Buffer, count: int, attributes: int, base_timestamp: int, max_timestamp: int
) -> RecordBatch:
    """Return a batch of the same offsets and producer with other records, with a new checksum."""
    length = HEADER_BYTES - LENGTH_END + len(body)

    def header(crc: int) -> bytes:
        return HEADER.pack(
            batch.base_offset,
            length,
            batch.partition_leader_epoch,
            MAGIC,
            crc,
            attributes,
            batch.last_offset_delta,
            base_timestamp,
            max_timestamp,
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
            count,
        )

    crc = crc32c(header(0)[CRC_START:], body)
    return RecordBatch(memoryview(header(crc) + bytes(body)))


def without_records(batch: RecordBatch) -> RecordBatch:
    """Return the empty batch that compaction leaves, which keeps offsets and sequences."""
    attributes = batch.attributes & ~(CODEC_MASK | DELETE_HORIZON_FLAG)
    return with_records(batch, b"", 0, attributes, NO_TIMESTAMP, batch.max_timestamp)
