"""Targets of the fuzzer: each parser of bytes from the peer, and the errors it may raise for any of them.

A target makes frames from a seed and reads them.  Reading ends in a value, or in one of the errors that the
parser promises; anything else is a finding.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from random import Random
from typing import Any

import attrs

from pykafka2.consumer.assignors.wire_format import read_assignment, read_subscription
from pykafka2.consumer.fetch.fetched_data import FetchedData
from pykafka2.errors import (
    CorruptData,
    CorruptMessage,
    CorruptResponse,
    KafkaError,
    RecordTooLarge,
    SaslAuthenticationFailed,
    TlsError,
    UnsupportedCompressionType,
    UnsupportedVersion,
)
from pykafka2.network.frames import FrameReader
from pykafka2.network.in_flight import InFlight
from pykafka2.network.sasl import oauthbearer, scram_messages
from pykafka2.network.sasl.oauth_token import Token, TokenCache
from pykafka2.protocol.framing import decode_request, encode_request, encode_response
from pykafka2.protocol.registry import all_messages
from pykafka2.protocol.struct import Data, Message, Request
from pykafka2.records.batch import CRC_START, crc32c
from pykafka2.records.batch_reader import any_batches, decode_any_records, decode_any_tuples
from pykafka2.records.columns import GrowingColumns
from pykafka2.types import TopicPartition
from tests.fuzz import making

CORRELATION_ID = 77
FRAMES_A_BASE = 20
"""So many damaged frames are made of one whole one."""
MOST_DECOMPRESSED_BYTES = 1 << 20
DAMAGE = (CorruptData, CorruptMessage, UnsupportedCompressionType, RecordTooLarge)


@attrs.define(frozen=True)
class Made:
    """A frame and what its reader has to know of it: the message's class and version, say."""

    data: bytes
    about: Any = None


@attrs.define(frozen=True)
class Target:
    name: str
    make: Callable[[Random], Made]
    """A whole frame."""
    read: Callable[[Made], object]
    """Checks what it read, and raises `AssertionError` where that is wrong."""
    may_raise: tuple[type[KafkaError], ...]
    damage: Callable[[Random, bytes], bytes] = making.damaged

    def frame(self, seed: int | str, index: int) -> Made:
        """The index-th damaged frame of this seed."""
        whole = self.make(Random(f"{seed}/{self.name}/{index // FRAMES_A_BASE}"))
        random = Random(f"{seed}/{self.name}/{index}/damage")
        return attrs.evolve(whole, data=self.damage(random, whole.data))


@cache
def versions_of(kind: type[Message]) -> list[tuple[type[Any], int]]:
    """Every message of a kind with every version of it."""
    return [
        (cls, version)
        for cls in all_messages()
        if issubclass(cls, kind)
        for version in range(cls.MIN_VERSION, cls.LAST_VERSION + 1)
    ]


# ---------------------------------------------------------------------------------------- messages


def make_request(random: Random) -> Made:
    cls, version = random.choice(versions_of(Request))
    request = making.any_instance(random, cls, version)
    frame = b"".join(encode_request(request, version, CORRELATION_ID, random.choice((None, "", "fuzz"))))
    return Made(frame[4:], (cls.__name__, version))


def read_request(made: Made) -> None:
    header, request = decode_request(made.data)
    _reads_again(request, header.request_api_version)
    repr(header), repr(request)


def make_response(random: Random) -> Made:
    cls, version = random.choice(versions_of(Request))
    response = making.any_instance(random, cls.RESPONSE, version)
    frame = b"".join(encode_response(response, version, CORRELATION_ID))
    return Made(frame[4:], (cls, version))


def read_response(made: Made) -> None:
    cls, version = made.about
    request = cls.__new__(cls)
    waiting = InFlight(request, version, CORRELATION_ID, 0.0, 1.0, _nobody, _nobody)
    response = waiting.decode(made.data, "broker 1")
    if response.API_KEY != 18:  # which may be read in version 0
        _reads_again(response, version)
    repr(response)


def make_data(random: Random) -> Made:
    cls, version = random.choice(versions_of(Data))
    return Made(making.any_instance(random, cls, version).encode(version), (cls, version))


def read_data(made: Made) -> None:
    cls, version = made.about
    message = cls.decode(made.data, version, allow_trailing=True)
    _reads_again(message, version)


def make_member(random: Random) -> Made:
    """Messages between members of groups: a version, then the message."""
    cls, version = random.choice([one for one in versions_of(Data) if "ConsumerProtocol" in one[0].__name__])
    body: bytes = making.any_instance(random, cls, version).encode(version)
    reads = read_subscription if "Subscription" in cls.__name__ else read_assignment
    return Made(version.to_bytes(2, "big") + body, reads)


def _reads_again(message: Message, version: int) -> None:
    """A decoded message can be encoded like any other."""
    again = type(message).decode(message.encode(version), version)
    assert repr(again) == repr(message)


def _nobody(value: object, now: float) -> None:
    raise AssertionError("no caller waits")


# ---------------------------------------------------------------------------------------- records


def damage_records(random: Random, data: bytes) -> bytes:
    """Mostly the checksum and the length fit again, so that what is inside is read."""
    changed = bytearray(making.damaged(random, data, begin=random.choice((0, 21, 57, 61))))
    if random.random() < 0.8 and len(changed) > CRC_START:
        changed[8:12] = (len(changed) - 12).to_bytes(4, "big")
        if random.random() < 0.8:
            changed[16] = 2
        changed[17:21] = crc32c(bytes(changed[CRC_START:])).to_bytes(4, "big")
    return bytes(changed)


def read_records(made: Made) -> None:
    for batch in any_batches(made.data):
        for _ in decode_any_tuples(batch, "orders-0", max_output_bytes=MOST_DECOMPRESSED_BYTES):
            pass
        for _ in decode_any_records(batch, "orders", 0, 0, True, MOST_DECOMPRESSED_BYTES):
            pass


def read_fetched(made: Made) -> None:
    """Read as a consumer does, a few records at a time: rows, then columns."""
    for take in (_take_rows, _take_columns):
        for check_crcs in (True, False):
            data = FetchedData(TopicPartition("orders", 0), 0, 0, memoryview(made.data))
            try:
                _take_all(partial(take, data, check_crcs))
            except DAMAGE:
                data.damage(0, None)


def _take_rows(data: FetchedData, check_crcs: bool, position: int) -> int:
    return data.take(position, 5, [], check_crcs, MOST_DECOMPRESSED_BYTES)


def _take_columns(data: FetchedData, check_crcs: bool, position: int) -> int:
    return data.take_columns(position, 5, GrowingColumns(), check_crcs, MOST_DECOMPRESSED_BYTES)


def _take_all(take: Callable[[int], int]) -> None:
    position = 0
    while (following := take(position)) > position:
        position = following


# ---------------------------------------------------------------------------------------- handshakes, frames

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = f"r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
REFUSAL = b'{"status":"invalid_token","scope":"a","openid-configuration":"https://b"}'


def read_refusal(made: Made) -> None:
    """Nothing at all says that the token is welcome."""
    exchange = oauthbearer.OAuthBearer(_tokens()).exchange()
    next(exchange)
    exchange.send(Token("t", 1e12, {}))
    with suppress(StopIteration):
        assert exchange.send(made.data) == oauthbearer.GIVE_UP
        exchange.send(b"")


def _tokens() -> TokenCache:
    return TokenCache(lambda: Token("t", 1e12), lambda: 0.0, "fuzzer")


def make_stream(random: Random) -> Made:
    frames = [random.randbytes(random.choice((0, 1, 9, 300, 5_000, 70_000))) for _ in range(4)]
    return Made(
        b"".join(len(one).to_bytes(4, "big") + one for one in frames), random.choice((1_000, 100_000))
    )


def read_stream(made: Made) -> None:
    reader = FrameReader("broker 1", made.about)
    at = 0
    random = Random(len(made.data))
    while at < len(made.data):
        buffer = reader.buffer()
        count = min(len(buffer), len(made.data) - at, random.choice((1, 3, 4, 100, 1 << 20)))
        buffer[:count] = made.data[at : at + count]
        at += count
        assert all(len(one) <= made.about for one in reader.received(count))


def _constant(data: bytes) -> Callable[[Random], Made]:
    return lambda random: Made(data)


TARGETS = {
    one.name: one
    for one in (
        Target("requests", make_request, read_request, (CorruptData, UnsupportedVersion)),
        Target("responses", make_response, read_response, (CorruptResponse,)),
        Target("data", make_data, read_data, (CorruptData,)),
        Target("members", make_member, lambda made: made.about(made.data), (CorruptData,)),
        Target(
            "records", lambda random: Made(making.any_batches(random)), read_records, DAMAGE, damage_records
        ),
        Target(
            "fetched", lambda random: Made(making.any_batches(random)), read_fetched, DAMAGE, damage_records
        ),
        Target(
            "scram-first",
            _constant(SERVER_FIRST),
            lambda made: scram_messages.parse_server_first(made.data, NONCE),
            (SaslAuthenticationFailed,),
        ),
        Target(
            "scram-final",
            _constant(SERVER_FINAL),
            lambda made: scram_messages.verify_server_final(made.data, b"x" * 32),
            (SaslAuthenticationFailed,),
        ),
        Target("oauth-refusal", _constant(REFUSAL), read_refusal, (SaslAuthenticationFailed,)),
        Target("frames", make_stream, read_stream, (CorruptData, TlsError)),
    )
}
