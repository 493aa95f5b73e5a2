"""Columns become the same bytes as their records one by one."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka2.records import column_encoder
from pykafka2.records.column_encoder import EncodedRecords, ListColumns, cuts_of
from pykafka2.records.encoder import NO_HEADERS, encode_headers, encode_record
from pykafka2.records.pieces import framed_offsets, spans
from pykafka2.records.varint import varint, varint_size

from .strategies import NOW, RECORD_LISTS, Input


def row_by_row(records: list[Input]) -> EncodedRecords:
    """The batches of encoder.py from them."""
    base = records[0].timestamp
    body = b"".join(
        encode_record(record.timestamp - base, number, record.key, record.value, record.headers)
        for number, record in enumerate(records)
    )
    return EncodedRecords(body, len(records), base, max(record.timestamp for record in records))


def columns_of(records: list[Input]) -> ListColumns:
    return ListColumns(
        [record.value for record in records],
        [record.key for record in records],
        [encode_headers(record.headers) for record in records],
        [record.timestamp for record in records],
    )


def encoded(values: Sequence[bytes | None], *others: Any) -> EncodedRecords:
    return ListColumns(values, *others).encode(0, len(values))


@pytest.mark.gate
@given(RECORD_LISTS)
def test_any_records_are_written_as_one_by_one(records: list[Input]) -> None:
    assert columns_of(records).encode(0, len(records)) == row_by_row(records)


@pytest.mark.gate
@given(RECORD_LISTS, st.data())
def test_parts_are_written_as_records_of_their_own(records: list[Input], data: st.DataObject) -> None:
    columns = columns_of(records)
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


@pytest.mark.gate
@given(RECORD_LISTS, st.integers(1, 400), st.booleans())
def test_batches_end_where_they_are_full(records: list[Input], max_bytes: int, is_uniform: bool) -> None:
    if is_uniform:
        records = [records[0]] * len(records)
    columns = columns_of(records)
    cuts = columns.cuts(max_bytes)
    assert cuts[-1] == len(records)
    for first, stop in pairwise([0, *cuts]):
        body = columns.encode(first, stop).body
        assert stop > first
        assert len(body) <= max_bytes or stop == first + 1
        if stop < len(records):  # sizes are taken to be a few bytes too high
            more = columns.encode(first, stop + 1).body
            assert len(more) + 13 * (stop + 1 - first) > max_bytes


@pytest.mark.gate
@given(
    st.integers(1, 200),
    st.sampled_from([None, 0, 1, 63, 64, 8191, 8192]),
    st.sampled_from([None, 0, 1, 63, 64]),
    st.booleans(),
)
def test_columns_of_one_length_are_written_as_one_by_one(
    count: int, value_bytes: int | None, key_bytes: int | None, has_headers: bool
) -> None:
    value = None if value_bytes is None else b"v" * value_bytes
    key = None if key_bytes is None else b"k" * key_bytes
    headers = [("trace", b"1"), ("none", None)] if has_headers else []
    keys = None if key is None else [key] * count
    assert encoded([value] * count, keys, encode_headers(headers), NOW) == row_by_row(
        [Input(NOW, key, value, headers)] * count
    )


@pytest.mark.parametrize("count", [64, 65, 8192, 8193, 8300])
@pytest.mark.parametrize("lengths", [(5,), (5, 70), (0, None)], ids=["equal", "varying", "nulls"])
def test_offsets_grow_by_a_byte_where_varints_do(count: int, lengths: tuple[int | None, ...]) -> None:
    choices = [None if length is None else b"x" * length for length in lengths]
    values = (choices * count)[:count]
    assert encoded(values, None, NO_HEADERS, NOW) == row_by_row(
        [Input(NOW, None, value, []) for value in values]
    )


@given(RECORD_LISTS, st.integers(30, 9000))
def test_a_record_that_is_too_large_is_found(records: list[Input], max_bytes: int) -> None:
    first = next(
        (
            number
            for number, (_, key, value, headers) in enumerate(records)
            if len(key or b"") + len(value or b"") + len(encode_headers(headers)) + 31 > max_bytes
        ),
        None,
    )
    assert columns_of(records).oversized(max_bytes) == first
    if first is None:
        assert all(len(columns_of([record]).encode(0, 1).body) <= max_bytes for record in records)


def test_offsets_of_four_bytes() -> None:
    count = (1 << 20) + 130
    framed = framed_offsets(b"<", b">", 1 << 20, count)
    assert framed == [b"<" + varint(number) + b">" for number in range(1 << 20, count)]


def test_spans_have_offsets_of_equal_size() -> None:
    assert list(spans(100)) == [(1, 0, 64), (2, 64, 100)]
    for width, first, stop in spans((1 << 31) - 1):
        assert varint_size(first) == varint_size(stop - 1) == width


@pytest.mark.gate
@pytest.mark.slow
def test_memory_kept_between_batches_is_bounded() -> None:
    """Framed offsets are kept for a few shapes of records, not for every length there was."""
    tracemalloc.start()
    try:
        for length in range(20):
            encoded([b"x" * length] * 100)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 6 << 20


@pytest.mark.parametrize(
    ("ends", "more", "max_bytes", "expected"),
    [
        ([10, 20, 30, 40, 50], 2, 24, [2, 4, 5]),
        ([10, 20, 30, 40, 50], 2, 23, [1, 2, 3, 4, 5]),
        ([10, 20, 30, 40, 50], 0, 20, [2, 4, 5]),
        ([10, 20, 30, 40, 50], 0, 1000, [3, 5]),  # three records at most
        ([10, 90, 95, 99], 0, 20, [1, 2, 4]),  # a record that is too large is alone
        ([], 0, 20, []),
    ],
)
def test_columns_are_cut_where_the_next_record_would_exceed_the_limit(
    monkeypatch: pytest.MonkeyPatch, ends: list[int], more: int, max_bytes: int, expected: list[int]
) -> None:
    monkeypatch.setattr(column_encoder, "MAX_BATCH_RECORDS", 3)
    assert cuts_of(ends, more, max_bytes) == expected
