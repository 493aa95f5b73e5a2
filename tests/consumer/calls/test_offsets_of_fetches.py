"""`next_offsets` (KIP-1094); aiokafka's `last_stable_offset`, `last_poll_timestamp`, `seek_to_committed`."""

from __future__ import annotations

import time
from typing import Any

import pytest

from pykafka2 import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from pykafka2.errors import IllegalState
from pykafka2.testing import KafkaCluster

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)

pytestmark = pytest.mark.kafka(topics={"orders": 2})


def consumer_of(cluster: KafkaCluster, *topics: str, **options: Any) -> KafkaConsumer:
    more: dict[str, Any] = {"auto_offset_reset": "earliest", "enable_auto_commit": False, **options}
    return KafkaConsumer(*topics, bootstrap_servers=cluster.bootstrap_servers, **more)


def fill(cluster: KafkaCluster, count: int, *partitions: int) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for partition in partitions:
            for number in range(count):
                producer.send("orders", b"%d" % number, partition=partition)


def read(consumer: KafkaConsumer, count: int) -> None:
    found, deadline = 0, time.monotonic() + 60
    while found < count:
        assert time.monotonic() < deadline
        found += sum(map(len, consumer.poll(500).values()))


def test_last_stable_offset_stops_at_an_open_transaction(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster, 3, 0, 1)
    options: dict[str, Any] = {"bootstrap_servers": kafka_cluster.bootstrap_servers, "transactional_id": "t"}
    with KafkaProducer(options) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", b"open", partition=1).result(30)
        with consumer_of(kafka_cluster, "orders", isolation_level="read_committed") as consumer:
            assert consumer.last_stable_offset(FIRST) is None
            read(consumer, 6)
            assert [consumer.last_stable_offset(one) for one in (FIRST, SECOND)] == [3, 3]
            assert [consumer.highwater(one) for one in (FIRST, SECOND)] == [3, 4]
        producer.abort_transaction()
        kafka_cluster.wait_until(lambda: kafka_cluster.transaction("t").state == "CompleteAbort")


def test_last_stable_offset_is_unknown_without_read_committed(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster, 1, 0, 1)
    with consumer_of(kafka_cluster, "orders") as consumer:
        read(consumer, 2)
        assert [consumer.last_stable_offset(one) for one in (FIRST, SECOND)] == [None, None]
        assert [consumer.highwater(one) for one in (FIRST, SECOND)] == [1, 1]


def test_seek_to_committed_returns_the_offsets_and_reads_from_them(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster, 5, 0, 1)
    with consumer_of(kafka_cluster, group_id="g") as consumer:
        with pytest.raises(IllegalState, match="no partition is assigned"):
            consumer.seek_to_committed()
        consumer.assign([FIRST, SECOND])
        read(consumer, 10)
        consumer.commit({FIRST: 2})
        assert consumer.seek_to_committed() == {FIRST: 2, SECOND: None}
        assert [consumer.position(one) for one in (FIRST, SECOND)] == [2, 5]
        consumer.commit({SECOND: 4})
        assert consumer.seek_to_committed(SECOND) == {SECOND: 4}
        found = {partition: [] for partition in (FIRST, SECOND)}  # type: dict[TopicPartition, list[int]]
        while sum(map(len, found.values())) < 4:
            for partition, records in consumer.poll(500).items():
                found[partition] += [record.offset for record in records]
        assert found == {FIRST: [2, 3, 4], SECOND: [4]}
        with pytest.raises(IllegalState, match="bills-0 is not assigned"):
            consumer.seek_to_committed(TopicPartition("bills", 0))


def test_unassigned_partitions_are_committed_without_the_others(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster, 5, 0, 1)
    options: dict[str, Any] = {"enable_auto_commit": True, "auto_commit_interval_ms": 3_600_000}
    with consumer_of(kafka_cluster, group_id="g", **options) as consumer:
        consumer.assign([FIRST, SECOND])
        read(consumer, 10)
        consumer.incremental_unassign([FIRST])
        kafka_cluster.wait_until(lambda: consumer.committed(FIRST) == 5)
        assert consumer.committed(SECOND) is None
        assert [*consumer.next_offsets()] == [SECOND]


def test_seek_to_committed_without_a_group_raises(kafka_cluster: KafkaCluster) -> None:
    with consumer_of(kafka_cluster) as consumer:
        consumer.assign([FIRST])
        with pytest.raises(IllegalState, match=r"seek_to_committed\(\) needs a consumer with group_id"):
            consumer.seek_to_committed()


@pytest.mark.gate
@pytest.mark.parametrize("sessions", [True, False])
def test_last_poll_timestamp_of_a_paused_partition_stands_still(
    kafka_cluster: KafkaCluster, sessions: bool
) -> None:
    fill(kafka_cluster, 1, 0, 1)
    with consumer_of(
        kafka_cluster, "orders", fetch_max_wait_ms=5, enable_incremental_fetch_sessions=sessions
    ) as consumer:

        def at(partition: TopicPartition) -> int:
            return consumer.last_poll_timestamp(partition) or 0

        read(consumer, 2)
        consumer.pause(FIRST)
        paused_at = at(SECOND)
        kafka_cluster.wait_until(lambda: at(SECOND) > paused_at + 100)  # no fetch of FIRST is in flight
        last = at(FIRST)
        kafka_cluster.wait_until(lambda: at(SECOND) > last + 500)
        assert at(FIRST) < last + 100


@pytest.mark.parametrize("sessions", [True, False])
def test_last_poll_timestamp_advances_while_a_partition_is_idle(
    kafka_cluster: KafkaCluster, sessions: bool
) -> None:
    """An incremental fetch response (KIP-227) leaves an idle partition out, and confirms its offsets."""
    fill(kafka_cluster, 1, 0)
    began_ms = time.time() * 1000
    with consumer_of(
        kafka_cluster, "orders", fetch_max_wait_ms=5, enable_incremental_fetch_sessions=sessions
    ) as consumer:
        assert consumer.last_poll_timestamp(FIRST) is None
        read(consumer, 1)
        kafka_cluster.wait_until(lambda: consumer.last_poll_timestamp(SECOND) is not None)
        first = {one: consumer.last_poll_timestamp(one) or 0 for one in (FIRST, SECOND)}
        assert all(began_ms - 50 <= one <= time.time() * 1000 + 50 for one in first.values())
        for one in (FIRST, SECOND):
            kafka_cluster.wait_until(
                lambda one=one: (consumer.last_poll_timestamp(one) or 0) > first[one] + 50
            )
        consumer.unsubscribe()
        kafka_cluster.wait_until(lambda: consumer.last_poll_timestamp(FIRST) is None)


@pytest.mark.gate
def test_next_offsets_are_those_that_commit_commits(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster, 4, 0, 1)
    with consumer_of(kafka_cluster, group_id="g") as consumer:
        consumer.assign([FIRST, SECOND])
        assert consumer.next_offsets() == {}
        read(consumer, 8)
        consumer.seek(FIRST, 1)
        assert consumer.next_offsets() == {FIRST: OffsetAndMetadata(1), SECOND: OffsetAndMetadata(4, "", 0)}
        found = next(consumer)  # the other three are polled, and not returned yet
        assert (found.partition, found.offset) == (0, 1)
        expected = {FIRST: OffsetAndMetadata(2, "", 0), SECOND: OffsetAndMetadata(4, "", 0)}
        assert consumer.next_offsets() == expected
        consumer.commit()
        assert consumer.committed({FIRST, SECOND}) == consumer.next_offsets()
        consumer.unsubscribe()
        assert consumer.next_offsets() == {}


def test_next_offsets_are_after_control_and_aborted_records(kafka_cluster: KafkaCluster) -> None:
    """The last returned offset plus one would be before the marker of the transaction."""
    options: dict[str, Any] = {"bootstrap_servers": kafka_cluster.bootstrap_servers, "transactional_id": "t"}
    with KafkaProducer(options) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("orders", b"a", partition=0)
            producer.send("orders", b"b", partition=1)
        producer.begin_transaction()
        producer.send("orders", b"aborted", partition=1).result(30)
        producer.abort_transaction()
        kafka_cluster.wait_until(lambda: kafka_cluster.transaction("t").state == "CompleteAbort")
    with consumer_of(kafka_cluster, "orders", isolation_level="read_committed") as consumer:
        read(consumer, 2)
        wanted = {FIRST: 2, SECOND: 4}
        deadline = time.monotonic() + 60
        while {place: one.offset for place, one in consumer.next_offsets().items()} != wanted:
            assert time.monotonic() < deadline, consumer.next_offsets()
            assert consumer.poll(50) == {}
        assert {one: consumer.position(one) for one in wanted} == wanted
