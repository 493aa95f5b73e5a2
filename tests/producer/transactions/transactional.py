"""Helpers for tests of transactional producers: worlds of both transaction versions, and readers."""

from __future__ import annotations

from collections.abc import Mapping

from pykafka2 import KafkaProducer, TopicPartition
from pykafka2.testing import KafkaCluster, Simulation
from tests.internal_topics import FEW_PARTITIONS

TOPICS = {"orders": 1, "spread": 6}


def a_cluster(
    simulation: Simulation, version: int, config: Mapping[str, object] | None = None
) -> KafkaCluster:
    """Three brokers that finalised this transaction.version."""
    config = {
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
        **FEW_PARTITIONS,
        **(config or {}),
    }
    return simulation.cluster(
        brokers=3, topics=TOPICS, features={"transaction.version": version}, config=config
    )


def a_producer(
    simulation: Simulation, cluster: KafkaCluster, name: str = "t", **options: object
) -> KafkaProducer:
    """A producer with this transactional id that has begun."""
    producer = simulation.producer(cluster, transactional_id=name, **options)
    producer.init_transactions()
    return producer


def committed(simulation: Simulation, cluster: KafkaCluster, topic: str = "orders") -> list[bytes]:
    """Records that a read_committed reader gets now, by partition."""
    return read(simulation, cluster, topic, "read_committed")


def read(
    simulation: Simulation, cluster: KafkaCluster, topic: str, isolation_level: str = "read_uncommitted"
) -> list[bytes]:
    simulation.sleep(0.5)  # markers follow the decision
    places = [TopicPartition(topic, partition) for partition in range(TOPICS[topic])]
    with simulation.consumer(cluster, isolation_level=isolation_level, fetch_max_wait_ms=10) as consumer:
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        ends = consumer.end_offsets(places)
        values: list[bytes] = []
        while any(consumer.position(place) < ends[place] for place in places):
            for records in consumer.poll(timeout_ms=100).values():
                values += [record.value for record in records]
        return values


def requests(cluster: KafkaCluster, api: str) -> int:
    """How many of these arrived so far."""
    return len(cluster.history.requests(api))
