"""Replies of one connection leave in the order of its requests under 1,000 orders of completion.

Produces to four partitions wait for their replicas, with Metadata, acks=0 and acks=1 between them; then their
high watermarks advance in a random order, one at a time.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from pykafka2.broker.broker import Broker
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.messages.produce import ProduceRequest
from pykafka2.testing import KafkaCluster
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import produce_request
from tests.broker.support.raw_client import RawClient

METADATA = MetadataRequest(topics=[])
ORDERS = 1000


def make_safe(cluster: KafkaCluster, broker: Broker, partition: int) -> None:
    """Act as if the replicas had just fetched all records of this partition."""
    with cluster.lock:
        log = broker.replicas.replicas["t", partition].log
        log.advance_high_watermark(log.log_end_offset)
        broker.replicas.moved(("t", partition))
        broker.replicas.complete_delayed(cluster.runtime.clock.monotonic())


def send_all(wire: RawClient, partitions: list[int], chance: random.Random) -> list[tuple[type, int]]:
    """A produce for each partition with something else behind some; kinds and ids of the replies to come."""
    expected: list[tuple[type, int]] = []
    for partition in partitions:
        held = produce_request("t", partition, batch(), timeout_ms=60_000)
        expected.append((ProduceRequest, wire.send(held, 12)))
        what = chance.choice(("nothing", "metadata", "acks 0", "acks 1"))
        if what == "metadata":
            expected.append((MetadataRequest, wire.send(METADATA, 12)))
        elif what == "acks 0":
            wire.send(produce_request("t", partition, batch(), acks=0), 12)
        elif what == "acks 1":
            other = produce_request("t", partition, batch(), acks=1)
            expected.append((ProduceRequest, wire.send(other, 12)))
    return expected


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.kafka(brokers=2, topics={"t": 8})
def test_a_thousand_orders_of_completion_never_change_the_order_of_replies(
    kafka_cluster: KafkaCluster, connect: Callable[[int], RawClient], wait_for: Callable[..., None]
) -> None:
    chance = random.Random(22)
    broker = kafka_cluster.brokers[0]
    led = [number for number in range(8) if kafka_cluster.partition("t", number).leader == 0]
    assert len(led) == 4
    kafka_cluster.controls.pause_followers()
    wire = connect(0)
    # The followers' fetches that are under way bring the first records over.
    send_all(wire, led, random.Random(0))
    wait_for(lambda: broker.replicas.produces.waiting() == len(led))
    wait_for(lambda: broker.replicas.fetches.waiting() == 0)
    wire.close()
    wait_for(lambda: broker.replicas.produces.waiting() == 0)
    wire = connect(0)
    for order in range(ORDERS):
        expected = send_all(wire, chance.sample(led, len(led)), chance)
        while broker.replicas.produces.waiting() < len(led):
            kafka_cluster.runtime.wait_until(lambda: False, 0.0003)
        for partition in chance.sample(led, len(led)):
            make_safe(kafka_cluster, broker, partition)
        assert [(kind, wire.receive(kind, 12)[0]) for kind, _ in expected] == expected, f"order {order}"
