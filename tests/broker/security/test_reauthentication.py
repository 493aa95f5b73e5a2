"""Raw tokens; sessions, their end and their renewal."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka2.errors import IllegalSaslState, UnsupportedSaslMechanism
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from pykafka2.testing import KafkaCluster
from tests.broker.support.raw_client import RawClient
from tests.broker.support.sasl import (
    BEFORE,
    FAILED,
    USERS,
    address_of,
    authenticate,
    final_message,
    log_in,
    plain_token,
    processed,
    raw_frame,
    request_bytes,
)


def test_raw_token_after_handshake_version_0_succeeds(wire: RawClient) -> None:
    assert wire.call(SaslHandshakeRequest(mechanism="PLAIN"), 0).error_code == 0
    wire.socket.sendall(raw_frame(plain_token("ann")))
    assert wire.receive_frame() == b""
    assert wire.call(MetadataRequest(topics=[]), 12).brokers


def test_scram_with_raw_tokens_succeeds(wire: RawClient) -> None:
    wire.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 0)
    wire.socket.sendall(raw_frame(b"n,,n=ann,r=abc"))
    challenge = wire.receive_frame()
    final = final_message(challenge, "n=ann,r=abc", password=USERS["ann"])
    wire.socket.sendall(raw_frame(final))
    assert wire.receive_frame().startswith(b"v=")
    assert wire.call(MetadataRequest(topics=[]), 12).brokers


@pytest.mark.parametrize(
    "token",
    [b"", b"\0ann\0wrong", b"\xff" * 100, request_bytes(MetadataRequest(topics=[]), 12)[4:]],
    ids=["empty", "wrong", "nonsense", "a request"],
)
def test_wrong_raw_token_closes_the_connection_without_a_response(
    cluster: KafkaCluster, wire: RawClient, user: RawClient, token: bytes
) -> None:
    wire.call(SaslHandshakeRequest(mechanism="PLAIN"), 0)
    wire.socket.sendall(raw_frame(token))
    assert wire.is_closed_by_broker()
    assert processed(cluster) <= set(BEFORE)


# ---------------------------------------------------------------------- after authentication


def test_second_handshake_is_an_illegal_state(user: RawClient) -> None:
    assert user.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == IllegalSaslState.code


def test_second_token_is_an_illegal_state(cluster: KafkaCluster, user: RawClient) -> None:
    response = authenticate(user, plain_token("bob"))
    assert response.error_code == IllegalSaslState.code
    assert {one.principal for one in cluster.connections("well-behaved")} == {"User:ann"}


@pytest.fixture
def renewing(cluster: KafkaCluster) -> Iterator[RawClient]:
    """An authenticated connection whose session expires and can be renewed."""
    with RawClient(address_of(cluster, "SHORT")) as wire:
        assert log_in(wire).session_lifetime_ms == 600_000
        yield wire


def test_session_is_renewed_on_its_connection(renewing: RawClient) -> None:
    assert log_in(renewing).session_lifetime_ms == 600_000
    assert renewing.call(MetadataRequest(topics=[]), 12).brokers


def test_second_renewal_within_a_second_is_an_illegal_state(renewing: RawClient) -> None:
    log_in(renewing)
    assert renewing.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == IllegalSaslState.code
    assert renewing.call(MetadataRequest(topics=[]), 12).brokers


def test_renewal_as_another_principal_closes_the_connection(renewing: RawClient) -> None:
    renewing.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    response = authenticate(renewing, plain_token("bob"))
    assert response.error_code == FAILED
    assert "Cannot change principals" in (response.error_message or "")
    assert renewing.is_closed_by_broker()


def test_renewal_by_another_mechanism_closes_the_connection(renewing: RawClient) -> None:
    assert renewing.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1).error_code == 0
    renewing.send(SaslAuthenticateRequest(auth_bytes=b"n,,n=ann,r=abc"), 2)
    assert renewing.is_closed_by_broker()


def test_request_between_handshake_and_token_of_a_renewal_closes_the_connection(renewing: RawClient) -> None:
    renewing.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    renewing.send(MetadataRequest(topics=[]), 12)
    assert renewing.is_closed_by_broker()


def test_request_after_the_session_end_closes_the_connection(
    cluster: KafkaCluster, renewing: RawClient
) -> None:
    assert cluster.controls.expire_sessions("bob") == 0
    assert cluster.controls.expire_sessions("ann") >= 1
    cluster.forget()
    renewing.send(MetadataRequest(topics=[]), 12)
    assert renewing.is_closed_by_broker()
    assert processed(cluster) == set()


def test_deleted_user_keeps_its_session_and_cannot_log_in(cluster: KafkaCluster) -> None:
    cluster.controls.add_user("carl", "carl-secret")
    with RawClient(address_of(cluster, "SASL_PLAINTEXT")) as wire:
        assert log_in(wire, "carl", password="carl-secret").error_code == 0
        cluster.controls.remove_user("carl")
        assert wire.call(MetadataRequest(topics=[]), 12).brokers
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        with RawClient(address_of(cluster, "SASL_PLAINTEXT")) as wire:
            assert log_in(wire, "carl", mechanism, password="carl-secret").error_code == FAILED


def test_changed_password_replaces_the_old_one(cluster: KafkaCluster) -> None:
    cluster.controls.add_user("dora", "first")
    cluster.controls.add_user("dora", "second")
    for mechanism in ("PLAIN", "SCRAM-SHA-512"):
        for password, code in (("first", FAILED), ("second", 0)):
            with RawClient(address_of(cluster, "SASL_PLAINTEXT")) as wire:
                assert log_in(wire, "dora", mechanism, password=password).error_code == code


def test_refused_mechanism_is_not_offered_until_it_is_allowed(cluster: KafkaCluster) -> None:
    cluster.controls.refuse_mechanism("PLAIN")
    with RawClient(address_of(cluster, "ONE")) as wire:
        response = wire.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert (response.error_code, response.mechanisms) == (UnsupportedSaslMechanism.code, [])
    cluster.controls.allow_mechanism()
    with RawClient(address_of(cluster, "ONE")) as wire:
        assert log_in(wire).error_code == 0
