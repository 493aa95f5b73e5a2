"""The routes of all topics (topic_route.py), renewed when the metadata changes.

Used on any thread. `route` and `explicit` can block for metadata, as `send` can.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pykafka2.cluster.client import PATIENCE, ClusterClient
from pykafka2.cluster.snapshot import ClusterSnapshot
from pykafka2.errors import UnknownTopicOrPartition
from pykafka2.metrics import Metrics
from pykafka2.producer.accumulator.accumulator import Accumulator
from pykafka2.producer.accumulator.partition_queue import PartitionQueue
from pykafka2.producer.partitioning.sticky import StickyChoice
from pykafka2.producer.partitioning.topic_route import NO_SNAPSHOT, Route
from pykafka2.text import counted


class Routes:
    """The routes of all topics in use."""

    def __init__(
        self, client: ClusterClient, accumulator: Accumulator, sticky: StickyChoice, metrics: Metrics
    ) -> None:
        self._client = client
        self._metadata = client.metadata
        self._accumulator = accumulator
        self.sticky = sticky
        self._metrics = metrics
        self.by_topic: dict[str, Route] = {}
        """Read by `send` without a lock; a route is current while its snapshot is the metadata's."""
        self.waiting: dict[object, tuple[str, float]] = {}
        """Calls that block for metadata, with the reason and the start time of the wait; for `explain`.

        Each operation on it is one step in C, as any thread can use it.
        """
        self._newest = NO_SNAPSHOT
        """The snapshot for which routes with earlier ones were replaced."""

    def current(self, topic: str) -> Route | None:
        """Return the topic's route if it is current."""
        route = self.by_topic.get(topic)
        return route if route is not None and route.snapshot is self._metadata.snapshot else None

    def route(self, topic: str, timeout: float) -> Route:
        """Return the current route. Wait for metadata, and raise as `ClusterClient.wait_for_topic` does."""
        snapshot = self._metadata.snapshot
        known = snapshot.topics.get(topic)
        if known is None or not known.is_usable:
            self._accumulator.check_not_interrupted()  # the IO thread can wait for a lock of this thread
            with self._noted_waiting(f"the metadata of topic {topic!r}") as began:
                try:
                    known = self._client.wait_for_topic(topic, timeout)
                finally:
                    waited = self._client.driver.clock.monotonic() - began
                    self._metrics.count_ns("metadata-wait-time-ns-total", waited)
            snapshot = self._metadata.snapshot
        count = max(known.partitions) + 1
        queues = [self._accumulator.queue(topic, partition) for partition in range(count)]
        route = Route(snapshot, known, queues)
        self.sticky.begin(route, self.by_topic.get(topic))
        self.by_topic[topic] = route
        if snapshot is not self._newest:
            self._newest = snapshot
            self._drop_old_snapshots(snapshot)
        return route

    @contextmanager
    def _noted_waiting(self, what: str, since: float | None = None) -> Iterator[float]:
        """Keep a call in `waiting` while it blocks; yields the start time."""
        call, since = object(), self._client.driver.clock.monotonic() if since is None else since
        try:
            self.waiting[call] = (what, since)
            yield since
        finally:
            self.waiting.pop(call, None)

    def _drop_old_snapshots(self, newest: ClusterSnapshot) -> None:
        """Release old snapshots, which have all topics, as a topic may never be used again.

        A current route that another thread added meanwhile is created again.
        """
        for topic, route in [*self.by_topic.items()]:
            if route.snapshot is not newest and route.snapshot is not NO_SNAPSHOT:
                self.by_topic[topic] = route.without_snapshot()

    def explicit(self, route: Route, topic: str, partition: int, timeout: float) -> PartitionQueue:
        """Return the queue of a partition that the caller names and the route lacks.

        Partitions can have been added, so it waits for new metadata of the topic, as Java does.

        Raises:
            UnknownTopicOrPartition: it does not exist within the timeout.
        """
        if partition < 0:
            raise _no_partition(topic, partition, len(route.queues), "partitions count from 0")
        self._accumulator.check_not_interrupted()
        monotonic = self._client.driver.clock.monotonic
        began = monotonic()
        deadline = began + timeout
        tell_at = began + PATIENCE
        while partition >= len(route.queues):
            remaining = deadline - monotonic()
            if monotonic() >= tell_at and remaining > 0:
                missing = _no_partition(topic, partition, len(route.queues), "it can still be added")
                self._client.warn_waiting(missing, remaining)
                tell_at = deadline
            with self._noted_waiting(f"partition {partition} of topic {topic!r} to be added", began):
                is_news = remaining > 0 and self._client.wait_for_metadata(self._metadata.version, remaining)
            if not is_news:
                because = f"none was added within {timeout:.3g} s"
                raise _no_partition(topic, partition, len(route.queues), because)
            route = self.route(topic, max(0.0, remaining))
        return route.queues[partition]


def _no_partition(topic: str, partition: object, count: int, because: str) -> UnknownTopicOrPartition:
    return UnknownTopicOrPartition(
        f"topic {topic!r} has {counted(count, 'partition')} and no partition {partition!r}: {because}"
    )
