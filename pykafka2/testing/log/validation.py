"""What a leader demands of a client's batch before it enters the log (rules 15 to 22).

Headers and checksum always; records are walked only where a rule needs their keys, or with
log.validate=strict. Sources: Kafka's ProduceRequest.validateRecords, UnifiedLog.analyzeAndValidateRecords
and LogValidator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from pykafka2.errors import (
    CorruptData,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    RecordListTooLarge,
    UnsupportedCompressionType,
)
from pykafka2.records.batch import CODEC_MASK, HEADER_BYTES, LENGTH_END, Buffer, RecordBatch
from pykafka2.testing.log.batch import parse_batch, rewritten, with_log_append_time
from pykafka2.types import LOG_APPEND_TIME

if TYPE_CHECKING:
    from pykafka2.testing.configs import TopicConfig

ZSTD: Final = 4
CODEC_IDS: Final = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
FIRST_VERSION_WITH_ZSTD: Final = 7


@attrs.define(frozen=True)
class RecordError:
    """Which record of a batch was refused, and why (KIP-467)."""

    index: int
    message: str


class InvalidRecords(InvalidRecord):
    """InvalidRecord that names the records."""

    def __init__(self, message: str, record_errors: tuple[RecordError, ...] = ()) -> None:
        super().__init__(message)
        self.record_errors = record_errors


def single_batch(records: Buffer | None, version: int) -> RecordBatch:
    """The one batch that a produce request of version 3 or newer carries for a partition (rule 15)."""
    if records is None or not len(records):
        raise InvalidRecord(f"Produce requests with version {version} must have at least one record batch")
    if len(records) >= HEADER_BYTES:
        length = int.from_bytes(records[8:LENGTH_END], "big", signed=True)
        if HEADER_BYTES - LENGTH_END <= length < len(records) - LENGTH_END:
            raise InvalidRecord(
                f"Produce requests with version {version} must carry one record batch for each partition"
            )
    batch = parse_batch(records)
    if batch.codec_id == ZSTD and version < FIRST_VERSION_WITH_ZSTD:
        raise UnsupportedCompressionType(
            f"Produce requests with version {version} are not allowed to use ZStandard compression"
        )
    return batch


def validate(batch: RecordBatch, config: TopicConfig, now_ms: int, *, strict: bool) -> RecordBatch:
    """The batch as it may be appended: checked, and stamped or compressed anew where the topic says so.

    Raises the typed error that the client gets: `MessageTooLarge`, `CorruptMessage`, `InvalidRecord`,
    `InvalidTimestamp`, `UnsupportedCompressionType`.
    """
    _check_size(batch, config)
    batch.verify_crc("the batch")
    _check_header(batch)
    _check_timestamps(batch, config, now_ms)
    if strict or config.is_compacted:
        walk_records(batch, needs_keys=config.is_compacted)
    wanted = config.get("compression.type")
    if wanted != "producer" and CODEC_IDS[wanted] != batch.codec_id:
        batch = recompress(batch, CODEC_IDS[wanted])
        _check_size(batch, config)
    if config.get("message.timestamp.type") == "LogAppendTime":
        batch = with_log_append_time(batch, now_ms)
    return batch


def _check_size(batch: RecordBatch, config: TopicConfig) -> None:
    if batch.size_bytes > config.get("max.message.bytes"):
        limit = config.get("max.message.bytes")
        raise MessageTooLarge(
            f"the batch has {batch.size_bytes} bytes, the topic's max.message.bytes is {limit}"
        )
    if batch.size_bytes > config.get("segment.bytes"):
        limit = config.get("segment.bytes")
        raise RecordListTooLarge(f"the batch has {batch.size_bytes} bytes, segment.bytes is {limit}")


def _check_header(batch: RecordBatch) -> None:
    if batch.count <= 0 or batch.count != batch.last_offset_delta + 1:
        raise InvalidRecord(
            f"the batch says {batch.count} records and a last offset delta of {batch.last_offset_delta}"
        )
    if batch.is_control:
        raise InvalidRecord("Clients are not allowed to write control records")
    if batch.has_producer_id and batch.base_sequence < 0:
        raise InvalidRecord(f"base sequence {batch.base_sequence} in a batch of producer {batch.producer_id}")


def _check_timestamps(batch: RecordBatch, config: TopicConfig, now_ms: int) -> None:
    if batch.timestamp_type == LOG_APPEND_TIME:
        raise InvalidTimestamp("a producer may not mark its batch as LogAppendTime")
    if config.get("message.timestamp.type") != "CreateTime" or batch.max_timestamp == -1:
        return
    newest = now_ms + config.get("message.timestamp.after.max.ms")
    oldest = now_ms - config.get("message.timestamp.before.max.ms")
    if batch.max_timestamp > newest or batch.base_timestamp < oldest:
        timestamp = batch.max_timestamp if batch.max_timestamp > newest else batch.base_timestamp
        raise InvalidTimestamp(
            f"timestamp {timestamp} is outside [{oldest}, {newest}] (message.timestamp.before/after.max.ms)"
        )


def walk_records(batch: RecordBatch, *, needs_keys: bool) -> None:
    """Look at every record: are they as many as the header says, in order, and do they have keys?"""
    from pykafka2.records.decoder import decode_tuples

    errors: list[RecordError] = []
    try:
        for index, (offset, _, key, _, _) in enumerate(decode_tuples(batch, "the batch", check_crcs=False)):
            if offset != batch.base_offset + index:
                message = f"record {index} has offset delta {offset - batch.base_offset}"
                raise InvalidRecords(message, (RecordError(index, message),))
            if needs_keys and key is None:
                errors.append(
                    RecordError(index, "Compacted topic cannot accept message without key in topic partition")
                )
    except CorruptData as error:
        raise InvalidRecord(f"the batch's records cannot be read: {error}") from error
    if errors:
        raise InvalidRecords("One or more records have been rejected", tuple(errors))


def recompress(batch: RecordBatch, codec_id: int) -> RecordBatch:
    """The same records in another codec (rule 22)."""
    from pykafka2.compression import codec

    try:
        body = batch.records_bytes()
    except CorruptData as error:
        raise InvalidRecord(f"the batch cannot be decompressed: {error}") from error
    attributes = (batch.attributes & ~CODEC_MASK) | codec_id
    return rewritten(batch, attributes, batch.max_timestamp, codec(codec_id).compress(body))
