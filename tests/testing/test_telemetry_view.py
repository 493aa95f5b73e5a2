"""`telemetry()` over HTTP and of a cluster in another process: equal to that of a cluster in this one."""

from __future__ import annotations

import math
import socket

import pytest

from pykafka2 import KafkaAdminClient, KafkaProducer, Metric, MetricKind
from pykafka2.admin import ConfigResource
from pykafka2.testing import KafkaCluster
from tests.testing.test_admin_port import ask

pytestmark = [pytest.mark.gate, pytest.mark.slow]

SENT, DEPTH = "org.apache.kafka.producer.record.send.total", "org.apache.kafka.shop.depth"
CONFIG = {"client.telemetry": True}


def push(servers: str, *client_ids: str) -> None:
    """Send a record as each client, which pushes its metrics at its end."""
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        options = {"metrics": f"{SENT},{DEPTH}", "interval.ms": "60000"}
        admin.alter_configs({ConfigResource("CLIENT_METRICS", "all"): options})
    for client_id in client_ids:
        with KafkaProducer(bootstrap_servers=servers, client_id=client_id) as producer:
            producer.register_metrics(
                lambda: [
                    Metric("depth", "shop", value, MetricKind.GAUGE, "", {"shop": shop}, "")
                    for shop, value in (("ä", 2.5), ("full", math.inf))
                ]
            )
            producer.send("orders", b"v").result(10)
            producer.client_instance_id()


def test_pushes_over_http_have_all_fields() -> None:
    with KafkaCluster(1, {"orders": 1}, config=CONFIG) as cluster:
        host, number = cluster.open_admin_port(token="secret").address.split(":")
        push(cluster.bootstrap_servers, "shop", "billing")
        (expected,) = cluster.telemetry("shop")
        with socket.create_connection((host, int(number)), 10) as clerk:
            assert [one["client_id"] for one in ask(clerk, "/telemetry")] == ["shop", "billing"]
            assert ask(clerk, "/telemetry", client_id="other") == []
            assert ask(clerk, "/telemetry", client="shop")[0] == "ConfigurationError"
            (found,) = ask(clerk, "/telemetry", client_id="shop")
    *metrics_of_producer, depth, full = found.pop("metrics")
    metrics = {one["name"]: one for one in metrics_of_producer}
    assert found == {
        "broker": 0,
        "client_id": "shop",
        "client_instance_id": expected.client_instance_id,
        "software": expected.software,
        "time_ms": expected.time_ms,
        "is_terminating": True,
        "compression": expected.compression,
        "size_bytes": expected.size_bytes,
    }
    (point,) = [point for point in expected.metrics if point.name == SENT]
    assert metrics[SENT] == {
        "name": SENT,
        "value": 1.0,
        "attributes": {},
        "kind": "sum",
        "is_delta": True,
        "started_ns": point.started_ns,
        "time_ns": point.time_ns,
        "unit": "records",
        "resource": {},
    }
    assert (depth["name"], depth["value"], depth["attributes"]) == (DEPTH, 2.5, {"shop": "ä"})
    assert (full["name"], full["value"]) == (DEPTH, "Infinity")


def test_pushes_of_a_cluster_in_another_process_are_equal_objects() -> None:
    with KafkaCluster(1, {"orders": 1}, config=CONFIG, process=True) as cluster:
        push(cluster.bootstrap_servers, "shop", "billing")
        (found,) = cluster.telemetry("shop")
        assert (found.client_id, found.value(SENT)) == ("shop", 1.0)
        assert (found.value(DEPTH, shop="ä"), found.value(DEPTH, shop="full")) == (2.5, math.inf)
        assert len(cluster.telemetry()) == 2
        cluster.forget()
        assert cluster.telemetry() == []
