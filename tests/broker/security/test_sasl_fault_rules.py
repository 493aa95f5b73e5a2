"""Fault rules on SaslHandshake and SaslAuthenticate: as on other APIs, and none authenticates a client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pykafka2.errors import BrokerError, IllegalSaslState, NetworkException, UnsupportedSaslMechanism
from pykafka2.protocol.framing import encode_request
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from pykafka2.protocol.struct import Request
from pykafka2.testing import KafkaCluster
from tests.broker.support.raw_client import RawClient
from tests.broker.support.sasl import FAILED, authenticate, log_in, plain_token

PLAIN = SaslHandshakeRequest(mechanism="PLAIN")
TOKEN = SaslAuthenticateRequest(auth_bytes=plain_token("ann"))
EVIL: Any = {"client_id": "wire"}  # the rules do not apply to other clients


def step(wire: RawClient, api: str) -> None:
    """Send the request of this API, after the handshake if it is SaslAuthenticate."""
    if api == "SaslAuthenticate":
        assert wire.call(PLAIN, 1).error_code == 0
        wire.send(TOKEN, 2)
    else:
        wire.send(PLAIN, 1)


APIS = ("SaslHandshake", "SaslAuthenticate")


@pytest.fixture(autouse=True)
def no_rules_stay(cluster: KafkaCluster) -> Iterator[None]:
    yield
    cluster.controls.clear()


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("error", [UnsupportedSaslMechanism, IllegalSaslState, NetworkException])
def test_error_rule_fails_the_login_and_closes_the_connection(
    cluster: KafkaCluster, wire: RawClient, user: RawClient, api: str, error: type[BrokerError]
) -> None:
    cluster.controls.rule(then=error, api=api, nth=1, **EVIL)
    step(wire, api)
    request = SaslAuthenticateRequest if api == "SaslAuthenticate" else SaslHandshakeRequest
    assert wire.receive(request, 2 if api == "SaslAuthenticate" else 1)[1].error_code == error.code
    assert wire.is_closed_by_broker()
    wire.reopen()
    assert log_in(wire).error_code == 0


@pytest.mark.parametrize("api", APIS)
def test_requests_pipelined_behind_a_refused_login_are_never_processed(
    cluster: KafkaCluster, wire: RawClient, api: str
) -> None:
    cluster.controls.rule(then="error:UNKNOWN_SERVER_ERROR", api=api, nth=1, **EVIL)
    requests: list[tuple[Request[Any], int]] = [(TOKEN, 2), (MetadataRequest(topics=[]), 12)]
    if api == "SaslHandshake":
        requests.insert(0, (PLAIN, 1))
    else:
        assert wire.call(PLAIN, 1).error_code == 0
    frames = [b"".join(encode_request(request, version, 7, "wire")) for request, version in requests]
    wire.socket.sendall(b"".join(frames))
    wire.receive_frame()
    assert wire.is_closed_by_broker()
    assert "Metadata" not in {entry.api for entry in cluster.history if entry.client_id == "wire"}


@pytest.mark.parametrize("then", ["close_before", "apply_then_lose_reply", "half_frame", "close_after"])
@pytest.mark.parametrize("api", APIS)
def test_connection_broken_during_login_does_not_authenticate(
    cluster: KafkaCluster, wire: RawClient, user: RawClient, api: str, then: str
) -> None:
    cluster.controls.rule(then=then, api=api, nth=1, **EVIL)
    step(wire, api)
    try:
        while wire.socket.recv(100):
            pass
    except ConnectionError:
        pass
    wire.reopen()
    assert log_in(wire).error_code == 0


@pytest.mark.parametrize("api", APIS)
def test_delayed_and_held_login_requests_succeed(
    cluster: KafkaCluster, wire: RawClient, user: RawClient, api: str
) -> None:
    cluster.controls.rule(then="delay:0.03", api=api, nth=1, **EVIL)
    assert log_in(wire).error_code == 0
    wire.reopen()
    cluster.controls.rule(then="hold", api=api, **EVIL)
    step(wire, api)
    cluster.wait_until(lambda: cluster.controls.held(api) == 1)
    cluster.controls.release(api)
    wire.receive_frame()
    if api == "SaslHandshake":
        assert authenticate(wire, plain_token("ann")).error_code == 0
    assert wire.call(MetadataRequest(topics=[]), 12).brokers


def test_wrong_password_with_a_delay_rule_closes_the_connection(
    cluster: KafkaCluster, wire: RawClient, user: RawClient
) -> None:
    cluster.controls.rule(then="delay:0.01", api="SaslAuthenticate", nth=1, **EVIL)
    assert log_in(wire, password="wrong").error_code == FAILED
    assert wire.is_closed_by_broker()


def test_swallowed_token_gets_no_response_and_does_not_authenticate(
    cluster: KafkaCluster, wire: RawClient, user: RawClient
) -> None:
    cluster.controls.rule(then="swallow", api="SaslAuthenticate", nth=1, **EVIL)
    step(wire, "SaslAuthenticate")
    wire.send(MetadataRequest(topics=[]), 12)
    wire.socket.settimeout(0.1)
    assert not wire.is_closed_by_broker()
    assert "Metadata" not in {entry.api for entry in cluster.history if entry.client_id == "wire"}


def test_late_token_on_a_dead_connection_does_not_authenticate(
    cluster: KafkaCluster, wire: RawClient, user: RawClient
) -> None:
    cluster.controls.rule(then="replay:0.01", api="SaslAuthenticate", nth=1, **EVIL)
    step(wire, "SaslAuthenticate")
    assert wire.is_closed_by_broker()
    cluster.wait_until(lambda: cluster.history.count("SaslAuthenticate", client_id="wire") == 2)
    cluster.check()
