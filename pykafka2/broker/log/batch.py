"""What a leader does to record batches: read one, give it its place, rewrite its header or body.

The bytes stay closed: only the 61 bytes of header are read and stamped, and records are walked where a rule
needs them (validation.py).  Over records/batch.py, whose `RecordBatch` is a view; nothing here changes
bytes in place, because clients' frames and other replicas share them.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from pykafka2.errors import CorruptMessage, InvalidRecord
from pykafka2.records.batch import (
    CRC_START,
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

_PLACE: Final = Struct(">qii")  # base offset, length, leader epoch: what the checksum does not cover


def parse_batch(data: Buffer) -> RecordBatch:
    """The one batch that `data` is; `CorruptMessage` if it is torn, `InvalidRecord` if of another magic."""
    if len(data) < HEADER_BYTES:
        raise CorruptMessage(
            f"a record batch has {HEADER_BYTES} bytes of header, there are {len(data)} bytes"
        )
    batch = RecordBatch(memoryview(data))
    if batch.magic != MAGIC:
        raise InvalidRecord(f"record batches have magic {MAGIC}, this one says {batch.magic}")
    if batch.length + LENGTH_END != len(data):
        raise CorruptMessage(
            f"the batch says that it has {batch.length + LENGTH_END} bytes, there are {len(data)}"
        )
    return batch


def placed(batch: RecordBatch, base_offset: int, leader_epoch: int) -> RecordBatch:
    """A copy of the batch at its place in a log; the checksum stays as it is (KIP-98)."""
    place = _PLACE.pack(base_offset, batch.length, leader_epoch)
    return RecordBatch(memoryview(b"".join((place, batch.buffer[MAGIC_AT:]))))


def with_log_append_time(batch: RecordBatch, timestamp_ms: int) -> RecordBatch:
    """A copy as a topic with message.timestamp.type=LogAppendTime keeps it: checksum made anew."""
    return rewritten(
        batch, batch.attributes | LOG_APPEND_TIME_FLAG, timestamp_ms, batch.buffer[HEADER_BYTES:]
    )


def rewritten(batch: RecordBatch, attributes: int, max_timestamp: int, body: Buffer) -> RecordBatch:
    """The same records under another header, their body compressed anew perhaps; checksum made anew."""
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
            batch.base_timestamp,
            max_timestamp,
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
            batch.count,
        )

    crc = crc32c(body, crc32c(header(0)[CRC_START:]))
    return RecordBatch(memoryview(header(crc) + bytes(body)))
