"""Ports that are not what security_protocol says: found out at once, by asking, and told by name."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from pykafka2 import KafkaProducer, errors
from pykafka2.cluster.port_doubts import PortDoubts
from pykafka2.errors import Disconnected, IllegalSaslState, TlsInterrupted, TlsNotSpoken
from pykafka2.network.probing import ask_for_mechanisms, ask_without_tls
from pykafka2.protocol.messages.sasl import SaslHandshakeResponse
from pykafka2.testing import KafkaCluster, Simulation
from tests.network.wire import api_versions_response

LOST, HUNG_UP = Disconnected("closed"), TlsInterrupted("hung up")


def play(script: Any, *answers: Any) -> None:
    script.send(None)
    for answer in answers:
        script.send(answer)


def test_a_plaintext_port_answers_without_tls() -> None:
    with pytest.raises(TlsNotSpoken, match=r"node 1 speaks Kafka's protocol without TLS.*security_protocol="):
        play(ask_without_tls("node 1"), api_versions_response())


def test_a_port_with_sasl_names_its_mechanisms_and_any_other_says_that_it_has_none() -> None:
    offer = SaslHandshakeResponse(error_code=33, mechanisms=["PLAIN", "X"])
    with pytest.raises(
        IllegalSaslState, match=r"node 1 takes no request .* by PLAIN, X: set security_protoc"
    ):
        play(ask_for_mechanisms("node 1"), api_versions_response(), offer)
    with pytest.raises(Disconnected, match="node 1 closed"):
        play(
            ask_for_mechanisms("node 1"),
            api_versions_response(),
            SaslHandshakeResponse(error_code=34, mechanisms=[]),
        )


def test_what_a_probe_met_otherwise_is_not_told() -> None:
    doubts = PortDoubts(has_sasl=False)
    assert doubts.heard(HUNG_UP, was_unanswered=None) is HUNG_UP
    assert doubts.probe is not None
    assert doubts.probe.is_without_tls
    verdict = TlsNotSpoken("plaintext")
    for _ in range(2):
        assert doubts.heard(verdict, was_unanswered=None) is verdict
        assert doubts.probe is not None
    assert doubts.heard(errors.CorruptResponse("HTTP"), was_unanswered=None) is HUNG_UP
    assert doubts.probe is None


def test_restarts_are_not_doubted() -> None:
    doubts = PortDoubts(has_sasl=False)
    for was_unanswered in (True, False, True, None, False):
        assert doubts.heard(LOST, was_unanswered=was_unanswered) is LOST
        assert doubts.probe is None
    doubts.heard(LOST, was_unanswered=True)
    doubts.heard(LOST, was_unanswered=True)
    assert doubts.probe is not None
    who_authenticates = PortDoubts(has_sasl=True)
    for _ in range(3):
        who_authenticates.heard(LOST, was_unanswered=True)
    assert who_authenticates.probe is None


def test_who_does_not_authenticate_is_told_so_within_a_second(
    simulation: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = simulation.cluster(
        brokers=1, topics=["t"], listeners=["SASL_PLAINTEXT"], users={"ann": "ann-secret"}
    )
    servers = cluster.bootstrap_servers_of("SASL_PLAINTEXT")
    runtime = simulation.runtime.at("client")
    began = runtime.clock.monotonic()
    words = rf"{servers} takes no request before a client authenticates, by .*SCRAM-SHA-256"
    with (
        caplog.at_level(logging.WARNING),
        KafkaProducer(bootstrap_servers=servers, runtime=runtime) as producer,
    ):
        for _ in range(2):
            with pytest.raises(IllegalSaslState, match=words):
                producer.send("t", b"x")
    assert runtime.clock.monotonic() - began < 2.0
    assert sum("takes no request before" in record.getMessage() for record in caplog.records) == 1


def test_tls_to_a_plaintext_port_is_told_so_at_once() -> None:
    with KafkaCluster(1) as cluster:
        options: Any = {"bootstrap_servers": cluster.bootstrap_servers, "security_protocol": "SSL"}
        with (
            KafkaProducer(**options) as producer,
            pytest.raises(TlsNotSpoken, match=cluster.bootstrap_servers),
        ):
            producer.send("t", b"x")
        assert {type(request).__name__ for request in cluster.history.requests()} == {"ApiVersionsRequest"}
