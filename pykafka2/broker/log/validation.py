"""What a leader demands of a client's batch before it enters the log.

Headers and checksum always; records are walked only where a rule needs their keys or times, or with
log.validate=strict.  Order and codes are those of Kafka 4.3: ProduceRequest.validateRecords,
UnifiedLog.analyzeAndValidateRecords, LogValidator, then UnifiedLog.append.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from pykafka2.broker.log.batch import parse_batch, rewritten, with_log_append_time
from pykafka2.errors import (
    BrokerError,
    CorruptData,
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    RecordListTooLarge,
    UnknownServerError,
    UnsupportedCompressionType,
)
from pykafka2.records.batch import (
    CODEC_MASK,
    HEADER_BYTES,
    LENGTH_END,
    LOG_APPEND_TIME_FLAG,
    MAGIC,
    MAGIC_AT,
    MIN_LEGACY_BYTES,
    OFFSET_AND_LENGTH,
    Buffer,
    RecordBatch,
)
from pykafka2.types import LOG_APPEND_TIME

if TYPE_CHECKING:
    from pykafka2.broker.config.configs import TopicConfig

ZSTD: Final = 4
CODEC_IDS: Final = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
CODECS_WITH_LEVELS: Final = frozenset({"gzip", "lz4", "zstd"})
FIRST_VERSION_WITH_ZSTD: Final = 7
NO_TIMESTAMP: Final = -1


@attrs.define(frozen=True)
class RecordError:
    """Which record of a batch was refused, and why (KIP-467)."""

    index: int
    message: str


class RecordsRejected(BrokerError):
    """An error that names the records that caused it."""

    record_errors: tuple[RecordError, ...] = ()


class InvalidRecords(RecordsRejected, InvalidRecord):
    """InvalidRecord that names the records."""


class InvalidTimestamps(RecordsRejected, InvalidTimestamp):
    """InvalidTimestamp that names the records."""


def single_batch(records: Buffer | None, version: int) -> RecordBatch:
    """The one batch that a produce request of version 3 or newer carries for a partition.

    An unfinished batch behind it is left out, as in Kafka.
    """
    view = memoryview(records or b"")
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
    if _whole_batch(view, position)[0] is not None:
        raise InvalidRecord(f"Produce requests with version {version} carry one record batch a partition")
    return batch


def _whole_batch(view: memoryview, position: int) -> tuple[memoryview | None, int]:
    """The batch of whatever format that begins there, if it is all there, and where it ends."""
    if len(view) - position <= MAGIC_AT:
        return None, position
    _, length = OFFSET_AND_LENGTH.unpack_from(view, position)
    if length < MIN_LEGACY_BYTES:
        raise CorruptMessage(f"a batch of {length} bytes is smaller than the smallest record")
    if view[position + MAGIC_AT] > MAGIC:
        raise CorruptMessage(f"magic {view[position + MAGIC_AT]} is of no known format")
    end = position + LENGTH_END + length
    return (view[position:end], end) if end <= len(view) else (None, position)


@attrs.define(frozen=True)
class BatchRules:
    """What a topic's configuration demands of a batch, looked up once for each configuration."""

    max_bytes: int
    segment_bytes: int
    needs_keys: bool
    codec: str | None
    """None keeps what the producer chose."""
    level: int | None
    is_create_time: bool
    before_ms: int
    after_ms: int

    @classmethod
    def of(cls, config: TopicConfig) -> BatchRules:
        codec = config.get("compression.type")
        return cls(
            config.get("max.message.bytes"),
            config.get("segment.bytes"),
            config.is_compacted,
            None if codec == "producer" else codec,
            config.get(f"compression.{codec}.level") if codec in CODECS_WITH_LEVELS else None,
            config.get("message.timestamp.type") == "CreateTime",
            config.get("message.timestamp.before.max.ms"),
            config.get("message.timestamp.after.max.ms"),
        )

    def need_walk(self, batch: RecordBatch, now_ms: int) -> bool:
        """Whether a rule is about the records: their keys, or times that the header leaves open.

        The header names the newest of them, not the oldest.
        """
        if self.needs_keys:
            return True
        if not self.is_create_time:
            return batch.timestamp_type == LOG_APPEND_TIME
        return batch.max_timestamp > now_ms + self.after_ms or now_ms > self.before_ms

    def wrong_time(self, batch: RecordBatch, timestamp: int, now_ms: int) -> str | None:
        """Why a record's timestamp is refused, if it is.

        A batch that is marked LogAppendTime is taken by a CreateTime topic, which clears the mark (4.3).
        """
        if self.is_create_time and timestamp != NO_TIMESTAMP:
            oldest, newest = now_ms - self.before_ms, now_ms + self.after_ms
            if oldest <= timestamp <= newest:
                return None
            return f"timestamp {timestamp} is outside [{oldest}, {newest}]"
        if batch.timestamp_type == LOG_APPEND_TIME:
            return "a producer may not mark its batch as LogAppendTime"
        return None


def validate(batch: RecordBatch, rules: BatchRules, now_ms: int, *, strict: bool) -> RecordBatch:
    """The batch as it may be appended: checked, and stamped or compressed anew where the topic says so.

    Raises the typed error that the client gets: `MessageTooLarge`, `CorruptMessage`, `InvalidRecord`,
    `InvalidTimestamp`, `RecordListTooLarge`; `UnknownServerError` for what cannot be decompressed.
    """
    if batch.base_offset != 0:
        raise InvalidRecord(f"the batch's base offset is {batch.base_offset}, a producer must say 0")
    _check_size(batch, rules)
    batch.verify_crc("the batch")
    _check_header(batch)
    max_timestamp = batch.max_timestamp
    if strict or rules.need_walk(batch, now_ms):
        max_timestamp = walk_records(batch, rules, now_ms)
    is_new_codec = rules.codec is not None and CODEC_IDS[rules.codec] != batch.codec_id
    if is_new_codec:
        batch = recompress(batch, rules)
    if not rules.is_create_time:
        batch = with_log_append_time(batch, now_ms)
    elif batch.timestamp_type == LOG_APPEND_TIME or max_timestamp != batch.max_timestamp:
        attributes = batch.attributes & ~LOG_APPEND_TIME_FLAG
        batch = rewritten(batch, attributes, max_timestamp, batch.buffer[HEADER_BYTES:])
    if is_new_codec:
        _check_size(batch, rules)
    if batch.size_bytes > rules.segment_bytes:
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
            f"the batch says {batch.count} records and a last offset delta of {batch.last_offset_delta}"
        )
    if batch.is_control:
        raise InvalidRecord("Clients are not allowed to write control records")
    if batch.has_producer_id and batch.base_sequence < 0:
        raise InvalidRecord(f"base sequence {batch.base_sequence} in a batch of producer {batch.producer_id}")
    if batch.codec_id > ZSTD:
        raise UnknownServerError(f"there is no codec {batch.codec_id}")


def walk_records(batch: RecordBatch, rules: BatchRules, now_ms: int) -> int:
    """Look at every record: are they as many as the header says, in order, with keys, and of this time?

    The largest timestamp, whatever the header says.
    """
    from pykafka2.records.tuple_decoder import decode_tuples

    wrong: list[RecordError] = []
    error: type[RecordsRejected] = InvalidRecords
    largest = NO_TIMESTAMP
    try:
        for index, (offset, at, key, _, _) in enumerate(decode_tuples(batch, "the batch", check_crcs=False)):
            largest = max(largest, at)
            if offset != batch.base_offset + index:
                wrong.append(RecordError(index, f"it has offset delta {offset - batch.base_offset}"))
            elif rules.needs_keys and key is None:
                wrong.append(RecordError(index, "a compacted topic cannot accept a record without key"))
            elif (why := rules.wrong_time(batch, at, now_ms)) is not None:
                wrong.append(RecordError(index, why))
                error = InvalidTimestamps
    except CorruptData as cause:
        records_of(batch)
        raise InvalidRecord(f"the batch's records cannot be read: {cause}") from cause
    if wrong:
        rejected = error(
            f"{len(wrong)} of {batch.count} records were rejected, the first: {wrong[0].message}"
        )
        rejected.record_errors = tuple(wrong)
        raise rejected
    return largest


def records_of(batch: RecordBatch) -> bytes:
    """The batch's records, decompressed; `UnknownServerError` if they cannot be, as in Kafka."""
    try:
        return batch.records_bytes()
    except CorruptData as error:
        raise UnknownServerError(f"the batch cannot be decompressed: {error}") from error


def recompress(batch: RecordBatch, rules: BatchRules) -> RecordBatch:
    """The same records in the topic's codec, at its level."""
    from pykafka2.compression import codec

    codec_id = CODEC_IDS[rules.codec or ""]
    attributes = (batch.attributes & ~CODEC_MASK) | codec_id
    body = codec(codec_id).compress(records_of(batch), rules.level)
    return rewritten(batch, attributes, batch.max_timestamp, body)
