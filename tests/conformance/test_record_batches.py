"""Record batches of every codec: Kafka's builder to our decoder, our builder to Kafka's reader."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pykafka2.compression import codec
from pykafka2.records.batch import RecordBatch, batches
from pykafka2.records.batch_reader import any_batches, decode_any_tuples
from pykafka2.records.control import build_end_marker, read_marker
from pykafka2.records.decoder import decode_tuples
from pykafka2.records.encoder import BatchBuilder

from .bridge import Bridge, b64, unb64

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
LEVELS = [("gzip", 1), ("gzip", 9), ("lz4", 1), ("lz4", 17), ("zstd", -5), ("zstd", 22)]
NOW = 1_700_000_000_000
PRODUCER = {"producer_id": 9, "producer_epoch": 3, "base_sequence": 5}

Row = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]
"""Timestamp, key, value, headers."""


def rows(seed: str, count: int) -> list[Row]:
    """Records with everything a record can have: nulls, empties, many sizes, headers, times out of order."""
    rng = random.Random(seed)

    def data() -> bytes | None:
        size = rng.choice((None, 0, 1, 63, 64, 100, 8191, 8192))
        return None if size is None else rng.randbytes(size // 2) * 2

    def headers() -> list[tuple[str, bytes | None]]:
        return [(rng.choice(("", "trace", "ключ")), data()) for _ in range(rng.choice((0, 0, 1, 3)))]

    return [(NOW + rng.randrange(-(10**6), 10**6), data(), data(), headers()) for _ in range(count)]


ROWS = rows("batches", 200)


def as_json(records: list[Row]) -> list[dict[str, Any]]:
    return [
        {
            "timestamp": timestamp,
            "key": b64(key),
            "value": b64(value),
            "headers": [[name, b64(data)] for name, data in headers],
        }
        for timestamp, key, value, headers in records
    ]


def as_rows(records: list[dict[str, Any]]) -> list[Row]:
    return [
        (
            record["timestamp"],
            unb64(record["key"]),
            unb64(record["value"]),
            [(name, unb64(data)) for name, data in record["headers"]],
        )
        for record in records
    ]


def built_by_us(records: list[Row], codec_name: str, level: int | None = None, **header: Any) -> bytes:
    builder = BatchBuilder(codec_name, level, max_bytes=1 << 30)
    for record in records:
        assert builder.append(*record) is not None
    return builder.build(**header)


def built_by_kafka(java: Bridge, records: list[Row], **settings: Any) -> bytes:
    data = unb64(java("build_batch", [{"records": as_json(records), **settings}])[0])
    assert data is not None
    return data


def only_batch(data: bytes) -> RecordBatch:
    (batch,) = batches(data)
    return batch


@pytest.mark.parametrize("codec_name", CODECS)
def test_kafkas_batch_is_read_by_us(java: Bridge, codec_name: str) -> None:
    data = built_by_kafka(java, ROWS, codec=codec_name, base_offset=7, **PRODUCER)
    batch = only_batch(data)
    assert codec(batch.codec_id).name == codec_name
    assert (batch.base_offset, batch.count, batch.size_bytes) == (7, len(ROWS), len(data))
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (9, 3, 5)
    assert batch.max_timestamp == max(timestamp for timestamp, *_ in ROWS)
    assert list(decode_tuples(batch)) == [(7 + n, *row) for n, row in enumerate(ROWS)]


@pytest.mark.parametrize(
    ("codec_name", "level"), [*((name, None) for name in CODECS), *LEVELS], ids=lambda one: str(one)
)
def test_our_batch_is_read_by_kafka(java: Bridge, codec_name: str, level: int | None) -> None:
    header = {"base_offset": 7, "is_transactional": True, "partition_leader_epoch": 6}
    data = built_by_us(ROWS, codec_name, level, **header, **PRODUCER)
    ((view,),) = java("read_batches", [{"bytes": b64(data)}])
    records = view.pop("records")
    assert [record["offset"] for record in records] == list(range(7, 7 + len(ROWS)))
    assert as_rows(records) == ROWS
    assert view == {
        "magic": 2,
        "codec": codec_name,
        "timestamp_type": "CreateTime",
        "base_offset": 7,
        "last_offset": 6 + len(ROWS),
        "max_timestamp": max(timestamp for timestamp, *_ in ROWS),
        "producer_id": 9,
        "producer_epoch": 3,
        "base_sequence": 5,
        "transactional": True,
        "control": False,
        "leader_epoch": 6,
    }


def test_an_uncompressed_batch_is_the_same_bytes(java: Bridge) -> None:
    kafkas = built_by_kafka(java, ROWS, base_offset=7, leader_epoch=4, transactional=True, **PRODUCER)
    header = {"base_offset": 7, "is_transactional": True, "partition_leader_epoch": 4}
    ours = built_by_us(ROWS, "none", **header, **PRODUCER)
    assert ours.hex() == kafkas.hex()


def test_log_append_time_both_ways(java: Bridge) -> None:
    batch = only_batch(built_by_kafka(java, ROWS[:5], log_append_time=NOW + 42))
    assert batch.timestamp_type == 1
    assert {timestamp for _, timestamp, *_ in decode_tuples(batch)} == {NOW + 42}

    # As a broker stamps a batch of create time on append, and as a batch is built with it.
    stamped = only_batch(built_by_us(ROWS[:5], "zstd")).with_offsets(100, 2, NOW + 42)
    built = built_by_us(ROWS[:5], "none", log_append_time=NOW + 42, base_offset=100)
    for (view,) in java("read_batches", [{"bytes": b64(data)} for data in (stamped, built)]):
        assert view["timestamp_type"] == "LogAppendTime"
        assert [record["offset"] for record in view["records"]] == [100, 101, 102, 103, 104]
        assert {record["timestamp"] for record in view["records"]} == {NOW + 42}


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_end_of_transaction_markers_are_the_same_bytes(java: Bridge, commit: bool) -> None:
    fields = {"timestamp": NOW, "producer_id": 2**40, "producer_epoch": 7, "coordinator_epoch": 8}
    item = {"commit": commit, "base_offset": 3, "leader_epoch": 5, **fields}
    kafkas = unb64(java("end_transaction_marker", [item])[0])
    assert kafkas is not None
    ours = build_end_marker(commit, **fields, base_offset=3, partition_leader_epoch=5)
    assert ours.hex() == kafkas.hex()

    batch = only_batch(kafkas)
    assert batch.is_control
    assert batch.is_transactional
    marker = read_marker(batch)
    assert (marker.is_commit, marker.is_abort, marker.coordinator_epoch) == (commit, not commit, 8)

    ((view,),) = java("read_batches", [{"bytes": b64(ours)}])
    assert view["records"][0]["control_type"] == ("COMMIT" if commit else "ABORT")
    assert view["records"][0]["coordinator_epoch"] == 8


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec_name", ["none", "gzip", "snappy", "lz4"])
def test_old_formats_are_read(java: Bridge, magic: int, codec_name: str) -> None:
    data = built_by_kafka(java, ROWS[:50], magic=magic, codec=codec_name, base_offset=7)
    read = [row for batch in any_batches(data) for row in decode_any_tuples(batch)]
    assert read == [
        (7 + n, timestamp if magic else -1, key, value, [])
        for n, (timestamp, key, value, _) in enumerate(ROWS[:50])
    ]


def test_batches_one_after_the_other_and_cut_short(java: Bridge) -> None:
    first = built_by_kafka(java, ROWS[:10], codec="lz4")
    second = built_by_kafka(java, ROWS[10:20], codec="zstd", base_offset=10)
    # A fetch answer ends where its byte limit is, in the middle of a batch.
    data = first + second + first[:100]
    offsets = [offset for batch in batches(data) for offset, *_ in decode_tuples(batch)]
    assert offsets == list(range(20))
