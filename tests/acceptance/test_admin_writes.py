"""Every broker takes what changes the cluster, and all see the change."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pykafka2 import KafkaAdminClient
from pykafka2.admin.values import NewTopic
from pykafka2.errors import name_of
from pykafka2.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pykafka2.testing import KafkaCluster
from tests.broker.admin_wire import (
    SET,
    TOPIC,
    add_partitions,
    alter,
    create,
    delete,
    told,
    topic_of,
    value_of,
)
from tests.testing.wire import Wire, batch, produce

WaitFor = Callable[[Callable[[], bool]], None]
DONE = ("NONE", None)


def partitions_seen(wire: Wire, topic: str) -> int:
    """How many partitions a broker knows of; -1 where it does not know the topic."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    (found,) = wire.call(request, 12).topics
    return -1 if found.error_code else len(found.partitions)


@pytest.mark.kafka(brokers=3)
def test_each_broker_takes_the_write_and_all_see_it(
    kafka_cluster: KafkaCluster, connect: Callable[[int], Wire], wait_for: WaitFor
) -> None:
    wires = [connect(broker) for broker in range(3)]
    for broker, wire in enumerate(wires):
        name = f"by-{broker}"
        assert told(create(wire, topic_of(name, 1, 3))[0]) == DONE
        wait_for(lambda name=name: [partitions_seen(one, name) for one in wires] == [1] * 3)
        assert add_partitions(wire, name, 4) == DONE
        wait_for(lambda name=name: [partitions_seen(one, name) for one in wires] == [4] * 3)
        assert alter(wire, TOPIC, name, ("retention.ms", SET, "12345")) == DONE
        wait_for(
            lambda name=name: (
                [value_of(one, TOPIC, name, "retention.ms") for one in wires] == [("12345", 1)] * 3
            )
        )
        assert told(delete(wire, name)[0]) == DONE
        wait_for(lambda name=name: [partitions_seen(one, name) for one in wires] == [-1] * 3)


@pytest.mark.kafka(brokers=3)
def test_our_admin_client_at_each_broker(kafka_cluster: KafkaCluster) -> None:
    for broker in kafka_cluster.brokers:
        with KafkaAdminClient(bootstrap_servers=broker.address) as admin:
            admin.create_topics([NewTopic("t", partitions=2, replication_factor=2)])
            assert kafka_cluster.topics() == ["t"]
            admin.delete_topics(["t"])
            assert kafka_cluster.topics() == []


@pytest.mark.kafka(brokers=2)
def test_min_insync_replicas_acts_at_once(
    kafka_cluster: KafkaCluster, connect: Callable[[int], Wire], wait_for: WaitFor
) -> None:
    """With ISR = {leader}, 1 -> 2 makes the next acks=all produce fail; 2 -> 1 lets it through."""
    kafka_cluster.create_topic("t", 1, 2)
    leader = kafka_cluster.partition("t", 0).leader
    kafka_cluster.controls.stop_broker(1 - leader)
    wait_for(lambda: kafka_cluster.partition("t", 0).isr == (leader,))
    wire = connect(leader)
    assert produce(wire, "t", 0, batch([b"1"])).error_code == 0
    for value, error in (("2", "NOT_ENOUGH_REPLICAS"), ("1", "NONE")):
        assert alter(wire, TOPIC, "t", ("min.insync.replicas", SET, value)) == DONE
        assert name_of(produce(wire, "t", 0, batch([b"2"])).error_code) == error
    assert kafka_cluster.log("t", 0).values() == [b"1", b"2"]
