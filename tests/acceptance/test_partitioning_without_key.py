"""Records without a key: by turns, which threads share, or sticking to a partition so that batches fill."""

from __future__ import annotations

from collections import Counter

import pytest

from pykafka2.testing import KafkaCluster, Simulation


@pytest.fixture
def cluster(simulation: Simulation) -> KafkaCluster:
    return simulation.cluster(brokers=3, topics={"orders": 3})


def spread(cluster: KafkaCluster) -> list[int]:
    return [len(cluster.log("orders", partition).values()) for partition in range(3)]


@pytest.mark.parametrize("name", ["murmur2_round_robin", "round_robin"])
def test_ten_records_on_three_partitions(simulation: Simulation, cluster: KafkaCluster, name: str) -> None:
    producer = simulation.producer(cluster, partitioner=name)
    for _ in range(10):
        producer.send("orders", b"v")
    producer.flush(timeout=10)
    assert sorted(spread(cluster)) == [3, 3, 4]


def test_twenty_threads_share_their_turns(simulation: Simulation, cluster: KafkaCluster) -> None:
    producer = simulation.producer(cluster, partitioner="murmur2_round_robin")

    def send_some() -> None:
        for _ in range(50):
            producer.send("orders", b"v")

    for actor in [simulation.spawn(send_some) for _ in range(20)]:
        actor.result()
    producer.flush(timeout=30)
    counts = spread(cluster)
    assert sum(counts) == 1000
    assert max(counts) - min(counts) <= 1


@pytest.mark.gate
@pytest.mark.slow
def test_sticking_fills_batches(simulation: Simulation, cluster: KafkaCluster) -> None:
    """A tenth of the requests that turns take, and all partitions get their share."""
    for name, partitioner in (("sticky", None), ("turns", "round_robin")):
        producer = simulation.producer(cluster, partitioner=partitioner, client_id=name, linger_ms=50)
        for _ in range(30):
            for _ in range(10):
                producer.send("orders", b"x" * 100)
            simulation.run_for(0.01)
        producer.flush(timeout=30)
    batches = Counter(
        {
            name: sum(
                len(topic.partition_data)
                for entry in cluster.history.entries("Produce", client_id=name)
                for topic in entry.request.topic_data
            )
            for name in ("sticky", "turns")
        }
    )
    assert batches["sticky"] * 2 <= batches["turns"]
