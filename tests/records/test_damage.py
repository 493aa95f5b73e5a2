"""Whatever the bytes, decoding ends in records or a typed error, and never allocates by a false number."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Iterator
from functools import partial
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka2.errors import CorruptData, CorruptMessage, UnsupportedCompressionType
from pykafka2.records import decoder
from pykafka2.records.batch import CRC_START, batches, crc32c
from pykafka2.records.batch_reader import AnyBatch, any_batches, decode_any_records, decode_any_tuples
from pykafka2.records.column_decoder import decode_columns
from pykafka2.records.columns import GrowingColumns
from pykafka2.records.decoder import STILL_READING, decode_records, decode_tuples
from pykafka2.records.encoder import BatchBuilder
from pykafka2.records.varint import varint
from pykafka2.types import ConsumerRecord
from tests.gate import examples

from .strategies import CODECS, NOW, RECORD_LISTS, Input, build

DAMAGE = (CorruptData, CorruptMessage, UnsupportedCompressionType)


def read(blob: bytes, check_crcs: bool = True) -> list[ConsumerRecord]:
    return [
        record
        for batch in any_batches(blob)
        for record in decode_any_records(batch, "orders", 1, 0, check_crcs, 1 << 20)
    ]


@pytest.mark.gate
@pytest.mark.slow
@given(RECORD_LISTS, st.sampled_from(CODECS), st.data())
def test_a_changed_byte_is_noticed_or_did_not_matter(
    records: list[Input], codec: str, data: st.DataObject
) -> None:
    blob = build(records, codec)
    position = data.draw(st.integers(0, len(blob) - 1))
    damaged = bytearray(blob)
    damaged[position] ^= data.draw(st.integers(1, 255))
    expected = [(r.timestamp, r.key, r.value, r.headers) for r in read(blob)]
    try:
        found = read(bytes(damaged))
    except DAMAGE:
        return
    # Base offset and leader epoch are outside the checksum; a longer length makes it an unfinished one.
    if found:
        assert [(r.timestamp, r.key, r.value, r.headers) for r in found] == expected
        assert position < 16
    else:
        assert 8 <= position < 12


@pytest.mark.gate
@pytest.mark.slow
@given(
    RECORD_LISTS,
    st.sampled_from(CODECS),
    st.lists(st.tuples(st.integers(0, 10**6), st.binary(max_size=4)), max_size=5),
)
def test_damage_behind_a_checksum_that_fits_ends_in_records_or_an_error(
    records: list[Input], codec: str, changes: list[tuple[int, bytes]]
) -> None:
    blob = bytearray(build(records, codec))
    for position, replacement in changes:
        position = 17 + position % (len(blob) - 17)
        blob[position : position + len(replacement)] = replacement
    blob[8:12] = (len(blob) - 12).to_bytes(4, "big")
    blob[17:21] = crc32c(bytes(blob[CRC_START:])).to_bytes(4, "big")
    for batch in batches_or_nothing(bytes(blob)):
        for decode in (decode_any_tuples, partial(decode_any_records, topic="t", partition=0)):
            try:
                for record in decode(batch):  # type: ignore[operator]
                    assert record is not None
            except DAMAGE:
                pass


def batches_or_nothing(blob: bytes) -> list[AnyBatch]:
    try:
        return list(any_batches(blob))
    except CorruptData:
        return []


@given(st.binary(max_size=200), st.sampled_from([0, 1, 2]))
def test_any_bytes_end_in_records_or_an_error(junk: bytes, magic: int) -> None:
    header = struct.pack(">qiibIhiqqqhii", 0, 49 + len(junk), -1, magic, 0, 0, 9, NOW, NOW, -1, -1, -1, 10)
    for blob in (junk, header + junk):
        for check_crcs in (True, False):
            try:
                read(blob, check_crcs)
            except DAMAGE:
                pass


def with_records(body: bytes, count: int, last_offset_delta: int | None = None, codec: int = 0) -> bytes:
    """A batch around these bytes whose checksum fits."""
    last = count - 1 if last_offset_delta is None else last_offset_delta
    covered = struct.pack(">hiqqqhii", codec, last, NOW, NOW, -1, -1, -1, count) + body
    return struct.pack(">qiibI", 500, 9 + len(covered), -1, 2, crc32c(covered)) + covered


GOOD = bytes.fromhex("0e 00 00 00 01 02 61 00".replace(" ", ""))  # value "a"
WITH_HEADER = bytes.fromhex("16 00 00 00 01 02 61 02 02 68 02 76")  # "h" is "v"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "records cannot be in"),
        (GOOD, "cannot be in 8 bytes"),
        (GOOD + GOOD[:-1], "ends within the record"),
        (GOOD + GOOD + b"\0", "1 bytes are left"),
        (GOOD + b"\x0c" + GOOD[1:], "length does not match its fields"),
        (GOOD + b"\x0d" + GOOD[1:], "length does not match its fields"),
        (GOOD + b"\x10" + GOOD[1:] + b"\0", "length does not match its fields"),
        (GOOD + bytes.fromhex("0e 00 00 02 03 02 61 00"), "key of negative length"),
        (GOOD + bytes.fromhex("0e 00 00 02 01 03 61 00"), "value of negative length"),
        (GOOD + bytes.fromhex("0e 00 00 02 01 7e 61 00"), "ends within the record"),
        (GOOD + bytes.fromhex("0e 00 00 02 01 02 61 7e"), "more headers"),
        (GOOD + bytes.fromhex("0e 00 00 02 01 02 61 01"), "more headers"),
        (GOOD + bytes.fromhex("14 00 00 02 01 02 61 02 01 01 01"), "name of negative length"),
        (GOOD + bytes.fromhex("14 00 00 02 01 02 61 02 00 03 01"), "header of negative length"),
        (GOOD + bytes.fromhex("14 00 00 02 01 02 61 02 00 7e 01"), "longer than its batch"),
        (GOOD + bytes.fromhex("14 00 00 02 01 02 61 02 7e 00 01"), "ends within the record"),
        (  # the header is the one before's, but for what is missing of it
            WITH_HEADER + b"\x18" + WITH_HEADER[1:],
            "length does not match its fields",
        ),
        (GOOD + b"\xff" * 10 + GOOD, "longer than 5 bytes"),
        (GOOD + b"\x0e\0" + b"\xff" * 11 + GOOD, "longer than 10 bytes"),
    ],
)
def test_damaged_records_raise_when_their_turn_comes(body: bytes, why: str) -> None:
    """The record before the damaged one reaches the caller; the message names the damaged one's offset."""
    [batch] = batches(with_records(body, 2))
    records: list[ConsumerRecord] = []
    with pytest.raises(CorruptData, match=why) as caught:
        records.extend(islice(decode_records(batch, "orders", 1), 10))
    assert [r.value for r in records] in ([b"a"], [], [b"a"] * 2)
    if "cannot be" not in why and "left" not in why:
        assert [r.offset for r in records] == [500]
        assert str(caught.value).startswith("orders-1 at offset 501")
    with pytest.raises(CorruptData, match=why):
        list(decode_tuples(batch, "orders-1"))
    columns = GrowingColumns()
    with pytest.raises(CorruptData, match=why):
        decode_columns(batch, columns, "orders-1")
    assert columns.offsets == [r.offset for r in records]


def test_records_that_end_before_their_number_are_corrupt_as_rows_and_as_columns() -> None:
    """Each is as long as four of the shortest, so the number alone looks possible."""
    body = bytes.fromhex("48 00 00 00 01 3c".replace(" ", "")) + b"v" * 30 + b"\0"
    for present, said in ((1, 2), (1, 4), (3, 5), (40, 60)):
        [batch] = batches(with_records(_numbered(body, present), said))
        for decode in (decode_tuples, partial(decode_columns, columns=GrowingColumns())):
            with pytest.raises(CorruptData, match=f"orders-1 at offset {500 + present}.*ends within"):
                list(decode(batch, where="orders-1"))  # type: ignore[operator]


def _numbered(body: bytes, count: int) -> bytes:
    return b"".join(body[:3] + bytes([number << 1]) + body[4:] for number in range(count))


def test_number_of_records_is_checked_before_opened_bytes_are_read() -> None:
    [batch] = batches(with_records(GOOD, 1))
    rows = decode_tuples(batch, "orders-1", buffer=GOOD[:3])
    with pytest.raises(CorruptData, match="orders-1 at offset 500: 1 records cannot be in 3 bytes"):
        next(rows)


def test_skipping_headers_pauses_after_every_few_of_them_across_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decoder, "HEADERS_AT_ONCE", 3)
    builder = BatchBuilder(max_bytes=1 << 20)
    for number in (2, 2, 7):
        builder.append(NOW, None, b"v", [("n", b"h")] * number)
    [batch] = batches(builder.build())
    found = [row is STILL_READING for row in decode_tuples(batch, keeps_headers=False)]
    assert found == [False, True, False, True, True, False]


def test_an_offset_that_is_read_must_not_be_negative() -> None:
    [batch] = batches(with_records(GOOD[:3] + b"\x01" + GOOD[4:], 1, last_offset_delta=5))
    with pytest.raises(CorruptData, match="negative offset delta"):
        list(decode_records(batch, "orders", 1))


def test_a_codec_that_kafka_does_not_have_is_refused_by_name() -> None:
    [batch] = batches(with_records(GOOD, 1, codec=6))
    with pytest.raises(UnsupportedCompressionType, match="6"):
        list(decode_records(batch, "orders", 1))


def false_numbers() -> Iterator[bytes]:
    huge = varint(2**31 - 1)
    yield with_records(GOOD, 2**31 - 1)
    yield with_records(huge + GOOD[1:], 1)
    yield with_records(b"\x0e\0\0\0" + huge + b"\0" * 20, 1)
    yield with_records(b"\x0e\0\0\0\1" + huge + b"\0" * 20, 1)
    yield with_records(b"\x0e\0\0\0\1\1" + huge + b"\0" * 20, 1)
    yield with_records(b"\x0e\0\0\0\1\1\2" + huge + b"\0" * 20, 1)
    yield with_records(b"\x0e\0\0\0\1\1\2\0" + huge + b"\0" * 20, 1)


@pytest.mark.parametrize("blob", list(false_numbers()))
def test_a_false_number_allocates_nothing(blob: bytes) -> None:
    read(build([Input(NOW, None, b"warm", [("up", b"")])]))
    tracemalloc.start()
    try:
        with pytest.raises(CorruptData):
            read(blob)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_bomb_is_stopped_at_the_cap_and_named(codec: str) -> None:
    builder = BatchBuilder(codec, max_bytes=1 << 30)
    builder.append(NOW, None, bytes(3 << 20))
    [batch] = batches(builder.build(base_offset=9))
    with pytest.raises(CorruptData, match=r"orders-1 at offset 9: .* more than 1048576 bytes"):
        list(decode_records(batch, "orders", 1, max_output_bytes=1 << 20))
    [record] = decode_records(batch, "orders", 1, max_output_bytes=4 << 20)
    assert record.serialized_value_size == 3 << 20


@pytest.mark.gate
@pytest.mark.slow
@settings(max_examples=examples(300))
@given(RECORD_LISTS, st.data(), st.integers(1, 3))
def test_skipped_headers_are_checked_as_headers_that_are_kept(
    records: list[Input], data: st.DataObject, headers_at_once: int
) -> None:
    blob = bytearray(build(records, "none"))
    for _ in range(data.draw(st.integers(0, 2))):
        blob[data.draw(st.integers(61, len(blob) - 1))] = data.draw(st.integers(0, 255))
    batch = next(batches(bytes(blob)))

    def outcome(keeps_headers: bool) -> list[object]:
        found: list[object] = []
        try:
            for row in decode_tuples(batch, check_crcs=False, keeps_headers=keeps_headers):
                if row is not STILL_READING:
                    found.append(row[:4])  # noqa: PERF401 (an error must leave the rows before it)
        except CorruptData as error:
            found.append(str(error))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pykafka2.records.decoder.HEADERS_AT_ONCE", headers_at_once)
        assert outcome(False) == outcome(True)
