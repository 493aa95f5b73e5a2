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


def wrong_password(wire: RawClient) -> None:
    assert log_in(wire, password="wrong").error_code == FAILED


def unknown_user(wire: RawClient) -> None:
    assert log_in(wire, "eve", password="wrong").error_code == FAILED


def empty_password(wire: RawClient) -> None:
    wire.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert authenticate(wire, b"\0ann\0").error_code == FAILED


def authorization_id_of_another_user(wire: RawClient) -> None:
    wire.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert authenticate(wire, b"bob" + plain_token("ann")).error_code == FAILED


def empty_token(wire: RawClient) -> None:
    wire.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert authenticate(wire, b"").error_code == FAILED


def plain_token_of_half_a_mebibyte(wire: RawClient) -> None:
    wire.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert authenticate(wire, b"\0ann\0" + b"x" * (LIMIT - 100)).error_code == FAILED


def scram_message_of_half_a_mebibyte(wire: RawClient) -> None:
    wire.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
    assert authenticate(wire, b"n,,n=ann,r=" + b"x" * (LIMIT - 100)).error_code == FAILED


def unknown_mechanism(wire: RawClient) -> None:
    response = wire.call(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
    assert response.error_code == UnsupportedSaslMechanism.code
    assert response.mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]


def mechanism_in_lower_case(wire: RawClient) -> None:
    response = wire.call(SaslHandshakeRequest(mechanism="plain"), 1)
    assert response.error_code == UnsupportedSaslMechanism.code


def mechanism_with_escape_sequences(wire: RawClient) -> None:
    response = wire.call(SaslHandshakeRequest(mechanism="\x1b[31mPLAIN\n../../"), 1)
    assert response.error_code == UnsupportedSaslMechanism.code


def mechanism_of_32_767_characters(wire: RawClient) -> None:
    response = wire.call(SaslHandshakeRequest(mechanism="P" * 32_767), 1)
    assert response.error_code == UnsupportedSaslMechanism.code


def unknown_scram_user(wire: RawClient) -> None:
    assert log_in(wire, "eve", "SCRAM-SHA-256", password="x").error_code == FAILED


def wrong_scram_password(wire: RawClient) -> None:
    assert log_in(wire, "ann", "SCRAM-SHA-512", password="wrong").error_code == FAILED


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


def authorization_id_of_40_000_characters(wire: RawClient) -> None:
    """The error message quotes it, and no message has strings of that length."""
    assert send_oauth_token(wire, "eve", "x" * 40_000).error_code == FAILED


def authorization_id_of_80_000_bytes(wire: RawClient) -> None:
    assert send_oauth_token(wire, "eve", "\U0001f600" * 20_000).error_code == FAILED


def oauth_subject_of_40_000_characters(wire: RawClient) -> None:
    assert bytes(send_oauth_token(wire, "x" * 40_000).auth_bytes) == b'{"status":"invalid_token"}'
    assert authenticate(wire, b"\x01").error_code == FAILED


def oauth_subject_with_a_lone_surrogate(wire: RawClient) -> None:
    """JSON can encode it, UTF-8 cannot."""
    assert bytes(send_oauth_token(wire, "\ud800").auth_bytes) == b'{"status":"invalid_token"}'
    assert authenticate(wire, b"\x01").error_code == FAILED


def oauth_subject_with_escape_sequences(wire: RawClient) -> None:
    """The response quotes it as it is; the event log has it in printable form."""
    assert send_oauth_token(wire, "\x1b[31m\neve", "x").error_code == FAILED


EXCHANGES = (
    wrong_password,
    unknown_user,
    empty_password,
    authorization_id_of_another_user,
    empty_token,
    plain_token_of_half_a_mebibyte,
    scram_message_of_half_a_mebibyte,
    unknown_mechanism,
    mechanism_in_lower_case,
    mechanism_with_escape_sequences,
    mechanism_of_32_767_characters,
    unknown_scram_user,
    wrong_scram_password,
    scram_proof_of_another_exchange,
    oauth_token_with_an_unknown_signature,
    second_oauth_token_after_a_rejected_one,
    authorization_id_of_40_000_characters,
    authorization_id_of_80_000_bytes,
    oauth_subject_of_40_000_characters,
    oauth_subject_with_a_lone_surrogate,
    oauth_subject_with_escape_sequences,
)


@pytest.mark.parametrize("attack", EXCHANGES, ids=lambda attack: attack.__name__)
def test_failed_login_is_reported_and_closes_the_connection(
    cluster: KafkaCluster, wire: RawClient, user: RawClient, attack: Callable[[RawClient], None]
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
