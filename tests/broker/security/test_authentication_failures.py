"""Failed logins: each gets an error, and its connection is closed."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from pykafka2.broker.security.oauthbearer import make_token
from pykafka2.errors import UnsupportedSaslMechanism
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.messages.sasl import SaslAuthenticateResponse, SaslHandshakeRequest
from pykafka2.testing import KafkaCluster
from tests.broker.support.raw_client import RawClient
from tests.broker.support.sasl import (
    BEFORE,
    FAILED,
    LIMIT,
    USERS,
    address_of,
    authenticate,
    final_message,
    log_in,
    plain_token,
    processed,
)

Attack = Callable[[RawClient], None]


def log_in_as(user: str, password: str, mechanism: str = "PLAIN") -> Attack:
    def attack(wire: RawClient) -> None:
        assert log_in(wire, user, mechanism, password=password).error_code == FAILED

    return attack


def first_token(token: bytes, mechanism: str = "PLAIN") -> Attack:
    def attack(wire: RawClient) -> None:
        wire.call(SaslHandshakeRequest(mechanism=mechanism), 1)
        assert authenticate(wire, token).error_code == FAILED

    return attack


def handshake(mechanism: str) -> Attack:
    def attack(wire: RawClient) -> None:
        response = wire.call(SaslHandshakeRequest(mechanism=mechanism), 1)
        assert response.error_code == UnsupportedSaslMechanism.code
        assert response.mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]

    return attack


def scram_proof_of_another_exchange(wire: RawClient) -> None:
    """A proof from one connection is not valid on the next."""
    address = wire.socket.getpeername()
    with RawClient(f"{address[0]}:{address[1]}") as before:
        before.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
        challenge = bytes(authenticate(before, b"n,,n=ann,r=abc").auth_bytes)
        final = final_message(challenge, "n=ann,r=abc", password=USERS["ann"])
        assert authenticate(before, final).error_code == 0
    wire.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
    again = bytes(authenticate(wire, b"n,,n=ann,r=abc").auth_bytes)
    assert again != challenge
    assert authenticate(wire, final).error_code == FAILED


def oauth_token_with_an_unknown_signature(wire: RawClient) -> None:
    wire.call(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
    response = authenticate(wire, b"n,,\x01auth=Bearer e30.e30.c2ln\x01\x01")
    assert (response.error_code, bytes(response.auth_bytes)) == (0, b'{"status":"invalid_token"}')
    assert authenticate(wire, b"\x01").error_code == FAILED


def second_oauth_token_after_a_rejected_one(wire: RawClient) -> None:
    wire.call(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
    authenticate(wire, b"n,,\x01auth=Bearer e30.e30.c2ln\x01\x01")
    assert authenticate(wire, b"n,,\x01auth=Bearer e30.e30.\x01\x01").error_code == FAILED


def send_oauth_token(wire: RawClient, user: str, on_behalf_of: str = "") -> SaslAuthenticateResponse:
    """Send an unsigned token, which the cluster accepts."""
    wire.call(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
    name = f"a={on_behalf_of}" if on_behalf_of else ""
    token = make_token(user, time.time() - 1.0)
    return authenticate(wire, f"n,{name},\x01auth=Bearer {token}\x01\x01".encode(), 1)


def rejected_oauth_token(user: str, on_behalf_of: str) -> Attack:
    def attack(wire: RawClient) -> None:
        assert send_oauth_token(wire, user, on_behalf_of).error_code == FAILED

    return attack


def invalid_oauth_subject(user: str) -> Attack:
    def attack(wire: RawClient) -> None:
        assert bytes(send_oauth_token(wire, user).auth_bytes) == b'{"status":"invalid_token"}'
        assert authenticate(wire, b"\x01").error_code == FAILED

    return attack


EXCHANGES: dict[str, Attack] = {
    "a wrong password": log_in_as("ann", "wrong"),
    "an unknown user": log_in_as("eve", "wrong"),
    "an empty password": first_token(b"\0ann\0"),
    "an authorization id of another user": first_token(b"bob" + plain_token("ann")),
    "an empty token": first_token(b""),
    "a PLAIN token of half a MiB": first_token(b"\0ann\0" + b"x" * (LIMIT - 100)),
    "a SCRAM message of half a MiB": first_token(b"n,,n=ann,r=" + b"x" * (LIMIT - 100), "SCRAM-SHA-256"),
    "an unknown mechanism": handshake("GSSAPI"),
    "a mechanism in lower case": handshake("plain"),
    "a mechanism with escape sequences": handshake("\x1b[31mPLAIN\n../../"),
    "a mechanism of 32,767 characters": handshake("P" * 32_767),
    "an unknown SCRAM user": log_in_as("eve", "x", "SCRAM-SHA-256"),
    "a wrong SCRAM password": log_in_as("ann", "wrong", "SCRAM-SHA-512"),
    "a SCRAM proof of another exchange": scram_proof_of_another_exchange,
    "an OAuth token with an unknown signature": oauth_token_with_an_unknown_signature,
    "a second OAuth token after a rejected one": second_oauth_token_after_a_rejected_one,
    # The error message quotes it, and no message has strings of that length.
    "an authorization id of 40,000 characters": rejected_oauth_token("eve", "x" * 40_000),
    "an authorization id of 80,000 bytes": rejected_oauth_token("eve", "\U0001f600" * 20_000),
    "an OAuth subject of 40,000 characters": invalid_oauth_subject("x" * 40_000),
    # JSON can encode it, UTF-8 cannot.
    "an OAuth subject with a lone surrogate": invalid_oauth_subject("\ud800"),
    # The response quotes it as it is; the event log has it in printable form.
    "an OAuth subject with escape sequences": rejected_oauth_token("\x1b[31m\neve", "x"),
}


@pytest.mark.parametrize("attack", EXCHANGES.values(), ids=EXCHANGES)
def test_failed_login_is_reported_and_closes_the_connection(
    cluster: KafkaCluster, wire: RawClient, user: RawClient, attack: Attack
) -> None:
    attack(wire)
    assert wire.is_closed_by_broker()
    assert processed(cluster) <= set(BEFORE)
    (event,) = [one for one in cluster.events.events("refused") if "127.0.0.1" in str(one.facts["client"])]
    assert "wrong" not in event.text
    assert event.text.isprintable()


def test_unknown_user_gets_the_same_response_as_a_wrong_password(cluster: KafkaCluster) -> None:
    responses = []
    for name in ("ann", "eve"):
        with RawClient(address_of(cluster, "SASL_PLAINTEXT")) as wire:
            responses.append(log_in(wire, name, password="wrong"))
    assert responses[0] == responses[1]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_version_of_sasl_authenticate_succeeds(cluster: KafkaCluster, version: int) -> None:
    with RawClient(address_of(cluster, "SASL_PLAINTEXT")) as wire:
        wire.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert authenticate(wire, plain_token("ann"), version).error_code == 0
        assert wire.call(MetadataRequest(topics=[]), 12).brokers
