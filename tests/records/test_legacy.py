"""Formats 0 and 1 as kafka-python's builder and hand-made wrappers write them."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka2.compression import codec as find_codec
from pykafka2.errors import CorruptData, CorruptMessage
from pykafka2.records.batch_reader import any_batches, decode_any_records, decode_any_tuples
from pykafka2.records.decoder import RecordTuple
from pykafka2.records.legacy import LegacyBatch

from .peers import LEGACY_BUILDER
from .strategies import NOW, Input, build

PAIRS = st.lists(
    st.tuples(st.none() | st.binary(max_size=20), st.none() | st.binary(max_size=20)), min_size=1, max_size=6
)


def message(
    magic: int,
    offset: int,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
    attributes: int = 0,
) -> bytes:
    body = struct.pack(">bb", magic, attributes)
    body += struct.pack(">q", timestamp) if magic else b""
    for field in (key, value):
        body += struct.pack(">i", -1 if field is None else len(field)) + (field or b"")
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


def read(blob: bytes, check_crcs: bool = True) -> list[RecordTuple]:
    return [
        row for batch in any_batches(blob) for row in decode_any_tuples(batch, "old-0", check_crcs, 1 << 20)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("magic", [0, 1])
@given(PAIRS, st.sampled_from(["none", "gzip", "snappy", "lz4"]))
def test_batches_of_kafka_python_are_read(
    magic: int, pairs: list[tuple[bytes | None, bytes | None]], codec: str
) -> None:
    if magic == 0 and codec == "lz4":
        return  # kafka-python needs xxhash to write it; see the test with Java's checksum
    builder = LEGACY_BUILDER(magic, find_codec(codec).id, 1 << 20)
    for index, (key, value) in enumerate(pairs):
        builder.append(index, NOW + index, key, value)
    expected: list[RecordTuple] = [
        (index, NOW + index if magic else -1, key, value, []) for index, (key, value) in enumerate(pairs)
    ]
    assert read(bytes(builder.build())) == expected


@pytest.mark.parametrize("codec", [1, 2, 3])
def test_offsets_within_a_wrapper_count_back_from_its_own(codec: int) -> None:
    """Also where compaction took some away: the inner offsets are 0 and 3, the wrapper's is 103."""
    inner = message(1, 0, NOW, b"a", b"x") + message(1, 3, NOW + 5, b"b", None)
    wrapper = message(1, 103, NOW + 9, None, find_codec(codec).compress(inner), codec)
    assert read(wrapper) == [(100, NOW, b"a", b"x", []), (103, NOW + 5, b"b", None, [])]
    [batch] = any_batches(wrapper)
    assert (batch.last_offset, batch.next_offset) == (103, 104)


def test_a_wrapper_of_format_0_holds_offsets_as_they_are() -> None:
    inner = message(0, 50, 0, b"a", b"x") + message(0, 51, 0, None, b"y")
    wrapper = message(0, 51, 0, None, find_codec("gzip").compress(inner), 1)
    assert read(wrapper) == [(50, -1, b"a", b"x", []), (51, -1, None, b"y", [])]


def test_lz4_of_format_0_is_read_in_spite_of_its_header_checksum() -> None:
    """Java takes the checksum over the wrong bytes and gets 0x1a (KAFKA-3160), where 0x82 would be right."""
    frame = bytearray(find_codec("lz4").compress(message(0, 51, 0, b"k", b"v" * 100)))
    assert frame[4:7] == b"\x60\x40\x82"
    frame[6] = 0x1A
    assert read(message(0, 51, 0, None, bytes(frame), 3)) == [(51, -1, b"k", b"v" * 100, [])]
    for junk in (b"", b"junk", b"longer junk than a header", bytes(frame[:7])):
        with pytest.raises(CorruptData, match="lz4"):
            read(message(0, 51, 0, None, junk, 3))


def test_a_wrapper_with_log_append_time_gives_it_to_all() -> None:
    inner = message(1, 0, NOW, None, b"x") + message(1, 1, NOW + 5, None, b"y")
    wrapper = message(1, 1, NOW + 99, None, find_codec("gzip").compress(inner), 1 | 8)
    [batch] = any_batches(wrapper)
    records = list(decode_any_records(batch, "old", 0))
    assert [(r.offset, r.timestamp, r.timestamp_type) for r in records] == [
        (0, NOW + 99, 1),
        (1, NOW + 99, 1),
    ]


def test_formats_may_be_mixed_and_reading_starts_within_them() -> None:
    blob = (
        message(0, 1, 0, None, b"v0")
        + message(1, 2, NOW, b"k", b"v1")
        + build([Input(NOW, None, b"v2", []), Input(NOW, None, b"v2 too", [])], base_offset=3)
    )
    found = [
        r
        for batch in any_batches(blob + blob[:20])
        for r in decode_any_records(batch, "old", 0, first_offset=2)
    ]
    assert [(r.offset, r.key, r.value) for r in found] == [
        (2, b"k", b"v1"),
        (3, None, b"v2"),
        (4, None, b"v2 too"),
    ]
    assert (found[0].serialized_key_size, found[0].serialized_value_size) == (1, 2)
    assert found[0].headers == []


def test_a_changed_byte_is_named_with_its_offset() -> None:
    damaged = bytearray(message(1, 77, NOW, b"k", b"v"))
    damaged[-1] ^= 1
    with pytest.raises(CorruptMessage, match="old-0 at offset 77"):
        read(bytes(damaged))
    assert read(bytes(damaged), check_crcs=False)[0][3] == b"w"


def test_a_changed_byte_within_a_wrapper_is_noticed() -> None:
    inner = bytearray(message(1, 0, NOW, b"k", b"v"))
    inner[-1] ^= 1
    wrapper = message(1, 77, NOW, None, find_codec("gzip").compress(inner), 1)
    with pytest.raises(CorruptMessage, match="old-0, wrapped up to offset 77, at offset 0"):
        read(wrapper)


GZIPPED = find_codec("gzip").compress(message(1, 0, NOW, b"k", b"v"))


@pytest.mark.parametrize(
    ("blob", "why"),
    [
        (message(1, 5, NOW, None, None, 1), "without a value"),
        (message(1, 5, NOW, None, b"junk", 1), "cannot be decompressed"),
        (message(1, 5, NOW, None, find_codec("gzip").compress(b""), 1), "none"),
        (
            message(1, 5, NOW, None, find_codec("gzip").compress(message(1, 0, NOW, b"k", b"v")[:-1]), 1),
            "cut short",
        ),
        (
            message(1, 5, NOW, None, find_codec("gzip").compress(message(0, 0, 0, b"k", b"v")), 1),
            "another format",
        ),
        (
            message(1, 5, NOW, None, find_codec("gzip").compress(message(1, 0, NOW, None, GZIPPED, 1)), 1),
            "within a compressed",
        ),
        (message(1, 5, NOW, None, find_codec("gzip").compress(bytes(2 << 20)), 1), "more than 1048576"),
        (message(3, 5, NOW, None, None), "not one of Kafka.s formats"),
        (struct.pack(">qiI", 5, 14, 0) + b"\1\0" + bytes(8), "shorter than its header|do not end|a field of"),
    ],
)
def test_damage_is_corrupt_data(blob: bytes, why: str) -> None:
    with pytest.raises(CorruptData, match=why):
        read(blob, check_crcs=False)


def test_a_field_must_be_within_its_message() -> None:
    good = message(1, 5, NOW, b"key", b"value")
    for size in (-2, 100, 2**31 - 1):
        damaged = bytearray(good)
        damaged[26:30] = struct.pack(">i", size)
        with pytest.raises(CorruptData, match=str(size)):
            read(bytes(damaged), check_crcs=False)


def test_a_message_has_the_attributes_readers_of_batches_need() -> None:
    [batch] = any_batches(message(1, 5, NOW, None, b"v"))
    assert isinstance(batch, LegacyBatch)
    assert (batch.is_control, batch.is_transactional, batch.has_producer_id) == (False, False, False)
    assert (batch.partition_leader_epoch, batch.codec_id, batch.size_bytes) == (-1, 0, 35)
