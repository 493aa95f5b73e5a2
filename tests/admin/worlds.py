"""A cluster in virtual time for tests of the admin client, with records and groups in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pykafka2 import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from pykafka2.testing import KafkaCluster, Simulation
from tests.internal_topics import FEW_PARTITIONS

GROUPS = tuple(f"group-{number}" for number in range(6))
"""Groups whose coordinators are at least two brokers of two or three."""


class World:
    """One cluster with the topics "orders" (3 partitions) and "payments" (2), and clients of it."""

    def __init__(self, simulation: Simulation, brokers: int = 2, **options: Any) -> None:
        self.simulation = simulation
        topics = options.pop("topics", {"orders": 3, "payments": 2})
        config = {**FEW_PARTITIONS, **options.pop("config", {})}
        self.cluster: KafkaCluster = simulation.cluster(brokers, topics, config=config, **options)
        self.admin = self.new_admin("admin")
        self._consumers: list[KafkaConsumer] = []

    def new_admin(self, name: str, **options: Any) -> KafkaAdminClient:
        servers = options.pop("bootstrap_servers", self.cluster.bootstrap_servers)
        return KafkaAdminClient(
            bootstrap_servers=servers, runtime=self.simulation.runtime.at(name), **options
        )

    def producer(self, name: str = "producer", **options: Any) -> KafkaProducer:
        return KafkaProducer(
            bootstrap_servers=self.cluster.bootstrap_servers,
            runtime=self.simulation.runtime.at(name),
            **options,
        )

    def fill(self, topic: str, counts: Iterable[int], first_ms: int = 1_000_000, step_ms: int = 1000) -> None:
        """Write so many records into each partition, one a second from `first_ms` on."""
        with self.producer() as producer:
            for partition, count in enumerate(counts):
                for number in range(count):
                    producer.send(
                        topic, b"v", partition=partition, timestamp_ms=first_ms + number * step_ms
                    ).result(10)

    def member(
        self, group: str, *topics: str, protocol: str = "classic", name: str = "", **options: Any
    ) -> KafkaConsumer:
        """A consumer that subscribes to the topics; `turn` makes it join."""
        name = name or f"{group}-member-{len(self._consumers)}"
        consumer = KafkaConsumer(
            *topics,
            bootstrap_servers=self.cluster.bootstrap_servers,
            group_id=group,
            group_protocol=protocol,
            client_id=name,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            runtime=self.simulation.runtime.at(name),
            **options,
        )
        self._consumers.append(consumer)
        return consumer

    def turn(self, *consumers: KafkaConsumer, times: int = 12) -> None:
        """Poll each of them some times, so that groups with several members become stable."""
        actors = [self.simulation.spawn(lambda one=one: _poll(one, times)) for one in consumers]  # type: ignore[misc]
        for actor in actors:
            actor.result()

    def commit(self, group: str, offsets: dict[TopicPartition, int]) -> None:
        """Commit offsets for a group without members, by its own consumer."""
        with self.member(group) as consumer:
            self._consumers.remove(consumer)
            consumer.assign(list(offsets))
            consumer.commit(offsets)

    def close(self) -> None:
        for consumer in self._consumers:
            consumer.close()
        self.admin.close()


def _poll(consumer: KafkaConsumer, times: int) -> None:
    for _ in range(times):
        consumer.poll(timeout_ms=1000)
