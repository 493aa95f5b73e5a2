"""Record batches with any invalid field, and the values that a reader finds in them."""

from __future__ import annotations

from collections.abc import Sequence

from pykafka2.compression import codec as codec_of
from pykafka2.protocol.messages.fetch import PartitionData
from pykafka2.records.batch import HEADER, HEADER_BYTES, TRANSACTIONAL_FLAG, RecordBatch, batches, crc32c
from pykafka2.records.decoder import decode_tuples
from pykafka2.records.encoder import encode_record

NOW_MS = 1_767_225_600_000  # a fixed create time, well in the past


def batch(
    values: Sequence[bytes | None] = (b"value",),
    *,
    keys: Sequence[bytes | None] | None = None,
    codec: int = 0,
    attributes: int = 0,
    timestamp: int = NOW_MS,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    count: int | None = None,
    last_offset_delta: int | None = None,
    magic: int = 2,
    corrupt: bool = False,
    damage: bool = False,
    deltas: Sequence[int] | None = None,
) -> bytes:
    """Return a record batch with any header fields; the checksum fits unless `corrupt`.

    With `damage` its compressed data cannot be decompressed. `deltas` are the records' times after the first.
    """
    body = b"".join(
        encode_record(deltas[delta] if deltas else 0, delta, keys[delta] if keys else None, value, [])
        for delta, value in enumerate(values)
    )
    if codec:
        body = codec_of(codec).compress(body)
    if damage:
        body = body[:12] + bytes(4) + body[16:]
    fields = [
        0,
        HEADER_BYTES - 12 + len(body),
        -1,
        magic,
        0,
        attributes | codec,
        len(values) - 1 if last_offset_delta is None else last_offset_delta,
        timestamp,
        timestamp + max(deltas, default=0) if deltas else timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(values) if count is None else count,
    ]
    fields[4] = crc32c(HEADER.pack(*fields)[21:] + body)
    data = bytearray(HEADER.pack(*fields) + body)
    if corrupt:
        data[-1] ^= 0xFF
    return bytes(data)


def in_transaction(
    values: Sequence[bytes | None], producer_id: int, epoch: int = 0, sequence: int = 0, attributes: int = 0
) -> bytes:
    """Return a batch of a transaction."""
    return batch(
        values,
        attributes=attributes | TRANSACTIONAL_FLAG,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


def view(data: bytes) -> RecordBatch:
    return RecordBatch(memoryview(data))


def visible(data: PartitionData) -> list[bytes | None]:
    """Return the values that a read_committed consumer returns: those of aborted transactions are skipped."""
    waiting = sorted((one.first_offset, one.producer_id) for one in data.aborted_transactions or ())
    aborted: set[int] = set()
    values: list[bytes | None] = []
    for one in batches(memoryview(data.records or b"")):
        while waiting and waiting[0][0] <= one.base_offset:
            aborted.add(waiting.pop(0)[1])
        if one.is_control:
            aborted.discard(one.producer_id)
        elif not (one.is_transactional and one.producer_id in aborted):
            values += [value for _, _, _, value, _ in decode_tuples(one)]
    return values
