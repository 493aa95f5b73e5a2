"""Message formats 0 and 1, read only: brokers before 0.11 wrote them and old logs still have them.

A message is a batch of one record, or, compressed, a wrapper whose value contains messages. Inner messages of
format 1 count from 0 and the wrapper has the offset of the last one (KIP-31, KIP-32); those of format 0 have
offsets of their own.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from pykafka2.compression import MAX_OUTPUT_BYTES, codec
from pykafka2.compression.steps import Steps, finish
from pykafka2.errors import CorruptData, CorruptMessage
from pykafka2.records.batch import CODEC_MASK, LOG_APPEND_TIME_FLAG, MAGIC_AT, NO_LEADER_EPOCH, slices
from pykafka2.records.decoder import RecordTuple
from pykafka2.types import CREATE_TIME, LOG_APPEND_TIME, NO_TIMESTAMP

HEADER = struct.Struct(">qiIbb")  # offset, length, CRC, magic, attributes
TIMESTAMP = struct.Struct(">q")  # format 1 only
LENGTH = struct.Struct(">i")
ATTRIBUTES_AT = MAGIC_AT + 1

STEP_RECORDS = 1 << 14
"""Records that are decoded, or skipped, in one step: about 10 ms of work."""


class LegacyBatch:
    """One message of format 0 or 1, or a wrapper around several.

    buffer is a memoryview of exactly this message. Attributes that readers of batches need have the names
    that they have in RecordBatch.
    """

    __slots__ = ("attributes", "buffer", "crc", "last_offset", "magic", "timestamp")

    is_control = False
    is_transactional = False
    has_producer_id = False
    partition_leader_epoch = NO_LEADER_EPOCH

    def __init__(self, buffer: memoryview) -> None:
        self.buffer = buffer
        self.last_offset: int
        self.crc: int
        self.magic: int
        self.attributes: int
        self.last_offset, _, self.crc, self.magic, self.attributes = HEADER.unpack_from(buffer)
        self.timestamp: int = NO_TIMESTAMP
        if self.magic == 1:
            try:
                (self.timestamp,) = TIMESTAMP.unpack_from(buffer, HEADER.size)
            except struct.error as error:
                raise CorruptData(
                    f"message at offset {self.last_offset} is shorter than its header"
                ) from error

    @property
    def size_bytes(self) -> int:
        return len(self.buffer)

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1

    @property
    def codec_id(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self) -> int:
        """Always create time in format 0, which has no timestamps: they are -1."""
        return LOG_APPEND_TIME if self.magic and self.attributes & LOG_APPEND_TIME_FLAG else CREATE_TIME

    def verify_crc(self, where: str = "message") -> None:
        """Raise CorruptMessage if the checksum (CRC-32 here) does not match the bytes."""
        import zlib

        actual = zlib.crc32(self.buffer[MAGIC_AT:])
        if actual != self.crc:
            raise CorruptMessage(
                f"{where} at offset {self.last_offset}: "
                f"checksum is {self.crc:#010x} but the bytes give {actual:#010x}"
            )

    def key_and_value(self) -> tuple[bytes | None, bytes | None]:
        position = HEADER.size + (TIMESTAMP.size if self.magic else 0)
        key, position = self._field(position)
        value, position = self._field(position)
        if position != len(self.buffer):
            raise CorruptData(f"message at offset {self.last_offset}: its fields do not end where it does")
        return key, value

    def _field(self, position: int) -> tuple[bytes | None, int]:
        left = len(self.buffer) - position - LENGTH.size
        size = LENGTH.unpack_from(self.buffer, position)[0] if left >= 0 else 0
        position += LENGTH.size
        if size == -1:
            return None, position
        if not 0 <= size <= left:
            raise CorruptData(
                f"message at offset {self.last_offset}: a field of {size} bytes, but only {left} are left"
            )
        return bytes(self.buffer[position : position + size]), position + size

    def __repr__(self) -> str:
        return f"<message of format {self.magic} up to {self.last_offset}, codec {self.codec_id}>"


def decode_legacy_tuples(
    batch: LegacyBatch,
    where: str = "records",
    check_crcs: bool = True,
    max_output_bytes: int = MAX_OUTPUT_BYTES,
) -> Iterator[RecordTuple]:
    """Iterate over the message, or the messages in the wrapper, as tuples without headers; lazy.

    Raises:
        CorruptMessage, CorruptData, UnsupportedCompressionType, CodecUnavailable: as for format 2.
    """
    yield from finish(legacy_tuples_in_steps(batch, where, check_crcs, max_output_bytes))[0]


def legacy_tuples_in_steps(
    batch: LegacyBatch, where: str, check_crcs: bool, max_output_bytes: int
) -> Steps[tuple[Iterator[RecordTuple], int]]:
    """Decode like `decode_legacy_tuples`; a large wrapper is opened in several steps.

    Return the tuples and the number of decompressed bytes that they are decoded from.
    """
    if check_crcs:
        batch.verify_crc(where)
    key, value = batch.key_and_value()
    if not batch.codec_id:
        return iter([(batch.last_offset, batch.timestamp, key, value, [])]), batch.size_bytes
    data = yield from _unwrap(batch, value, where, max_output_bytes)
    last_inner, count = yield from _last_and_count(batch, data, where)
    # The wrapper's offset is that of its last message; some librdkafka left it 0 when producing.
    base_offset = batch.last_offset - last_inner if batch.magic and batch.last_offset else 0
    last_offset = batch.last_offset or count - 1
    return _inner_tuples(batch, data, where, check_crcs, base_offset, last_offset), len(data)


def _inner_tuples(
    batch: LegacyBatch, data: bytes, where: str, check_crcs: bool, base_offset: int, last_offset: int
) -> Iterator[RecordTuple]:
    previous = -1
    for _, view in slices(data, where):
        message = LegacyBatch(view)
        if check_crcs:
            message.verify_crc(f"{where}, wrapped up to offset {batch.last_offset},")
        offset = base_offset + message.last_offset
        if not previous < offset <= last_offset:
            at = f"{where} at offset {batch.last_offset}"
            raise CorruptData(f"{at}: in it offset {offset} follows {previous}, the last is {last_offset}")
        previous = offset
        timestamp = batch.timestamp if batch.timestamp_type == LOG_APPEND_TIME else message.timestamp
        yield offset, timestamp, *message.key_and_value(), []


def _unwrap(wrapper: LegacyBatch, value: bytes | None, where: str, max_output_bytes: int) -> Steps[bytes]:
    at = f"{where} at offset {wrapper.last_offset}"
    if value is None:
        raise CorruptData(f"{at}: a compressed message without a value")
    try:
        found = codec(wrapper.codec_id)
        if wrapper.magic == 0:
            value = found.mend_header(value)
        return (yield from found.decompress_in_steps(value, max_output_bytes))
    except CorruptData as error:
        raise CorruptData(f"{at}: {error}") from error


def _last_and_count(wrapper: LegacyBatch, data: bytes, where: str) -> Steps[tuple[int, int]]:
    """Return the offset in the last of the wrapped messages, and the number of messages."""
    at = f"{where} at offset {wrapper.last_offset}"
    last = count = size = 0
    for inner_offset, view in slices(data, where):
        last = inner_offset
        count += 1
        size += len(view)
        if view[MAGIC_AT] != wrapper.magic or view[ATTRIBUTES_AT] & CODEC_MASK:
            raise CorruptData(f"{at}: a compressed message within a compressed message, or of another format")
        if not count % STEP_RECORDS:
            yield len(data)
    if size != len(data) or not count:
        raise CorruptData(f"{at}: the compressed messages are none, or the last one is cut short")
    return last, count
