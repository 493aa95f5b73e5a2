"""Commits on real sockets and threads, against the bundled cluster."""

from __future__ import annotations

import threading
import time

import pytest

from pykafka2 import KafkaConsumer, KafkaProducer, TopicPartition
from pykafka2.errors import ClientFailed, ConcurrentUse
from pykafka2.protocol.messages.committed_offsets import OffsetCommitRequest
from pykafka2.protocol.messages.fetch import FetchRequest
from pykafka2.testing import KafkaCluster
from tests.ctrl_c import interrupted

pytestmark = pytest.mark.slow

ORDERS = TopicPartition("orders", 0)


def reader(cluster: KafkaCluster, *, auto: bool = False) -> KafkaConsumer:
    consumer = KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers,
        group_id="readers",
        auto_offset_reset="earliest",
        enable_auto_commit=auto,
    )
    consumer.assign([ORDERS])
    return consumer


def produce(cluster: KafkaCluster, count: int) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(count):
            producer.send("orders", b"%d" % number)


@pytest.mark.gate
@pytest.mark.kafka(topics={"orders": 1})
def test_a_loop_that_commits_each_record_resumes_where_it_stopped(kafka_cluster: KafkaCluster) -> None:
    produce(kafka_cluster, 300)
    found: list[int] = []
    for _ in range(3):
        with reader(kafka_cluster) as consumer:
            for record in consumer:
                found.append(record.offset)
                consumer.commit_async()
                if len(found) % 100 == 0:
                    break
    assert found == list(range(300))


@pytest.mark.kafka(topics={"orders": 1})
def test_ctrl_c_ends_a_commit_at_once_and_the_consumer_continues(kafka_cluster: KafkaCluster) -> None:
    with reader(kafka_cluster) as consumer:
        consumer.commit({ORDERS: 0})
        kafka_cluster.controls.hold(OffsetCommitRequest, times=1)
        with interrupted(lambda: kafka_cluster.controls.held(OffsetCommitRequest)):
            consumer.commit({ORDERS: 1}, timeout_ms=30_000)
        kafka_cluster.controls.release(OffsetCommitRequest)
        consumer.commit({ORDERS: 2}, timeout_ms=10_000)
        assert consumer.committed(ORDERS) == 2


@pytest.mark.gate
@pytest.mark.kafka(topics={"orders": 1})
def test_ctrl_c_during_close_still_closes_the_consumer(kafka_cluster: KafkaCluster) -> None:
    produce(kafka_cluster, 10)
    consumer = reader(kafka_cluster, auto=True)
    next(consumer)
    kafka_cluster.controls.hold(OffsetCommitRequest)
    with interrupted(lambda: kafka_cluster.controls.held(OffsetCommitRequest)):
        consumer.close(timeout=30)
    consumer.close()


@pytest.mark.kafka(brokers=1, topics={"orders": 1})
def test_a_commit_from_another_thread_is_refused_at_once(kafka_cluster: KafkaCluster) -> None:
    with reader(kafka_cluster) as consumer:
        consumer.commit({ORDERS: 0})
        kafka_cluster.controls.hold(OffsetCommitRequest, times=1)
        inside = threading.Thread(target=lambda: consumer.commit({ORDERS: 1}))
        inside.start()
        deadline = time.monotonic() + 60
        while not kafka_cluster.controls.held(OffsetCommitRequest) and time.monotonic() < deadline:
            time.sleep(0.001)
        with pytest.raises(ConcurrentUse, match="commit_async"):
            consumer.commit_async()
        kafka_cluster.controls.release(OffsetCommitRequest)
        inside.join(30)
        assert consumer.committed(ORDERS) == 1


@pytest.mark.kafka(brokers=1, topics={"orders": 1})
def test_a_commit_is_written_while_a_fetch_is_held_by_the_same_broker(kafka_cluster: KafkaCluster) -> None:
    with reader(kafka_cluster) as consumer:
        consumer.commit({ORDERS: 0})
        kafka_cluster.controls.hold(FetchRequest)
        consumer.poll(200)
        before = time.monotonic()
        consumer.commit({ORDERS: 0})
        assert time.monotonic() - before < 20, "not behind the fetch, which is held for good"
        peers = {
            entry.api: entry.peer
            for entry in kafka_cluster.history.entries()
            if entry.api in ("Fetch", "OffsetCommit")
        }
        assert peers["Fetch"] != peers["OffsetCommit"], "the coordinator has a connection of its own"
        kafka_cluster.controls.release(FetchRequest)


@pytest.mark.kafka(brokers=1, topics={"orders": 1})
@pytest.mark.parametrize("is_member", [False, True])
def test_consumer_with_a_dead_io_thread_can_be_closed(kafka_cluster: KafkaCluster, is_member: bool) -> None:
    produce(kafka_cluster, 3)
    consumer = reader(kafka_cluster, auto=True)
    if is_member:
        consumer.unsubscribe()
        consumer.subscribe(["orders"])
    assert next(consumer).offset == 0

    def fail(now: float) -> None:
        raise LookupError("a bug")

    consumer._core.cluster.driver.call_soon(fail)
    deadline = time.monotonic() + 60
    while consumer._core.cluster.driver.failure is None and time.monotonic() < deadline:
        time.sleep(0.001)
    with pytest.raises(ClientFailed, match="a bug"):
        consumer.commit()
    consumer.close()
