"""Appends to one partition exclude each other and keep each connection's order; partitions do
not wait for each other.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from threading import get_ident

import pytest

from pykafka2.protocol.messages.produce import ProduceRequest, ProduceResponse
from pykafka2.testing.cluster import KafkaCluster
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import partition_of, produce, produce_request
from tests.broker.support.raw_client import RawClient

CONNECTIONS = 8
Leader = Callable[[str, int], RawClient]


def write_all(wires: list[RawClient], count: int, acks: int) -> list[list[int]]:
    """Every connection sends `count` batches of two records without waiting; their base offsets."""
    chunk = 50  # a connection's unanswered requests stay below max.pipelined.requests
    offsets: list[list[int]] = [[] for _ in wires]
    for begin in range(0, count, chunk):
        for number in range(begin, min(begin + chunk, count)):
            for who, wire in enumerate(wires):
                values = [b"%d:%d:%d" % (who, number, part) for part in range(2)]
                wire.send(produce_request("t", 0, batch(values), acks=acks), 12)
        for who, wire in enumerate(wires):
            for _ in range(begin, min(begin + chunk, count)):
                answer = partition_of(wire.receive(ProduceRequest, 12)[1])
                assert answer.error_code == 0
                offsets[who].append(answer.base_offset)
    return offsets


def check(cluster: KafkaCluster, offsets: list[list[int]], count: int) -> None:
    everything = sorted(offset for own in offsets for offset in own)
    assert everything == list(range(0, 2 * count * len(offsets), 2)), "no gap, no overlap"
    values = cluster.log("t", 0).values()
    for who, own in enumerate(offsets):
        assert own == sorted(own), "each connection's order is kept"
        for number, offset in enumerate(own):
            assert values[offset : offset + 2] == [b"%d:%d:%d" % (who, number, part) for part in range(2)]


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.kafka(brokers=1, topics={"t": 1})
def test_eight_connections_leave_no_gap_and_no_overlap(
    kafka_cluster: KafkaCluster, connect: Callable[[], RawClient]
) -> None:
    wires = [connect() for _ in range(CONNECTIONS)]
    check(kafka_cluster, write_all(wires, 1000, acks=1), 1000)


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.kafka(
    brokers=2, topics={"t": 1}, config={"threads": "separate", "num.io.threads": 4, "num.network.threads": 3}
)
def test_concurrent_produces_with_handler_threads_lose_no_record(
    kafka_cluster: KafkaCluster, leader: Leader
) -> None:
    wires = [leader("t", 0) for _ in range(CONNECTIONS)]
    check(kafka_cluster, write_all(wires, 50, acks=-1), 50)
    view = kafka_cluster.partition("t", 0)
    assert {one.log_end_offset for one in view.replicas.values()} == {800}


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.kafka(
    brokers=1,
    topics={"t": 1},
    config={"threads": "separate", "num.io.threads": 4, "num.network.threads": 3},
)
def test_four_handlers_take_turns(kafka_cluster: KafkaCluster, connect: Callable[[], RawClient]) -> None:
    """One thread at a time works on incoming requests and outgoing replies."""
    looking, most = set[int](), [0]

    def look() -> None:
        looking.add(get_ident())
        most[0] = max(most[0], len(looking))
        time.sleep(0.001)  # the others run meanwhile, if they may
        looking.discard(get_ident())

    def on_the_way_in(_: object) -> bool:
        look()
        return True

    def on_the_way_out(_: object, answer: ProduceResponse) -> ProduceResponse:
        look()
        return answer

    kafka_cluster.controls.rule(
        api="Produce", then="replace_reply", reply=on_the_way_out, where=on_the_way_in
    )
    wires = [connect() for _ in range(CONNECTIONS)]
    for _ in range(10):
        for wire in wires:
            wire.send(produce_request("t", 0, batch(), acks=1), 12)
    for wire in wires:
        for _ in range(10):
            assert partition_of(wire.receive(ProduceRequest, 12)[1]).error_code == 0
    handlers = {one.name for one in threading.enumerate() if "handler" in one.name}
    assert len(handlers) == 4, handlers
    assert most == [1]


@pytest.mark.kafka(brokers=1, topics={"held": 1, "free": 2})
def test_partitions_do_not_wait_for_each_other(
    kafka_cluster: KafkaCluster, connect: Callable[[], RawClient]
) -> None:
    held = connect()
    kafka_cluster.controls.hold(ProduceRequest, topic="held")
    held.send(produce_request("held", 0, batch([b"held"])), 12)
    for number in range(20):
        assert produce(connect(), "free", number % 2, batch()).error_code == 0
    assert kafka_cluster.log("held", 0).values() == []
    kafka_cluster.controls.release()
    assert partition_of(held.receive(ProduceRequest, 12)[1]).error_code == 0
    assert kafka_cluster.log("held", 0).values() == [b"held"]
