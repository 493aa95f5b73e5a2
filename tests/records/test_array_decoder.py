"""Batches decoded by arrays: what they leave to other ways, and headers that come several to a record."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka2.compression import codec as find_codec
from pykafka2.records.array_decoder import decode_arrays
from pykafka2.records.columns import GrowingColumns
from pykafka2.records.encoder import BatchBuilder, encode_headers, frame_batch
from pykafka2.records.varint import NULL, varint
from pykafka2.types import Headers
from tests.records.test_column_groups import NOW, opened
from tests.records.test_columns import rows_in, table_rows

GOOD = varint(1) + b"v"


def record(offset: int, value: bytes = GOOD, headers: bytes = b"\0", delta: int = 0) -> bytes:
    """A record whose value, with its length in front, and headers are what they are said to be."""
    body = b"\0" + varint(delta) + varint(offset) + NULL + value + headers
    return varint(len(body)) + body


def batch(*records: bytes, count: int | None = None, base_timestamp: int = NOW, base_offset: int = 0) -> Any:
    """A batch of these records, that says how many it has."""
    how_many = len(records) if count is None else count
    return opened(
        frame_batch(
            b"".join(records),
            how_many,
            base_timestamp,
            base_timestamp,
            find_codec(0),
            base_offset=base_offset,
        )
    )


def test_records_as_producers_write_them_are_decoded() -> None:
    run = decode_arrays(batch(record(0), record(1, NULL), record(2, varint(0))))
    assert run is not None
    assert run.values == [b"v", None, b""]


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(record(1, headers=b"\0\0"), id="a byte behind its fields"),
        pytest.param(record(1, varint(-2) + b"v"), id="a value of -2 bytes"),
        pytest.param(record(1, b"\x82\x80\x80\x80\x80\0v"), id="a length of six bytes"),
        pytest.param(
            record(1, headers=encode_headers([("n", b"v")]) + b"\0"), id="a byte behind its headers"
        ),
    ],
)
@pytest.mark.parametrize("other", [GOOD, NULL], ids=["beside a value", "beside a null"])
def test_inconsistent_records_are_not_decoded_by_arrays(odd: bytes, other: bytes) -> None:
    assert decode_arrays(batch(record(0, other), odd)) is None


@pytest.mark.parametrize("count", [2, 4])
def test_batch_with_a_wrong_record_count_is_not_decoded_by_arrays(count: int) -> None:
    records = record(0, varint(9) + b"v" * 9), record(1, varint(20) + b"v" * 20), record(2, NULL)
    assert decode_arrays(batch(*records)) is not None
    assert decode_arrays(batch(*records, count=count)) is None
    other = batch(*records, count=6 - count, base_offset=count)
    assert decode_arrays([*batch(*records, count=count), *other]) is None, "though there are six in both"


@pytest.mark.parametrize("base", [(1 << 63) - 3, -(1 << 63) + 3, (1 << 60) + 1])
def test_times_that_arrays_could_wrap_are_left_to_rows(base: int) -> None:
    assert decode_arrays(batch(record(0), record(1, delta=10), base_timestamp=base)) is None


@pytest.mark.parametrize(("start", "stop"), [(0, 40), (3, 17), (21, 40)], ids=str)
def test_several_headers_stay_with_their_records_and_in_their_order(start: int, stop: int) -> None:
    blob = b""
    for base in (0, 20):
        builder = BatchBuilder()
        for number in range(base, base + 20):
            headers: Headers = [(f"h{at}", b"%d-%d" % (number, at)) for at in range(number % 4)]
            builder.append(NOW, b"k" * (number % 7), b"v" * (number % 11), headers)
        blob += builder.build(base_offset=base)
    run = decode_arrays(opened(blob))
    assert run is not None
    columns = GrowingColumns()
    columns.add(run, start)
    columns.end_before(stop)
    expected = [[f"{number}-{at}".encode() for at in range(number % 4)] for number in range(start, stop)]
    assert [[value for _, value in row[4]] for row in rows_in(columns)] == expected
    assert table_rows(columns.to_arrow()) == rows_in(columns)
