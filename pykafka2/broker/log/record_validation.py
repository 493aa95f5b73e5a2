"""Checks a batch's records (offsets, keys, timestamps) in slices, as the topic's configuration requires.

A batch of 1 MB can hold a million records, whose check takes a second, or decompress to 128 MB. The Produce
handler takes one step of decompression or checks `SLICE` records at a time, so that other requests are
handled in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import attrs

from pykafka2.compression import MAX_OUTPUT_BYTES
from pykafka2.errors import BrokerError, CorruptData, InvalidRecord, InvalidTimestamp, UnknownServerError
from pykafka2.records.batch import CODEC_MASK, HEADER_BYTES, LOG_APPEND_TIME_FLAG, Buffer, RecordBatch
from pykafka2.records.varint import read_varint
from pykafka2.types import LOG_APPEND_TIME

if TYPE_CHECKING:
    from pykafka2.broker.config.configs import TopicConfig
    from pykafka2.compression.steps import Steps
    from pykafka2.records.decoder import RecordTuple


CODECS_WITH_LEVELS: Final = frozenset({"gzip", "lz4", "zstd"})
NO_TIMESTAMP: Final = -1


@attrs.define(frozen=True)
class BatchRules:
    """Requirements for a batch, read once for each topic configuration."""

    max_bytes: int
    segment_bytes: int
    needs_keys: bool
    codec: str | None
    """None keeps the producer's codec."""
    level: int | None
    is_create_time: bool
    before_ms: int
    after_ms: int
    max_record_bytes: int | None = None
    """The size of a record of a compressed batch, without its length, at most; None without a limit."""

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
            max_record_bytes_of(config),
        )

    def need_decoding(self, batch: RecordBatch, now_ms: int) -> bool:
        """Return whether the records must be decoded, for keys or for timestamps that the header leaves open.

        The header contains the maximum timestamp, not the minimum.
        """
        if self.needs_keys or (self.max_record_bytes is not None and batch.codec_id):
            return True
        if not self.is_create_time:
            return batch.timestamp_type == LOG_APPEND_TIME
        return batch.max_timestamp > now_ms + self.after_ms or now_ms > self.before_ms

    def wrong_time(self, batch: RecordBatch, timestamp: int, now_ms: int) -> str | None:
        """Return why a record's timestamp is rejected, or None.

        A CreateTime topic accepts a batch marked LogAppendTime and clears the mark (4.3).
        """
        if self.is_create_time and timestamp != NO_TIMESTAMP:
            oldest, newest = now_ms - self.before_ms, now_ms + self.after_ms
            if oldest <= timestamp <= newest:
                return None
            return f"timestamp {timestamp} is outside [{oldest}, {newest}]"
        if batch.timestamp_type == LOG_APPEND_TIME:
            return "a producer must not mark its batch as LogAppendTime"
        return None


NO_LIMIT: Final = 2_147_483_639
"""The default of max.decompressed.message.bytes, which no record reaches."""


def max_record_bytes_of(config: TopicConfig) -> int | None:
    """Return max.decompressed.message.bytes, or None without a limit."""
    limit: int = config.get("max.decompressed.message.bytes")
    return None if limit == NO_LIMIT else limit


class RecordSizes:
    """Checks the sizes of the records in a decompressed batch, in their order."""

    def __init__(self, body: bytes, limit: int) -> None:
        self._body = body
        self._limit = limit
        self._position = 0

    def check(self, count: int) -> None:
        """Raise `InvalidRecord` if one of the next `count` records is too large. Ignores malformed ones."""
        body, limit, position = self._body, self._limit, self._position
        try:
            for _ in range(count):
                size, position = read_varint(body, position)
                if size > limit:
                    raise InvalidRecord(
                        f"a record has {size} bytes decompressed, max.decompressed.message.bytes is {limit}"
                    )
                position += max(size, 0)
        except (CorruptData, IndexError):
            position = len(body)
        self._position = position


SLICE: Final = 2_000
"""Records checked in one slice, in about 3 ms."""
MOST_OPEN_BYTES: Final = 2 * MAX_OUTPUT_BYTES
"""The decompressed bytes of all batches that are being checked, at most."""
NULL_SIZE: Final = 1
"""The number before a null key or value: -1 as a zigzag varint."""
KEY_AND_VALUE: Final = range(2)
MIN_LONG_VARINT: Final = 1 << 14
"""The two low bytes of a varint are at least this if a third one follows."""
MAX_RECORD_ERRORS: Final = 1_000
"""Rejected records listed in a response; Kafka lists all of them."""


@attrs.define(frozen=True)
class RecordError:
    """A rejected record of a batch and the reason (KIP-467)."""

    index: int
    message: str


class RecordsRejected(BrokerError):
    """An error that lists the rejected records."""

    record_errors: tuple[RecordError, ...] = ()


class InvalidRecords(RecordsRejected, InvalidRecord):
    """InvalidRecord with the rejected records."""


class InvalidTimestamps(RecordsRejected, InvalidTimestamp):
    """InvalidTimestamp with the rejected records."""


class RecordValidation:
    """Checks a batch's records one by one: number, order, keys and timestamps."""

    def __init__(self, batch: RecordBatch, rules: BatchRules, now_ms: int) -> None:
        self.rules = rules
        self._batch = batch
        self._now_ms = now_ms
        self._next = 0
        self._largest = NO_TIMESTAMP
        self._errors: list[RecordError] = []
        self._error_count = 0
        self._is_out_of_order = False
        self._kind: type[RecordsRejected] = InvalidRecords
        self._failure: BrokerError | None = None
        self._opening: Steps[Buffer] | None = None
        self._records: Iterator[RecordTuple] | None = None
        self._sizes: RecordSizes | None = None
        self.open_bytes = 0
        """The bytes that are decompressed so far."""

    @property
    def is_open(self) -> bool:
        """True once the whole batch is decompressed."""
        return self._records is not None

    def advance(self, limit: int) -> bool:
        """Decompress one step of the batch, or check up to `limit` more records.

        Return True if the validation is over.
        """
        if self._failure is not None:
            return True
        try:
            if self._records is None:
                self._records = self._open()
            if self._sizes is not None:
                self._sizes.check(limit)
            return self._records is not None and self._check(self._records, limit)
        except InvalidRecord as error:
            self.open_bytes = 0
            self._failure = InvalidRecord(*error.args)
        except CorruptData as cause:
            # Without the cause, whose traceback keeps the decompressed batch.
            self.open_bytes = 0
            if self._records is None:
                self._failure = UnknownServerError(f"the batch cannot be decompressed: {cause}")
            else:
                self._failure = InvalidRecord(f"the batch's records cannot be read: {cause}")
        return True

    def finish(self) -> int:
        """Check the remaining records.

        Return the largest timestamp, or raise why the batch is rejected.
        """
        while not self.advance(SLICE):
            pass
        if self._failure is not None:
            raise self._failure
        if self._errors:
            rejected = self._kind(
                f"{self._error_count} of {self._batch.count} records were rejected, "
                f"the first: {self._errors[0].message}"
            )
            rejected.record_errors = tuple(self._errors)
            raise rejected
        if self._is_out_of_order:
            # The code that Kafka 4.3.1 responds with.
            raise UnknownServerError("the offset deltas of the compressed records are not ascending by one")
        return self._largest

    def _check(self, records: Iterator[RecordTuple], limit: int) -> bool:
        from pykafka2.records.decoder import STILL_READING

        batch, rules, now_ms = self._batch, self.rules, self._now_ms
        largest, index = self._largest, self._next
        needs_keys, base_offset = rules.needs_keys, batch.base_offset
        is_over = index + limit > batch.count
        for row in islice(records, limit):
            if row is STILL_READING:
                is_over = False
                break
            offset, at, key, _, _ = row
            if at > largest:
                largest = at
            if needs_keys and key is None:
                self._refuse(index, "a compacted topic cannot accept a record without key")
            elif (why := rules.wrong_time(batch, at, now_ms)) is not None:
                self._refuse(index, why)
                self._kind = InvalidTimestamps
            elif offset != base_offset + index:
                if batch.codec_id:
                    self._is_out_of_order = True
                else:
                    self._refuse(index, f"it has offset delta {offset - base_offset}")
            index += 1
        self._next, self._largest = index, largest
        if is_over:
            self.open_bytes = 0
        return is_over

    def _open(self) -> Iterator[RecordTuple] | None:
        """Take one step of decompressing the batch; its records if it was the last one."""
        from pykafka2.records.decoder import decode_tuples

        if self._opening is None:
            self._opening = self._batch.records_in_steps(MAX_OUTPUT_BYTES)
        try:
            self.open_bytes = next(self._opening)
        except StopIteration as end:
            body = bytes(end.value)
        else:
            return None
        self._opening, self.open_bytes = None, len(body)
        if self.rules.max_record_bytes is not None and self._batch.codec_id:
            self._sizes = RecordSizes(body, self.rules.max_record_bytes)
        return decode_tuples(self._batch, "the batch", keeps_headers=False, buffer=body)

    def _refuse(self, index: int, why: str) -> None:
        self._error_count += 1
        if len(self._errors) < MAX_RECORD_ERRORS:
            self._errors.append(RecordError(index, why))


def check_usual_records(batch: RecordBatch, rules: BatchRules, now_ms: int) -> int | None:
    """Check the records of a small batch in their usual form, at a fraction of `RecordValidation`'s cost.

    The usual form: not compressed, without headers, each number in one or two bytes. Return the largest
    timestamp, or None if the records have another form or are rejected: then `RecordValidation` decides.
    """
    if batch.attributes & (CODEC_MASK | LOG_APPEND_TIME_FLAG) or rules.needs_keys:
        return None
    buffer, position = batch.buffer, HEADER_BYTES
    largest = NO_TIMESTAMP
    try:
        for index in range(batch.count):
            length = buffer[position]
            position += 1
            if length & 0x80:
                length = length & 0x7F | buffer[position] << 7
                position += 1
            end = position + (length >> 1)
            delta = buffer[position + 1]  # after a byte of attributes
            position += 2
            if delta & 0x80:
                delta = delta & 0x7F | buffer[position] << 7
                position += 1
            if buffer[position] != index << 1:
                return None
            position += 1
            for _ in KEY_AND_VALUE:
                size = buffer[position]
                position += 1
                if size == NULL_SIZE:
                    continue
                if size & 0x80:
                    size = size & 0x7F | buffer[position] << 7
                    position += 1
                if size & 1 or size >= MIN_LONG_VARINT:
                    return None
                position += size >> 1
            if buffer[position] or position + 1 != end or length & 1:
                return None
            if length >= MIN_LONG_VARINT or delta >= MIN_LONG_VARINT:
                return None
            position = end
            timestamp = batch.base_timestamp + ((delta >> 1) ^ -(delta & 1))
            if rules.wrong_time(batch, timestamp, now_ms) is not None:
                return None
            if timestamp > largest:
                largest = timestamp
    except IndexError:
        return None
    return largest if position == len(buffer) else None


class OpenValidations:
    """The validations of a broker that are under way, each with its batch decompressed.

    While these take `MOST_OPEN_BYTES`, only the oldest of them decompresses more.
    """

    def __init__(self) -> None:
        # In the order of their beginning; weakly, since a broker that is killed ends no validation.
        self._validations: WeakKeyDictionary[RecordValidation, None] = WeakKeyDictionary()

    def advance(self, validation: RecordValidation) -> bool:
        """Advance by one slice, if there is room for it; return True if the validation is over."""
        validations = self._validations
        is_oldest = next(iter(validations), validation) is validation
        if (
            not (validation.is_open or is_oldest)
            and sum(one.open_bytes for one in validations) >= MOST_OPEN_BYTES
        ):
            return False
        is_over = validation.advance(SLICE)
        if is_over:
            validations.pop(validation, None)
        else:
            validations[validation] = None
        return is_over


def records_of(batch: RecordBatch) -> bytes:
    """Return the batch's decompressed records. Raise `UnknownServerError` if that fails, as in Kafka."""
    try:
        return batch.records_bytes()
    except CorruptData as error:
        raise UnknownServerError(f"the batch cannot be decompressed: {error}") from error
