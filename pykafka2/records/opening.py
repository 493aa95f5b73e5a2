"""Opens a batch for all decoders, and describes what is wrong with it.

Any thread; no state.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, repeat
from typing import NoReturn

from pykafka2.compression.steps import Steps, finish
from pykafka2.errors import CodecUnavailable, CorruptData, UnsupportedCompressionType
from pykafka2.records.batch import MIN_RECORD_BYTES, Buffer, RecordBatch

# As `varint_size` would say for each delta from 0 to 8191.
SIZES_OF_OFFSETS = b"\1" * 64 + b"\2" * (8192 - 64)


def sizes_of_offsets(batch: RecordBatch) -> Iterable[int]:
    """How many bytes each record's offset delta takes, if the header tells; else zeros: they must be read."""
    if has_gaps(batch):
        return repeat(0)
    return SIZES_OF_OFFSETS if batch.count <= len(SIZES_OF_OFFSETS) else chain(SIZES_OF_OFFSETS, repeat(3))


def has_gaps(batch: RecordBatch) -> bool:
    """Whether offsets must be read from the records, as the header does not tell them."""
    return batch.last_offset_delta != batch.count - 1 or batch.count > 1 << 20


def open_batch(batch: RecordBatch, where: str, check_crcs: bool, max_output_bytes: int) -> bytes:
    """The encoded records, after all checks that need no parsing: checksum, codec, count."""
    return bytes(open_body(batch, where, check_crcs, max_output_bytes))


def open_body(batch: RecordBatch, where: str, check_crcs: bool, max_output_bytes: int) -> Buffer:
    """The same without a copy: a view, where nothing was to be decompressed."""
    return finish(open_in_steps(batch, where, check_crcs, max_output_bytes))


def open_in_steps(batch: RecordBatch, where: str, check_crcs: bool, max_output_bytes: int) -> Steps[Buffer]:
    """Open a batch like `open_body`; a large batch is decompressed in several steps."""
    if check_crcs:
        batch.verify_crc(where)
    try:
        buffer = yield from batch.records_in_steps(max_output_bytes)
    except (CorruptData, UnsupportedCompressionType, CodecUnavailable) as error:
        raise type(error)(f"{where} at offset {batch.base_offset}: {error}") from error
    check_count(batch, where, len(buffer))
    return buffer


def check_count(batch: RecordBatch, where: str, size_bytes: int) -> None:
    """Raise CorruptData if the batch names more records than can be in so many bytes."""
    if batch.count * MIN_RECORD_BYTES > size_bytes:
        raise CorruptData(
            f"{where} at offset {batch.base_offset}: {batch.count} records cannot be in {size_bytes} bytes"
        )


def raise_out_of_order(offset: int, previous: int, batch: RecordBatch) -> NoReturn:
    raise CorruptData(f"offset {offset} follows {previous}, and the batch's last is {batch.last_offset}")


def raise_corrupt(batch: RecordBatch, offset: int, where: str, error: Exception) -> NoReturn:
    why = "the batch ends within the record" if isinstance(error, IndexError) else error
    if batch.last_offset_delta != batch.count - 1:
        offset = batch.base_offset  # with gaps, the offset is not known before the record is read
    raise CorruptData(f"{where} at offset {offset}, in the batch from {batch.base_offset}: {why}") from error


def raise_leftover(batch: RecordBatch, left: int, where: str) -> NoReturn:
    why = f"{left} bytes are left after its {batch.count} records"
    raise CorruptData(f"{where}, batch from offset {batch.base_offset}: {why}")
