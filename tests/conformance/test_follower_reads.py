"""A reader with a rack is sent to a follower alike by the bundled broker and by Apache Kafka.

An Apache Kafka of its own, because its brokers need racks.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from pykafka2.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from pykafka2.records.batch import batches
from pykafka2.testing import KafkaCluster
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import data_of, fetch_request, produce
from tests.broker.support.raw_client import RawClient

from .maven import KafkaJars
from .real_kafka import RealKafka

SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
RACKS = ["rack-0", "rack-1", "rack-2"]
KEY = ("racked", 0)


def wait_for(predicate: Callable[[], bool], what: str) -> None:
    for _ in range(1000):
        if predicate():
            return
        time.sleep(0.01)
    raise AssertionError(f"{what} did not come true within ten seconds")


def read(wire: RawClient, offset: int, rack: str, version: int) -> tuple[Any, ...]:
    request = fetch_request(*KEY, offset)
    request.rack_id = rack
    data = data_of(wire.call(request, version))
    offsets = [one.base_offset for one in batches(data.records or b"")]
    marks = (data.high_watermark, data.last_stable_offset, data.log_start_offset)
    return data.error_code, data.preferred_read_replica, offsets, marks


def story(addresses: list[str]) -> list[Any]:
    """Three replicas, broker 0 leads: the responses for readers in every rack, from it and from followers."""
    with ExitStack() as stack:
        wires = [stack.enter_context(RawClient(address)) for address in addresses]
        topic = CreatableTopic(
            name=KEY[0],
            num_partitions=-1,
            replication_factor=-1,
            assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[0, 1, 2])],
            configs=[],
        )
        made = wires[0].call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5)
        assert made.topics[0].error_code == 0
        wait_for(lambda: read(wires[0], 0, "", 12)[0] == 0, "the leader leads")
        wait_for(lambda: produce(wires[0], *KEY, batch([b"0"])).error_code == 0, "the ISR is complete")
        for value in (b"1", b"2"):
            assert produce(wires[0], *KEY, batch([value])).error_code == 0
        for follower in (1, 2):
            wait_for(lambda one=follower: read(wires[one], 0, "", 12)[3][0] == 3, "its high watermark")  # type: ignore[misc]
        return [
            *(read(wires[0], 0, rack, 12) for rack in (*RACKS, "", "rack-9")),
            *(read(wires[0], 0, "rack-1", version) for version in (10, 11)),
            *(read(wires[0], offset, "rack-1", 12) for offset in (3, 4, -1)),
            *(read(wires[1], offset, "rack-1", 12) for offset in (0, 2, 3, 4)),
            *(read(wires[2], 0, rack, 12) for rack in ("rack-1", "")),
            read(wires[1], 0, "", 10),
        ]


@pytest.mark.real_kafka
def test_readers_are_sent_to_followers_alike(jars: KafkaJars) -> None:
    with KafkaCluster(brokers=3, racks=RACKS, config={"replica.selector.class": SELECTOR}) as cluster:
        ours = story(cluster.bootstrap_servers.split(","))
    extra = f"broker.rack=rack-{{node}}\nreplica.selector.class={SELECTOR}\n"
    with RealKafka(jars, brokers=3, extra=extra) as kafka:
        theirs = story(kafka.start().bootstrap_servers.split(","))
    assert ours == theirs
    assert ours[1][1:3] == (1, []), "a reader of rack-1 is sent to broker 1"
