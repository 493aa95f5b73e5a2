"""Three scripted brokers that answer heartbeats, and a client that knows the topic `orders`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka2.cluster.client import ClusterClient
from pykafka2.protocol.messages.group import HeartbeatRequest, HeartbeatResponse
from tests.cluster.scripted import ScriptedCluster


@pytest.fixture
def cluster() -> ScriptedCluster:
    cluster = ScriptedCluster(brokers=3, topics={"orders": [0, 1, 2]})
    cluster.on(HeartbeatRequest, lambda request, broker: HeartbeatResponse())
    return cluster


@pytest.fixture
def client(cluster: ScriptedCluster) -> Iterator[ClusterClient]:
    client = cluster.client()
    client.wait_for_topic("orders", 10)
    yield client
    client.close()
