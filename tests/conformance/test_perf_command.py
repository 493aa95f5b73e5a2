"""`pykafka2 perf` as typed, on the bundled broker and on Apache Kafka: in a pipe and in a pseudo-terminal."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pykafka2 import KafkaAdminClient
from pykafka2.admin import NewTopic
from tests.cli.typed import Terminal, pykafka2

from .brokers import Cluster

RECORDS = 5_000


@pytest.fixture(scope="module")
def topic(cluster: Cluster) -> str:
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("perf", 2, cluster.replicas)], wait_for_metadata=True)
    return "perf"


def perf(cluster: Cluster, *words: str) -> dict[str, Any]:
    """The printed JSON of a successful measurement."""
    ended = pykafka2("perf", *words, "-b", cluster.bootstrap_servers, "--json")
    assert (ended.returncode, ended.stderr) == (0, b"")
    result: dict[str, Any] = json.loads(ended.stdout)
    return result


def test_records_that_were_produced_are_consumed(cluster: Cluster, topic: str) -> None:
    produced = perf(cluster, "produce", topic, "--records", str(RECORDS), "--size", "100")
    assert (produced["records"], produced["failed"]) == (RECORDS, 0)
    assert produced["latency_ms"]["p99"] > 0

    consumed = perf(cluster, "consume", topic)
    assert consumed["records"] >= RECORDS
    grouped = perf(cluster, "consume", topic, "--group", "perf-group", "--records", str(RECORDS))
    assert grouped["records"] >= RECORDS


@pytest.mark.parametrize("mode", [[], ["--rate", "200"]], ids=["one at a time", "at a rate"])
def test_latency_has_both_ends(cluster: Cluster, topic: str, mode: list[str]) -> None:
    result = perf(cluster, "latency", topic, "--records", "100", *mode)
    assert result["records"] == 100
    assert 0 < result["acknowledged_ms"]["p50"] <= result["acknowledged_ms"]["max"]
    assert 0 < result["end_to_end_ms"]["p50"] <= result["end_to_end_ms"]["max"]


def test_ctrl_c_in_a_terminal_prints_the_measurement_so_far(cluster: Cluster, topic: str) -> None:
    servers = cluster.bootstrap_servers
    terminal = Terminal("perf", "produce", topic, "--duration", "60", "--rate", "100", "-b", servers)
    terminal.wait_for("records/s")
    terminal.type("\x03")
    code, shown = terminal.end()
    assert code == 130
    assert "interrupted         yes" in shown
