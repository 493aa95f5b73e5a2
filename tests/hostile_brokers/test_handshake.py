"""A broker that is none, or shakes hands as none does: its connection ends, and other brokers are used."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from pykafka2.errors import DeliveryTimeout, KafkaError, UnsupportedVersion
from pykafka2.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse, FinalizedFeatureKey
from pykafka2.testing import Simulation
from tests.gate import rest_in_gate
from tests.hostile_brokers.liar import Bytes, End, Question, Reset, Several, Silence
from tests.hostile_brokers.lies import Lie, body, body_of, changing, raw, saying, setting
from tests.hostile_brokers.worlds import World, check, ending

pytestmark = pytest.mark.slow

HANDSHAKE = "ApiVersions"
ALWAYS = DeliveryTimeout
"""Trying goes on until the record's time is over: another broker may be at this address tomorrow."""


def ranges(low: int, high: int, only: int | None = None) -> Any:
    def edit(answer: Any) -> None:
        for one in answer.api_keys:
            if only in (None, one.api_key):
                one.min_version, one.max_version = low, high

    return changing(edit)


def without(key: int) -> Any:
    def edit(answer: Any) -> None:
        answer.api_keys = [one for one in answer.api_keys if one.api_key != key]

    return changing(edit)


def refusing(max_version: int | None) -> Any:
    """ApiVersions is refused, in version 0, whatever version asks."""

    def tell(question: Question, honest: Any) -> Any:
        known = (
            [] if max_version is None else [ApiVersion(api_key=18, min_version=0, max_version=max_version)]
        )
        return Bytes(question.encoded(ApiVersionsResponse(error_code=35, api_keys=known), 0))

    return tell


def many_keys(answer: Any) -> None:
    answer.api_keys += [ApiVersion(api_key=n, min_version=0, max_version=9) for n in range(100, 30_000)]


def each_key_twice(answer: Any) -> None:
    answer.api_keys += [
        ApiVersion(api_key=one.api_key, min_version=9, max_version=1) for one in answer.api_keys
    ]


def wrong_id(by: int) -> Any:
    def tell(question: Question, honest: Any) -> Any:
        data = bytearray(question.encoded(honest))
        data[4:8] = struct.pack(">i", question.correlation_id + by)
        return Bytes(bytes(data))

    return tell


def twice(question: Question, honest: Any) -> Any:
    return Several([honest, honest])


def stopping_in_the_middle(question: Question, honest: Any) -> Any:
    data = question.encoded(honest)
    return Several([Bytes(data[: len(data) // 2]), End()])


def drop_by_drop(question: Question, honest: Any) -> Any:
    return Bytes(question.encoded(honest), seconds_apart=1.0)


def features(answer: Any) -> None:
    answer.finalized_features = [
        FinalizedFeatureKey(name="transaction.version", max_version_level=level, min_version_level=9)
        for level in (-5, 32_767)
    ]
    answer.finalized_features_epoch = -(2**63)


def framed(size: int, data: bytes = b"") -> Any:
    return raw(struct.pack(">i", size) + data)


FRAMES = [
    Lie("frame: length -1", HANDSHAKE, framed(-1), ALWAYS, "-1 bytes"),
    Lie("frame: length -2**31", HANDSHAKE, framed(-(2**31)), ALWAYS, "-2147483648 bytes"),
    Lie("frame: length 0", HANDSHAKE, framed(0), ALWAYS, "response of 0 bytes"),
    Lie("frame: length 3", HANDSHAKE, framed(3, b"abc"), ALWAYS, "response of 3 bytes"),
    Lie("frame: 2 GiB", HANDSHAKE, framed(2**31 - 1), ALWAYS, "2147483647 bytes"),
    Lie(
        "frame: 512 KiB and a byte before anything is known",
        HANDSHAKE,
        framed(512 * 1024 + 1),
        ALWAYS,
        "at most 524288",
    ),
    Lie("frame: 512 KiB of zeros", HANDSHAKE, framed(512 * 1024, bytes(512 * 1024)), ALWAYS),
    Lie("frame: an answer in HTTP", HANDSHAKE, raw(b"HTTP/1.1 400 Bad Request\r\n\r\n"), ALWAYS, "HTTP"),
    Lie("frame: a request in HTTP", HANDSHAKE, raw(b"GET / HTTP/1.1\r\n\r\n"), ALWAYS, "HTTP"),
    Lie("frame: a TLS alert", HANDSHAKE, raw(b"\x15\x03\x03\0\2\2\x28"), ALWAYS, "TLS"),
    Lie("frame: a TLS server hello", HANDSHAKE, raw(b"\x16\x03\x03\0\x40" + bytes(64)), ALWAYS, "TLS"),
    Lie("frame: a greeting in SSH", HANDSHAKE, raw(b"SSH-2.0-OpenSSH_9.6\r\n"), ALWAYS, "SSH"),
    Lie("frame: bytes of anything", HANDSHAKE, raw(bytes(range(255, 0, -1))), ALWAYS),
    Lie("frame: the correlation id of another", HANDSHAKE, wrong_id(1), ALWAYS, "correlation id"),
    Lie("frame: a negative correlation id", HANDSHAKE, wrong_id(-(2**31)), ALWAYS, "correlation id"),
    Lie("frame: two answers to one question", HANDSHAKE, twice, ALWAYS, "instead of 1 .Produce."),
    Lie("frame: half an answer, then the end", HANDSHAKE, stopping_in_the_middle, ALWAYS),
    Lie("frame: a byte a second", HANDSHAKE, drop_by_drop, ALWAYS),
    Lie("frame: silence", HANDSHAKE, saying(Silence), ALWAYS),
    Lie("frame: the end in place of an answer", HANDSHAKE, saying(End), ALWAYS),
    Lie("frame: a reset in place of an answer", HANDSHAKE, saying(Reset), ALWAYS),
]

VERSIONS = [
    Lie("versions: none of any API", HANDSHAKE, setting(("api_keys", [])), KafkaError, "does not support"),
    Lie("versions: no Produce", HANDSHAKE, without(0), UnsupportedVersion, "Produce", for_good=True),
    Lie("versions: no Metadata", HANDSHAKE, without(3), ALWAYS, "does not support Metadata"),
    Lie("versions: no ApiVersions", HANDSHAKE, without(18)),
    Lie("versions: ranges that end before they begin", HANDSHAKE, ranges(9, 1), KafkaError, for_good=True),
    Lie("versions: negative ranges", HANDSHAKE, ranges(-9, -1), KafkaError, "versions -9 to -1"),
    Lie("versions: ranges from the future", HANDSHAKE, ranges(32_767, 32_767), KafkaError, "32767"),
    Lie("versions: ranges of everything", HANDSHAKE, ranges(-32_768, 32_767)),
    Lie(
        "versions: a Produce of the future",
        HANDSHAKE,
        ranges(99, 99, only=0),
        UnsupportedVersion,
        "an older broker",
        for_good=True,
    ),
    Lie("versions: a Produce of the past", HANDSHAKE, ranges(0, 0, only=0), KafkaError, for_good=True),
    Lie("versions: 29,900 unknown APIs", HANDSHAKE, changing(many_keys)),
    Lie(
        "versions: each API twice, in odd ranges",
        HANDSHAKE,
        changing(each_key_twice),
        KafkaError,
        for_good=True,
    ),
    Lie("versions: features of odd levels", HANDSHAKE, changing(features)),
    Lie("versions: an unknown error", HANDSHAKE, setting(("error_code", 12_345)), ALWAYS, "12345"),
    Lie("versions: refused for ever, without a word", HANDSHAKE, refusing(None), ALWAYS),
    Lie("versions: refused for ever, offering what was refused", HANDSHAKE, refusing(4), ALWAYS),
    Lie("versions: refused for ever, offering version -5", HANDSHAKE, refusing(-5), ALWAYS),
    Lie("versions: refused for ever, offering version 32,767", HANDSHAKE, refusing(32_767), ALWAYS),
    Lie(
        "versions: 24 days of throttling",
        HANDSHAKE,
        setting(("throttle_time_ms", 2**31 - 1)),
        ALWAYS,
        for_good=True,
    ),
    Lie(
        "versions: an answer cut short",
        HANDSHAKE,
        body_of(lambda data: data[:-9]),
        ALWAYS,
        "ApiVersionsResponse",
    ),
    Lie(
        "versions: an answer that goes on after its end",
        HANDSHAKE,
        body_of(lambda data: data + b"\0"),
        ALWAYS,
    ),
    Lie(
        "versions: 2**31 - 2 APIs in seven bytes",
        HANDSHAKE,
        body(b"\0\0\xff\xff\xff\xff\x07"),
        ALWAYS,
        "announced",
    ),
    Lie("versions: 100 tagged fields that are not there", HANDSHAKE, body(b"\0\0\1\0\0\0\0\x64"), ALWAYS),
    Lie(
        "versions: a tagged field of 4 GiB",
        HANDSHAKE,
        body(b"\0\0\1\0\0\0\0\1\x09\xff\xff\xff\xff\x0f"),
        ALWAYS,
    ),
]

LIES = [*FRAMES, *VERSIONS]


@pytest.mark.parametrize("lie", rest_in_gate(LIES), ids=str)
def test_a_handshake_that_is_none_costs_one_connection(simulation: Simulation, lie: Lie) -> None:
    world = World(simulation)
    producer = world.producer(socket_connection_setup_timeout_ms=2_000)
    with world.lied_to(lie):
        bad = producer.send("orders", b"bad", partition=0)
        ending(lambda: producer.send("orders", b"good", partition=1).result(8))
        good = producer.send("orders", b"good", partition=1)
        error = ending(lambda: bad.result(8))
        good.result(1)
    check(lie, [error])
    if lie.for_good:
        producer.close(5)
        producer = world.producer()
    for partition in (0, 1):
        producer.send("orders", b"after", partition=partition).result(20)
    producer.close(5)


@pytest.mark.parametrize("greeting", [b"\0\0\0\5hello", b"\xff\xff\xff\xff", b"HTTP/1.1 200", b"\0"])
def test_peer_that_sends_before_the_first_request_is_not_used(
    simulation: Simulation, greeting: bytes
) -> None:
    world = World(simulation)
    world.liar.greets_with = greeting
    producer = world.producer(socket_connection_setup_timeout_ms=2_000)
    bad = producer.send("orders", b"bad", partition=0)
    producer.send("orders", b"good", partition=1).result(5)
    assert isinstance(ending(lambda: bad.result(8)), DeliveryTimeout)
    world.liar.be_honest()
    producer.send("orders", b"after", partition=0).result(20)
    producer.close(5)
