"""The client's metadata is lazy, refreshed at its age, forgets idle topics, and gives up in time."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from pykafka2 import KafkaAdminClient
from pykafka2.errors import UnknownTopicOrPartition
from pykafka2.testing import Simulation
from pykafka2.testing.cluster import KafkaCluster, Topic

MINUTE = 60.0
ONE_REPLICA = 1
"""In ten minutes followers would fetch thousands of times, which is nothing to a client's metadata."""


def requested_topics(cluster: KafkaCluster, client: str) -> list[list[str | None]]:
    """The topics of each Metadata request that this client has sent."""
    requests: list[Any] = cluster.history.requests("Metadata", client_id=client)
    return [[topic.name for topic in request.topics or []] for request in requests]


def request_times(cluster: KafkaCluster, client: str) -> list[float]:
    return [entry.received_at for entry in cluster.history.entries("Metadata", client_id=client)]


@pytest.mark.gate
@pytest.mark.slow
def test_a_producer_asks_for_nothing_before_the_first_send_and_then_once(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=3, topics={"orders": Topic(6, ONE_REPLICA)})
    producer = simulation.producer(cluster, client_id="p")
    simulation.run_for(10 * MINUTE)
    assert cluster.history.entries(client_id="p") == [], "not even a connection is opened"
    for number in range(100):
        producer.send("orders", b"%d" % number)
    producer.flush(timeout=30)
    assert requested_topics(cluster, "p") == [["orders"]]


@pytest.mark.gate
@pytest.mark.slow
def test_metadata_is_refreshed_after_five_minutes(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=3, topics={"orders": Topic(6, ONE_REPLICA)})
    producer = simulation.producer(cluster, client_id="p")
    for _ in range(5):
        producer.send("orders", b"x")
        producer.flush(timeout=30)
        simulation.run_for(100)
    moments = request_times(cluster, "p")
    assert len(moments) == 2
    assert moments[1] - moments[0] == pytest.approx(5 * MINUTE, abs=1)
    assert requested_topics(cluster, "p")[1] == ["orders"]


@pytest.mark.gate
@pytest.mark.slow
def test_a_topic_idle_for_five_minutes_is_forgotten(simulation: Simulation) -> None:
    cluster = simulation.cluster(
        brokers=3, topics={"orders": Topic(6, ONE_REPLICA), "bills": Topic(1, ONE_REPLICA)}
    )
    producer = simulation.producer(cluster, client_id="p")
    producer.send("orders", b"x")
    producer.flush(timeout=30)
    # At five minutes it is refreshed, a moment before it counts as idle; the next time it is left out.
    for _ in range(14):
        producer.send("bills", b"x")
        producer.flush(timeout=30)
        simulation.run_for(50)
    assert requested_topics(cluster, "p")[0] == ["orders"]
    assert requested_topics(cluster, "p")[-1] == ["bills"], "the refresh leaves the idle topic out"
    before = len(requested_topics(cluster, "p"))
    producer.send("orders", b"y").result(timeout=30)
    assert requested_topics(cluster, "p")[before:] == [["orders"]], (
        "and it is requested again once it is used again"
    )


def test_an_unknown_topic_raises_within_max_block(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=3, config={"auto.create.topics.enable": "false"})
    producer = simulation.producer(cluster, client_id="p", max_block_ms=7_000)
    before = simulation.now
    with pytest.raises(UnknownTopicOrPartition, match="'nowhere' does not exist"):
        producer.send("nowhere", b"x")
    assert simulation.now - before == pytest.approx(7, abs=0.1)
    gaps = [b - a for a, b in zip(request_times(cluster, "p"), request_times(cluster, "p")[1:], strict=False)]
    assert min(gaps) >= 0.099, "at least retry_backoff_ms apart"
    assert max(gaps) <= 1.3, "and at most retry_backoff_max_ms with its jitter"


@pytest.mark.gate
@pytest.mark.slow
def test_a_consumer_keeps_its_topics_and_refreshes_them(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=1, topics={"orders": 2})
    consumer = simulation.consumer(cluster, "orders", client_id="c")
    simulation.run_for(MINUTE)
    assert cluster.history.entries(client_id="c") == []
    consumer.poll(timeout_ms=11 * MINUTE * 1000)
    moments = request_times(cluster, "c")
    assert [b - a for a, b in itertools.pairwise(moments)] == [
        pytest.approx(5 * MINUTE, abs=2),
        pytest.approx(5 * MINUTE, abs=2),
    ]
    assert set(map(tuple, requested_topics(cluster, "c"))) == {("orders",)}


def test_metadata_has_offline_replicas_and_a_reachable_controller(simulation: Simulation) -> None:
    """One of three brokers is down; the controller that clients are named is one that they can reach."""
    cluster = simulation.cluster(brokers=3, topics={"orders": 3}, controller=0)
    simulation.run_for(1)
    cluster.controls.crash_broker(2)
    simulation.run_for(1)
    partitions = simulation.producer(cluster).partition_infos("orders")
    assert [one.offline_replicas for one in partitions] == [(2,)] * 3
    assert all(2 in one.replicas and 2 not in one.isr for one in partitions)
    servers = cluster.bootstrap_servers
    with KafkaAdminClient(bootstrap_servers=servers, runtime=simulation.runtime.at("admin")) as admin:
        described = admin.describe_topics(["orders"])["orders"].partitions
        assert [one.offline_replicas for one in described] == [(2,)] * 3
        for _ in range(5):
            controller = admin.describe_cluster().controller
            assert controller is not None
            assert controller.id in (0, 1)
        cluster.controls.restart_broker(2)
        simulation.run_for(5)
        described = admin.describe_topics(["orders"])["orders"].partitions
        assert [one.offline_replicas for one in described] == [()] * 3


def test_the_age_and_the_version_are_in_health(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=1, topics={"orders": 1})
    for client in (simulation.producer(cluster), simulation.consumer(cluster, "orders")):
        assert client.health()["metadata_age"] is None
        if hasattr(client, "send"):
            client.send("orders", b"x").result(timeout=10)
        else:
            client.poll(timeout_ms=1000)
        simulation.run_for(42)
        health = client.health()
        assert health["metadata_version"] == 1
        assert health["metadata_age"] == pytest.approx(42, abs=2)
        assert health["metadata_request_age"] >= health["metadata_age"]
