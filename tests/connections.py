"""Fixtures of the tests that talk to brokers: a cluster with connections that end with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from pykafka2.testing.cluster import KafkaCluster
from tests.broker.support.raw_client import RawClient


class LiveCluster:
    """A running cluster, and connections to its brokers; all are closed after the test."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self.cluster = cluster
        self.controls = cluster.controls
        self.history = cluster.history
        self.wires: list[RawClient] = []

    def connect(self, broker_id: int = 0) -> RawClient:
        """Open a new connection to a broker."""
        self.wires.append(RawClient(self.cluster.brokers[broker_id].address))
        return self.wires[-1]

    def close(self) -> None:
        """Close all connections."""
        for wire in self.wires:
            wire.close()

    def leader_id(self, partition: int = 0) -> int:
        """Return the id of the broker that leads a partition of topic "t"."""
        return self.cluster.partition("t", partition).leader

    def leader(self, topic: str = "t", partition: int = 0) -> RawClient:
        """Open a new connection to the broker that leads a partition."""
        return self.connect(self.cluster.partition(topic, partition).leader)

    def wait_for(self, predicate: Callable[[], bool]) -> None:
        """Poll until the predicate is true, at most half a minute."""
        for _ in range(6000):
            if predicate():
                return
            self.cluster.runtime.wait_until(lambda: False, 0.005)
        raise AssertionError("it did not come true within half a minute")


@pytest.fixture
def live(kafka_cluster: KafkaCluster) -> Iterator[LiveCluster]:
    """The cluster of the test's mark, with connections."""
    cluster = LiveCluster(kafka_cluster)
    yield cluster
    cluster.close()


@pytest.fixture
def wire(live: LiveCluster) -> RawClient:
    """A connection to the leader of the first partition of topic "t", or to broker 0 without this topic."""
    return live.leader() if "t" in live.cluster.topics() else live.connect()
