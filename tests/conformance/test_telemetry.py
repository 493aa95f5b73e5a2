"""Java's clients and librdkafka push their metrics to the bundled broker; Java's tool subscribes to them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer

from pykafka2 import KafkaAdminClient
from pykafka2.admin import ConfigResource
from pykafka2.broker.observed.telemetry import TelemetryPush
from pykafka2.testing import KafkaCluster
from tests.test_java_metrics import CLIENT_ID

from .bridge import Bridge
from .maven import KafkaJars

TIMEOUT = 120.0
SUM = {
    "producer": ("org.apache.kafka.producer.record.send.total", 9),
    "classic": ("org.apache.kafka.consumer.fetch.manager.records.consumed.total", 7),
    "consumer": ("org.apache.kafka.consumer.fetch.manager.records.consumed.total", 7),
}
SUBSCRIPTION = {"metrics": "*", "interval.ms": "100"}


@pytest.fixture
def cluster() -> Iterator[KafkaCluster]:
    topics = {"orders": 2, "clicks": 1}
    with KafkaCluster(brokers=1, topics=topics, config={"client.telemetry": True}) as cluster:
        yield cluster


def subscribe(cluster: KafkaCluster) -> None:
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.alter_configs({ConfigResource("CLIENT_METRICS", "all"): SUBSCRIPTION})


def total(pushes: list[TelemetryPush], name: str) -> float:
    """Return the sum of a metric's deltas, without tags."""
    points = [point for push in pushes for point in push.metrics if point.name == name]
    return sum(point.value or 0 for point in points if not point.attributes)


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_java_clients_push_the_metrics_that_they_have(cluster: KafkaCluster, jars: KafkaJars) -> None:
    subscribe(cluster)
    for client, (name, value) in SUM.items():
        cluster.forget()
        run(jars.java("ClientMetrics", cluster.bootstrap_servers, client, "1000"))
        pushes = cluster.telemetry(CLIENT_ID)
        assert {push.compression for push in pushes} == {"zstd"}, client
        assert pushes[0].software == "apache-kafka-java 4.4.0"
        assert len({push.client_instance_id for push in pushes}) == 1
        assert value <= total(pushes, name) <= value + 5, client
    cluster.forget()
    run(jars.java("ClientMetrics", cluster.bootstrap_servers, "admin", "1000"))
    assert cluster.telemetry(CLIENT_ID) == []  # its default is enable.metrics.push=false


def test_java_tool_subscribes_and_shows_subscriptions(cluster: KafkaCluster, java: Bridge) -> None:
    def tool(*arguments: str) -> str:
        servers = ["--bootstrap-server", cluster.bootstrap_servers]
        item = {"class": "ClientMetricsCommand", "arguments": [*servers, *arguments]}
        (done,) = java("tool", [item])
        assert done["status"] == 0, done["output"]
        return str(done["output"])

    tool("--alter", "--name", "all", "--metrics", "org.apache.kafka.", "--interval", "1000")
    tool("--alter", "--name", "some", "--metrics", "a.", "--match", "client_id=shop")
    assert "interval.ms=1000" in tool("--describe", "--name", "all")
    assert {"all", "some"} <= set(tool("--list").split())
    tool("--delete", "--name", "some")
    assert {"all", "some"} & set(tool("--list").split()) == {"all"}


def test_librdkafka_pushes_to_the_bundled_broker(cluster: KafkaCluster) -> None:
    subscribe(cluster)
    options = {"bootstrap.servers": cluster.bootstrap_servers, "enable.metrics.push": True}
    producer = Producer({**options, "client.id": "shop"})
    consumer = Consumer({**options, "client.id": "billing", "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    for number in range(20):
        producer.produce("orders", b"%d" % number)
    assert producer.flush(30) == 0
    read = 0
    while read < 20:
        read += len(consumer.consume(20, timeout=1.0))
    cluster.wait_until(
        lambda: len(cluster.telemetry("shop")) > 1 and len(cluster.telemetry("billing")) > 1,
        timeout=30,
        what="pushes of both clients",
    )
    consumer.close()
    for client_id, kind in (("shop", "producer"), ("billing", "consumer")):
        push = cluster.telemetry(client_id)[0]
        assert push.software.startswith("confluent-kafka-python")
        assert push.compression == "zstd"
        assert {point.name.rpartition(f".{kind}.")[0] for point in push.metrics} == {"org.apache.kafka"}
    push = cluster.telemetry("shop")[0]
    assert (push.value("org.apache.kafka.producer.request.latency.max") or 0) > 0
    assert push.value("org.apache.kafka.producer.connection.creation.total") == 0
