"""Routes without a cluster, for tests of what chooses on them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pykafka2.cluster.snapshot import ClusterSnapshot, TopicSnapshot
from pykafka2.producer.accumulator.partition_queue import PartitionQueue
from pykafka2.producer.partitioning.topic_route import Route
from pykafka2.types import Node, PartitionInfo


def a_route(
    partitions: int = 3,
    *,
    without_leader: Collection[int] = (),
    topic: str = "orders",
    racks: Sequence[str | None] = (None,),
) -> Route:
    """Partition n is led by node n, or has no leader; the nodes are in these racks in turn."""
    known = TopicSnapshot(
        topic,
        partitions={
            number: PartitionInfo(topic, number, -1 if number in without_leader else number, 0, (), ())
            for number in range(partitions)
        },
    )
    nodes = {number: Node(number, "h", 9092, racks[number % len(racks)]) for number in range(partitions)}
    snapshot = ClusterSnapshot(nodes=nodes, topics={topic: known})
    return Route(
        snapshot, known, [PartitionQueue(topic, number, lambda: None) for number in range(partitions)]
    )
