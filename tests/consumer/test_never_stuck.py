"""A consumer goes on reading, whatever else is paused, made anew or answered wrongly: in virtual time."""

from __future__ import annotations

import pytest

from pykafka2.consumer.consumer import KafkaConsumer
from pykafka2.types import TopicPartition
from tests.consumer.logs import LogCluster

ORDERS = [TopicPartition("orders", number) for number in range(4)]
SMALL = {"queued_max_bytes": 4000, "max_partition_fetch_bytes": 1000}


def backlogged(count: int = 200) -> LogCluster:
    """One broker with four partitions, each with many times what the buffer holds."""
    cluster = LogCluster({"orders": [0, 0, 0, 0]}, brokers=1)
    for partition in range(4):
        for _ in range(count):
            cluster.append("orders", partition, b"x" * 50)
    return cluster


def read(consumer: KafkaConsumer, polls: int, timeout_ms: float = 1000) -> dict[TopicPartition, list[int]]:
    """The offsets that so many polls bring."""
    found: dict[TopicPartition, list[int]] = {}
    for _ in range(polls):
        for partition, records in consumer.poll(timeout_ms).items():
            found.setdefault(partition, []).extend(record.offset for record in records)
    return found


# ---------------------------------------------------------------------------------------- the budget


def test_what_was_fetched_of_paused_partitions_does_not_starve_the_others() -> None:
    cluster = backlogged()
    with cluster.consumer("orders", **SMALL) as consumer:
        while not consumer.metrics()["buffered-bytes"]:
            consumer.poll()
            cluster.runtime.run_for(1)
        consumer.pause(*ORDERS[1:])
        before = cluster.now
        found: list[int] = []
        while len(found) < 200 and cluster.now - before < 60:
            found += read(consumer, 1).get(ORDERS[0], [])
        assert found == list(range(200))
        assert cluster.now - before < 5
        assert consumer.metrics()["buffered-bytes"] <= 4000, "memory stays bounded all the same"


def test_what_made_room_for_others_is_fetched_again_after_resume() -> None:
    cluster = backlogged(100)
    with cluster.consumer("orders", **SMALL) as consumer:
        first = read(consumer, 3)
        consumer.pause(*ORDERS[1:])
        second = read(consumer, 60, 100)
        assert set(second) == {ORDERS[0]}
        consumer.resume(*ORDERS[1:])
        third = read(consumer, 100, 100)
        for partition in ORDERS:
            together = [offset for part in (first, second, third) for offset in part.get(partition, [])]
            assert together == list(range(100)), "each once, and in order"


def test_a_fetch_under_way_when_room_is_made_leaves_no_gap() -> None:
    cluster = backlogged(100)
    with cluster.consumer("orders", **SMALL) as consumer:
        first = read(consumer, 3)
        for round_number in range(40):
            paused = [one for one in ORDERS if one.partition != round_number % 4]
            consumer.pause(*paused)
            for partition, offsets in read(consumer, 2, 0.4).items():
                first.setdefault(partition, []).extend(offsets)
            cluster.runtime.run_for(0.0005)
            consumer.resume(*paused)
        for partition, offsets in read(consumer, 100, 100).items():
            first.setdefault(partition, []).extend(offsets)
        assert all(first[partition] == list(range(100)) for partition in ORDERS)


@pytest.mark.parametrize("slow", ORDERS)
def test_a_partition_with_nothing_waiting_is_fetched_though_others_fill_the_buffer(
    slow: TopicPartition,
) -> None:
    cluster = backlogged()
    cluster.log("orders", slow.partition).batches.clear()
    cluster.log("orders", slow.partition).end = 0
    with cluster.consumer("orders", **SMALL) as consumer:
        for _ in range(5):
            consumer.poll(max_records=1)
            cluster.runtime.run_for(1)
        assert consumer.metrics()["buffered-bytes"] > 2000, "more than half is full"
        cluster.append("orders", slow.partition, b"late")
        cluster.runtime.run_for(1)
        found = [partition for _ in range(4) for partition in consumer.poll(max_records=1)]
        assert slow in found
