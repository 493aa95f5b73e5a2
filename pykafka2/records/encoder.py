"""Encodes records into a batch of format 2.

The producer collects rows and encodes them in one loop (`encode_rows`) when their batch is drained, on its IO
thread; `BatchBuilder` encodes record by record, for markers, the broker's own records and tests. Both call
`frame_batch` at the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pykafka2.compression import codec as find_codec
from pykafka2.compression.codec import Codec
from pykafka2.records.batch import (
    CONTROL_FLAG,
    HEADER_BYTES,
    HEADER_REST,
    HEADER_START,
    LENGTH_END,
    LOG_APPEND_TIME_FLAG,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
    crc32c,
)
from pykafka2.records.varint import NULL, VARINTS, varint
from pykafka2.types import NO_TIMESTAMP

Bytes = bytes | bytearray | memoryview
HeaderItems = Iterable[tuple[str, Bytes | None]] | None

Row = tuple["bytes | None", "bytes | None", int, bytes, Any]
"""A record to encode: value, key, timestamp, headers (by `encode_headers`), and any object of its owner."""

NO_HEADERS = b"\0"
"""The result of `encode_headers` without headers."""

ALONE = b"\0\0\0" + NULL
"""Attributes, timestamp, offset and null key of the only record of a batch."""
ALONE_BYTES = len(ALONE)
NO_DELTA = b"\0\0"
"""The attributes and the timestamp of a record with the base timestamp."""

LONGER_OFFSET = 64
"""The first offset that takes two bytes."""

# Beyond key, value, headers: length 5, attributes 1, timestamp 10, offset 5, two lengths 10, header count 5.
MAX_RECORD_OVERHEAD = 36

# The same if each of these numbers is from 0 to SHORT - 1, so it takes at most two bytes; without the number
# of headers.
SHORT_RECORD_OVERHEAD = 11
SHORT = len(VARINTS)

# The factor by which compressed batches are estimated above the ratio, as in the Java client.
ESTIMATION_FACTOR = 1.05


def load_codec(codec: int | str, level: int | None = None) -> None:
    """Import the modules that encode a batch by encoding one.

    Raises:
        CodecUnavailable: the codec's library is not installed.
    """
    builder = BatchBuilder(codec, level)
    builder.append(0, None, b"")
    builder.build()


class BatchBuilder:
    """Collects encoded records until they fill max_bytes, then makes one batch of them.

    codec is an id or name; level None is Kafka's default. max_bytes limits the estimated size of the whole
    batch; the first record is accepted at any size. With a codec the estimate uses compression_ratio
    (compressed / raw size of earlier batches). Not thread-safe.

    Attributes:
        base_timestamp: of the first record, in milliseconds; deltas in the records are relative to it.
        max_timestamp: the highest so far.
        raw_bytes: the size of the records before compression, without the header.
    """

    __slots__ = (
        "_codec",
        "_level",
        "_limit",
        "_ratio",
        "_records",
        "base_timestamp",
        "max_bytes",
        "max_timestamp",
        "raw_bytes",
    )

    def __init__(
        self,
        codec: int | str = 0,
        level: int | None = None,
        max_bytes: int = 16384,
        compression_ratio: float = 1.0,
    ) -> None:
        self._codec = find_codec(codec)
        self._codec.check_level(level)
        self._level = level
        self._ratio = compression_ratio * ESTIMATION_FACTOR if self._codec.id else 1.0
        self._limit = int((max_bytes - HEADER_BYTES) / self._ratio)
        self._records: list[bytes] = []
        self.max_bytes = max_bytes
        self.base_timestamp = NO_TIMESTAMP
        self.max_timestamp = NO_TIMESTAMP
        self.raw_bytes = 0

    def append(
        self, timestamp: int, key: Bytes | None, value: Bytes | None, headers: HeaderItems = None
    ) -> int | None:
        """Add one record; return its offset within the batch, or None if the batch is full.

        Raise TypeError for a key or value that is not bytes-like, ValueError for a timestamp that does not
        fit into 64 bits; nothing is added then.

        Hot: 0.45 us for 100 bytes, guarded by `benchmarks.micro`. The list's append at the end is the only
        operation that adds the record: an interrupt before it leaves sizes and times too high, which is
        harmless.
        """
        records = self._records
        count = len(records)
        if not count:
            self._start(timestamp)
        delta = timestamp - self.base_timestamp
        # Items of other buffers can be wider than a byte, so len() can be too low.
        if key is not None and type(key) is not bytes:
            key = memoryview(key).tobytes()
        if value is not None and type(value) is not bytes:
            value = memoryview(value).tobytes()
        if headers or delta < 0:
            record = self._encode(timestamp, key, value, headers)
        else:
            try:
                if key is None:
                    key_size, key_data = NULL, b""
                else:
                    key_size, key_data = VARINTS[len(key)], key
                if value is None:
                    value_size, value_data = NULL, b""
                else:
                    value_size, value_data = VARINTS[len(value)], value
                record = b"".join(
                    (b"\0", VARINTS[delta], VARINTS[count], key_size, key_data, value_size, value_data, b"\0")
                )
                record = VARINTS[len(record)] + record
            except IndexError:
                record = self._encode(timestamp, key, value, headers)
        raw_bytes = self.raw_bytes + len(record)
        if raw_bytes > self._limit and count:
            return None
        self.raw_bytes = raw_bytes
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        records.append(record)
        return count

    def _start(self, timestamp: int) -> None:
        check_timestamp(timestamp)
        self.base_timestamp = self.max_timestamp = timestamp
        self.raw_bytes = 0

    def _encode(self, timestamp: int, key: Bytes | None, value: Bytes | None, headers: HeaderItems) -> bytes:
        check_timestamp(timestamp)
        return encode_record(timestamp - self.base_timestamp, len(self._records), key, value, headers)

    @property
    def count(self) -> int:
        """The number of records, which is the offset of the next one."""
        return len(self._records)

    @property
    def is_full(self) -> bool:
        """Whether the batch is probably too full for another record of any size."""
        return bool(self._records) and self.raw_bytes >= self._limit

    @property
    def size_estimate(self) -> int:
        """The size of the batch that `build` returns: exact without a codec, else an estimate."""
        return HEADER_BYTES + int(self.raw_bytes * self._ratio)

    def has_room_for(self, key: Bytes | None, value: Bytes | None, headers: HeaderItems = None) -> bool:
        """Return whether `append` would add this record; never True if it would return None."""
        return not self._records or self.raw_bytes + record_size_bound(key, value, headers) <= self._limit

    def build(
        self,
        base_offset: int = 0,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        is_transactional: bool = False,
        is_control: bool = False,
        partition_leader_epoch: int = NO_LEADER_EPOCH,
        log_append_time: int | None = None,
    ) -> bytes:
        """Return the batch. Change nothing, so it can be built again with other producer fields.

        log_append_time sets the timestamp type and the timestamp of all records.

        Raises:
            ValueError: there are no records.
            CodecUnavailable: the codec's library is not installed.
        """
        records = self._records
        if not records:
            raise ValueError("a batch without records cannot be built")
        return frame_batch(
            b"".join(records),
            len(records),
            self.base_timestamp,
            self.max_timestamp,
            self._codec,
            self._level,
            base_offset=base_offset,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            is_transactional=is_transactional,
            is_control=is_control,
            partition_leader_epoch=partition_leader_epoch,
            log_append_time=log_append_time,
        )


def frame_batch(
    records: bytes,
    count: int,
    base_timestamp: int,
    max_timestamp: int,
    codec: Codec,
    level: int | None = None,
    *,
    base_offset: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    partition_leader_epoch: int = NO_LEADER_EPOCH,
    log_append_time: int | None = None,
) -> bytes:
    """Return the batch of `count` encoded records: compressed, after its header.

    log_append_time sets the timestamp type and the timestamp of all records. Raise CodecUnavailable if the
    codec's library is not installed.
    """
    attributes = codec.id
    body = codec.compress(records, level) if attributes else records
    if is_transactional:
        attributes |= TRANSACTIONAL_FLAG
    if is_control:
        attributes |= CONTROL_FLAG
    if log_append_time is not None:
        attributes |= LOG_APPEND_TIME_FLAG
    rest = HEADER_REST.pack(
        attributes,
        count - 1,
        base_timestamp,
        max_timestamp if log_append_time is None else log_append_time,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    size_bytes = HEADER_BYTES - LENGTH_END + len(body)
    start = HEADER_START.pack(base_offset, size_bytes, partition_leader_epoch, MAGIC, crc32c(rest, body))
    return b"".join((start, rest, body))


def encode_rows(rows: Iterable[Row], base_timestamp: int) -> tuple[bytes, int]:
    """Return the encoded records of a batch, and the latest of their timestamps.

    Timestamps must fit into 64 bits. Hot: one loop without a call per record; a common record (no key, as
    long as the one before) only adds entries to the list that is joined at the end.
    """
    parts: list[bytes] = []
    latest = last = base_timestamp
    time = NO_DELTA
    offset = -1
    front = size = b""  # of a record like the one before: the part up to its offset, and that up to its value
    length, known = -1, NO_HEADERS
    for value, key, timestamp, headers, _ in rows:
        offset += 1
        if timestamp != last or offset == LONGER_OFFSET:
            last = timestamp
            time = b"\0" + varint(timestamp - base_timestamp)
            latest = max(latest, timestamp)
            length = -1
        try:
            if key is None and value is not None:
                if len(value) != length or headers is not known:
                    length = len(value)
                    known = headers
                    size = NULL + VARINTS[length]
                    bytes_after = len(time) + len(VARINTS[offset]) + len(size) + length + len(headers)
                    front = VARINTS[bytes_after] + time
                parts += (front, VARINTS[offset], size, value, headers)
            else:
                head = time + VARINTS[offset]
                head += NULL if key is None else VARINTS[len(key)] + key
                data = b""
                if value is None:
                    head += NULL
                else:
                    data = value
                    head += VARINTS[len(data)]
                parts += (VARINTS[len(head) + len(data) + len(headers)], head, data, headers)
        except IndexError:  # beyond the table of short numbers
            length = -1
            parts.append(_encode_long(value, key, headers, time, offset))
    return b"".join(parts), latest


def encode_only(value: bytes | None, key: bytes | None, headers: bytes) -> bytes:
    """Return the only record of a batch, encoded as by `encode_rows`; its timestamp is that of the batch."""
    if key is None and value is not None:
        value_bytes = len(value)
        try:
            size = VARINTS[value_bytes]
            length = VARINTS[ALONE_BYTES + len(size) + value_bytes + len(headers)]
        except IndexError:  # beyond the table of short numbers
            pass
        else:
            return b"".join((length, ALONE, size, value, headers))
    return _encode_long(value, key, headers, NO_DELTA, 0)


def _encode_long(value: bytes | None, key: bytes | None, headers: bytes, time: bytes, offset: int) -> bytes:
    parts = [time, varint(offset)]
    for field in (key, value):
        parts += (NULL,) if field is None else (varint(len(field)), field)
    body = b"".join((*parts, headers))
    return varint(len(body)) + body


def encode_headers(headers: HeaderItems) -> bytes:
    """Return headers as a record ends with them, after their number.

    Raise TypeError or ValueError if they are not pairs of a str and bytes, or a name cannot be encoded.
    """
    pairs = list(headers or ())
    parts = [varint(len(pairs))]
    for name, field in pairs:
        encoded_name = name.encode("utf-8", "surrogateescape")
        parts += (varint(len(encoded_name)), encoded_name)
        if field is None:
            parts.append(NULL)
        else:
            data = memoryview(field).tobytes()
            parts += (varint(len(data)), data)
    return b"".join(parts)


def check_timestamp(timestamp: int) -> None:
    if not -1 << 63 <= timestamp < 1 << 63:
        raise ValueError(f"timestamp {timestamp} does not fit into 64 bits")


def encode_record(
    timestamp_delta: int, offset_delta: int, key: Bytes | None, value: Bytes | None, headers: HeaderItems
) -> bytes:
    """Return one record after its length, with any fields; `append` has a fast path for plain ones."""
    parts = [b"\0", varint(timestamp_delta), varint(offset_delta)]
    for field in (key, value):
        if field is None:
            parts.append(NULL)
        else:
            data = memoryview(field).tobytes()
            parts += (varint(len(data)), data)
    parts.append(encode_headers(headers))
    body = b"".join(parts)
    return varint(len(body)) + body


def record_size_bound(key: Bytes | None, value: Bytes | None, headers: HeaderItems = None) -> int:
    """Return the maximum size of a record with these fields in a batch (its deltas are not known yet)."""
    size = MAX_RECORD_OVERHEAD + size_bytes(key) + size_bytes(value)
    for name, field in headers or ():
        encoded = len(name) if name.isascii() else len(name.encode("utf-8", "surrogateescape"))
        size += 10 + encoded + size_bytes(field)  # two lengths of at most five bytes
    return size


def size_bytes(field: Bytes | None) -> int:
    if field is None:
        return 0
    return len(field) if type(field) is bytes else memoryview(field).nbytes


def batch_size_bound(key: Bytes | None, value: Bytes | None, headers: HeaderItems = None) -> int:
    """Return the maximum size of an uncompressed batch of only this record."""
    return HEADER_BYTES + record_size_bound(key, value, headers)
