"""A broker that cannot prove itself, or requests what no client should send: refused at once, by name."""

from __future__ import annotations

import base64
from typing import Any

import attrs
import pytest

from pykafka2 import KafkaProducer
from pykafka2.errors import (
    DeliveryTimeout,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanism,
    UnsupportedVersion,
)
from pykafka2.testing import Simulation
from tests.gate import rest_in_gate
from tests.hostile_brokers.liar import Bytes, End, Question, Several, Silence
from tests.hostile_brokers.lies import Lie, body, changing, saying, setting
from tests.hostile_brokers.worlds import World, check, ending

pytestmark = pytest.mark.slow

PASSWORD = "secret-of-ann"
MECHANISM, TOKEN = "SaslHandshake", "SaslAuthenticate"
REFUSED = SaslAuthenticationFailed


def first(change: Any) -> Any:
    """The server's first message, as text with the client's nonce in it, changed."""

    def edit(answer: Any) -> None:
        text = bytes(answer.auth_bytes).decode()
        if text.startswith("r="):
            challenge = change(dict(part.split("=", 1) for part in text.split(",")))
            answer.auth_bytes = challenge if isinstance(challenge, bytes) else challenge.encode()

    return changing(edit)


def challenge(text: str, **more: str) -> Any:
    """The first message with other fields in this pattern."""
    return first(lambda fields: text.format(**{**fields, **more}))


def final(data: bytes) -> Any:
    """The server's last message is this."""

    def edit(answer: Any) -> None:
        if bytes(answer.auth_bytes).startswith(b"v="):
            answer.auth_bytes = data

    return changing(edit)


def ours(fields: dict[str, str]) -> str:
    """The part of the nonce that the client chose."""
    return fields["r"][:32]


def without_versions(key: int) -> Any:
    def edit(answer: Any) -> None:
        answer.api_keys = [one for one in answer.api_keys if one.api_key != key]

    return changing(edit)


def with_versions(key: int, low: int, high: int) -> Any:
    def edit(answer: Any) -> None:
        for one in answer.api_keys:
            if one.api_key == key:
                one.min_version, one.max_version = low, high

    return changing(edit)


def error(code: int, message: str | None = None) -> Any:
    return setting(("error_code", code), ("error_message", message), ("auth_bytes", b""))


def twice(question: Question, honest: Any) -> Any:
    return Several([honest, honest])


def drop_by_drop(question: Question, honest: Any) -> Any:
    return Bytes(question.encoded(honest), seconds_apart=1.0)


SIGNED = "v=" + base64.b64encode(bytes(32)).decode()

LIES = [
    Lie(
        "sasl: another mechanism only",
        MECHANISM,
        setting(("error_code", 33), ("mechanisms", ["PLAIN"])),
        UnsupportedSaslMechanism,
        "offers PLAIN",
    ),
    Lie(
        "sasl: no mechanism",
        MECHANISM,
        setting(("error_code", 33), ("mechanisms", [])),
        UnsupportedSaslMechanism,
        "offers none",
    ),
    Lie(
        "sasl: 10,000 mechanisms with newlines",
        MECHANISM,
        setting(("error_code", 33), ("mechanisms", ["A\nB\x1b[31m"] * 10_000)),
        UnsupportedSaslMechanism,
    ),
    Lie(
        "sasl: an unknown mechanism error",
        MECHANISM,
        setting(("error_code", 12_345)),
        KafkaError,
        "12345",
    ),
    Lie("sasl: the mechanism is fine, and not in the list", MECHANISM, setting(("mechanisms", []))),
    Lie("sasl: no SaslHandshake", "ApiVersions", without_versions(17), UnsupportedVersion, "SaslHandshake"),
    Lie(
        "sasl: bare tokens only", "ApiVersions", with_versions(17, 0, 0), UnsupportedVersion, "SaslHandshake"
    ),
    Lie(
        "sasl: no SaslAuthenticate",
        "ApiVersions",
        without_versions(36),
        UnsupportedVersion,
        "SaslAuthenticate",
    ),
    Lie(
        "sasl: a mechanism's answer cut short",
        MECHANISM,
        body(b"\0"),
        DeliveryTimeout,
        "SaslHandshakeResponse",
    ),
    Lie(
        "sasl: 2**31 - 1 mechanisms in six bytes",
        MECHANISM,
        body(b"\0\0\x7f\xff\xff\xff"),
        DeliveryTimeout,
        "announced",
    ),
    Lie("sasl: silence after the mechanism", MECHANISM, saying(Silence), DeliveryTimeout),
    Lie("sasl: the end after the mechanism", MECHANISM, saying(End), DeliveryTimeout),
    Lie("sasl: refused without a word", TOKEN, error(58), REFUSED, "no reason given"),
    Lie(
        "sasl: refused in 30,000 characters with newlines",
        TOKEN,
        error(58, "\nERROR \x1b[31m" * 2_500),
        REFUSED,
    ),
    Lie("sasl: refused with an unknown error", TOKEN, error(12_345), KafkaError, "12345"),
    Lie("sasl: an illegal state", TOKEN, error(34), KafkaError),
    Lie("sasl: silence after the token", TOKEN, saying(Silence), DeliveryTimeout),
    Lie("sasl: a byte a second", TOKEN, drop_by_drop, DeliveryTimeout),
    Lie("sasl: two answers to one token", TOKEN, twice, KafkaError),
    Lie(
        "sasl: an answer of bytes that go on after their end",
        TOKEN,
        body(b"\0\0\xff\xff\xff\xff\x07"),
        DeliveryTimeout,
    ),
    Lie("scram: an empty first message", TOKEN, first(lambda fields: ""), REFUSED, "is malformed"),
    Lie(
        "scram: the nonce is ours alone",
        TOKEN,
        first(lambda fields: f"r={ours(fields)},s={fields['s']},i=4096"),
        REFUSED,
        "nonce",
    ),
    Lie("scram: the nonce is another's", TOKEN, challenge("r=another,s={s},i=4096"), REFUSED, "nonce"),
    Lie(
        "scram: the nonce is cut",
        TOKEN,
        first(lambda fields: f"r={ours(fields)[:-1]}x,s={fields['s']},i=4096"),
        REFUSED,
        "nonce",
    ),
    Lie("scram: no nonce", TOKEN, challenge("s={s},i=4096"), REFUSED, "is malformed"),
    Lie(
        "scram: a nonce with odd characters",
        TOKEN,
        challenge("r={r}\x7f\n,s={s},i=4096"),
        REFUSED,
        "characters",
    ),
    Lie("scram: 4,095 iterations", TOKEN, challenge("r={r},s={s},i=4095"), REFUSED, "4095"),
    Lie("scram: one iteration", TOKEN, challenge("r={r},s={s},i=1"), REFUSED, "4096 to 1000000"),
    Lie("scram: 0 iterations", TOKEN, challenge("r={r},s={s},i=0"), REFUSED, "4096 to 1000000"),
    Lie("scram: -4,096 iterations", TOKEN, challenge("r={r},s={s},i=-4096"), REFUSED, "4096 to 1000000"),
    Lie("scram: 1,000,001 iterations", TOKEN, challenge("r={r},s={s},i=1000001"), REFUSED, "1000001"),
    Lie("scram: 2**31 - 1 iterations", TOKEN, challenge("r={r},s={s},i=2147483647"), REFUSED, "2147483647"),
    Lie(
        "scram: iterations of 3,000 digits",
        TOKEN,
        first(lambda f: f"r={f['r']},s={f['s']},i={'9' * 3_000}"),
        REFUSED,
        "iterations",
    ),
    Lie("scram: iterations in other digits", TOKEN, challenge("r={r},s={s},i=٤٠٩٦"), REFUSED, "iterations"),
    Lie("scram: no iterations", TOKEN, challenge("r={r},s={s}"), REFUSED, "is malformed"),
    Lie("scram: an empty salt", TOKEN, challenge("r={r},s=,i=4096"), REFUSED, "salt"),
    Lie("scram: a salt that is no base64", TOKEN, challenge("r={r},s=%%%,i=4096"), REFUSED, "salt"),
    Lie("scram: another salt", TOKEN, challenge("r={r},s=QUJDRA==,i=4096"), REFUSED),
    Lie("scram: an unknown extension", TOKEN, challenge("m=1,r={r},s={s},i=4096"), REFUSED, "extension"),
    Lie("scram: fields in another order", TOKEN, challenge("s={s},r={r},i=4096"), REFUSED, "is malformed"),
    Lie(
        "scram: a first message of 4,097 bytes",
        TOKEN,
        first(lambda f: f"r={f['r']},s={f['s']},i=4096,x=".ljust(4_097, "x")),
        REFUSED,
        "4097 bytes",
    ),
    Lie(
        "scram: a first message of 400 KiB",
        TOKEN,
        first(lambda f: f"r={f['r']}" + "x" * 400_000),
        REFUSED,
        "bytes",
    ),
    Lie(
        "scram: a first message that is no text",
        TOKEN,
        first(lambda fields: b"\xff\xfe\0"),
        REFUSED,
        "not UTF-8",
    ),
    Lie("scram: a signature of zeros", TOKEN, final(SIGNED.encode()), REFUSED, "does not have the password"),
    Lie("scram: an empty signature", TOKEN, final(b"v="), REFUSED, "signature"),
    Lie("scram: a signature that is no base64", TOKEN, final(b"v=%"), REFUSED, "signature"),
    Lie("scram: an empty last message", TOKEN, final(b""), REFUSED, "is malformed"),
    Lie("scram: success without proof", TOKEN, final(b"ok"), REFUSED, "is malformed"),
    Lie("scram: an error of 4,000 characters", TOKEN, final(b"e=" + b"\nx" * 2_000), REFUSED),
    Lie("scram: the proof comes first", TOKEN, first(lambda fields: SIGNED), REFUSED, "is malformed"),
    Lie("session: a lifetime of 1 ms", TOKEN, setting(("session_lifetime_ms", 1))),
    Lie("session: a lifetime of 2**63 - 1 ms", TOKEN, setting(("session_lifetime_ms", 2**63 - 1))),
    Lie("session: a negative lifetime", TOKEN, setting(("session_lifetime_ms", -5))),
]


AT_ONCE = (SaslAuthenticationFailed, UnsupportedSaslMechanism, UnsupportedVersion)
"""Only another configuration helps, so no call waits for delivery_timeout_ms if all brokers respond so."""


def a_producer(world: World) -> KafkaProducer:
    return world.producer(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-256",
        sasl_username="ann",
        sasl_password=PASSWORD,
        socket_connection_setup_timeout_ms=2_000,
    )


@pytest.mark.parametrize("lie", rest_in_gate(LIES), ids=str)
def test_a_broker_that_does_not_authenticate_as_it_must_is_not_used(simulation: Simulation, lie: Lie) -> None:
    world = World(simulation, listeners=["SASL_PLAINTEXT"], users={"ann": PASSWORD})
    producer = a_producer(world)
    with world.lied_to(lie):
        bad = producer.send("orders", b"bad", partition=0)
        outcome = ending(lambda: bad.result(8))
        producer.send("orders", b"good", partition=1).result(5)
    assert outcome is None or PASSWORD not in repr(outcome)
    # Another broker may be at this address before the time of the record is over.
    check(lie if lie.raises is None else attrs.evolve(lie, raises=DeliveryTimeout), [outcome])
    for partition in (0, 1):
        producer.send("orders", b"after", partition=partition).result(20)
    producer.close(5)


@pytest.mark.gate
@pytest.mark.parametrize("lie", [lie for lie in LIES if lie.raises in AT_ONCE], ids=str)
def test_failed_authentication_at_every_broker_is_raised_at_once(simulation: Simulation, lie: Lie) -> None:
    world = World(simulation, everywhere=True, listeners=["SASL_PLAINTEXT"], users={"ann": PASSWORD})
    producer = a_producer(world)
    with world.lied_to(lie):
        outcome = ending(lambda: producer.send("orders", b"bad", partition=0).result(8))
        assert simulation.now < 2
    assert PASSWORD not in repr(outcome)
    check(lie, [outcome])
    producer.send("orders", b"after", partition=0).result(20)
    producer.close(5)
