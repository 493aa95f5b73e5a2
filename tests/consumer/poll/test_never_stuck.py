"""A consumer continues to read while other topics are paused, created again or answered wrongly: in virtual
time.
"""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from pykafka2.consumer.consumer import KafkaConsumer
from pykafka2.errors import NoOffsetForPartition
from pykafka2.types import TopicPartition
from tests.consumer.logs import Log, LogCluster

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


def test_buffered_data_of_paused_partitions_does_not_starve_the_others() -> None:
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


def test_paused_partitions_that_fill_the_whole_budget_give_it_back() -> None:
    """A batch comes whole however large it is, so three partitions may take more than the budget has."""
    cluster = LogCluster({"orders": [0, 0, 0, 0]}, brokers=1)
    for partition in range(1, 4):
        for _ in range(3):
            cluster.append("orders", partition, b"x" * 1500)
    options = {"queued_max_bytes": 4000, "max_partition_fetch_bytes": 2000}
    with cluster.consumer("orders", **options) as consumer:
        while not consumer.metrics()["buffered-bytes"]:
            consumer.poll()
            cluster.runtime.run_for(1)
        assert consumer.metrics()["buffered-bytes"] > 4000
        consumer.pause(*ORDERS[1:])
        cluster.append("orders", 0, b"late")
        assert read(consumer, 5) == {ORDERS[0]: [0]}
        consumer.resume(*ORDERS[1:])
        assert read(consumer, 20) == {one: [0, 1, 2] for one in ORDERS[1:]}


def test_one_partition_takes_no_more_than_its_share_ahead() -> None:
    cluster = backlogged()
    for partition in ORDERS[1:]:
        cluster.logs[partition] = Log()
    with cluster.consumer("orders", queued_max_bytes=8000, max_partition_fetch_bytes=300) as consumer:
        consumer.poll(1000, max_records=1)
        cluster.runtime.run_for(5)
        assert 1000 < consumer.health()["partitions"]["orders-0"]["buffered_bytes"] < 8000 / 4 + 300


def test_a_full_partition_is_fetched_again_though_its_neighbour_has_nothing() -> None:
    """The broker holds a fetch that names the empty one alone; once the other has room, it must be fetched
    soon, and not after fetch_max_wait_ms.
    """
    cluster = backlogged()
    for partition in ORDERS[1:]:
        cluster.logs[partition] = Log()
    with cluster.consumer("orders", fetch_max_wait_ms=30_000, **SMALL) as consumer:
        before = cluster.now
        found: list[int] = []
        while len(found) < 200 and cluster.now - before < 60:
            cluster.runtime.run_for(0.2)  # it has fetched what it may, and waits for news of the others
            found += read(consumer, 1).get(ORDERS[0], [])
        assert found == list(range(200))
        assert cluster.now - before < 20


def test_each_partition_has_its_turn_at_the_head_of_an_answer() -> None:
    """A broker fills its answer in the order in which partitions are named; the last would get nothing."""
    cluster = backlogged()
    with cluster.consumer("orders", fetch_max_bytes=100) as consumer:
        found = read(consumer, 40, 100)
        assert set(found) == set(ORDERS)
        assert max(map(len, found.values())) - min(map(len, found.values())) <= 2


def test_discarded_data_of_paused_partitions_is_refetched_after_resume() -> None:
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
            for partition, offsets in read(consumer, 2, 0.35).items():
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


def test_waiting_data_of_a_partition_does_not_keep_its_whole_response() -> None:
    """A few bytes of a paused partition kept the whole response in memory that they were in, which was not
    counted.
    """
    cluster = LogCluster({"orders": [0] * 4}, brokers=1)
    with cluster.consumer() as consumer:
        consumer.assign(ORDERS)
        consumer.poll(1000)
        tracemalloc.start()
        try:
            for paused in ORDERS[1:]:
                cluster.log(*paused).append(b"small")
                cluster.append("orders", 0, bytes(1_000_000))
                cluster.runtime.run_for(0.1)
                consumer.pause(paused)
                assert consumer.poll(100).keys() == {ORDERS[0]}
                consumer.poll(100)
                cluster.log("orders").batches.clear()
            gc.collect()
            held = sum(one.size for one in tracemalloc.take_snapshot().statistics("filename"))
        finally:
            tracemalloc.stop()
        assert held < 2_500_000, "a buffer to read to, and not every answer"


# ---------------------------------------------------------------------------------------- a topic created
# again


def make_anew(cluster: LogCluster, records: int) -> None:
    """Delete the topic, wait until that is known, and make it again with other records."""
    topic = cluster.topics.pop("orders")
    cluster.runtime.run_for(5)
    cluster.add_topic("orders", topic.leaders)
    for partition in ORDERS:
        cluster.logs[partition] = Log()
    for number in range(records):
        cluster.append("orders", 0, b"new %d" % number)


@pytest.mark.parametrize("is_subscribed", [True, False])
def test_topic_recreated_while_paused_is_read_from_the_reset_policy(
    is_subscribed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = backlogged(5)
    with cluster.consumer(*(["orders"] if is_subscribed else [])) as consumer:
        if not is_subscribed:
            consumer.assign(ORDERS)
        assert read(consumer, 5)[ORDERS[0]] == [0, 1, 2, 3, 4]
        consumer.pause(ORDERS[0])
        make_anew(cluster, 10)
        assert read(consumer, 3) == {}
        with caplog.at_level("WARNING"):
            consumer.resume(ORDERS[0])
            found = [record.value for _ in range(4) for record in consumer.poll(1000).get(ORDERS[0], [])]
        assert found == [b"new %d" % number for number in range(10)], "none of the new ones is skipped"
        explanation = "orders-0: the topic was deleted and created again"
        assert [explanation in message for message in caplog.messages].count(True) == 1
        assert "deleted and created again" in consumer.explain()


def test_iteration_remainder_of_a_recreated_topic_does_not_set_a_position() -> None:
    """A pause, or a rebalance, has it read again what it has not handed out."""
    cluster = backlogged(5)
    with cluster.consumer(consumer_timeout_ms=2000) as consumer:
        consumer.assign(ORDERS[:1])
        assert [next(consumer).offset for _ in range(3)] == [0, 1, 2]
        make_anew(cluster, 10)
        cluster.runtime.run_for(5)
        consumer.pause(ORDERS[0])
        consumer.resume(ORDERS[0])
        assert [record.value for record in consumer] == [b"new %d" % number for number in range(10)]


def test_recreated_topic_with_policy_none_raises_no_offset_for_partition() -> None:
    cluster = backlogged(5)
    with cluster.consumer(auto_offset_reset="none") as consumer:
        consumer.assign(ORDERS[:1])
        consumer.seek(ORDERS[0], 0)
        assert len(read(consumer, 5)[ORDERS[0]]) == 5
        make_anew(cluster, 10)
        for _ in range(2):
            with pytest.raises(NoOffsetForPartition, match=r"orders-0: .*created again.* offset 5 .*seek"):
                read(consumer, 3)
        consumer.seek(ORDERS[0], 2)
        assert read(consumer, 5)[ORDERS[0]] == list(range(2, 10))


def test_recreated_topic_is_read_once_though_a_broker_has_old_metadata() -> None:
    """In the moment after, metadata tell the old topic, the new one, and the old one again."""
    cluster = backlogged(5)
    topic = cluster.topics["orders"]
    old, new = topic.topic_id, b"n" * 16
    with cluster.consumer() as consumer:
        consumer.assign(ORDERS[:1])
        assert read(consumer, 5)[ORDERS[0]] == [0, 1, 2, 3, 4]
        found = []
        for topic.topic_id, milliseconds in ((new, 1000), (old, 100), (new, 1000)):
            consumer.bootstrap(refresh=True)
            found += read(consumer, 2, milliseconds).get(ORDERS[0], [])
        assert found == [0, 1, 2, 3, 4]


def test_partition_paused_when_unassigned_is_read_when_reassigned() -> None:
    """A Ctrl-C keeps unsubscribe() from passing its changes to the IO thread."""
    cluster = backlogged(3)
    with cluster.consumer() as consumer:
        consumer.assign(ORDERS[:1])
        consumer.seek(ORDERS[0], 0)
        consumer.pause(ORDERS[0])
        consumer.poll(100)
        consumer._core.subscription.unsubscribe()
        consumer.assign(ORDERS[:1])
        assert consumer.paused() == set()
        assert read(consumer, 2) == {ORDERS[0]: [0, 1, 2]}
