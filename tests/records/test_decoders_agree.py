"""All decoders of record format 2 return the same records and errors, for valid and for forged batches."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from itertools import islice

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pykafka2.errors import CorruptData, KafkaError
from pykafka2.records import column_group
from pykafka2.records.batch import HEADER, HEADER_BYTES, LENGTH_END, MIN_RECORD_BYTES, RecordBatch
from pykafka2.records.batch_reader import decode_any_records, decode_any_tuples, looks_uniform
from pykafka2.records.column_decoder import ColumnDecoder, decode_columns
from pykafka2.records.column_group import ColumnGroup
from pykafka2.records.columns import GrowingColumns
from pykafka2.records.decoder import RecordTuple, decode_records, decode_tuples, skip_headers
from pykafka2.records.encoder import BatchBuilder
from pykafka2.records.varint import varint
from pykafka2.types import ConsumerRecord

from .strategies import NOW, RECORD_LISTS, Input

Outcome = tuple[list[RecordTuple], str]
"""The records before the first error, and its message."""

FIRST = 1000


def read_all(rows: Iterable[RecordTuple]) -> Outcome:
    found: list[RecordTuple] = []
    try:
        for row in rows:
            found.append(row)  # noqa: PERF402 (an error must leave the rows before it)
    except CorruptData as error:
        return found, str(error)
    return found, ""


def from_records(records: Iterable[ConsumerRecord]) -> Iterable[RecordTuple]:
    for record in records:
        assert (record.topic, record.partition) == ("t", 3)
        assert record.serialized_key_size == (-1 if record.key is None else len(record.key))
        assert record.serialized_value_size == (-1 if record.value is None else len(record.value))
        yield record.offset, record.timestamp, record.key, record.value, record.headers


def polled(batch: RecordBatch) -> Iterable[RecordTuple]:
    """The records that poll() returns; the call itself can raise, too."""
    yield from from_records(decode_any_records(batch, "t", 3, check_crcs=False))


def from_columns(columns: GrowingColumns) -> list[RecordTuple]:
    lists = (columns.offsets, columns.timestamps, columns.keys, columns.values, columns.headers)
    return list(zip(*lists, strict=True))


def filled(fill: Callable[[GrowingColumns], object]) -> Outcome:
    columns = GrowingColumns()
    try:
        fill(columns)
    except KafkaError as error:
        return from_columns(columns), str(error)
    return from_columns(columns), ""


def in_parts(batch: RecordBatch, columns: GrowingColumns) -> None:
    decoder = ColumnDecoder(batch, batch.records_bytes(), columns, "t-3", 0)
    while not decoder.is_done:
        decoder.run(5)


def in_group(batch: RecordBatch, columns: GrowingColumns) -> None:
    with (
        pytest.MonkeyPatch.context() as patch,
        ColumnGroup(columns, "t-3", check_crcs=False) as group,
    ):
        patch.setattr(column_group, "FEWEST_RECORDS", 1)
        group.add(batch, 0)
        group._flush()


DECODERS: dict[str, Callable[[RecordBatch], Outcome]] = {
    "records": lambda batch: read_all(from_records(decode_records(batch, "t", 3, check_crcs=False))),
    "poll": lambda batch: read_all(polled(batch)),
    "tuples": lambda batch: read_all(decode_tuples(batch, "t-3", check_crcs=False, read_offsets=False)),
    "any tuples": lambda batch: read_all(decode_any_tuples(batch, "t-3", check_crcs=False)),
    "columns": lambda batch: filled(
        lambda columns: decode_columns(batch, columns, "t-3", check_crcs=False) and None
    ),
    "columns in parts": lambda batch: filled(lambda columns: in_parts(batch, columns)),
    "arrays": lambda batch: filled(lambda columns: in_group(batch, columns)),
}


def outcomes(batch: RecordBatch) -> dict[str, Outcome]:
    return {name: decode(batch) for name, decode in DECODERS.items()}


def assert_agreement(batch: RecordBatch) -> Outcome:
    """Return what all decoders make of the batch."""
    found = outcomes(batch)
    expected = found["tuples"]
    assert {name: outcome for name, outcome in found.items() if outcome != expected} == {}
    return expected


def batch_of(body: bytes, count: int, last_offset_delta: int, log_append_time: bool = False) -> RecordBatch:
    """A batch of these records, with whatever they hold; the checksum is not computed."""
    header = HEADER.pack(
        FIRST,
        HEADER_BYTES - LENGTH_END + len(body),
        0,
        2,
        0,
        8 if log_append_time else 0,
        last_offset_delta,
        NOW,
        NOW + 5,
        -1,
        -1,
        -1,
        count,
    )
    return RecordBatch(memoryview(header + body))


def overlong(number: int, extra: int) -> bytes:
    """The varint of a number with up to `extra` bytes more than it needs, at most five in all."""
    found = bytearray(varint(number))
    for _ in range(min(extra, 5 - len(found))):
        found[-1] |= 0x80
        found.append(0)
    return bytes(found)


@st.composite
def forged_records(draw: st.DrawFn) -> RecordBatch:
    """A batch put together byte by byte: gaps, varints that are longer than need be, lengths that lie."""
    extra = draw(st.sampled_from([0, 0, 0, 1]))
    lies = draw(st.sampled_from([0, 0, 1]))
    may = st.integers(0, extra)
    lie = st.integers(-lies, lies)
    count = draw(st.integers(1, 24))
    has_gaps = draw(st.booleans())
    delta, body = -1, b""
    sizes = st.sampled_from([-1, 0, 1, 5, 5, 5, 70])
    is_alike = draw(st.booleans())
    size = draw(sizes)
    for _ in range(count):
        delta += draw(st.integers(1, 3)) if has_gaps else 1
        size = size if is_alike else draw(sizes)
        fields = b"\0" + overlong(draw(st.integers(-2, 2)), draw(may)) + overlong(delta, draw(may))
        for length in (draw(st.sampled_from([-1, -1, 3])), size):
            fields += overlong(length + draw(lie), draw(may)) + b"v" * max(length, 0)
        headers = draw(st.sampled_from([0, 0, 0, 1, 2]))
        fields += overlong(headers, draw(may))
        for _ in range(headers):
            fields += overlong(1, draw(may)) + b"n" + overlong(draw(st.integers(-1, 0)), draw(may))
        body += overlong(len(fields) + draw(lie), draw(may)) + fields
    last = delta + (draw(st.integers(0, 2)) if has_gaps else 0)
    return batch_of(body, count, max(last, count - 1), draw(st.booleans()))


@pytest.mark.gate
@given(RECORD_LISTS, st.integers(1, 12))
def test_all_decoders_agree_on_produced_batches(records: list[Input], times: int) -> None:
    builder = BatchBuilder(max_bytes=1 << 30)
    for record in records * times:
        builder.append(*record)
    batch = RecordBatch(memoryview(builder.build(base_offset=FIRST)))
    rows, error = assert_agreement(batch)
    assert [row[1:] for row in rows] == [(r.timestamp, r.key, r.value, r.headers) for r in records * times]
    assert error == ""
    assert list(decode_tuples(batch)) == rows  # with the offsets of the records


@pytest.mark.gate
@pytest.mark.slow
@given(forged_records())
def test_all_decoders_agree_on_forged_records(batch: RecordBatch) -> None:
    assert_agreement(batch)


@pytest.mark.slow
@given(
    st.integers(1, 40),
    st.sampled_from([0, 3, 100]),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4),
    st.integers(-3, 3),
)
@example(20, 3, [(0, 0)], 0)
@example(18, 0, [(506, 128)], 0)
def test_all_decoders_agree_on_changed_bytes(
    count: int, size: int, changes: list[tuple[int, int]], more: int
) -> None:
    builder = BatchBuilder(max_bytes=1 << 30)
    for number in range(count):
        builder.append(NOW, None, b"v" * size, [("n", None)] * (number > 30))
    body = bytearray(builder.build()[HEADER_BYTES:])
    for position, byte in changes:
        body[position % len(body)] = byte
    batch = batch_of(bytes(body), max(count + more, 1), max(count + more, 1) - 1)
    if batch.count * MIN_RECORD_BYTES <= len(body):
        assert_agreement(batch)


def test_tracebacks_show_the_lines_of_a_compiled_decoder() -> None:
    batch = batch_of(b"\x0c\0\0\0\1\1\2", 1, 0)  # a header is promised, and the batch ends
    for decode in (decode_tuples(batch, check_crcs=False), decode_records(batch, "t", 3, 0, False)):
        with pytest.raises(CorruptData) as caught:
            list(islice(decode, 1))
        shown = "".join(traceback.format_exception(caught.value))
        assert "position = read_headers(buffer, position, headers := [])" in shown
        assert "<pykafka2 decode " in shown


ALIKE = b"\x0e\0\0\0\1\2v\0"
HAS_HEADER = b"\x12\0\0\0\1\2v\2\0\1"


@pytest.mark.parametrize(
    ("body", "count", "last_offset_delta", "is_uniform"),
    [
        (ALIKE * 16, 16, 15, True),
        (ALIKE * 16, 15, 14, False),
        (ALIKE * 16, 16, 20, False),
        (HAS_HEADER * 16, 16, 15, False),
        (b"", 16, 15, False),
        (b"\0" * 200, 16, 15, False),
        (ALIKE * 15 + HAS_HEADER, 16, 15, False),
    ],
)
def test_batch_looks_uniform_with_16_records_of_one_length_without_gaps_and_headers(
    body: bytes, count: int, last_offset_delta: int, is_uniform: bool
) -> None:
    assert looks_uniform(batch_of(body, count, last_offset_delta), body) is is_uniform


def test_skipped_header_with_a_name_of_negative_length_is_corrupt() -> None:
    with pytest.raises(CorruptData, match="name of negative length"):
        skip_headers(b"\3vv\0", 0, 1)
