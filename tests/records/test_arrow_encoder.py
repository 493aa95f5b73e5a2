"""Arrow's columns become the same bytes as their records one by one."""

from __future__ import annotations

from itertools import pairwise
from mmap import mmap
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")

from pykafka2.records.arrow_encoder import (  # noqa: E402
    ArrowColumns,
    BytesColumn,
    encoded_headers,
    varint_sizes,
    varints,
)
from pykafka2.records.column_encoder import ListColumns  # noqa: E402
from pykafka2.records.encoder import NO_HEADERS, encode_headers  # noqa: E402
from pykafka2.records.varint import varint, varint_size  # noqa: E402

from .strategies import NOW, RECORD_LISTS, Input  # noqa: E402
from .test_column_encoder import columns_of as of_lists  # noqa: E402
from .test_column_encoder import row_by_row  # noqa: E402

TYPES = st.sampled_from([pa.binary(), pa.large_binary()])


def columns_of(records: list[Input], kind: Any) -> ArrowColumns:
    return ArrowColumns(
        pa.array([record.value for record in records], kind),
        pa.array([record.key for record in records], kind),
        [encode_headers(record.headers) for record in records],
        np.array([record.timestamp for record in records], np.int64),
    )


@pytest.mark.gate
@given(RECORD_LISTS, TYPES, st.data())
def test_any_records_are_written_as_one_by_one(records: list[Input], kind: Any, data: st.DataObject) -> None:
    columns = columns_of(records, kind)
    assert columns.encode(0, len(records)) == row_by_row(records)
    first = data.draw(st.integers(0, len(records) - 1))
    stop = data.draw(st.integers(first + 1, len(records)))
    part = row_by_row(records[first:stop])
    assert columns.encode(first, stop) == part
    assert columns.rows(first, stop).encode(0, stop - first) == part
    assert list(columns.entries(first, stop)) == [
        (value, key, timestamp, encode_headers(headers))
        for timestamp, key, value, headers in records[first:stop]
    ]
    numbers = data.draw(st.lists(st.sampled_from(range(len(records))), min_size=1, max_size=8))
    assert columns.take(numbers).encode(0, len(numbers)) == row_by_row([records[n] for n in numbers])


@pytest.mark.parametrize("count", [1, 64, 65, 8193])
@pytest.mark.parametrize("value", [None, b"", b"v" * 63, b"v" * 100], ids=["null", "empty", "63", "100"])
@pytest.mark.parametrize("key", [None, b"k" * 36], ids=["no key", "keys"])
def test_columns_of_one_length_are_written_as_one_by_one(
    count: int, value: bytes | None, key: bytes | None
) -> None:
    headers = [("trace", b"1")]
    columns = ArrowColumns(
        pa.array([value] * count, pa.binary()),
        None if key is None else pa.array([key] * count, pa.binary(len(key))),
        encode_headers(headers),
        NOW,
    )
    assert columns.encode(0, count) == row_by_row([Input(NOW, key, value, headers)] * count)


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(3)]
)
def test_every_kind_of_bytes_and_text_is_read_from_its_slice(kind: Any) -> None:
    whole = pa.array(["abc", "def", "ghi", "jkl"], kind)
    columns = ArrowColumns(whole.slice(1, 2))
    assert columns.encode(0, 2) == row_by_row([Input(0, None, b"def", []), Input(0, None, b"ghi", [])])


LISTS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
LARGE_LISTS = pa.large_list(pa.struct([("name", pa.large_string()), ("value", pa.large_binary())]))
HEADER_ROWS = st.lists(
    st.none() | st.lists(st.tuples(st.text(max_size=90), st.none() | st.binary(max_size=200)), max_size=4)
)


@pytest.mark.gate
@given(HEADER_ROWS, st.sampled_from(["lists", "large lists", "maps"]), st.integers(0, 3), st.booleans())
def test_columns_of_headers_are_written_as_row_by_row(
    rows: list[list[tuple[str, bytes | None]] | None], kind: str, cut: int, in_chunks: bool
) -> None:
    if kind == "maps":
        column = pa.array(rows, pa.map_(pa.string(), pa.binary()))
    else:
        shape = LISTS if kind == "lists" else LARGE_LISTS
        names = [one.name for one in shape.value_type]
        lists = [
            None if row is None else [dict(zip(names, pair, strict=True)) for pair in row] for row in rows
        ]
        column = pa.array(lists, shape)
    column, rows = column.slice(cut), rows[cut:]
    if in_chunks:
        column = pa.chunked_array([column.slice(0, 1), column.slice(1)])
    encoded = encoded_headers(column)
    assert encoded is not None
    assert encoded.to_pylist() == [encode_headers(row) for row in rows]


@pytest.mark.parametrize(
    ("rows", "shape"),
    [
        ([[{"key": None, "value": b"1"}]], LISTS),
        ([[None]], LISTS),
        ([[b"a"]], pa.list_(pa.binary())),
        (
            [[{"key": "a", "value": "text"}]],
            pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())])),
        ),
        ([1], pa.int32()),
    ],
    ids=["no name", "no pair", "bytes", "text for a value", "numbers"],
)
def test_odd_columns_of_headers_are_left_to_others(rows: list[Any], shape: Any) -> None:
    assert encoded_headers(pa.array(rows, shape)) is None


def test_nulls_that_hide_headers_are_left_to_others() -> None:
    entries = pa.StructArray.from_arrays([pa.array(["a"]), pa.array([b"1"])], ["key", "value"])
    hidden = pa.Array.from_buffers(
        pa.list_(entries.type),
        1,
        [pa.py_buffer(b"\0"), pa.py_buffer(np.array([0, 1], np.int32))],
        children=[entries],
    )
    assert encoded_headers(hidden) is None


def test_an_empty_column_of_headers_may_have_no_offsets() -> None:
    """Arrow lets other libraries leave them out, and pyarrow follows the null pointer."""
    entries = pa.array([], LISTS.value_type)
    for shape in (LISTS, pa.map_(pa.string(), pa.binary())):
        children = [entries if shape == LISTS else pa.array([], shape).values]
        column = pa.Array.from_buffers(shape, 0, [None, None], children=children)
        encoded = encoded_headers(column)
        assert encoded is not None
        assert len(encoded) == 0


def test_chunks_of_headers_beyond_one_array_are_left_to_others() -> None:
    size_bytes = 3 << 29  # two of them exceed what the offsets of one column of bytes can say
    bounds = pa.py_buffer(np.array([0, size_bytes], np.int32))
    unread = pa.py_buffer(mmap(-1, size_bytes))  # takes no memory as it is never read
    values = pa.Array.from_buffers(pa.binary(), 1, [None, bounds, unread])
    entries = pa.StructArray.from_arrays([pa.array(["a"]), values], ["key", "value"])
    chunk = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), entries)
    assert encoded_headers(pa.chunked_array([chunk, chunk])) is None


def test_headers_of_one_length_are_written_as_one_by_one() -> None:
    headers = [("trace", b"%04d" % row) for row in range(100)]
    column = encoded_headers(pa.array([[{"key": name, "value": value}] for name, value in headers], LISTS))
    columns = ArrowColumns(pa.array([b"value"] * 100), None, column, NOW)
    assert columns.encode(3, 90) == row_by_row([Input(NOW, None, b"value", [one]) for one in headers[3:90]])


def test_an_empty_column() -> None:
    assert ArrowColumns(pa.array([], pa.binary())).cuts(100) == []
    assert len(ArrowColumns(pa.array([], pa.string()))) == 0


@pytest.mark.gate
@given(RECORD_LISTS, st.integers(1, 400), st.booleans())
def test_batches_end_where_they_are_full(records: list[Input], max_bytes: int, is_uniform: bool) -> None:
    if is_uniform:
        records = [records[0]] * len(records)
    columns = columns_of(records, pa.binary())
    cuts = columns.cuts(max_bytes)
    assert cuts == of_lists(records).cuts(max_bytes)
    assert cuts[-1] == len(records)
    for first, stop in pairwise([0, *cuts]):
        assert len(columns.encode(first, stop).body) <= max_bytes or stop == first + 1
    assert columns.oversized(max_bytes) == of_lists(records).oversized(max_bytes)


def test_batches_end_where_those_of_lists_do() -> None:
    values = [b"x" * length for length in range(1, 80)]
    for max_bytes in range(20, 500, 7):
        assert ArrowColumns(pa.array(values, pa.binary())).cuts(max_bytes) == ListColumns(values).cuts(
            max_bytes
        )


@given(st.lists(st.integers(-(2**62), 2**62) | st.integers(-1, 9000), min_size=1))
def test_varints(numbers: list[int]) -> None:
    array = np.array(numbers, np.int64)
    assert varints(array).to_pylist() == [varint(number) for number in numbers]
    assert varint_sizes(array).tolist() == [varint_size(number) for number in numbers]


def test_a_view_of_bytes_copies_nothing() -> None:
    array = pa.array([b"ab", b"cd"], pa.large_binary())
    column = BytesColumn.of(array)
    assert column.data.ctypes.data == array.buffers()[2].address
    assert column.same_length == 2
    assert ArrowColumns(array).headers == NO_HEADERS
