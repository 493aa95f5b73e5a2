"""A topic's queues as of one snapshot of the metadata, for threads that send.

Immutable except for the partition that records without a key stick to (sticky.py). Created by
route_table.py; read by partitioners.py and by `send`.
"""

from __future__ import annotations

from copy import copy

from pykafka2.cluster.snapshot import ClusterSnapshot, TopicSnapshot
from pykafka2.producer.accumulator.partition_queue import PartitionQueue

NO_SNAPSHOT = ClusterSnapshot()
"""The snapshot of a route that is no longer current."""


class Route:
    """The partitions that a topic's records can go to."""

    __slots__ = (
        "available",
        "available_numbers",
        "count",
        "known",
        "nearby",
        "numbers",
        "queues",
        "snapshot",
        "sticky",
        "sticky_from_bytes",
        "topic",
    )

    def __init__(self, snapshot: ClusterSnapshot, known: TopicSnapshot, queues: list[PartitionQueue]) -> None:
        self.snapshot = snapshot
        self.known = known
        self.topic = known.name
        self.queues = queues
        self.count = len(queues)
        self.numbers = range(self.count)
        nodes, partitions = snapshot.nodes, known.partitions
        self.available_numbers = [
            number
            for number in self.numbers
            if (info := partitions.get(number)) is not None and info.leader in nodes
        ]
        """Partitions whose leader is known and alive."""
        self.available = [queues[number] for number in self.available_numbers]
        self.nearby = self.available
        """Those of the producer's rack, if it has a rack and there are any (sticky.py)."""
        self.sticky = queues[0]
        """The queue of records without a key, until it has received batch_size bytes."""
        self.sticky_from_bytes = 0
        """The queue's `begun_bytes` when it was chosen."""

    def without_snapshot(self) -> Route:
        """Return the part of the route that its successor keeps, without cluster data."""
        kept = copy(self)
        kept.snapshot = NO_SNAPSHOT
        return kept

    def prefer_rack(self, rack: str) -> None:
        """Set `nearby` to the partitions whose leader is in this rack, unless there is none (KIP-1123)."""
        nodes = self.snapshot.nodes
        self.nearby = [
            queue for queue in self.available if nodes[self.leader(queue)].rack == rack
        ] or self.available

    def leader(self, queue: PartitionQueue) -> int:
        """Return the leader of the queue's partition in this snapshot."""
        return self.known.partitions[queue.partition].leader
