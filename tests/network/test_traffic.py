"""Authentications and lost connections are counted for the metrics."""

from __future__ import annotations

import pytest

from pykafka2 import KafkaProducer
from pykafka2.errors import KafkaError, SaslAuthenticationFailed
from pykafka2.metric_table import ADMIN
from pykafka2.metrics import Metrics, without_tags
from pykafka2.network.traffic import Traffic
from pykafka2.testing import KafkaCluster, Simulation

SASL = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_username": "ann"}


@pytest.fixture
def secured(simulation: Simulation) -> KafkaCluster:
    return simulation.cluster(
        brokers=2,
        topics={"orders": 2},
        listeners=["SASL_PLAINTEXT"],
        users={"ann": "secret"},
        config={"connections.max.reauth.ms": 10_000},
    )


def counts(producer: KafkaProducer) -> dict[str, float]:
    return {name: value for name, value in producer.metrics().items() if "authentication-total" in name}


def test_authentications_and_reauthentications_are_counted(
    simulation: Simulation, secured: KafkaCluster
) -> None:
    producer = simulation.producer(secured, sasl_password="secret", **SASL)
    for partition in (0, 1):
        producer.send("orders", b"v", partition=partition).result(10)
    before = producer.metrics()
    assert before["successful-authentication-total"] == before["connection-creation-total"] >= 2
    assert before["successful-authentication-no-reauth-total"] == before["connection-creation-total"]
    assert before["successful-reauthentication-total"] == 0
    simulation.run_for(12)
    after = producer.metrics()
    assert after["successful-reauthentication-total"] == before["connection-count"] == 2
    assert after["successful-authentication-total"] == before["successful-authentication-total"]
    assert 0 < after["reauthentication-latency-avg"] <= after["reauthentication-latency-max"] < 1000
    assert after["failed-authentication-total"] == after["failed-reauthentication-total"] == 0


def test_rejected_passwords_are_counted_as_failed_authentications(
    simulation: Simulation, secured: KafkaCluster
) -> None:
    producer = simulation.producer(secured, sasl_password="wrong", max_block_ms=2000, **SASL)
    with pytest.raises(KafkaError):
        producer.send("orders", b"v").result(10)
    metrics = producer.metrics()
    assert metrics["failed-authentication-total"] >= 1
    assert metrics["successful-authentication-total"] == 0
    assert metrics["failed-reauthentication-total"] == 0


def test_connections_without_sasl_count_no_authentication(simulation: Simulation) -> None:
    producer = simulation.producer(simulation.cluster(brokers=1, topics=["orders"]))
    producer.send("orders", b"v").result(10)
    assert set(counts(producer).values()) == {0}


def test_authentications_are_counted_by_whether_the_connection_was_open() -> None:
    metrics = Metrics()
    traffic = Traffic(metrics, "node-0")
    traffic.authenticated(None)
    traffic.authenticated(0.5)
    traffic.failed(SaslAuthenticationFailed("no"), again=True)
    for _ in range(2):
        traffic.failed(SaslAuthenticationFailed("no"), again=False)
    traffic.failed(KafkaError("lost"), again=False)
    found = without_tags(metrics.rows(ADMIN, "a"))
    assert found["reauthentication-latency-max"] == 500, "milliseconds"
    assert found["successful-authentication-total"] == found["successful-reauthentication-total"] == 1
    assert (found["failed-authentication-total"], found["failed-reauthentication-total"]) == (2, 1)
