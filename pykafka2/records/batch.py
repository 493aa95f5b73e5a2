"""The header of a record batch of format 2 as a view over its bytes, the walk over many, and their opening.

Any thread. A view reads 61 bytes and copies nothing. Opening a batch checks and decompresses the records
behind the header, which decoder.py reads. Layout: KIP-98; formats 0 and 1 are in legacy.py.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterator
from typing import cast

from pykafka2.compression import MAX_OUTPUT_BYTES, codec
from pykafka2.compression.steps import Steps, finish
from pykafka2.errors import CodecUnavailable, CorruptData, CorruptMessage, UnsupportedCompressionType
from pykafka2.types import LOG_APPEND_TIME

MAGIC = 2

# base offset, length, leader epoch, magic, CRC, attributes, last offset delta, base timestamp, max timestamp,
# producer id, producer epoch, base sequence, count
HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = HEADER.size  # 61

# The same in two parts: up to the CRC, and the part that the CRC covers.
HEADER_START = struct.Struct(">qiibI")
HEADER_REST = struct.Struct(">hiqqqhii")

OFFSET_AND_LENGTH = struct.Struct(">qi")
LENGTH_END = OFFSET_AND_LENGTH.size  # 12; the length field counts what follows it
EPOCH_AT = 12
MAGIC_AT = 16
CRC_AT = 17
CRC_START = 21  # the checksum covers everything from the attributes on
ATTRIBUTES_AT = 21
MAX_TIMESTAMP_AT = 35
PRODUCER = struct.Struct(">qhi")  # producer id, producer epoch, base sequence
PRODUCER_AT = 43
COUNT = struct.Struct(">i")
COUNT_AT = 57
MIN_LEGACY_BYTES = 14  # of a legacy message after its length: CRC, magic, attributes, two null lengths

CODEC_MASK = 0x07
LOG_APPEND_TIME_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40

# A record's shortest form: length, attributes, two deltas, two lengths, header count.
MIN_RECORD_BYTES = 7

MAX_OFFSET = (1 << 63) - 1

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_LEADER_EPOCH = -1

Buffer = bytes | bytearray | memoryview

_checksum: Callable[[Buffer, int], int] | None = None
"""The function of the crc32c package, once it is loaded."""


class RecordBatch:
    """One batch of format 2 in `buffer`; only its header is read.

    buffer is a memoryview of exactly this batch and keeps the bytes behind it alive. All header fields are
    attributes; offset and sequence of the last record are derived. Compares by identity.
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "buffer",
        "count",
        "crc",
        "last_offset_delta",
        "length",
        "magic",
        "max_timestamp",
        "partition_leader_epoch",
        "producer_epoch",
        "producer_id",
    )

    base_offset: int
    length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int

    def __init__(self, buffer: memoryview) -> None:
        self.buffer = buffer
        (
            self.base_offset,
            self.length,
            self.partition_leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.count,
        ) = HEADER.unpack_from(buffer)

    @property
    def size_bytes(self) -> int:
        return len(self.buffer)

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after the batch, even if compaction has removed the record at last_offset."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record: wraps from 2**31 - 1 to 0; -1 without a producer id."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def codec_id(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self) -> int:
        """0 for create time, 1 for log-append time: then every record has max_timestamp."""
        return (self.attributes & LOG_APPEND_TIME_FLAG) >> 3

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_FLAG)

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID  # any negative id means none, as in Kafka

    def verify_crc(self, where: str = "batch") -> None:
        """Compare the checksum with the bytes.

        Raises:
            CorruptMessage: they differ; the message has `where` (such as topic-partition) and the offset.
        """
        actual = crc32c(self.buffer[CRC_START:])
        if actual != self.crc:
            raise CorruptMessage(
                f"{where} at offset {self.base_offset}: "
                f"checksum is {self.crc:#010x} but the bytes give {actual:#010x}"
            )

    def records_bytes(self, max_output_bytes: int = MAX_OUTPUT_BYTES) -> bytes:
        """Return the encoded records, decompressed; raise CorruptData if they cannot be or are too large."""
        return bytes(self.records_view(max_output_bytes))

    def records_view(self, max_output_bytes: int = MAX_OUTPUT_BYTES) -> Buffer:
        """Return the records like `records_bytes`, as a view if they are not compressed."""
        return finish(self.records_in_steps(max_output_bytes))

    def records_in_steps(self, max_output_bytes: int) -> Steps[Buffer]:
        """Return the records like `records_view`, decompressed in steps."""
        body = self.buffer[HEADER_BYTES:]
        codec_id = self.attributes & CODEC_MASK
        return (yield from codec(codec_id).decompress_in_steps(body, max_output_bytes)) if codec_id else body

    def with_offsets(
        self, base_offset: int, leader_epoch: int = NO_LEADER_EPOCH, log_append_time: int | None = None
    ) -> bytes:
        """Return a copy of the batch as a broker stores it; see `stamp`."""
        copy = bytearray(self.buffer)
        stamp(copy, base_offset, leader_epoch, log_append_time)
        return bytes(copy)

    def __repr__(self) -> str:
        marks = (", transactional" if self.is_transactional else "") + (
            ", control" if self.is_control else ""
        )
        return (
            f"<batch {self.base_offset}..{self.last_offset}, {self.count} records, {self.size_bytes} bytes, "
            f"codec {self.codec_id}, producer {self.producer_id}/{self.producer_epoch}/{self.base_sequence}"
            f"{marks}>"
        )


def crc32c(*parts: Buffer) -> int:
    """Return the CRC-32C of the parts, one after the other."""
    global _checksum
    if _checksum is None:
        _checksum = _load_checksum()  # with the first batch
    value = 0
    for part in parts:
        value = _checksum(part, value)
    return value


def _load_checksum() -> Callable[[Buffer, int], int]:
    """Return the function of the crc32c package, of which only the extension is loaded.

    The package itself imports argparse and importlib.metadata, 50 modules in all. They slow every start, and
    their 5000 objects make each full garbage collection, which stops event loops, a sixth longer.
    """
    from importlib.machinery import ExtensionFileLoader, PathFinder
    from importlib.util import module_from_spec

    name = "crc32c._crc32c"
    module = sys.modules.get(name)
    if module is None:
        package = PathFinder.find_spec("crc32c")
        spec = None if package is None else PathFinder.find_spec(name, package.submodule_search_locations)
        if spec is None or not isinstance(spec.loader, ExtensionFileLoader):  # as in a frozen application
            from crc32c import crc32c as checksum

            return cast("Callable[[Buffer, int], int]", checksum)
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules[name] = module
    return cast("Callable[[Buffer, int], int]", module.crc32c)


def stamp(
    batch: bytearray | memoryview, base_offset: int, leader_epoch: int, log_append_time: int | None = None
) -> None:
    """Set offset and leader epoch of a batch in place, as the leader does on append.

    Both are outside the checksum. log_append_time (milliseconds) becomes the timestamp of every record, which
    changes timestamp type and checksum.
    """
    struct.pack_into(">q", batch, 0, base_offset)
    struct.pack_into(">i", batch, EPOCH_AT, leader_epoch)
    if log_append_time is None:
        return
    (attributes,) = struct.unpack_from(">h", batch, ATTRIBUTES_AT)
    struct.pack_into(">h", batch, ATTRIBUTES_AT, attributes | LOG_APPEND_TIME << 3)
    struct.pack_into(">q", batch, MAX_TIMESTAMP_AT, log_append_time)
    with memoryview(batch) as view, view[CRC_START:] as covered:
        struct.pack_into(">I", batch, CRC_AT, crc32c(covered))


def with_producer(batch: bytes, producer_id: int, producer_epoch: int, base_sequence: int) -> bytes:
    """Return a copy of the batch with another producer id, epoch and sequence."""
    copy = bytearray(batch)
    PRODUCER.pack_into(copy, PRODUCER_AT, producer_id, producer_epoch, base_sequence)
    with memoryview(copy) as view, view[CRC_START:] as covered:
        struct.pack_into(">I", copy, CRC_AT, crc32c(covered))
    return bytes(copy)


def batches(buffer: Buffer, where: str = "records") -> Iterator[RecordBatch]:
    """Iterate over the whole batches of format 2 in a blob of records; skips an incomplete one at the end.

    A Fetch response is cut at a byte limit, so the last batch can be incomplete. Checksums are not verified.
    `where` names topic and partition in errors.

    Raises:
        CorruptData: a batch's length, magic or count is invalid; the batches before it have been yielded.
            Format 0 and 1 raise too: `batch_reader.any_batches` reads them.
    """
    for offset, view in slices(buffer, where):
        magic = view[MAGIC_AT]
        if magic != MAGIC:
            raise CorruptData(f"{where} at offset {offset}: magic {magic} where {MAGIC} is expected")
        yield open_view(view, where)


def slices(buffer: Buffer, where: object) -> Iterator[tuple[int, memoryview]]:
    """Iterate over offset and bytes of each whole batch or legacy message, whose contents are not checked.

    Errors begin with `where`, which is only turned into text for them.
    """
    view = memoryview(buffer)
    position, end = 0, len(view)
    while end - position >= LENGTH_END:
        offset, length = OFFSET_AND_LENGTH.unpack_from(view, position)
        if length < MIN_LEGACY_BYTES:
            raise CorruptData(f"{where} at offset {offset}: batch length {length} is invalid")
        stop = position + LENGTH_END + length
        if stop > end:
            return
        yield offset, view[position:stop]
        position = stop


def open_view(view: memoryview, where: object) -> RecordBatch:
    """Return a view of a batch whose magic is 2; raise CorruptData if its header is invalid."""
    if len(view) < HEADER_BYTES:
        raise CorruptData(f"{where}: a batch of {len(view)} bytes is shorter than its header")
    batch = RecordBatch(view)
    # Each record has its own offset: with fewer offsets than records, the position would move back.
    if batch.count < 0 or batch.last_offset_delta < max(batch.count - 1, 0) or batch.base_offset < 0:
        deltas = f"{batch.count} records, last offset delta {batch.last_offset_delta}"
        raise CorruptData(f"{where} at offset {batch.base_offset}: {deltas}")
    if batch.next_offset > MAX_OFFSET:
        raise CorruptData(f"{where} at offset {batch.base_offset}: offsets of more than 64 bits")
    return batch


def has_gaps(batch: RecordBatch) -> bool:
    """Return whether offsets must be read from the records because the header does not imply them."""
    return batch.last_offset_delta != batch.count - 1 or batch.count > 1 << 20


def open_batch(batch: RecordBatch, where: str, check_crcs: bool, max_output_bytes: int) -> bytes:
    """Return the encoded records after all checks that need no parsing: checksum, codec, count."""
    return bytes(open_body(batch, where, check_crcs, max_output_bytes))


def open_body(batch: RecordBatch, where: str, check_crcs: bool, max_output_bytes: int) -> Buffer:
    """Open a batch like `open_batch`; return a view instead of a copy if the batch is not compressed."""
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
    """Raise CorruptData if the batch claims more records than fit in so many bytes."""
    if batch.count * MIN_RECORD_BYTES > size_bytes:
        raise CorruptData(
            f"{where} at offset {batch.base_offset}: {batch.count} records cannot be in {size_bytes} bytes"
        )
