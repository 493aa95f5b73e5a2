"""Varints within their bounds, tagged fields to skip, Kafka's text of uuids."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka2.protocol.primitives import (
    ZERO_UUID,
    Malformed,
    read_uvarint,
    skip_tagged_fields,
    uuid_from_text,
    uuid_to_text,
    uvarint,
)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (1, "01"),
        (127, "7f"),
        (128, "8001"),
        (300, "ac02"),
        (16383, "ff7f"),
        (2**32 - 1, "ffffffff0f"),
    ],
)
def test_varints_by_hand(value: int, encoded: str) -> None:
    assert uvarint(value) == bytes.fromhex(encoded)
    assert read_uvarint(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)


@given(st.integers(0, 2**32 - 1), st.binary(max_size=3))
def test_varints_survive(value: int, before: bytes) -> None:
    encoded = uvarint(value)
    assert len(encoded) <= 5
    assert read_uvarint(before + encoded + b"\xff", len(before)) == (value, len(before) + len(encoded))


@pytest.mark.parametrize("value", [-1, 2**32])
def test_a_varint_out_of_range_is_refused(value: int) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        uvarint(value)


@pytest.mark.parametrize("encoded", ["ffffffff10", "ffffffffff00", "8080808080"])
def test_a_varint_too_long_is_malformed(encoded: str) -> None:
    with pytest.raises(Malformed):
        read_uvarint(bytes.fromhex(encoded), 0)


def test_tagged_fields_are_skipped_within_bounds() -> None:
    section = bytes.fromhex("02 00 01 aa 7f 02 bbcc")
    assert skip_tagged_fields(section + b"!", 0, len(section) + 1) == len(section)
    with pytest.raises(Malformed, match="2 bytes are announced, 1 are left"):
        skip_tagged_fields(section[:-1], 0, len(section) - 1)
    with pytest.raises(Malformed, match="4294967295 elements"):
        skip_tagged_fields(bytes.fromhex("ffffffff0f"), 0, 5)


@given(st.binary(min_size=16, max_size=16))
def test_uuids_survive_their_text(uuid: bytes) -> None:
    text = uuid_to_text(uuid)
    assert text == base64.urlsafe_b64encode(uuid).decode().rstrip("=")
    assert uuid_from_text(text) == uuid


def test_the_zero_uuid() -> None:
    assert uuid_to_text(ZERO_UUID) == "A" * 22


@pytest.mark.parametrize(
    "text", ["", "A", "A" * 21, "A" * 23, "A" * 24, "!" * 22, "ä" * 22, "+" * 22, "A" * 20 + "=="]
)
def test_invalid_uuid_text_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="is not Kafka's text of a uuid"):
        uuid_from_text(text)


def test_a_uuid_of_another_size_has_no_text() -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        uuid_to_text(b"short")
