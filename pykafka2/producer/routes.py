"""From a topic and a key to the partition's queue, as far as a sending thread can see it.

Any thread; when the metadata changes a route is replaced, never changed, but for the partition that records
without a key stick to.  May block for metadata (`route`, `explicit`), as `send` may.
"""

from __future__ import annotations

import random
from typing import Any

from pykafka2.cluster.client import ClusterClient
from pykafka2.cluster.snapshot import ClusterSnapshot, TopicSnapshot
from pykafka2.errors import UnknownTopicOrPartition
from pykafka2.producer.accumulator import Accumulator
from pykafka2.producer.partition_queue import PartitionQueue
from pykafka2.producer.partitioners import Chooser, ClusterView, sticky_partition


class Route:
    """A topic's queues as of one snapshot of the metadata."""

    __slots__ = ("known", "queues", "snapshot", "sticky")

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        known: TopicSnapshot,
        queues: list[PartitionQueue],
        sticky: PartitionQueue,
    ) -> None:
        self.snapshot = snapshot
        self.known = known
        self.queues = queues
        self.sticky = sticky
        """Where records without a key go, until that batch is full."""


class Routes:
    """The routes of all topics that were sent to."""

    def __init__(self, client: ClusterClient, accumulator: Accumulator, random: random.Random) -> None:
        self._client = client
        self._metadata = client.metadata
        self._accumulator = accumulator
        self._random = random
        self.by_topic: dict[str, Route] = {}
        """Read by `send` without a lock; a route is current while its snapshot is the metadata's."""

    def route(self, topic: str, timeout: float) -> Route:
        """The topic's current route; waits for its metadata, and raises as `ClusterClient.wait_for_topic`."""
        snapshot = self._metadata.snapshot
        known = snapshot.topics.get(topic)
        if known is None or not known.is_usable:
            known = self._client.wait_for_topic(topic, timeout)
            snapshot = self._metadata.snapshot
        count = max(known.partitions) + 1
        queues = [self._accumulator.queue(topic, partition) for partition in range(count)]
        old = self.by_topic.get(topic)
        if old is not None and old.sticky.partition < count:
            sticky = old.sticky
        else:
            sticky = queues[sticky_partition(snapshot, known, self._random)]
        route = self.by_topic[topic] = Route(snapshot, known, queues, sticky)
        return route

    def use(self, topic: str, now: float) -> None:
        """The topic is in use: its metadata must not be forgotten."""
        self._metadata.want_topic(topic, now)

    def next_sticky(self, route: Route) -> PartitionQueue:
        """Another partition to stick to, as the batch in this one is full or gone (KIP-480)."""
        avoid = route.sticky.partition
        partition = sticky_partition(route.snapshot, route.known, self._random, avoid)
        route.sticky = route.queues[partition]
        return route.sticky

    def chosen(
        self,
        choose: Chooser,
        route: Route,
        topic: str,
        key: Any,
        key_bytes: bytes | None,
        value: Any,
        value_bytes: bytes | None,
    ) -> PartitionQueue:
        """Where the user's partitioner wants the record.

        Raises UnknownTopicOrPartition where there is no such partition; what the partitioner raises goes on.
        """
        view = ClusterView(route.snapshot)
        partition = choose(topic, key, key_bytes, value, value_bytes, view)
        if not isinstance(partition, int) or not 0 <= partition < len(route.queues):
            raise _no_partition(topic, partition, len(route.queues), "the partitioner chose it")
        return route.queues[partition]

    def explicit(self, route: Route, topic: str, partition: int, timeout: float) -> PartitionQueue:
        """The partition that the caller names, although the route does not have it (yet).

        Partitions may have been added, so it waits for news of the topic, as Java does.

        Raises:
            UnknownTopicOrPartition: it does not exist within the timeout.
        """
        if partition < 0:
            raise _no_partition(topic, partition, len(route.queues), "partitions count from 0")
        deadline = self._client.driver.clock.monotonic() + timeout
        while partition >= len(route.queues):
            remaining = deadline - self._client.driver.clock.monotonic()
            if remaining <= 0 or not self._client.wait_for_metadata(self._metadata.version, remaining):
                because = f"none was added within {timeout:.3g} s"
                raise _no_partition(topic, partition, len(route.queues), because)
            route = self.route(topic, max(0.0, remaining))
        return route.queues[partition]


def _no_partition(topic: str, partition: object, count: int, because: str) -> UnknownTopicOrPartition:
    return UnknownTopicOrPartition(
        f"topic {topic!r} has {count} partitions and no partition {partition!r}: {because}"
    )
