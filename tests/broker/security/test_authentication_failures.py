"""Those who fail to authenticate, by name: each is told so, and loses its connection."""

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

from .exchanges import final_message
from .wires import (
    BEFORE,
    FAILED,
    LIMIT,
    USERS,
    address_of,
    authenticate,
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


def in_anothers_name(wire: RawClient) -> None:
    wire.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert authenticate(wire, b"bob" + plain_token("ann")).error_code == FAILED


def an_empty_token(wire: RawClient) -> None:
    wire.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert authenticate(wire, b"").error_code == FAILED


def a_token_of_half_a_mebibyte(wire: RawClient) -> None:
    wire.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert authenticate(wire, b"\0ann\0" + b"x" * (LIMIT - 100)).error_code == FAILED


def a_scram_message_of_half_a_mebibyte(wire: RawClient) -> None:
    wire.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
    assert authenticate(wire, b"n,,n=ann,r=" + b"x" * (LIMIT - 100)).error_code == FAILED


def a_mechanism_that_there_is_not(wire: RawClient) -> None:
    answer = wire.call(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
    assert answer.error_code == UnsupportedSaslMechanism.code
    assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]


def a_mechanism_in_small_letters(wire: RawClient) -> None:
    answer = wire.call(SaslHandshakeRequest(mechanism="plain"), 1)
    assert answer.error_code == UnsupportedSaslMechanism.code


def a_mechanism_with_escapes(wire: RawClient) -> None:
    answer = wire.call(SaslHandshakeRequest(mechanism="\x1b[31mPLAIN\n../../"), 1)
    assert answer.error_code == UnsupportedSaslMechanism.code


def a_mechanism_of_32_767_characters(wire: RawClient) -> None:
    answer = wire.call(SaslHandshakeRequest(mechanism="P" * 32_767), 1)
    assert answer.error_code == UnsupportedSaslMechanism.code


def a_scram_user_that_there_is_not(wire: RawClient) -> None:
    assert log_in(wire, "eve", "SCRAM-SHA-256", password="x").error_code == FAILED


def a_wrong_scram_password(wire: RawClient) -> None:
    assert log_in(wire, "ann", "SCRAM-SHA-512", password="wrong").error_code == FAILED


def scram_final(wire: RawClient, nonce: Callable[[str], str]) -> None:
    wire.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
    challenge = bytes(authenticate(wire, b"n,,n=ann,r=abc").auth_bytes)
    real = challenge.decode().split(",")[0][2:]
    final = final_message(challenge, "n=ann,r=abc", password=USERS["ann"], nonce=nonce(real))
    assert authenticate(wire, final).error_code == FAILED


def a_scram_nonce_of_its_own(wire: RawClient) -> None:
    scram_final(wire, lambda real: "abc")


def a_scram_nonce_that_ends_like_ours(wire: RawClient) -> None:
    scram_final(wire, lambda real: "x" + real)


def a_scram_proof_of_another_exchange(wire: RawClient) -> None:
    """What was heard on one connection is worth nothing on the next."""
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


def a_downgrade_between_the_scrams(wire: RawClient) -> None:
    """The proof for one hash where the other was chosen."""
    wire.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-512"), 1)
    challenge = bytes(authenticate(wire, b"n,,n=ann,r=abc").auth_bytes)
    final = final_message(challenge, "n=ann,r=abc", password=USERS["ann"], algorithm="sha256")
    assert authenticate(wire, final).error_code == FAILED


def a_client_that_could_bind_channels(wire: RawClient) -> None:
    wire.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
    assert authenticate(wire, b"p=tls-unique,,n=ann,r=abc").error_code == FAILED


def a_delegation_token_of_nobody(wire: RawClient) -> None:
    wire.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
    assert authenticate(wire, b"n,,n=ann,r=abc,tokenauth=true").error_code == FAILED


def a_token_that_was_signed_by_nobody_we_know(wire: RawClient) -> None:
    wire.call(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
    answer = authenticate(wire, b"n,,\x01auth=Bearer e30.e30.c2ln\x01\x01")
    assert (answer.error_code, bytes(answer.auth_bytes)) == (0, b'{"status":"invalid_token"}')
    assert authenticate(wire, b"\x01").error_code == FAILED


def no_word_about_a_refused_token(wire: RawClient) -> None:
    wire.call(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
    authenticate(wire, b"n,,\x01auth=Bearer e30.e30.c2ln\x01\x01")
    assert authenticate(wire, b"n,,\x01auth=Bearer e30.e30.\x01\x01").error_code == FAILED


def with_a_token(wire: RawClient, user: str, on_behalf_of: str = "") -> SaslAuthenticateResponse:
    """One that nobody signed, as the cluster takes them."""
    wire.call(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
    name = f"a={on_behalf_of}" if on_behalf_of else ""
    token = make_token(user, time.time() - 1.0)
    return authenticate(wire, f"n,{name},\x01auth=Bearer {token}\x01\x01".encode(), 1)


def a_token_in_a_name_of_40_000_characters(wire: RawClient) -> None:
    """What the client is told quotes it, and no message has strings of that length."""
    assert with_a_token(wire, "eve", "x" * 40_000).error_code == FAILED


def a_token_in_a_name_of_many_bytes(wire: RawClient) -> None:
    assert with_a_token(wire, "eve", "\U0001f600" * 20_000).error_code == FAILED


def a_token_of_a_name_of_40_000_characters(wire: RawClient) -> None:
    assert bytes(with_a_token(wire, "x" * 40_000).auth_bytes) == b'{"status":"invalid_token"}'
    assert authenticate(wire, b"\x01").error_code == FAILED


def a_token_of_half_a_character(wire: RawClient) -> None:
    """JSON can say it, UTF-8 cannot."""
    assert bytes(with_a_token(wire, "\ud800").auth_bytes) == b'{"status":"invalid_token"}'
    assert authenticate(wire, b"\x01").error_code == FAILED


def a_token_of_a_name_with_escapes(wire: RawClient) -> None:
    """The client is told its own words, the event log has them so that a terminal may show them."""
    assert with_a_token(wire, "\x1b[31m\neve", "x").error_code == FAILED


EXCHANGES = (
    wrong_password,
    unknown_user,
    empty_password,
    in_anothers_name,
    an_empty_token,
    a_token_of_half_a_mebibyte,
    a_scram_message_of_half_a_mebibyte,
    a_mechanism_that_there_is_not,
    a_mechanism_in_small_letters,
    a_mechanism_with_escapes,
    a_mechanism_of_32_767_characters,
    a_scram_user_that_there_is_not,
    a_wrong_scram_password,
    a_scram_nonce_of_its_own,
    a_scram_nonce_that_ends_like_ours,
    a_scram_proof_of_another_exchange,
    a_downgrade_between_the_scrams,
    a_client_that_could_bind_channels,
    a_delegation_token_of_nobody,
    a_token_that_was_signed_by_nobody_we_know,
    no_word_about_a_refused_token,
    a_token_in_a_name_of_40_000_characters,
    a_token_in_a_name_of_many_bytes,
    a_token_of_a_name_of_40_000_characters,
    a_token_of_half_a_character,
    a_token_of_a_name_with_escapes,
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
    answers = []
    for name in ("ann", "eve"):
        with RawClient(address_of(cluster, "SASL_PLAINTEXT")) as wire:
            answers.append(log_in(wire, name, password="wrong"))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_version_of_sasl_authenticate_succeeds(cluster: KafkaCluster, version: int) -> None:
    with RawClient(address_of(cluster, "SASL_PLAINTEXT")) as wire:
        wire.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert authenticate(wire, plain_token("ann"), version).error_code == 0
        assert wire.call(MetadataRequest(topics=[]), 12).brokers
