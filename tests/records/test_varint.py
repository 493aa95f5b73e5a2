"""Zigzag varints against their definition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka2.errors import CorruptData
from pykafka2.records.varint import (
    MAX_VARINT_BYTES,
    MAX_VARLONG_BYTES,
    VARINTS,
    read_raw,
    read_varint,
    varint,
    varint_size,
)

INT64 = st.integers(-(2**63), 2**63 - 1)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (-65, "8101"),
        (8191, "fe7f"),
        (8192, "808001"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
        (2**63 - 1, "feffffffffffffffff01"),
        (-(2**63), "ffffffffffffffffff01"),
    ],
)
def test_varints_are_those_of_the_protocol(value: int, encoded: str) -> None:
    assert varint(value).hex() == encoded
    assert varint_size(value) == len(varint(value))
    assert read_varint(varint(value), 0, MAX_VARLONG_BYTES) == (value, len(varint(value)))


@given(INT64, st.binary(max_size=3), st.binary(max_size=3))
def test_varints_round_trip_within_a_buffer(value: int, before: bytes, after: bytes) -> None:
    buffer = before + varint(value) + after
    assert read_varint(buffer, len(before), MAX_VARLONG_BYTES) == (value, len(buffer) - len(after))


def test_the_table_holds_every_varint_of_one_and_two_bytes() -> None:
    assert [read_varint(encoded, 0)[0] for encoded in VARINTS] == list(range(8192))
    assert {len(encoded) for encoded in VARINTS} == {1, 2}
    assert varint_size(8191) == 2
    assert varint_size(8192) == 3


@pytest.mark.parametrize("max_bytes", [MAX_VARINT_BYTES, MAX_VARLONG_BYTES])
def test_a_varint_that_is_too_long_is_corrupt(max_bytes: int) -> None:
    with pytest.raises(CorruptData, match=str(max_bytes)):
        read_raw(b"\xff" * max_bytes + b"\0", 0, max_bytes)


def test_a_varint_that_ends_early_is_beyond_the_buffer() -> None:
    with pytest.raises(IndexError):
        read_raw(b"\xff\xff", 0)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_value_above_64_bits_is_rejected(value: int) -> None:
    with pytest.raises(ValueError, match="64 bits"):
        varint(value)
