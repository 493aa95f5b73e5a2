"""poll_columns() between two records of an iteration, and the count of consumed bytes."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka2.consumer.consumer import KafkaConsumer
from pykafka2.errors import CorruptMessage
from pykafka2.types import TopicPartition
from tests.consumer.logs import LogCluster

ORDERS = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
BATCHES, RECORDS = 2, 3


@pytest.fixture
def cluster() -> LogCluster:
    """Two partitions with two batches of three records; values are the offsets."""
    cluster = LogCluster({"orders": [0, 0]}, brokers=1)
    for topic, partition in ORDERS:
        for batch in range(BATCHES):
            cluster.append(topic, partition, *(b"%d" % (batch * RECORDS + row) for row in range(RECORDS)))
    return cluster


def reader(cluster: LogCluster, **options: Any) -> KafkaConsumer:
    """Return a consumer that has fetched everything and returned nothing."""
    consumer = cluster.consumer(**options)
    consumer.assign(ORDERS)
    assert consumer.poll(1000, update_offsets=False)
    return consumer


@pytest.mark.parametrize("taken", [1, 2, 3, 4, 6, 7, 11])
def test_poll_columns_after_next_returns_the_waiting_records_at_once(cluster: LogCluster, taken: int) -> None:
    with reader(cluster) as consumer:
        offsets: dict[TopicPartition, list[int]] = {partition: [] for partition in ORDERS}
        for _ in range(taken):
            record = next(consumer)
            offsets[TopicPartition(record.topic, record.partition)].append(record.offset)
        for partition, columns in consumer.poll_columns(0).items():
            assert columns.values == [b"%d" % offset for offset in columns.offsets]
            offsets[partition] += columns.offsets
        assert offsets == {partition: list(range(BATCHES * RECORDS)) for partition in ORDERS}
        assert consumer.poll_columns(0) == consumer.poll(0) == {}
        cluster.append("orders", 1, b"new")
        assert next(consumer).value == b"new"


def test_poll_columns_after_next_reads_unfetched_records_later(cluster: LogCluster) -> None:
    with reader(cluster, max_poll_records=5) as consumer:
        found = [next(consumer).value]
        for _ in range(4):
            for columns in consumer.poll_columns(0, max_records=1).values():
                found += columns.values
        assert sorted(found) == sorted(2 * [b"%d" % offset for offset in range(BATCHES * RECORDS)])


def test_partition_that_is_put_back_and_not_read_yet_has_no_leader_epoch(cluster: LogCluster) -> None:
    """That of the last returned record could be newer than the position's, as in a commit."""
    with reader(cluster) as consumer:
        next(consumer)
        assert set(consumer._core.subscription.leader_epochs) == set(ORDERS)
        (read,) = consumer.poll_columns(0, max_records=1)
        assert set(consumer._core.subscription.leader_epochs) <= {read}


def test_poll_columns_after_next_raises_for_the_damage_behind_the_records(cluster: LogCluster) -> None:
    log = cluster.log("orders", 0)
    log.batches[1] = log.batches[1][:-1] + bytes([log.batches[1][-1] ^ 1])
    with cluster.consumer() as consumer:
        consumer.assign(ORDERS[:1])
        consumer.poll(1000, update_offsets=False)
        assert next(consumer).value == b"0"
        assert [columns.values for columns in consumer.poll_columns(0).values()] == [[b"1", b"2"]]
        with pytest.raises(CorruptMessage, match="orders-0"):
            consumer.poll_columns(0)


def test_poll_columns_after_next_raises_for_the_damage_of_a_partition_without_waiting_records(
    cluster: LogCluster,
) -> None:
    log = cluster.log("orders", 0)
    log.batches[1] = log.batches[1][:-1] + bytes([log.batches[1][-1] ^ 1])
    with reader(cluster) as consumer:
        values = [next(consumer).value for _ in range(RECORDS + 1)]
        for columns in consumer.poll_columns(0).values():
            values += columns.values
        assert sorted(values) == sorted([b"0", b"1", b"2", *(b"%d" % number for number in range(6))])
        with pytest.raises(CorruptMessage, match="orders-0"):
            consumer.poll_columns(0)


def test_bytes_consumed_total_has_all_records_right_after_the_poll(cluster: LogCluster) -> None:
    total = sum(len(batch) for partition in ORDERS for batch in cluster.log(*partition).batches)
    with reader(cluster) as consumer:
        assert consumer.metrics()["bytes-consumed-total"] == 0
        assert len(consumer.poll(0)) == len(ORDERS)
        assert consumer.metrics()["bytes-consumed-total"] == total
        assert consumer.poll(0) == {}
        assert consumer.metrics()["bytes-consumed-total"] == total


@pytest.mark.parametrize("taken", [1, 2, 3, 4, 6, 7, 11])
def test_bytes_of_records_that_are_read_again_count_once(cluster: LogCluster, taken: int) -> None:
    total = sum(len(batch) for partition in ORDERS for batch in cluster.log(*partition).batches)
    with reader(cluster) as consumer:
        for _ in range(taken):
            next(consumer)
        consumer.poll_columns(0)
        assert consumer.metrics()["bytes-consumed-total"] == total
        for _ in range(2):
            consumer._core.poller.collector.undo_last_pass()
            consumer.poll_columns(0)
            assert consumer.metrics()["bytes-consumed-total"] == total
