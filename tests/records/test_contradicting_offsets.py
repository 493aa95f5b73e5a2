"""Batches whose header contradicts their records: corrupt by name, never offsets that no log could have."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from pykafka2.compression import codec
from pykafka2.errors import CorruptData
from pykafka2.records.batch import CRC_AT, CRC_START, RecordBatch, batches, crc32c
from pykafka2.records.column_decoder import decode_columns
from pykafka2.records.columns import GrowingColumns
from pykafka2.records.decoder import decode_records, decode_tuples
from pykafka2.types import TopicPartition
from tests.consumer.logs import LogCluster, build_batch

from .strategies import NOW
from .test_legacy import message

LAST_OFFSET_DELTA_AT = 23
ORDERS_0 = TopicPartition("orders", 0)


def with_last_delta(batch: bytes, delta: int) -> bytes:
    changed = bytearray(batch)
    struct.pack_into(">i", changed, LAST_OFFSET_DELTA_AT, delta)
    struct.pack_into(">I", changed, CRC_AT, crc32c(changed[CRC_START:]))
    return bytes(changed)


def test_more_records_than_the_last_offset_allows_are_corrupt() -> None:
    batch = with_last_delta(build_batch([(None, b"x")] * 10, 100), 3)
    with pytest.raises(CorruptData, match=r"orders-0 at offset 100: 10 records, last offset delta 3"):
        list(batches(batch, "orders-0"))


def test_an_offset_beyond_64_bits_is_corrupt() -> None:
    last = 2**63 - 1
    (fine,) = batches(build_batch([(None, b"x")] * 2, last - 2), "orders-0")
    assert fine.next_offset == last
    for base in (last, last - 1):
        with pytest.raises(CorruptData, match=f"orders-0 at offset {base}: .*64 bits"):
            list(batches(build_batch([(None, b"x")] * 2, base), "orders-0"))


DECODERS: dict[str, Callable[[RecordBatch], object]] = {
    "records": lambda batch: list(decode_records(batch, "orders", 0)),
    "tuples": lambda batch: list(decode_tuples(batch, "orders-0", read_offsets=False)),
    "columns": lambda batch: decode_columns(batch, GrowingColumns(), "orders-0", 0, None, True),
}


@pytest.mark.parametrize("decode", DECODERS)
def test_a_record_behind_the_last_offset_of_its_batch_is_corrupt(decode: str) -> None:
    # Offsets 0, 1, 2 where the header, as after compaction, says that there are gaps.
    rows = build_batch([(None, b"x")] * 3, 100)
    (gaps,) = batches(with_last_delta(rows, 7), "orders-0")
    assert [record.offset for record in decode_records(gaps, "orders", 0)] == [100, 101, 102]
    body = bytearray(with_last_delta(rows, 7))
    first = RecordBatch(memoryview(rows))
    size = (len(rows) - 61) // first.count
    for deltas, wrong in (((0, 1, 9), 109), ((0, 5, 2), 102), ((0, 4, 4), 104)):
        for index, delta in enumerate(deltas):
            body[61 + index * size + 3] = delta << 1
        struct.pack_into(">I", body, CRC_AT, crc32c(body[CRC_START:]))
        (batch,) = batches(bytes(body), "orders-0")
        with pytest.raises(CorruptData, match=rf"orders-0 at offset 100.* {wrong} "):
            DECODERS[decode](batch)


@pytest.mark.parametrize("call", ["poll", "poll_columns"])
@pytest.mark.parametrize("damage", ["last offset delta", "base offset"])
def test_a_consumer_names_the_batch_and_keeps_its_position(call: str, damage: str) -> None:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    for _ in range(3):
        cluster.append("orders", 0, b"x", b"y")
    log = cluster.log("orders")
    if damage == "base offset":
        log.batches[2] = build_batch([(None, b"x")] * 2, 2**63 - 1)
        where = "orders-0 at offset 9223372036854775807"
    else:
        log.batches[2] = with_last_delta(build_batch([(None, b"x")] * 10, 4), 3)
        where = "orders-0 at offset 4"
    with cluster.consumer() as consumer:
        consumer.assign([ORDERS_0])
        assert sum(map(len, getattr(consumer, call)(1000).values())) == 4
        with pytest.raises(CorruptData, match=where):
            getattr(consumer, call)(1000)
        assert consumer.position(ORDERS_0) == 4


@pytest.mark.parametrize("call", ["poll", "poll_columns"])
@pytest.mark.parametrize(
    ("magic", "last_offset", "inner"),
    [
        (0, 5, (4, 2)),
        (0, 5, (4, 2**62)),
        (0, 5, (-7, 5)),
        (0, 5, (4, 4)),
        (1, 5, (2, 1)),
        (1, 5, (-9, 0)),
        (1, 5, (0, 7)),
    ],
    ids=str,
)
def test_offsets_that_run_back_within_an_old_message_are_corrupt(
    magic: int, last_offset: int, inner: tuple[int, int], call: str
) -> None:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    cluster.append("orders", 0, b"a", b"b", b"c", b"d")
    wrapped = b"".join(message(magic, offset, NOW, None, b"v") for offset in inner)
    log = cluster.log("orders")
    log.batches.append(message(magic, last_offset, 0, None, codec("gzip").compress(wrapped), 1))
    log.end = 6
    found: list[int] = []
    with cluster.consumer() as consumer:
        consumer.assign([ORDERS_0])

        def read_on() -> None:
            for _ in range(5):
                for some in getattr(consumer, call)(1000).values():
                    found.extend(some.offsets if call == "poll_columns" else [one.offset for one in some])

        with pytest.raises(CorruptData, match="orders-0 at offset 5: in it offset"):
            read_on()
        assert found == sorted(set(found)), "none comes twice, or too late"
        assert found[:4] == [0, 1, 2, 3]
        assert consumer.position(ORDERS_0) == found[-1] + 1
