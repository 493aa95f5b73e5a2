"""Every broker takes what changes the cluster, and all see the change."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from pykafka2 import KafkaAdminClient, KafkaProducer, errors
from pykafka2.admin import ConfigResource, NewTopic
from pykafka2.errors import name_of
from pykafka2.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pykafka2.testing import KafkaCluster
from tests.broker.support.admin_requests import (
    SET,
    TOPIC,
    add_partitions,
    alter,
    create,
    delete,
    outcome,
    topic_of,
    value_of,
)
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import produce
from tests.broker.support.raw_client import RawClient

WaitFor = Callable[[Callable[[], bool]], None]
DONE = ("NONE", None)
QUICK_FAILURE: dict[str, Any] = {"delivery_timeout_ms": 500, "request_timeout_ms": 300}


def partitions_seen(wire: RawClient, topic: str) -> int:
    """How many partitions a broker knows of; -1 where it does not know the topic."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    (found,) = wire.call(request, 12).topics
    return -1 if found.error_code else len(found.partitions)


@pytest.mark.gate
@pytest.mark.kafka(brokers=3)
def test_each_broker_takes_the_write_and_all_see_it(
    kafka_cluster: KafkaCluster, connect: Callable[[int], RawClient], wait_for: WaitFor
) -> None:
    wires = [connect(broker) for broker in range(3)]
    for broker, wire in enumerate(wires):
        name = f"by-{broker}"
        assert outcome(create(wire, topic_of(name, 1, 3))[0]) == DONE
        wait_for(lambda name=name: [partitions_seen(one, name) for one in wires] == [1] * 3)
        assert add_partitions(wire, name, 4) == DONE
        wait_for(lambda name=name: [partitions_seen(one, name) for one in wires] == [4] * 3)
        assert alter(wire, TOPIC, name, ("retention.ms", SET, "12345")) == DONE
        wait_for(
            lambda name=name: (
                [value_of(one, TOPIC, name, "retention.ms") for one in wires] == [("12345", 1)] * 3
            )
        )
        assert outcome(delete(wire, name)[0]) == DONE
        wait_for(lambda name=name: [partitions_seen(one, name) for one in wires] == [-1] * 3)


@pytest.mark.gate
@pytest.mark.kafka(brokers=3)
def test_admin_client_at_each_broker_creates_alters_and_deletes(
    kafka_cluster: KafkaCluster, wait_for: WaitFor
) -> None:
    """Every broker shows each change soon, whichever broker the client was pointed at."""
    with ExitStack() as stack:
        admins = [
            stack.enter_context(KafkaAdminClient(bootstrap_servers=broker.address))
            for broker in kafka_cluster.brokers
        ]

        def shown(topic: str, setting: str) -> list[tuple[int, str | None]]:
            """The number of partitions and the setting by each broker; -1 without the topic."""
            return [_shown_by(address, topic, setting) for address in addresses]

        addresses = [broker.address for broker in kafka_cluster.brokers]
        for number, admin in enumerate(admins):
            topic = f"by-{number}"
            resource = ConfigResource("TOPIC", topic)
            admin.create_topics([NewTopic(topic, partitions=2, replication_factor=2)])
            wait_for(lambda topic=topic: shown(topic, "retention.ms") == [(2, "604800000")] * 3)
            admin.create_partitions({topic: 4})
            admin.alter_configs({resource: {"retention.ms": 12_345}})
            wait_for(lambda topic=topic: shown(topic, "retention.ms") == [(4, "12345")] * 3)
            admin.reset_configs([resource])
            wait_for(lambda topic=topic: shown(topic, "retention.ms") == [(4, "604800000")] * 3)
            admin.delete_topics([topic])
            wait_for(lambda topic=topic: shown(topic, "retention.ms") == [(-1, None)] * 3)
        assert kafka_cluster.topics() == []


def _shown_by(address: str, topic: str, setting: str) -> tuple[int, str | None]:
    """Return what one broker shows of a topic, by requests to that broker alone."""
    with RawClient(address) as wire:
        count = partitions_seen(wire, topic)
        return count, value_of(wire, TOPIC, topic, setting)[0] if count >= 0 else None


@pytest.mark.kafka(brokers=2)
def test_min_insync_replicas_altered_by_the_admin_client_acts_at_once(
    kafka_cluster: KafkaCluster, wait_for: WaitFor
) -> None:
    """With ISR = {leader}, the producer's next record fails after 1 -> 2 and is written after 2 -> 1."""
    kafka_cluster.create_topic("t", 1, 2)
    leader = kafka_cluster.partition("t", 0).leader
    kafka_cluster.controls.stop_broker(1 - leader)
    wait_for(lambda: kafka_cluster.partition("t", 0).isr == (leader,))
    servers = kafka_cluster.brokers[leader].address
    resource = ConfigResource("TOPIC", "t")
    with (
        KafkaAdminClient(bootstrap_servers=servers) as admin,
        KafkaProducer(bootstrap_servers=servers, **QUICK_FAILURE) as producer,
    ):
        producer.send("t", b"1").result(10)
        admin.alter_configs({resource: {"min.insync.replicas": 2}})
        with pytest.raises(errors.KafkaError, match=r"min\.insync\.replicas is 2"):
            producer.send("t", b"2").result(10)
        admin.alter_configs({resource: {"min.insync.replicas": 1}})
        producer.send("t", b"3").result(10)
    assert kafka_cluster.log("t", 0).values() == [b"1", b"3"]


@pytest.mark.kafka(brokers=2)
def test_min_insync_replicas_acts_at_once(
    kafka_cluster: KafkaCluster, connect: Callable[[int], RawClient], wait_for: WaitFor
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
