"""Records that are encoded by column are the same bytes as those that are encoded row by row."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka2.records.encoder import (
    NO_HEADERS,
    Row,
    encode_headers,
    encode_only,
    encode_record,
    encode_rows,
)
from pykafka2.records.plain_encoder import (
    LONGEST_KEY,
    LONGEST_VALUE,
    MAX_EVEN_RECORDS,
    MAX_EVEN_TIMES,
    MAX_RECORDS,
    encode_plain,
)
from pykafka2.records.varint import varint
from tests.gate import examples

NOW = 1_700_000_000_000
LENGTHS = st.one_of(st.just(36), st.integers(0, 140), st.sampled_from([LONGEST_VALUE - 1, LONGEST_VALUE]))
COUNTS = st.one_of(st.integers(1, 90), st.sampled_from([63, 64, 65, 200]))


def rows(values: list[bytes | None], keys: list[bytes | None] | None, times: list[int]) -> tuple[bytes, int]:
    of_keys = [None] * len(values) if keys is None else keys
    columns = zip(values, of_keys, times, strict=True)
    return encode_rows([(value, key, time, NO_HEADERS, None) for value, key, time in columns], times[0])


@settings(max_examples=examples(25), deadline=None)
@given(COUNTS, LENGTHS, st.one_of(st.none(), LENGTHS), st.booleans(), st.booleans(), st.data())
def test_columns_are_written_as_rows(
    count: int, length: int, key_length: int | None, is_even: bool, has_even_keys: bool, data: st.DataObject
) -> None:
    def column(longest: int, is_even: bool) -> list[bytes | None]:
        of = st.lists(st.integers(0, longest), min_size=count, max_size=count)
        return [b"x" * one for one in ([longest] * count if is_even else data.draw(of))]

    values = column(length, is_even)
    keys = None if key_length is None else column(key_length, has_even_keys)
    steps = data.draw(st.lists(st.sampled_from([0, 0, 0, 1, 70]), min_size=count, max_size=count))
    times = [NOW + sum_ for sum_ in accumulate(steps)]
    encoded = encode_plain(values, times, times[0], keys)
    if encoded is not None:
        assert encoded == rows(values, keys, times)
    else:
        longest = max(len(one or b"") for one in values + (keys or []))
        assert longest >= min(LONGEST_VALUE, LONGEST_KEY) or len(set(times)) > 32


@pytest.mark.parametrize("has_keys", [False, True])
def test_most_records_of_several_milliseconds_are_written_as_rows(has_keys: bool) -> None:
    values: list[bytes | None] = [b"v" * (number % 7) for number in range(MAX_RECORDS)]
    keys: list[bytes | None] | None = (
        [b"k" * (number % 5) for number in range(MAX_RECORDS)] if has_keys else None
    )
    times = [NOW + number // 1000 for number in range(MAX_RECORDS)]
    assert encode_plain(values, times, NOW, keys) == rows(values, keys, times)
    assert encode_plain([*values, b""], [*times, times[-1]], NOW, None) is None


@pytest.mark.parametrize("key", [None, b"", b"k" * 36, b"k" * 70])
@pytest.mark.parametrize("times", [1, 2, MAX_EVEN_TIMES, MAX_EVEN_TIMES + 1])
@pytest.mark.parametrize("count", [9, 63, 64, 65, 128, 129, MAX_EVEN_RECORDS, MAX_EVEN_RECORDS + 1])
def test_records_of_one_length_are_written_as_rows(count: int, times: int, key: bytes | None) -> None:
    keys: list[bytes | None] | None = None if key is None else [key] * count
    for length in (0, 1, 36, 63, 64, LONGEST_VALUE - 1):
        values: list[bytes | None] = [b"v" * length] * count
        timestamps = [NOW + 70 * (number * times // count) for number in range(count)]
        assert encode_plain(values, timestamps, NOW, keys) == rows(values, keys, timestamps)


@pytest.mark.parametrize("length", [1023, 1024, 1025])
def test_keys_and_values_are_written_up_to_a_length_and_left_to_rows_from_there(length: int) -> None:
    """The tables end there."""
    times = [NOW] * 3
    long: list[bytes | None] = [b"", b"x" * length, b"x"]
    short: list[bytes | None] = [b"v"] * 3
    for values, keys in ((long, None), (long, short), (short, long), (long, long)):
        is_left = length > 1023
        assert encode_plain(values, times, NOW, keys) == (None if is_left else rows(values, keys, times))


def test_a_null_among_values_or_keys_is_left_to_rows() -> None:
    assert encode_plain([b"v", None], [NOW, NOW], NOW) is None
    assert encode_plain([b"v", b"v"], [NOW, NOW], NOW, [b"k", None]) is None


@pytest.mark.parametrize("times", [[NOW, NOW - 1, NOW], [NOW, NOW + 2, NOW + 1]])
def test_times_that_run_back_are_left_to_rows(times: list[int]) -> None:
    assert encode_plain([b"v"] * 3, times, NOW) is None


@pytest.mark.parametrize("headers", [NO_HEADERS, encode_headers([("name", b"x" * 70)])], ids=["none", "one"])
@pytest.mark.parametrize("key", [None, b"", b"key", b"k" * 9000], ids=["null", "empty", "short", "long"])
def test_a_record_that_is_alone_is_written_as_a_row(key: bytes | None, headers: bytes) -> None:
    for length in (0, 1, 55, 56, 57, 63, 64, 8100, 8187, 8188, 8191, 8192, 20_000):
        value = b"v" * length
        rows_of_one, _ = encode_rows([(value, key, NOW, headers, None)], NOW)
        assert encode_only(value, key, headers) == rows_of_one
    assert encode_only(None, key, headers) == encode_rows([(None, key, NOW, headers, None)], NOW)[0]


def one_by_one(records: list[Row]) -> bytes:
    base = records[0][2]
    parts = []
    for index, (value, key, time, headers, _) in enumerate(records):
        alone = encode_record(time - base, index, key, value, None)
        body = alone[1 if alone[0] < 0x80 else 2 if alone[1] < 0x80 else 3 : -1] + headers
        parts += [varint(len(body)), body]
    return b"".join(parts)


TRACED = encode_headers([("trace", b"1")])
ROWS_IN_A_ROW: dict[str, list[Row]] = {
    "offsets that grow longer": [(b"v" * 57, None, NOW, NO_HEADERS, None)] * 130,
    "values of one length beyond the short ones": [(b"v" * 9000, None, NOW, NO_HEADERS, None)] * 3,
    "one of them": [(b"v" * length, None, NOW, NO_HEADERS, None) for length in (9, 9000, 9, 9000, 9)],
    "values of one length, some with headers": [
        (b"v" * 9, None, NOW, headers, None) for headers in (NO_HEADERS, TRACED, TRACED, NO_HEADERS)
    ],
    "times that run back": [(b"v", None, NOW + step, NO_HEADERS, None) for step in (0, 7, 7, -3, 0, 5)],
    "nulls and keys": [
        (value, key, NOW, NO_HEADERS, None)
        for value in (b"v", None, b"")
        for key in (None, b"k", b"k" * 9000)
    ],
}


@pytest.mark.parametrize("records", ROWS_IN_A_ROW.values(), ids=ROWS_IN_A_ROW)
def test_row_is_encoded_the_same_alone_and_after_others(records: list[Row]) -> None:
    body, latest = encode_rows(records, NOW)
    assert body == one_by_one(records)
    assert latest == max(time for _, _, time, _, _ in records)
