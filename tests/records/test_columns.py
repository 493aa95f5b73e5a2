"""Columns say what records say, whether they were recognised as alike or decoded one by one."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pykafka2.errors import CorruptData, IllegalArgument
from pykafka2.records import column_group
from pykafka2.records.batch import RecordBatch, batches, crc32c, stamp
from pykafka2.records.batch_reader import decode_any_records as decode_uniform_records
from pykafka2.records.column_decoder import decode_columns
from pykafka2.records.column_group import ColumnGroup
from pykafka2.records.columns import Columns, GrowingColumns
from pykafka2.records.decoder import RecordTuple, decode_records, decode_tuples
from pykafka2.records.encoder import BatchBuilder
from pykafka2.records.runs import UniformRun
from pykafka2.types import ConsumerRecord, Headers, TopicPartition

NOW = 1_700_000_000_000
Shape = tuple["int | None", "int | None", int, int]
"""Length of the key, of the value, of the step in time, and how many records of that kind follow."""

SHAPES = st.lists(
    st.tuples(
        st.none() | st.sampled_from([0, 1, 63, 64, 200]),
        st.none() | st.sampled_from([0, 1, 63, 64, 100, 9000]),
        st.sampled_from([0, 1, -1, 40, 100_000]),
        st.integers(1, 90),
    ),
    min_size=1,
    max_size=5,
)


def build(rows: Iterable[tuple[int, bytes | None, bytes | None, Headers]], base_offset: int = 0) -> bytes:
    builder = BatchBuilder(max_bytes=1 << 30)
    for row in rows:
        builder.append(*row)
    return builder.build(base_offset=base_offset)


def rows_of(shapes: list[Shape]) -> list[tuple[int, bytes | None, bytes | None, Headers]]:
    rows: list[tuple[int, bytes | None, bytes | None, Headers]] = []
    time = NOW
    for key, value, step, count in shapes:
        for number in range(count):
            time += step
            rows.append(
                (
                    time,
                    None if key is None else bytes([number]) * key,
                    None if value is None else bytes([number]) * value,
                    [],
                )
            )
    return rows


def only(blob: bytes) -> RecordBatch:
    [batch] = batches(blob)
    return batch


def rows_in(columns: GrowingColumns) -> list[RecordTuple]:
    return list(
        zip(columns.offsets, columns.timestamps, columns.keys, columns.values, columns.headers, strict=True)
    )


def outcome(decode: Any) -> list[RecordTuple] | str:
    try:
        return list(decode())
    except CorruptData as error:
        return str(error)


@pytest.mark.gate
@given(SHAPES, st.integers(0, 200))
@example([(None, 100, 1, 90)], 0)
@example([(None, 100, 0, 90), (10, 100, 0, 90)], 70)
def test_columns_are_the_records(shapes: list[Shape], skipped: int) -> None:
    batch = only(build(rows_of(shapes), 500))
    expected = [row for row in decode_tuples(batch) if row[0] >= 500 + skipped]
    assert rows_in(decode_columns(batch, first_offset=500 + skipped)) == expected
    assert rows_in(decode_columns(batch, max_records=skipped)) == list(decode_tuples(batch))[:skipped]


@pytest.mark.gate
@pytest.mark.slow
@given(SHAPES, st.data())
def test_damaged_batches_are_refused_as_records_are(shapes: list[Shape], data: st.DataObject) -> None:
    blob = bytearray(build(rows_of(shapes), 500))
    at = data.draw(st.integers(61, len(blob) - 1))
    blob[at] = data.draw(st.integers(0, 255))
    batch = only(bytes(blob))
    expected = outcome(lambda: decode_tuples(batch, "t", check_crcs=False, read_offsets=False))
    assert outcome(lambda: rows_in(decode_columns(batch, None, "t", check_crcs=False))) == expected


@pytest.mark.gate
@pytest.mark.slow
@given(SHAPES, st.integers(0, 200), st.data())
@example([(None, 100, 1, 90)], 3, None)
@example([(5, 9000, 0, 90), (5, 100, 0, 90)], 0, None)
def test_uniform_decoder_agrees_with_the_general_one(
    shapes: list[Shape], skipped: int, data: st.DataObject | None
) -> None:
    blob = bytearray(build(rows_of(shapes), 500))
    if data is not None and data.draw(st.booleans()):
        blob[data.draw(st.integers(61, len(blob) - 1))] = data.draw(st.integers(0, 255))
    batch = only(bytes(blob))
    arguments = (batch, "t", 3, 500 + skipped, False)
    found: list[ConsumerRecord] = []
    expected: list[ConsumerRecord] = []
    outcomes = []
    for decode, into in ((decode_records, expected), (decode_uniform_records, found)):
        try:
            into.extend(decode(*arguments))
            outcomes.append("")
        except CorruptData as error:
            outcomes.append(str(error))
    assert found == expected
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("count", [20, 63, 64, 65, 200, 8191, 8193, 9000])
def test_records_of_one_layout_need_no_loop(count: int) -> None:
    batch = only(build(rows_of([(10, 100, 0, 200)]) * 45, 7))
    columns = decode_columns(batch, max_records=count)
    assert rows_in(columns) == list(decode_tuples(batch))[:count]
    assert sum(len(run) for run in columns.runs() if isinstance(run, UniformRun)) >= count - 5


def test_a_batch_like_one_before_is_compared_with_it() -> None:
    first = only(build(rows_of([(None, 100, 1, 50), (None, 100, 0, 100)]), 7))
    for batch in (first, only(build(rows_of([(None, 100, 0, 100), (None, 100, 1, 50)]), 900))):
        columns = decode_columns(batch, first_offset=batch.base_offset + 10)
        assert rows_in(columns) == list(decode_tuples(batch))[10:]
    assert [type(run) for run in columns.runs()] == [UniformRun, UniformRun]


@pytest.mark.parametrize(
    "lengths", [[(3, 5)] * 70, [(5, 3)] * 70, [(3, 5)] * 69 + [(5, 3)], [(5, 3), (3, 5)] * 35]
)
def test_batches_of_as_many_bytes_and_records_may_be_laid_out_in_other_ways(
    lengths: list[tuple[int, int]],
) -> None:
    rows: list[tuple[int, bytes | None, bytes | None, Headers]]
    for sizes in ([(3, 5)] * 70, lengths):
        rows = [(NOW, b"k" * key, b"v" * value, []) for key, value in sizes]
        batch = only(build(rows))
        assert rows_in(decode_columns(batch)) == list(decode_tuples(batch))


def test_field_equal_to_a_length_is_decoded_correctly() -> None:
    rows: list[tuple[int, bytes | None, bytes | None, Headers]]
    rows = [(NOW, b"k" * 10, b"v" * 10, []), (NOW, b"k" * 9, b"v" * 11, [])] * 40
    rows[33] = (NOW, b"k" * 10, b"v" * 8, [("h", b"")])  # as long as the others, all in all
    batch = only(build(rows))
    assert rows_in(decode_columns(batch)) == list(decode_tuples(batch))


def test_a_record_has_a_list_of_headers_where_none_were_read() -> None:
    records = list(decode_uniform_records(only(build(rows_of([(None, 5, 0, 40)]))), "t", 3))
    other = list(decode_records(only(build(rows_of([(None, 5, 0, 40)]))), "t", 3))
    assert records == other
    copy = pickle.loads(pickle.dumps(records[1]))
    assert (copy, copy.headers, "headers=[]" in repr(records[2])) == (records[1], [], True)
    records[3].headers.append(("name", b"value"))
    assert records[3].headers == [("name", b"value")]
    assert records[3] != other[3]
    with pytest.raises(AttributeError, match="no attribute 'header'"):
        records[4].header  # type: ignore[attr-defined]  # noqa: B018


def test_lists_grow_with_the_columns() -> None:
    columns = decode_columns(only(build(rows_of([(None, 5, 0, 40)]))))
    assert (len(columns), len(columns.values)) == (40, 40)
    decode_columns(only(build(rows_of([(1, 5, 0, 2)]), 40)), columns)
    assert (len(columns), columns.offsets, columns.keys[39:]) == (42, list(range(42)), [None, b"\0", b"\1"])
    assert columns.last_offset == 41
    assert columns.size_bytes == len(build(rows_of([(None, 5, 0, 40)]))) + len(build(rows_of([(1, 5, 0, 2)])))


def test_columns_travel_without_their_buffers() -> None:
    columns = decode_columns(only(build(rows_of([(None, 2, 1, 40)]))), first_offset=35)
    copy = pickle.loads(pickle.dumps(columns))
    assert copy == columns
    assert copy.size_bytes == columns.size_bytes
    assert len(pickle.dumps(columns)) < 400
    assert columns != GrowingColumns()
    assert repr(columns) == "<Columns of 5 records, offsets 35 to 39>"


# ---------------------------------------------------------------------------------------- Arrow


def table_rows(table: pa.Table) -> list[RecordTuple]:
    return [
        (
            row["offset"],
            int(row["timestamp"].timestamp() * 1000),
            row["key"],
            row["value"],
            [(one["key"], one["value"]) for one in row["headers"] or []],
        )
        for row in table.to_pylist()
    ]


@pytest.mark.gate
@pytest.mark.slow
@given(SHAPES)
@example([(None, 100, 1, 90)] * 40)
@example([(0, None, 7, 90)] * 40)
def test_a_table_is_the_columns(shapes: list[Shape]) -> None:
    rows = rows_of(shapes)
    rows.insert(len(rows) // 2, (NOW, b"k", b"v", [("h", None), ("h", b"x")]))
    columns = decode_columns(only(build(rows, 500)))
    table = columns.to_arrow()
    assert table_rows(table) == rows_in(columns)
    table.validate(full=True)


def test_a_table_of_nothing_has_its_columns() -> None:
    assert GrowingColumns(TopicPartition("orders", 3)).to_arrow().column_names == SPARK_COLUMNS
    assert GrowingColumns().to_arrow().schema == pa.table(GrowingColumns()).schema


SPARK_COLUMNS = ["topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers"]


@pytest.mark.parametrize("with_numpy", [False, True])
def test_a_table_has_topic_partition_and_timestamp_types(
    with_numpy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not with_numpy:
        monkeypatch.setattr(column_group, "_array_decoder", lambda: None)
    columns = GrowingColumns(TopicPartition("orders", 3))
    for kind, first in ((0, 100), (1, 104)):
        blob = bytearray(build([(NOW, b"k", b"v" * size, []) for size in range(4)], first))
        blob[22] |= kind << 3
        blob[17:21] = crc32c(blob[21:]).to_bytes(4, "big")
        with ColumnGroup(columns, "orders-3", True) as group:
            group.add(only(bytes(blob)), 0)
    table = columns.to_arrow()
    assert table["topic"].to_pylist() == ["orders"] * 8
    assert table["partition"].to_pylist() == [3] * 8
    assert table["timestampType"].to_pylist() == columns.timestamp_types == [0] * 4 + [1] * 4
    assert {table.schema.field(name).type.index_type for name in ("topic", "partition")} == {pa.int32()}
    assert pa.table(columns) == table, "another library reads the same"
    table.validate(full=True)


def test_a_table_of_chosen_columns_has_them_in_their_order() -> None:
    columns = GrowingColumns(TopicPartition("orders", 3))
    decode_columns(only(build([(NOW, b"k", b"v", []), (NOW, None, None, [("h", b"1")])], 500)), columns)
    for names in (["value", "offset"], ["headers"], ["timestampType", "topic"], ["key"], ["timestamp"]):
        table = columns.to_arrow(names)
        assert table == columns.to_arrow().select(names)
    with pytest.raises(IllegalArgument, match=r"'vlaue' is not a column of records; columns are topic, part"):
        columns.to_arrow(["vlaue"])
    with pytest.raises(IllegalArgument, match=r"'key' is given twice"):
        columns.to_arrow(["key", "key"])


def test_head_and_before_leave_the_columns_as_they_were() -> None:
    columns = decode_columns(only(build(rows_of([(5, 9, 3, 90)]), 500)))
    rows = rows_in(columns)
    assert rows_in(columns.head(3)) == rows[:3]
    assert rows_in(columns.before(507)) == rows[:7]
    assert len(columns.head(0)) == len(columns.before(0)) == 0
    assert rows_in(columns) == rows
    assert columns.head(3).size_bytes == columns.size_bytes
    assert not {"add", "extend", "shorten", "end_before", "runs", "count_batch"} & set(dir(Columns))


def test_pickled_columns_keep_their_partition() -> None:
    columns = GrowingColumns(TopicPartition("orders", 3))
    columns.extend([(1, NOW, b"k", b"v", [])])
    copied = pickle.loads(pickle.dumps(columns))
    assert copied == columns
    assert copied.topic_partition == TopicPartition("orders", 3)


def test_a_name_that_is_not_utf_8_is_replaced_in_a_table() -> None:
    builder = BatchBuilder()
    builder.append(NOW, None, b"v", [(b"\xff".decode("utf-8", "surrogateescape"), b"x")])
    table = decode_columns(only(builder.build())).to_arrow()
    assert table["headers"].to_pylist() == [[{"key": "�", "value": b"x"}]]


@pytest.mark.parametrize("others", [0, 1, 400])
def test_times_beyond_64_bits_are_those_of_java_in_a_table(others: int) -> None:
    """A batch's first time and the difference to a later one may add up to more; Java adds in 64 bits."""
    batch = bytearray(build([(NOW, None, b"v", []), *[(NOW + 2000, None, b"v", [])] * (1 + others)]))
    batch[27:35] = (2**63 - 1000).to_bytes(8, "big")
    batch[17:21] = crc32c(batch[21:]).to_bytes(4, "big")
    columns = decode_columns(only(bytes(batch)))
    times = columns.to_arrow()["timestamp"].cast(pa.int64()).to_pylist()
    assert times == [2**63 - 1000, *[1000 - 2**63] * (1 + others)]


@pytest.mark.parametrize("grouped", [False, True])
def test_timestamp_types_are_known_for_each_record(grouped: bool) -> None:
    """The timestamp type of each record, in a topic that changed from CreateTime to LogAppendTime."""
    columns = GrowingColumns()
    assert (columns.timestamp_type, columns.timestamp_types) == (0, [])
    found = []
    for base_offset, by_broker in ((0, False), (60, False), (120, True), (180, False)):
        data = bytearray(build(rows_of([(None, 5, 0, 60)]), base_offset))
        if by_broker:
            stamp(data, base_offset, 0, NOW)
        found.append(only(bytes(data)))
    if grouped:
        with ColumnGroup(columns, "records", check_crcs=False) as group:
            for batch in found:
                group.add(batch, 10)
            group.end_offset = 200
    else:
        for batch in found:
            decode_columns(batch, columns, first_offset=10, check_crcs=False)
        columns.end_before(200)
    assert columns.timestamp_type is None
    wanted = [0] * 110 + [1] * 60 + [0] * 20
    assert columns.timestamp_types == wanted
    assert pickle.loads(pickle.dumps(columns)).timestamp_types == wanted
