"""The walk over batches, checksums, and the broker's stamps."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka2.errors import CorruptData, CorruptMessage
from pykafka2.records.batch import RecordBatch, batches, stamp, with_producer
from pykafka2.records.decoder import decode_records
from pykafka2.records.encoder import BatchBuilder

from .strategies import NOW, RECORD_LISTS, Input, build

BLOB = build([Input(NOW + n, b"k", b"v%d" % n, []) for n in range(3)], base_offset=40)


def test_an_unfinished_batch_at_the_end_is_left_out() -> None:
    for cut in range(1, len(BLOB)):
        assert [batch.base_offset for batch in batches(BLOB + BLOB[:-cut])] == [40]
    assert [batch.base_offset for batch in batches(BLOB + BLOB)] == [40, 40]
    assert list(batches(b"")) == []


@pytest.mark.gate
@pytest.mark.slow
@given(st.lists(RECORD_LISTS, max_size=4), st.integers(0, 30))
def test_batches_are_found_one_after_the_other(lists: list[list[Input]], rest: int) -> None:
    blobs = [build(records, "gzip", base_offset=100 * index) for index, records in enumerate(lists)]
    found = list(batches(b"".join(blobs) + BLOB[:rest], "orders-1"))
    assert [bytes(batch.buffer) for batch in found] == blobs
    assert [(batch.base_offset, batch.count, batch.codec_id) for batch in found] == [
        (100 * index, len(records), 1) for index, records in enumerate(lists)
    ]


@pytest.mark.parametrize(
    ("position", "layout", "value", "why"),
    [
        (8, ">i", -1, "length -1"),
        (8, ">i", 5, "length 5"),
        (8, ">i", 30, "shorter than its header"),
        (16, ">b", 3, "magic 3"),
        (57, ">i", -1, "-1 records"),
        (23, ">i", -2, "delta -2"),
        (0, ">q", -5, "-5"),
    ],
)
def test_a_header_that_cannot_be_is_corrupt(position: int, layout: str, value: int, why: str) -> None:
    """The good batch before it is handed out first, and the error names where it was met."""
    damaged = bytearray(BLOB)
    struct.pack_into(layout, damaged, position, value)
    walk = batches(BLOB + bytes(damaged), "orders-1")
    assert next(walk).base_offset == 40
    with pytest.raises(CorruptData, match=why) as caught:
        next(walk)
    assert "orders-1" in str(caught.value)


def test_a_checksum_that_does_not_fit_names_topic_partition_and_offset() -> None:
    damaged = bytearray(BLOB)
    damaged[-1] ^= 1
    [batch] = batches(damaged)
    with pytest.raises(CorruptMessage, match=r"orders-1 at offset 40: checksum is 0x"):
        list(decode_records(batch, "orders", 1))
    assert len(list(batches(damaged))) == 1


# Three records: the offset behind the last of them is the largest that there is.
@given(st.integers(0, 2**63 - 4), st.integers(-1, 2**31 - 1), st.none() | st.integers(0, 2**62))
def test_a_stamped_batch_keeps_a_valid_checksum(offset: int, epoch: int, append_time: int | None) -> None:
    [original] = batches(BLOB)
    [batch] = batches(original.with_offsets(offset, epoch, append_time))
    batch.verify_crc()
    assert (batch.base_offset, batch.partition_leader_epoch, batch.timestamp_type) == (
        offset,
        epoch,
        int(append_time is not None),
    )
    times = [r.timestamp for r in decode_records(batch, "t", 0)]
    assert times == ([NOW, NOW + 1, NOW + 2] if append_time is None else [append_time] * 3)
    assert bytes(original.buffer) == BLOB


def test_stamping_in_place_touches_nothing_beyond_the_batch() -> None:
    log = bytearray(BLOB + BLOB)
    with memoryview(log) as view:
        stamp(view[len(BLOB) :], 43, 7, NOW + 99)
    first, second = batches(log)
    assert bytes(first.buffer) == BLOB
    second.verify_crc()
    assert (second.base_offset, second.last_offset, second.next_offset) == (43, 45, 46)
    assert (second.partition_leader_epoch, second.max_timestamp) == (7, NOW + 99)


def test_sequences_wrap_to_zero() -> None:
    builder = BatchBuilder()
    for _ in range(4):
        builder.append(NOW, None, None)
    [batch] = batches(builder.build(producer_id=1, producer_epoch=0, base_sequence=2**31 - 2))
    assert batch.last_sequence == 1
    [plain] = batches(builder.build())
    assert plain.last_sequence == -1
    assert not plain.has_producer_id


def test_a_batch_describes_itself() -> None:
    [batch] = batches(BLOB)
    assert repr(batch) == f"<batch 40..42, 3 records, {len(BLOB)} bytes, codec 0, producer -1/-1/-1>"
    assert isinstance(batch, RecordBatch)


def test_another_place_in_a_producers_sequence_changes_nothing_else() -> None:
    builder = BatchBuilder("lz4")
    for number in range(20):
        builder.append(1000 + number, b"key", b"value" * number)
    first = builder.build(producer_id=7, producer_epoch=1, base_sequence=40)
    assert with_producer(first, 8, 2, 0) == builder.build(producer_id=8, producer_epoch=2, base_sequence=0)
