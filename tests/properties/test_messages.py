"""Every message in every version: round trips, agreement with a plain codec, bounded decoding."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from pykafka2.errors import CorruptData
from pykafka2.protocol.describe import describe
from pykafka2.protocol.registry import all_messages
from pykafka2.protocol.struct import Message
from tests.gate import examples
from tests.protocol.naive import as_values, naive_decode, naive_encode
from tests.protocol.strategies import instances, message_versions

MESSAGES = list(all_messages())
"""Each a case; a case for each of their 700 versions would take much memory of every process of a run."""

described = functools.cache(describe)


Check = Callable[[int, Message], None]


def check_each(cls: type[Message], versions: Iterable[int], most: int, check: Check) -> None:
    """Call `check` with at most so many instances of each version."""
    for version in versions:
        check_version(cls, version, most, check)


def check_version(cls: type[Message], version: int, most: int, check: Check) -> None:
    @settings(max_examples=most)
    @given(instances(cls, version))
    def with_examples(message: Message) -> None:
        note(f"{cls.__name__} v{version}")
        check(version, message)

    with_examples()


def check_round_trip(version: int, message: Message) -> None:
    cls = type(message)
    encoded = message.encode(version)

    assert cls.decode(encoded, version) == message
    assert cls.decode_from(b"??" + encoded + b"!", 2, version) == (message, 2 + len(encoded))
    assert cls.decode(memoryview(bytearray(encoded)), version) == message

    assert naive_encode(described(cls), message, version) == encoded
    assert naive_decode(described(cls), encoded, version) == as_values(described(cls), message, version)


@pytest.mark.parametrize("cls", MESSAGES)
def test_a_message_survives_its_bytes(cls: type[Message]) -> None:
    check_each(cls, [cls.LAST_VERSION], examples(6), check_round_trip)


@pytest.mark.gate
@pytest.mark.parametrize("cls", [cls for cls in MESSAGES if cls.MIN_VERSION < cls.LAST_VERSION])
def test_a_message_survives_its_bytes_in_older_versions(cls: type[Message]) -> None:
    check_each(cls, range(cls.MIN_VERSION, cls.LAST_VERSION), examples(3), check_round_trip)


def check_truncated(version: int, message: Message) -> None:
    cls, encoded = type(message), message.encode(version)
    # Tens of thousands of times: `pytest.raises` would take as long as the code under test.
    for size in range(len(encoded)):
        try:
            cls.decode(encoded[:size], version)
        except CorruptData as error:
            text = str(error)
        else:
            pytest.fail(f"{size} of {len(encoded)} bytes were taken for a whole message")
        assert re.search(rf"{cls.NAME} v{version}, field .+", text), text


@pytest.mark.parametrize(
    "cls",
    # One in twenty in a plain run.
    [
        pytest.param(cls, marks=() if number % 20 == 0 else pytest.mark.gate)
        for number, cls in enumerate(MESSAGES)
    ],
)
def test_message_truncated_at_any_byte_is_corrupt(cls: type[Message]) -> None:
    versions = {cls.LAST_VERSION, cls.MIN_VERSION if MESSAGES.index(cls) % 4 == 0 else cls.LAST_VERSION}
    check_each(cls, sorted(versions), 2, check_truncated)


@pytest.mark.gate
@pytest.mark.long
@pytest.mark.parametrize("cls", [cls for cls in MESSAGES if cls.MIN_VERSION < cls.LAST_VERSION])
def test_message_of_an_older_version_truncated_at_any_byte_is_corrupt(cls: type[Message]) -> None:
    check_each(cls, range(cls.MIN_VERSION, cls.LAST_VERSION), 2, check_truncated)


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
        text = str(error)
    else:
        return
    assert text.startswith(f"{cls.NAME} v{version}")
