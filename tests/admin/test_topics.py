"""Waiting for topics, against the bundled cluster in virtual time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka2 import KafkaAdminClient, NewTopic
from pykafka2.errors import KafkaTimeoutError, UnknownTopicOrPartition
from pykafka2.testing import KafkaCluster, Simulation


@pytest.fixture
def cluster(simulation: Simulation) -> KafkaCluster:
    return simulation.cluster(brokers=2)


@pytest.fixture
def admin(simulation: Simulation, cluster: KafkaCluster) -> Iterator[KafkaAdminClient]:
    servers = cluster.bootstrap_servers
    with KafkaAdminClient(bootstrap_servers=servers, runtime=simulation.runtime.at("admin")) as admin:
        yield admin


def test_waiting_for_a_topic_creates_none(admin: KafkaAdminClient) -> None:
    with pytest.raises(UnknownTopicOrPartition, match="misspelt"):
        admin.wait_for_topics(["misspelt"], timeout=2)
    assert admin.list_topics() == []


def test_a_partition_without_a_leader_is_waited_for_and_named(
    simulation: Simulation, cluster: KafkaCluster, admin: KafkaAdminClient
) -> None:
    admin.create_topics([NewTopic("orders", assignment={0: [0], 1: [1]})])
    admin.wait_for_topics(["orders"], timeout=10)
    cluster.controls.crash_broker(1)
    simulation.sleep(1)
    started = simulation.now
    with KafkaAdminClient(
        bootstrap_servers=cluster.bootstrap_servers, runtime=simulation.runtime.at("other")
    ) as other:
        with pytest.raises(KafkaTimeoutError, match=r"orders-1 within 3 s"):
            other.wait_for_topics(["orders"], timeout=3)
        assert simulation.now - started == pytest.approx(3, abs=0.5)

        def come_back() -> None:
            simulation.sleep(2)
            cluster.controls.restart_broker(1)

        simulation.spawn(come_back)
        other.wait_for_topics(["orders"], timeout=60)
        assert other.describe_topics(["orders"])["orders"].partitions[1].leader == 1
