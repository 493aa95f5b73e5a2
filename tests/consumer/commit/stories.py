"""Common parts of the tests of commits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pykafka2 import KafkaConsumer, OffsetAndMetadata, TopicPartition
from pykafka2.testing import KafkaCluster, Simulation

GROUP = "readers"
ORDERS = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
FIRST, SECOND = ORDERS

Outcome = tuple[Mapping[TopicPartition, OffsetAndMetadata], BaseException | None]


def produce(
    simulation: Simulation, cluster: KafkaCluster, count: int, partitions: Iterable[TopicPartition]
) -> None:
    """So many numbered records into each partition."""
    with simulation.producer(cluster) as producer:
        for topic, number in partitions:
            for value in range(count):
                producer.send(topic, b"%d" % value, partition=number)


def reader(
    simulation: Simulation,
    cluster: KafkaCluster,
    partitions: Iterable[TopicPartition] = ORDERS,
    **options: Any,
) -> KafkaConsumer:
    """A consumer of the group with partitions assigned by hand; nothing is committed automatically."""
    options = {"group_id": GROUP, "auto_offset_reset": "earliest", "enable_auto_commit": False, **options}
    consumer = simulation.consumer(cluster, **options)
    consumer.assign(partitions)
    return consumer


def read(consumer: KafkaConsumer, count: int, **more: Any) -> dict[TopicPartition, list[int]]:
    """The offsets of exactly so many records, one poll each."""
    found: dict[TopicPartition, list[int]] = {}
    for _ in range(count):
        polled = consumer.poll(5000, max_records=1, **more)
        assert polled, "nothing came within 5 s"
        for partition, records in polled.items():
            found.setdefault(partition, []).extend(record.offset for record in records)
    return found


def committed(cluster: KafkaCluster, group: str = GROUP) -> dict[TopicPartition, int]:
    """The coordinator's committed offset."""
    return dict(cluster.group(group).offsets)


def at(*offsets: int) -> dict[TopicPartition, int]:
    """Offsets of the two partitions, in their order."""
    return dict(zip(ORDERS, offsets, strict=False))


class Callbacks:
    """Records its calls, and when they came."""

    def __init__(self) -> None:
        self.calls: list[Outcome] = []

    def __call__(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], error: BaseException | None
    ) -> None:
        self.calls.append((offsets, error))

    @property
    def offsets(self) -> list[int]:
        """Those of the first partition."""
        return [offsets[FIRST].offset for offsets, _ in self.calls]

    @property
    def errors(self) -> list[BaseException | None]:
        return [error for _, error in self.calls]
