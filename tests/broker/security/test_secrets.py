"""Logs at DEBUG, views and reprs of brokers have no secrets of users, tokens and keys."""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterator

import pytest

from pykafka2.errors import ConfigurationError
from pykafka2.protocol.messages.sasl import SaslHandshakeRequest
from pykafka2.testing import KafkaCluster
from pykafka2.testing.arguments import ClusterArguments
from tests.broker.support.raw_client import RawClient
from tests.broker.support.sasl import address_of, authenticate, log_in

PASSWORD = "canary-of-the-password"
TOKEN_KEY = "canary-of-the-token-key"
SECRET_KEY = "canary-of-the-delegation-key"


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    config = {"delegation.token.secret.key": SECRET_KEY, "connection.failed.authentication.delay.ms": 1}
    with KafkaCluster(
        1, listeners=["SASL_PLAINTEXT"], users={"ann": PASSWORD}, token_key=TOKEN_KEY, config=config
    ) as cluster:
        yield cluster


def test_logs_views_and_reprs_have_no_secret(cluster: KafkaCluster, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    token = cluster.token("ann")
    address = address_of(cluster, "SASL_PLAINTEXT")
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"):
        with RawClient(address) as wire:
            assert log_in(wire, "ann", mechanism, password=PASSWORD, token=token).error_code == 0
    for data in (
        b"\0ann\0" + PASSWORD.encode() + b"x",
        b"\0" + PASSWORD.encode(),
        b"\0a\0b\0" + PASSWORD.encode(),
    ):
        with RawClient(address) as wire:
            wire.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            assert authenticate(wire, data).error_code
    cluster.controls.add_user("bob", PASSWORD)
    timeline = cluster.timeline()
    seen = "\n".join(
        [
            caplog.text,
            timeline.text(),
            timeline.json(),
            repr(list(cluster.history)),
            repr(cluster.events.events()),
            repr(cluster.running.shared),
            repr(cluster.broker(0).image),
            repr(cluster.broker(0).config),
            repr(cluster.connections()),
            repr(cluster),
            repr(cluster._arguments),
            repr(cluster._access),
        ]
    )
    for secret in (PASSWORD, TOKEN_KEY, SECRET_KEY, token, token.split(".")[2]):
        forms = [secret, base64.b64encode(secret.encode()).decode()[:-4], repr(secret.encode())[2:-1]]
        assert [form for form in forms if form in seen] == []


def test_key_password_is_in_no_repr_or_error() -> None:
    tls = {"cert_file": "broker.pem", "key_password": PASSWORD}
    shown = repr(ClusterArguments(1, tls=tls))
    assert "broker.pem" in shown
    assert PASSWORD not in shown
    with pytest.raises(ConfigurationError, match="none of the listeners PLAINTEXT has TLS") as caught:
        KafkaCluster(1, tls=tls, listeners=["PLAINTEXT"])
    assert PASSWORD not in str(caught.value)
