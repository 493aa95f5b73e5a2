"""What a leader demands of a client's batch before it enters the log (rules 15 to 22).

Headers and checksum always; records are walked only where a rule needs their keys or times, or with
log.validate=strict.  Order and codes are those of Kafka 4.3: ProduceRequest.validateRecords,
UnifiedLog.analyzeAndValidateRecords, LogValidator, then UnifiedLog.append.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

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
from pykafka2.testing.log.batch import parse_batch, rewritten, with_log_append_time
from pykafka2.types import LOG_APPEND_TIME

if TYPE_CHECKING:
    from pykafka2.testing.configs import TopicConfig

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
    """The one batch that a produce request of version 3 or newer carries for a partition (rule 15).

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


def validate(batch: RecordBatch, config: TopicConfig, now_ms: int, *, strict: bool) -> RecordBatch:
    """The batch as it may be appended: checked, and stamped or compressed anew where the topic says so.

    Raises the typed error that the client gets: `MessageTooLarge`, `CorruptMessage`, `InvalidRecord`,
    `InvalidTimestamp`, `RecordListTooLarge`; `UnknownServerError` for what cannot be decompressed.
    """
    if batch.base_offset != 0:
        raise InvalidRecord(f"the batch's base offset is {batch.base_offset}, a producer must say 0")
    _check_size(batch, config)
    batch.verify_crc("the batch")
    _check_header(batch)
    bounds = Bounds.of(config, now_ms)
    if strict or config.is_compacted or bounds.need_walk(batch):
        max_timestamp = walk_records(batch, needs_keys=config.is_compacted, bounds=bounds)
    else:
        max_timestamp = batch.max_timestamp
    wanted = config.get("compression.type")
    is_new_codec = wanted != "producer" and CODEC_IDS[wanted] != batch.codec_id
    if is_new_codec:
        batch = recompress(batch, wanted, config)
    if not bounds.is_create_time:
        batch = with_log_append_time(batch, now_ms)
    elif batch.timestamp_type == LOG_APPEND_TIME or max_timestamp != batch.max_timestamp:
        attributes = batch.attributes & ~LOG_APPEND_TIME_FLAG
        batch = rewritten(batch, attributes, max_timestamp, batch.buffer[HEADER_BYTES:])
    if is_new_codec:
        _check_size(batch, config)
    limit = config.get("segment.bytes")
    if batch.size_bytes > limit:
        raise RecordListTooLarge(f"the batch has {batch.size_bytes} bytes, segment.bytes is {limit}")
    return batch


def _check_size(batch: RecordBatch, config: TopicConfig) -> None:
    limit = config.get("max.message.bytes")
    if batch.size_bytes > limit:
        raise MessageTooLarge(
            f"the batch has {batch.size_bytes} bytes, the topic's max.message.bytes is {limit}"
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


@attrs.define(frozen=True)
class Bounds:
    """Which create times a topic takes: message.timestamp.{before,after}.max.ms around now (rule 20)."""

    is_create_time: bool
    oldest: int
    newest: int

    @classmethod
    def of(cls, config: TopicConfig, now_ms: int) -> Bounds:
        return cls(
            config.get("message.timestamp.type") == "CreateTime",
            now_ms - config.get("message.timestamp.before.max.ms"),
            now_ms + config.get("message.timestamp.after.max.ms"),
        )

    def need_walk(self, batch: RecordBatch) -> bool:
        """Whether the header leaves open if all records are within: it names the newest, not the oldest."""
        if not self.is_create_time:
            return batch.timestamp_type == LOG_APPEND_TIME
        return batch.max_timestamp > self.newest or self.oldest > 0

    def wrong(self, batch: RecordBatch, timestamp: int) -> str | None:
        """Why a record's timestamp is refused, if it is.

        A batch that is marked LogAppendTime is taken by a CreateTime topic, which clears the mark (4.3).
        """
        if self.is_create_time and timestamp != NO_TIMESTAMP:
            if self.oldest <= timestamp <= self.newest:
                return None
            return f"timestamp {timestamp} is outside [{self.oldest}, {self.newest}]"
        if batch.timestamp_type == LOG_APPEND_TIME:
            return "a producer may not mark its batch as LogAppendTime"
        return None


def walk_records(batch: RecordBatch, *, needs_keys: bool, bounds: Bounds) -> int:
    """Look at every record: are they as many as the header says, in order, with keys, and of this time?

    The largest timestamp, whatever the header says.
    """
    from pykafka2.records.decoder import decode_tuples

    wrong: list[RecordError] = []
    error: type[RecordsRejected] = InvalidRecords
    largest = NO_TIMESTAMP
    try:
        for index, (offset, at, key, _, _) in enumerate(decode_tuples(batch, "the batch", check_crcs=False)):
            largest = max(largest, at)
            if offset != batch.base_offset + index:
                wrong.append(RecordError(index, f"it has offset delta {offset - batch.base_offset}"))
            elif needs_keys and key is None:
                wrong.append(RecordError(index, "a compacted topic cannot accept a record without key"))
            elif (why := bounds.wrong(batch, at)) is not None:
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


def recompress(batch: RecordBatch, name: str, config: TopicConfig) -> RecordBatch:
    """The same records in another codec, at the level of the topic's configuration (rule 22)."""
    from pykafka2.compression import codec

    codec_id = CODEC_IDS[name]
    level = config.get(f"compression.{name}.level") if name in CODECS_WITH_LEVELS else None
    attributes = (batch.attributes & ~CODEC_MASK) | codec_id
    body = codec(codec_id).compress(records_of(batch), level)
    return rewritten(batch, attributes, batch.max_timestamp, body)
