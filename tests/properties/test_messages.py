"""Every message in every version: round trips, agreement with a plain codec, bounded decoding."""

from __future__ import annotations

import functools
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka2.errors import CorruptData
from pykafka2.protocol.describe import describe
from pykafka2.protocol.struct import Message
from tests.gate import examples
from tests.protocol.naive import as_values, naive_decode, naive_encode
from tests.protocol.strategies import instances, message_version_id, message_versions

EVERY_MESSAGE_AND_VERSION = pytest.mark.parametrize(
    ("cls", "version"),
    # Older versions in the gate.
    [
        pytest.param(cls, version, marks=() if version == cls.LAST_VERSION else pytest.mark.gate)
        for cls, version in message_versions()
    ],
    ids=message_version_id,
)

described = functools.cache(describe)


@EVERY_MESSAGE_AND_VERSION
@settings(max_examples=examples(6))
@given(data=st.data())
def test_a_message_survives_its_bytes(cls: type[Message], version: int, data: st.DataObject) -> None:
    message = data.draw(instances(cls, version))
    encoded = message.encode(version)

    assert cls.decode(encoded, version) == message
    assert cls.decode_from(b"??" + encoded + b"!", 2, version) == (message, 2 + len(encoded))
    assert cls.decode(memoryview(bytearray(encoded)), version) == message

    assert naive_encode(described(cls), message, version) == encoded
    assert naive_decode(described(cls), encoded, version) == as_values(described(cls), message, version)


@pytest.mark.parametrize(
    ("cls", "version"),
    # One in twenty in a plain run.
    [
        pytest.param(cls, version, marks=() if number % 20 == 0 else pytest.mark.gate)
        for number, (cls, version) in enumerate(message_versions())
    ],
    ids=message_version_id,
)
@settings(max_examples=2)
@given(data=st.data())
def test_message_truncated_at_any_byte_is_corrupt(
    cls: type[Message], version: int, data: st.DataObject
) -> None:
    encoded = data.draw(instances(cls, version)).encode(version)
    # Tens of thousands of times: `pytest.raises` would take as long as what it looks at.
    for size in range(len(encoded)):
        try:
            cls.decode(encoded[:size], version)
        except CorruptData as error:
            told = str(error)
        else:
            pytest.fail(f"{size} of {len(encoded)} bytes were taken for a whole message")
        assert re.search(rf"{cls.NAME} v{version}, field .+", told), told


@st.composite
def damaged_messages(draw: st.DrawFn) -> tuple[type[Message], int, bytes]:
    cls, version = draw(st.sampled_from(message_versions()))
    encoded = bytearray(draw(instances(cls, version)).encode(version))
    for _ in range(draw(st.integers(1, 4))):
        position = draw(st.integers(0, len(encoded)))
        replaced = draw(st.integers(0, 2))
        # Signs and continuation bits are where lengths go wrong.
        content = draw(
            st.binary(max_size=3) | st.sampled_from([b"\xff", b"\x80", b"\x7f\xff\xff\xff", b"\0"])
        )
        encoded[position : position + replaced] = content
    return cls, version, bytes(encoded)


@pytest.mark.gate
@pytest.mark.slow
@settings(max_examples=examples(500))
@given(damaged_messages())
def test_damaged_bytes_give_a_message_or_corrupt_data(damaged: tuple[type[Message], int, bytes]) -> None:
    cls, version, encoded = damaged
    try:
        message = cls.decode(encoded, version, allow_trailing=True)
    except CorruptData:
        return
    # What was understood is a message like any other.
    again: Any = cls.decode(message.encode(version), version)
    assert repr(again) == repr(message)


@pytest.mark.slow
@settings(max_examples=examples(500))
@given(st.sampled_from(message_versions()), st.binary(max_size=200))
def test_arbitrary_bytes_give_a_message_or_corrupt_data(
    message_version: tuple[type[Message], int], data: bytes
) -> None:
    cls, version = message_version
    try:
        cls.decode(data, version)
    except CorruptData as error:
        told = str(error)
    else:
        return
    assert told.startswith(f"{cls.NAME} v{version}")
