"""Records of a batch are equal however they are read."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka2.records.batch import RecordBatch, batches
from pykafka2.records.column_decoder import decode_columns
from pykafka2.records.decoder import decode_records, decode_tuples
from pykafka2.records.encoder import (
    NO_HEADERS,
    BatchBuilder,
    batch_size_bound,
    encode_headers,
    encode_record,
    encode_rows,
)
from pykafka2.types import ConsumerRecord

from .strategies import CODECS, NOW, RECORD_LISTS, RECORDS, Input, build


def only(blob: bytes) -> RecordBatch:
    [batch] = batches(blob)
    return batch


@pytest.mark.gate
@pytest.mark.slow
@given(RECORD_LISTS, st.sampled_from(CODECS), st.integers(0, 2**62))
def test_records_round_trip(records: list[Input], codec: str, base_offset: int) -> None:
    batch = only(build(records, codec, base_offset))
    assert list(decode_records(batch, "orders", 3)) == [
        ConsumerRecord(
            topic="orders",
            partition=3,
            offset=base_offset + index,
            timestamp=record.timestamp,
            timestamp_type=0,
            key=record.key,
            value=record.value,
            headers=record.headers,
            leader_epoch=-1,
            serialized_key_size=-1 if record.key is None else len(record.key),
            serialized_value_size=-1 if record.value is None else len(record.value),
        )
        for index, record in enumerate(records)
    ]


@pytest.mark.gate
@pytest.mark.slow
@given(RECORD_LISTS, st.sampled_from(CODECS), st.booleans())
def test_tuples_and_columns_agree_with_records(records: list[Input], codec: str, read_offsets: bool) -> None:
    batch = only(build(records, codec, 500))
    expected = [
        (r.offset, r.timestamp, r.key, r.value, r.headers) for r in decode_records(batch, "orders", 0)
    ]
    assert list(decode_tuples(batch, read_offsets=read_offsets)) == expected
    columns = decode_columns(batch)
    assert len(columns) == len(records)
    rows = zip(
        columns.offsets, columns.timestamps, columns.keys, columns.values, columns.headers, strict=True
    )
    assert list(rows) == expected


@pytest.mark.slow
@given(RECORDS, st.integers(0, 10_000))
def test_fast_encoder_writes_the_same_bytes_as_the_general_one(record: Input, count: int) -> None:
    builder = BatchBuilder(max_bytes=1 << 30)
    builder.append(NOW, None, b"")
    builder._records *= count + 1  # the next record's offset decides how it is written
    builder.append(*record)
    expected = encode_record(record.timestamp - NOW, count + 1, record.key, record.value, record.headers)
    assert builder._records[-1] == expected


@pytest.mark.slow
@given(RECORDS)
def test_a_batch_of_one_record_is_within_its_bound(record: Input) -> None:
    assert len(build([record])) <= batch_size_bound(record.key, record.value, record.headers)


@pytest.mark.gate
@pytest.mark.slow
@given(RECORD_LISTS)
def test_the_estimate_of_an_uncompressed_batch_is_exact(records: list[Input]) -> None:
    builder = BatchBuilder(max_bytes=1 << 30)
    for record in records:
        builder.append(*record)
    assert builder.size_estimate == len(builder.build())


@pytest.mark.parametrize("count", [63, 64, 65, 8191, 8192, 8193, 8300])
def test_offsets_are_right_where_their_varints_grow(count: int) -> None:
    builder = BatchBuilder(max_bytes=1 << 30)
    for _ in range(count):
        builder.append(NOW, None, None)
    batch = only(builder.build(base_offset=1000))
    assert [r.offset for r in decode_records(batch, "t", 0)] == list(range(1000, 1000 + count))
    assert [row[0] for row in decode_tuples(batch, read_offsets=False)] == list(range(1000, 1000 + count))
    assert [row[0] for row in decode_tuples(batch, read_offsets=True)] == list(range(1000, 1000 + count))


def test_offsets_that_contradict_the_header_are_read_from_the_records() -> None:
    builder = BatchBuilder()
    for _ in range(3):
        builder.append(NOW, None, None)
    builder._records[1] = builder._records[0]
    batch = only(builder.build(base_offset=100))
    assert [row[0] for row in decode_tuples(batch)] == [100, 100, 102]


def test_offsets_of_a_compacted_batch_are_read_from_its_records() -> None:
    builder = BatchBuilder()
    for number in range(5):
        builder.append(NOW, b"k%d" % number, None)
    del builder._records[1:4]
    blob = bytearray(builder.build(base_offset=100))
    blob[23:27] = (4).to_bytes(4, "big")  # last offset delta, which compaction keeps
    batch = only(bytes(blob))
    assert batch.next_offset == 105
    assert [r.offset for r in decode_records(batch, "t", 0, check_crcs=False)] == [100, 104]
    assert decode_columns(batch, check_crcs=False).offsets == [100, 104]


def test_reading_starts_at_the_position_within_a_batch() -> None:
    batch = only(build([Input(NOW, None, b"%d" % n, []) for n in range(10)], base_offset=100))
    assert [r.offset for r in decode_records(batch, "t", 0, first_offset=107)] == [107, 108, 109]
    assert decode_columns(batch, first_offset=107, max_records=2).offsets == [107, 108]
    assert list(decode_records(batch, "t", 0, first_offset=110)) == []


def test_columns_grow_from_batch_to_batch() -> None:
    blob = build([Input(NOW, None, b"a", [])], base_offset=5) + build(
        [Input(NOW, b"k", None, [])], base_offset=6
    )
    columns = None
    for batch in batches(blob):
        columns = decode_columns(batch, columns)
    assert columns is not None
    assert (columns.offsets, columns.keys, columns.values) == ([5, 6], [None, b"k"], [b"a", None])


@pytest.mark.parametrize("headers", [[], [("name", b"value"), ("empty", None)]])
def test_records_may_change_their_headers_without_changing_others(headers: list[Any]) -> None:
    first, second, third = decode_records(only(build([Input(NOW, None, None, headers)] * 3)), "t", 0)
    first.headers.append(("a", b"b"))
    second.headers.clear()
    assert third.headers == headers
    # As a deserializer may, before the next record is decoded.
    for record in decode_records(only(build([Input(NOW, None, None, headers)] * 3)), "t", 0):
        assert record.headers == headers
        record.headers.append(("a", b"b"))


@pytest.mark.parametrize("headers", [[], [("name", b"value")]])
def test_decoded_record_is_copied_compared_and_changed_as_plain_data(
    headers: list[Any],
) -> None:
    data = build([Input(NOW, None, b"v", headers)])

    def decoded() -> Any:
        return next(iter(decode_records(only(data), "t", 0)))

    record = decoded()
    assert repr(record) == repr(decoded())
    assert f"headers={headers!r}" in repr(decoded())
    for other in (
        decoded(),
        copy.copy(decoded()),
        pickle.loads(pickle.dumps(decoded())),
        attrs.evolve(decoded()),
    ):
        assert (other, other.headers) == (record, headers)
    assert attrs.asdict(decoded())["headers"] == headers
    ours = [("other", b"1")]
    changed = attrs.evolve(decoded(), headers=ours)
    record.headers = ours
    assert record == changed != decoded()
    assert record.headers is ours
    del record.headers
    assert record.headers == []


def test_headers_that_come_again_after_others_are_their_records() -> None:
    headers = [[("number", b"%d" % (number % 40))] * (number % 3) for number in range(200)]
    batch = only(build([Input(NOW, None, b"v" * (number % 7), one) for number, one in enumerate(headers)]))
    assert [record.headers for record in decode_records(batch, "t", 0)] == headers


@pytest.mark.gate
@pytest.mark.slow
@given(RECORD_LISTS, st.sampled_from([0, 60, 8185]))
def test_rows_in_one_loop_are_written_as_one_by_one(records: list[Input], count: int) -> None:
    # Small records before them, so that their offsets grow long.
    before = Input(NOW, None, b"", [])
    expected = [encode_record(0, index, None, b"", []) for index in range(count)]
    for index, one in enumerate(records, start=count):
        expected.append(encode_record(one.timestamp - NOW, index, one.key, one.value, one.headers))
    rows = [(one.value, one.key, one.timestamp, encode_headers(one.headers), None) for one in records]
    body, latest = encode_rows([(b"", None, NOW, NO_HEADERS, None)] * count + rows, NOW)
    assert body == b"".join(expected)
    assert latest == max(one.timestamp for one in [*records, before])
