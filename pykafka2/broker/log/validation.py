"""A leader's validation of a client's batch before it is appended.

Header and checksum are always validated. Records are decoded in small batches, if a rule needs their keys or
timestamps, or with log.validate=strict. The order of checks and the codes are those of Kafka 4.3:
ProduceRequest.validateRecords, UnifiedLog.analyzeAndValidateRecords, LogValidator, then UnifiedLog.append.
"""

from __future__ import annotations

from typing import Final

from pykafka2.broker.log.batch import parse_batch, rewritten, with_log_append_time
from pykafka2.broker.log.record_validation import (
    BatchRules,
    RecordValidation,
    check_usual_records,
    records_of,
)
from pykafka2.errors import (
    CorruptMessage,
    InvalidRecord,
    MessageTooLarge,
    RecordListTooLarge,
    UnknownServerError,
    UnsupportedCompressionType,
)
from pykafka2.records.batch import (
    CODEC_MASK,
    CONTROL_FLAG,
    HEADER_BYTES,
    LENGTH_END,
    LOG_APPEND_TIME_FLAG,
    MAGIC,
    MAGIC_AT,
    MIN_LEGACY_BYTES,
    MIN_RECORD_BYTES,
    OFFSET_AND_LENGTH,
    Buffer,
    RecordBatch,
)

ZSTD: Final = 4
CODEC_IDS: Final = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
FIRST_VERSION_WITH_ZSTD: Final = 7
ALWAYS_CHECKED: Final = 8
"""Batches of up to this many records are always checked, whatever log.validate is: it costs about 5 to 20
us.
"""


def single_batch(records: Buffer | None, version: int) -> RecordBatch:
    """Return the single batch for a partition in a produce request of version 3 or newer.

    An incomplete batch after it is ignored, as in Kafka.
    """
    view = memoryview(records or b"")
    if len(view) >= HEADER_BYTES:
        batch = RecordBatch(view)
        if (
            batch.magic == MAGIC
            and batch.length + LENGTH_END == len(view)
            and batch.attributes & CODEC_MASK != ZSTD
        ):
            return batch  # the usual case
    first, position = _whole_batch(view, 0)
    if first is None:
        raise InvalidRecord(f"Produce requests with version {version} must have at least one record batch")
    if first[MAGIC_AT] != MAGIC:
        raise InvalidRecord(f"Produce requests with version {version} carry record batches of magic {MAGIC}")
    batch = parse_batch(first)
    if batch.codec_id == ZSTD and version < FIRST_VERSION_WITH_ZSTD:
        raise UnsupportedCompressionType(
            f"Produce requests with version {version} are not allowed to use ZStandard compression"
        )
    if position < len(view) and _whole_batch(view, position)[0] is not None:
        raise InvalidRecord(f"Produce requests with version {version} carry one record batch a partition")
    return batch


def _whole_batch(view: memoryview, position: int) -> tuple[memoryview | None, int]:
    """Return the batch of any format at `position`, if it is complete, and its end."""
    if len(view) - position <= MAGIC_AT:
        return None, position
    _, length = OFFSET_AND_LENGTH.unpack_from(view, position)
    if length < MIN_LEGACY_BYTES:
        raise CorruptMessage(f"a batch of {length} bytes is smaller than the smallest record")
    if view[position + MAGIC_AT] > MAGIC:
        raise CorruptMessage(f"magic {view[position + MAGIC_AT]} is unknown")
    end = position + LENGTH_END + length
    return (view[position:end], end) if end <= len(view) else (None, position)


def start_validation(
    batch: RecordBatch, rules: BatchRules, now_ms: int, *, strict: bool
) -> RecordValidation | None:
    """Return the validation that `validate` needs for this batch, so that a caller can advance it in slices.

    None if no rule concerns the records. Raise what `validate` raises before it decodes the records.
    """
    if not (strict or batch.count <= ALWAYS_CHECKED or rules.need_decoding(batch, now_ms)):
        return None
    check_before_records(batch, rules)
    return RecordValidation(batch, rules, now_ms)


def check_before_records(batch: RecordBatch, rules: BatchRules) -> None:
    """Check the header and the checksum."""
    if batch.base_offset != 0:
        raise InvalidRecord(f"the batch's base offset is {batch.base_offset}, a producer must send 0")
    if len(batch.buffer) > rules.max_bytes:
        _check_size(batch, rules)
    batch.verify_crc("the batch")
    _check_header(batch)


def validate(
    batch: RecordBatch,
    rules: BatchRules,
    now_ms: int,
    *,
    strict: bool,
    validation: RecordValidation | None = None,
) -> RecordBatch:
    """Validate a batch and return the one to append.

    The topic's configuration can change its timestamps or compression.

    Raise the error for the client: `MessageTooLarge`, `CorruptMessage`, `InvalidRecord`, `InvalidTimestamp`,
    `RecordListTooLarge`, or `UnknownServerError` if it cannot be decompressed. `validation` is the result of
    `start_validation`, if the caller has advanced it already.
    """
    max_timestamp = batch.max_timestamp
    if validation is not None:
        max_timestamp = validation.finish()
    else:
        check_before_records(batch, rules)
        if strict or batch.count <= ALWAYS_CHECKED or rules.need_decoding(batch, now_ms):
            checked = check_usual_records(batch, rules, now_ms) if batch.count <= ALWAYS_CHECKED else None
            max_timestamp = RecordValidation(batch, rules, now_ms).finish() if checked is None else checked
    is_new_codec = rules.codec is not None and CODEC_IDS[rules.codec] != batch.codec_id
    if is_new_codec:
        batch = recompress(batch, rules)
    if not rules.is_create_time:
        batch = with_log_append_time(batch, now_ms)
    elif batch.attributes & LOG_APPEND_TIME_FLAG or max_timestamp != batch.max_timestamp:
        attributes = batch.attributes & ~LOG_APPEND_TIME_FLAG
        batch = rewritten(batch, attributes, max_timestamp, batch.buffer[HEADER_BYTES:])
    if is_new_codec:
        _check_size(batch, rules)
    if len(batch.buffer) > rules.segment_bytes:
        raise RecordListTooLarge(
            f"the batch has {batch.size_bytes} bytes, segment.bytes is {rules.segment_bytes}"
        )
    return batch


def _check_size(batch: RecordBatch, rules: BatchRules) -> None:
    if batch.size_bytes > rules.max_bytes:
        raise MessageTooLarge(
            f"the batch has {batch.size_bytes} bytes, the topic's max.message.bytes is {rules.max_bytes}"
        )


def _check_header(batch: RecordBatch) -> None:
    if batch.count <= 0 or batch.count != batch.last_offset_delta + 1:
        raise InvalidRecord(
            f"the batch has {batch.count} records and a last offset delta of {batch.last_offset_delta}"
        )
    attributes = batch.attributes
    if attributes & CONTROL_FLAG:
        raise InvalidRecord("Clients are not allowed to write control records")
    if batch.base_sequence < 0 and batch.has_producer_id:
        raise InvalidRecord(f"base sequence {batch.base_sequence} in a batch of producer {batch.producer_id}")
    codec_id = attributes & CODEC_MASK
    if codec_id > ZSTD:
        raise UnknownServerError(f"unknown codec {codec_id}")
    if not codec_id and batch.count * MIN_RECORD_BYTES > len(batch.buffer) - HEADER_BYTES:
        raise InvalidRecord(f"{batch.count} records do not fit into {batch.size_bytes} bytes")


def recompress(batch: RecordBatch, rules: BatchRules) -> RecordBatch:
    """Return the same records in the topic's codec, at its level."""
    from pykafka2.compression import codec

    codec_id = CODEC_IDS[rules.codec or ""]
    attributes = (batch.attributes & ~CODEC_MASK) | codec_id
    body = codec(codec_id).compress(records_of(batch), rules.level)
    return rewritten(batch, attributes, batch.max_timestamp, body)
