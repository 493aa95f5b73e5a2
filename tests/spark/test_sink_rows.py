"""Arrow batches as arguments of send_many, and what is refused before anything is sent."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

from spark_connector.errors import WrongRow
from spark_connector.sink.sending import RowSplitter

TIMESTAMP = pa.timestamp("us", tz="UTC")
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def split(batch: pa.RecordBatch, topic: str | None = None, count: int = 3) -> dict[str, dict[str, object]]:
    found = RowSplitter(topic, lambda name: count).split(batch)
    return {rows.topic: {name: column.to_pylist() for name, column in rows.columns.items()} for rows in found}


def batch(**columns: pa.Array) -> pa.RecordBatch:
    return pa.record_batch(columns)


def test_the_option_wins_over_the_column() -> None:
    rows = batch(value=pa.array(["a", "b"]), topic=pa.array(["one", None]))
    assert split(rows, "chosen") == {"chosen": {"values": ["a", "b"]}}


def test_rows_keep_their_order_in_each_topic() -> None:
    rows = batch(
        value=pa.array(["a", "b", "c", None]),
        key=pa.array([b"1", None, b"3", b"4"]),
        topic=pa.array(["x", "y", "x", "y"]),
        partition=pa.array([0, None, 2, 1], pa.int32()),
    )
    assert split(rows) == {
        "x": {"values": ["a", "c"], "keys": [b"1", b"3"], "partitions": [0, 2]},
        "y": {"values": ["b", None], "keys": [None, b"4"], "partitions": [None, 1]},
    }


def test_each_topics_rows_have_their_own_times_and_headers() -> None:
    rows = batch(
        value=pa.array(["a", "b", "c"]),
        topic=pa.array(["x", "y", "x"]),
        timestamp=pa.array([1_000, 2_000, 3_000], pa.int64()),
        headers=pa.array([[{"key": "h", "value": b"1"}], None, [{"key": "h", "value": b"3"}]], HEADERS),
    )
    found = split(rows)
    assert found["x"]["timestamps_ms"] == [1_000, 3_000]
    assert found["x"]["headers"] == [[{"key": "h", "value": b"1"}], [{"key": "h", "value": b"3"}]]
    assert (found["y"]["timestamps_ms"], found["y"]["headers"]) == ([2_000], [None])


def test_column_names_are_case_insensitive_and_source_columns_are_ignored() -> None:
    rows = batch(Value=pa.array(["a"]), offset=pa.array([7]), timestampType=pa.array([0], pa.int32()))
    assert split(rows, "t") == {"t": {"values": ["a"]}}


def test_a_batch_without_rows_sends_nothing() -> None:
    assert split(batch(value=pa.array([], pa.string()), topic=pa.array([], pa.string()))) == {}


def test_a_null_topic_names_its_row_and_how_many_there_are() -> None:
    rows = batch(value=pa.array(["a"] * 4), topic=pa.array(["x", None, "x", None]))
    with pytest.raises(WrongRow, match=r"Row 1 of a batch is illegal: topic is null.*2 of 4 rows"):
        split(rows)


def test_partitions_that_cannot_be_are_refused() -> None:
    with pytest.raises(WrongRow, match=r"Row 1 of a batch is illegal: partition \(-1\) is negative"):
        split(batch(value=pa.array(["a", "b"]), partition=pa.array([0, -1], pa.int32())), "t")
    with pytest.raises(WrongRow, match=r"partition \(3\) is not among the 3 partitions of topic 't'"):
        split(batch(value=pa.array(["a", "b"]), partition=pa.array([None, 3], pa.int32())), "t")


def test_row_with_an_illegal_partition_is_counted_in_the_batch_and_not_in_its_topic() -> None:
    rows = batch(
        value=pa.array(["a"] * 5),
        topic=pa.array(["x", "y", "x", "y", "x"]),
        partition=pa.array([0, 1, 2, 3, None], pa.int32()),
    )
    with pytest.raises(
        WrongRow, match=r"Row 3 of a batch is illegal: partition \(3\) is not among the 3 .*'y'"
    ):
        split(rows)


def test_times_before_1970_are_refused() -> None:
    times = pa.array([datetime.datetime(1969, 12, 31, tzinfo=datetime.UTC)], TIMESTAMP)
    with pytest.raises(WrongRow, match=r"timestamp .* before 1970"):
        split(batch(value=pa.array(["a"]), timestamp=times), "t")


def test_headers_need_keys() -> None:
    good = [[{"key": "a", "value": b"1"}], None, [{"key": "b", "value": None}]]
    assert (
        split(batch(value=pa.array(["a"] * 3), headers=pa.array(good, HEADERS)), "t")["t"]["headers"] == good
    )
    bad = pa.array([*good, [{"key": None, "value": b"1"}]], HEADERS)
    with pytest.raises(WrongRow, match="headers has a header without a key"):
        split(batch(value=pa.array(["a"] * 4), headers=bad), "t")


def test_header_without_a_key_raises_for_each_spelling_of_its_fields() -> None:
    kind = pa.list_(pa.struct([("Key", pa.string()), ("VALUE", pa.binary())]))
    headers = pa.array([[{"Key": "h", "VALUE": b"1"}], [{"Key": None, "VALUE": b"1"}]], kind)
    with pytest.raises(WrongRow, match="Row 1 of a batch is illegal: headers has a header without a key"):
        split(batch(value=pa.array(["a", "b"]), headers=headers), "t")
