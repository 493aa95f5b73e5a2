"""The consumer as applications use it, in virtual time against scripted logs."""

from __future__ import annotations

import pickle
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka2.compression import libraries
from pykafka2.consumer.consumer import KafkaConsumer
from pykafka2.consumer.fetch.fetched_data import FetchedData
from pykafka2.errors import (
    ClientClosed,
    ConcurrentUse,
    ConfigurationError,
    IllegalArgument,
    IllegalState,
    KafkaTimeoutError,
    NoBrokersAvailable,
    NoOffsetForPartition,
    OffsetOutOfRange,
    TopicAuthorizationFailed,
    UnknownOption,
    UnknownTopicOrPartition,
)
from pykafka2.protocol.messages.fetch import FetchRequest
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.records.encoder import BatchBuilder
from pykafka2.types import OffsetAndTimestamp, TopicPartition
from tests.cluster.scripted import Answer, ScriptedBroker
from tests.compression.using import using
from tests.consumer.logs import LogCluster

ORDERS_0 = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)
ORDERS_2 = TopicPartition("orders", 2)


@pytest.fixture
def cluster() -> LogCluster:
    return LogCluster({"orders": [0, 1, 2], "bills": [1]})


@pytest.fixture
def consumer(cluster: LogCluster) -> Iterator[KafkaConsumer]:
    with cluster.consumer("orders") as consumer:
        yield consumer


def drain(
    consumer: KafkaConsumer, timeout_ms: float = 2000, **more: Any
) -> dict[TopicPartition, list[bytes]]:
    """Everything until a poll brings nothing."""
    found: dict[TopicPartition, list[bytes]] = {}
    while records := consumer.poll(timeout_ms, **more):
        for partition, some in records.items():
            found.setdefault(partition, []).extend(record.value for record in some)
    return found


def fetch_ahead(cluster: LogCluster, consumer: KafkaConsumer) -> None:
    """Poll without waiting until data is in the buffer, and hand over none of it."""
    for _ in range(2):  # the first finds the partitions, the second where they begin
        assert consumer.poll() == {}
        cluster.runtime.run_for(1)


# ---------------------------------------------------------------------------------------- reading


def test_every_record_of_every_partition_comes_once_and_in_order(
    cluster: LogCluster, consumer: KafkaConsumer
) -> None:
    expected: dict[TopicPartition, list[bytes]] = {}
    for number in range(90):
        partition = TopicPartition("orders", number % 3)
        values = [b"%d-%d" % (number, index) for index in range(number % 5 + 1)]
        cluster.append("orders", partition.partition, *values)
        expected.setdefault(partition, []).extend(values)
    assert drain(consumer, max_records=7) == expected
    assert consumer.assignment() == set(expected)
    for partition, values in expected.items():
        assert consumer.position(partition) == len(values)


def test_no_connection_is_opened_before_the_first_poll(cluster: LogCluster, consumer: KafkaConsumer) -> None:
    cluster.runtime.run_for(60)
    assert cluster.network.connects == []
    assert consumer.assignment() == set()
    assert consumer.subscription() == {"orders"}


def test_a_record_has_everything_that_was_written(cluster: LogCluster, consumer: KafkaConsumer) -> None:
    cluster.append("orders", 1, b"value", timestamp=1234)
    ((partition, (record,)),) = consumer.poll(1000).items()
    assert partition == ORDERS_1
    assert (record.topic, record.partition, record.offset, record.timestamp) == ("orders", 1, 0, 1234)
    assert (record.key, record.value, record.headers) == (None, b"value", [])
    assert (record.serialized_key_size, record.serialized_value_size) == (-1, 5)


def test_poll_without_a_timeout_never_waits(cluster: LogCluster, consumer: KafkaConsumer) -> None:
    cluster.append("orders", 0, b"a")
    before = cluster.now
    assert consumer.poll() == {}
    assert cluster.now == before
    cluster.runtime.run_for(1)
    assert consumer.poll() == {}
    cluster.runtime.run_for(1)
    assert [record.value for record in consumer.poll()[ORDERS_0]] == [b"a"], "fetched in the background"


def test_poll_waits_exactly_its_timeout(cluster: LogCluster, consumer: KafkaConsumer) -> None:
    drain(consumer)
    before = cluster.now
    assert consumer.poll(1500) == {}
    assert cluster.now - before == pytest.approx(1.5)
    cluster.runtime.call_later(0.7, lambda: (cluster.append("orders", 2, b"x"), None)[1])
    before = cluster.now
    assert consumer.poll(5000)
    assert cluster.now - before == pytest.approx(0.7, abs=0.05)


def test_max_poll_records_makes_many_polls_of_one_fetch(cluster: LogCluster) -> None:
    cluster.append("orders", 0, *[b"%d" % number for number in range(1000)])
    with cluster.consumer("orders", max_poll_records=10) as consumer:
        first = consumer.poll(1000)
        before = len(cluster.requests(FetchRequest))
        for turn in range(1, 100):
            records = consumer.poll(1000)[ORDERS_0]
            assert [record.offset for record in records] == list(range(turn * 10, turn * 10 + 10))
        assert len(first[ORDERS_0]) == 10
        fetched_again = [
            partition.fetch_offset
            for request in cluster.requests(FetchRequest)[before:]
            for topic in request.topics
            for partition in topic.partitions
            if partition.partition == 0
        ]
        assert all(offset == 1000 for offset in fetched_again), "nothing is fetched twice"


@pytest.mark.parametrize(("call", "goes_on_at"), [("seek_to_end", 10), ("seek_to_beginning", 0)])
def test_an_iteration_follows_a_seek_to_an_end(cluster: LogCluster, call: str, goes_on_at: int) -> None:
    """Records that a poll has fetched and iteration has not returned are not returned any more."""
    cluster.append("orders", 0, *[b"%d" % number for number in range(10)])
    with cluster.consumer("orders") as consumer:
        assert [next(consumer).offset for _ in range(3)] == [0, 1, 2]
        getattr(consumer, call)(ORDERS_0)
        assert consumer.position(ORDERS_0) == goes_on_at
        cluster.append("orders", 0, b"new")
        assert next(consumer).offset == goes_on_at


def test_max_poll_records_is_of_all_partitions_together(cluster: LogCluster) -> None:
    for number in range(3):
        cluster.append("orders", number, *[b"x"] * 10)
    with cluster.consumer("orders", max_poll_records=14) as consumer:
        fetch_ahead(cluster, consumer)
        counts = [sum(map(len, consumer.poll(1000).values())) for _ in range(3)]
        assert counts == [14, 14, 2]


def test_position_advances_only_with_returned_records(cluster: LogCluster, consumer: KafkaConsumer) -> None:
    cluster.append("orders", 0, b"a", b"b", b"c")
    fetch_ahead(cluster, consumer)
    assert consumer.position(ORDERS_0) == 0
    consumer.poll(max_records=2)
    assert consumer.position(ORDERS_0) == 2
    assert [record.value for record in consumer.poll(update_offsets=False)[ORDERS_0]] == [b"c"]
    assert consumer.position(ORDERS_0) == 2
    assert [record.value for record in consumer.poll()[ORDERS_0]] == [b"c"]


def test_partitions_take_turns(cluster: LogCluster) -> None:
    for number in range(3):
        cluster.append("orders", number, *[b"x"] * 100)
    with cluster.consumer("orders", max_poll_records=10) as consumer:
        fetch_ahead(cluster, consumer)
        served = [next(iter(consumer.poll())).partition for _ in range(6)]
    assert sorted(served[:3]) == sorted(served[3:]) == [0, 1, 2]


def test_a_large_batch_is_read_to_its_end_before_that_of_another_partition_is_opened() -> None:
    """Decompressed batches are not counted against the budget: one is, but not one of each partition."""
    cluster = LogCluster({"orders": [0] * 8}, brokers=1)
    for number in range(8):
        batch, log = BatchBuilder("gzip", max_bytes=1 << 20), cluster.log("orders", number)
        for _ in range(10):
            batch.append(1000, None, bytes(50_000))
        log.batches, log.end = [batch.build()], 10
    with cluster.consumer("orders", max_poll_records=3, queued_max_bytes=1_000_000) as consumer:
        found: dict[TopicPartition, list[int]] = {}
        most = 0
        while sum(map(len, found.values())) < 80:
            for partition, records in consumer.poll(1000).items():
                found.setdefault(partition, []).extend(record.offset for record in records)
            waiting = [item for one in consumer.assignment() for item in consumer._core.buffer.items(one)]
            most = max(most, sum(item.open_bytes for item in waiting if isinstance(item, FetchedData)))
    assert list(found.values()) == [list(range(10))] * 8
    assert 500_000 < most < 600_000


def test_one_fetch_is_in_flight_per_broker(cluster: LogCluster, consumer: KafkaConsumer) -> None:
    for turn in range(50):
        cluster.append("orders", turn % 3, b"x" * 100)
        consumer.poll(10)
    assert cluster.in_flight_max == 1


@pytest.mark.gate
def test_fetching_ahead_stays_within_its_budget(cluster: LogCluster) -> None:
    for _ in range(200):
        for number in range(3):
            cluster.log("orders", number).append(b"x" * 1000)
    with cluster.consumer(
        "orders", queued_max_bytes=60_000, max_partition_fetch_bytes=8_000, fetch_max_bytes=20_000
    ) as consumer:
        most = total = 0
        consumer.poll()
        for _ in range(2000):
            cluster.runtime.run_for(0.02)
            most = max(most, int(consumer.metrics()["buffered-bytes"]))
            records = consumer.poll(0, max_records=3)
            total += sum(map(len, records.values()))
            if total == 600:
                break
        assert total == 600, "and it never stands still"
        assert 25_000 < most <= 62_000


def test_fetches_of_several_brokers_share_the_budget(cluster: LogCluster) -> None:
    for number in range(3):
        cluster.log("orders", number).append(b"x" * 100)
    with cluster.consumer("orders", queued_max_bytes=60_000) as consumer:
        consumer.poll(1000)
        first = [broker.requests(FetchRequest)[0].max_bytes for broker in cluster.brokers]
    assert len(first) == 3
    assert sum(first) <= 60_000


def test_fetch_request_has_the_leader_epoch_of_the_metadata(cluster: LogCluster) -> None:
    """So that a leader of before, or one that is not it yet, refuses it (KIP-320)."""
    cluster.append("orders", 0, b"a")
    cluster.topics["orders"].epochs[:] = [3, 4, 5]
    with cluster.consumer("orders") as consumer:
        drain(consumer)
    found = {
        partition.partition: partition.current_leader_epoch
        for request in cluster.requests(FetchRequest)
        for topic in request.topics
        for partition in topic.partitions
    }
    assert found == {0: 3, 1: 4, 2: 5}


def test_a_subscription_finds_partitions_that_are_added(cluster: LogCluster) -> None:
    with cluster.consumer("orders", metadata_max_age_ms=5000) as consumer:
        cluster.append("orders", 0, b"a")
        assert drain(consumer) == {ORDERS_0: [b"a"]}
        cluster.topics["orders"].leaders.append(0)
        cluster.topics["orders"].epochs.append(0)
        cluster.append("orders", 3, b"b")
        assert consumer.poll(10_000)[TopicPartition("orders", 3)][0].value == b"b"
        assert len(consumer.assignment()) == 4


def test_assigned_partitions_are_read_exactly(cluster: LogCluster) -> None:
    for number in range(3):
        cluster.append("orders", number, b"%d" % number)
    with cluster.consumer() as consumer:
        consumer.assign([ORDERS_0, ORDERS_2])
        assert drain(consumer) == {ORDERS_0: [b"0"], ORDERS_2: [b"2"]}
        consumer.assign([ORDERS_2, ORDERS_1])
        assert drain(consumer) == {ORDERS_1: [b"1"]}, "what stays keeps its position"
        assert consumer.subscription() == set()
        consumer.unsubscribe()
        assert consumer.assignment() == set()
        with pytest.raises(IllegalState, match="no topic is subscribed and no partition is assigned"):
            consumer.poll(1000)


def test_an_assignment_grows_and_shrinks_partition_by_partition(cluster: LogCluster) -> None:
    for number in range(3):
        cluster.append("orders", number, b"%d" % number)
    with cluster.consumer() as consumer:
        consumer.incremental_assign([ORDERS_0])
        assert drain(consumer) == {ORDERS_0: [b"0"]}
        consumer.seek(ORDERS_0, 0)
        consumer.incremental_assign([ORDERS_0, ORDERS_1, ORDERS_2, ORDERS_2])
        assert consumer.assignment() == {ORDERS_0, ORDERS_1, ORDERS_2}
        assert drain(consumer) == {ORDERS_0: [b"0"], ORDERS_1: [b"1"], ORDERS_2: [b"2"]}
        with pytest.raises(IllegalState, match="orders-9 is not assigned"):
            consumer.incremental_unassign([ORDERS_0, TopicPartition("orders", 9)])
        assert consumer.assignment() == {ORDERS_0, ORDERS_1, ORDERS_2}
        consumer.incremental_unassign([ORDERS_0])
        cluster.append("orders", 0, b"unread")
        cluster.append("orders", 2, b"more")
        assert drain(consumer) == {ORDERS_2: [b"more"]}, "what stays keeps its position"
        consumer.unsubscribe()
        consumer.subscribe(["orders"])
        for call in (consumer.incremental_assign, consumer.incremental_unassign):
            with pytest.raises(IllegalState, match=r"unsubscribe\(\)"):
                call([ORDERS_0])


def test_subscribe_and_assign_do_not_mix(cluster: LogCluster, consumer: KafkaConsumer) -> None:
    with pytest.raises(IllegalState, match=r"unsubscribe\(\)"):
        consumer.assign([ORDERS_0])
    consumer.unsubscribe()
    consumer.assign([ORDERS_0])
    with pytest.raises(IllegalState, match=r"unsubscribe\(\)"):
        consumer.subscribe(["orders"])


def test_to_assign_nothing_is_to_unsubscribe_as_in_java(cluster: LogCluster, consumer: KafkaConsumer) -> None:
    cluster.append("orders", 0, b"0")
    assert drain(consumer) == {ORDERS_0: [b"0"]}
    consumer.assign([])
    assert (consumer.subscription(), consumer.assignment()) == (set(), set())
    with pytest.raises(IllegalState, match="no topic is subscribed and no partition is assigned"):
        consumer.poll(100)
    consumer.assign([ORDERS_0])
    consumer.assign([])
    consumer.subscribe(["orders"])
    assert drain(consumer) == {ORDERS_0: [b"0"]}


def test_subscription_repeated_after_unsubscribe_is_read(
    cluster: LogCluster, consumer: KafkaConsumer
) -> None:
    """Without a poll in between, which could have seen that there was none."""
    cluster.append("orders", 0, b"0")
    assert drain(consumer) == {ORDERS_0: [b"0"]}
    consumer.unsubscribe()
    consumer.subscribe(["orders"])
    assert drain(consumer) == {ORDERS_0: [b"0"]}


def test_a_new_subscription_replaces_the_old_one(cluster: LogCluster, consumer: KafkaConsumer) -> None:
    cluster.append("orders", 0, b"a", b"b")
    cluster.append("bills", 0, b"c")
    consumer.poll(1000, max_records=1)
    consumer.subscribe(["orders", "bills"])
    assert drain(consumer) == {ORDERS_0: [b"b"], TopicPartition("bills", 0): [b"c"]}
    consumer.subscribe(["bills"])
    cluster.append("orders", 0, b"unseen")
    assert drain(consumer) == {}


def test_paused_partitions_wait_and_nothing_is_fetched_twice(
    cluster: LogCluster, consumer: KafkaConsumer
) -> None:
    cluster.append("orders", 0, b"a", b"b", b"c")
    cluster.append("orders", 1, b"d")
    fetch_ahead(cluster, consumer)
    consumer.pause(ORDERS_0)
    assert consumer.paused() == {ORDERS_0}
    assert drain(consumer) == {ORDERS_1: [b"d"]}
    before = len(cluster.brokers[0].requests(FetchRequest))
    cluster.runtime.run_for(5)
    assert len(cluster.brokers[0].requests(FetchRequest)) <= before + 1, "nor fetched"
    consumer.resume(ORDERS_0)
    assert drain(consumer) == {ORDERS_0: [b"a", b"b", b"c"]}
    fetched = [
        partition.fetch_offset
        for request in cluster.brokers[0].requests(FetchRequest)
        for partition in request.topics[0].partitions
    ]
    assert fetched.count(0) == 1


def test_a_partition_paused_before_its_first_position_stays_paused(cluster: LogCluster) -> None:
    cluster.append("orders", 0, b"a")
    with cluster.consumer() as consumer:
        consumer.assign([ORDERS_0])
        consumer.pause(ORDERS_0)
        assert drain(consumer) == {}
        consumer.resume(ORDERS_0)
        assert drain(consumer) == {ORDERS_0: [b"a"]}


# ---------------------------------------------------------------------------------------- iteration


def test_iteration_hands_out_one_by_one_and_ends_when_nothing_comes(cluster: LogCluster) -> None:
    for number in range(10):
        cluster.append("orders", number % 3, b"%d" % number)
    with cluster.consumer("orders", consumer_timeout_ms=3000) as consumer:
        before = cluster.now
        assert sorted(record.value for record in consumer) == sorted(b"%d" % n for n in range(10))
        assert cluster.now - before == pytest.approx(3, abs=0.5)


def test_the_position_follows_iteration_record_by_record(cluster: LogCluster) -> None:
    cluster.append("orders", 0, b"a", b"b", b"c", b"d")
    with cluster.consumer("orders", consumer_timeout_ms=1000) as consumer:
        assert next(consumer).value == b"a"
        assert consumer.position(ORDERS_0) == 1
        assert next(consumer).value == b"b"
        consumer.pause(ORDERS_0)
        assert next(consumer, None) is None
        consumer.resume(ORDERS_0)
        assert consumer.position(ORDERS_0) == 2
        assert next(consumer).value == b"c"
        consumer.seek(ORDERS_0, 1)
        assert [record.value for record in consumer] == [b"b", b"c", b"d"]


def test_remainder_of_a_broken_off_iteration_is_returned_by_the_next_poll(cluster: LogCluster) -> None:
    cluster.append("orders", 0, *[b"%d" % number for number in range(10)])
    with cluster.consumer("orders") as consumer:
        for record in consumer:
            if record.offset == 3:
                break
        assert [record.offset for record in consumer.poll(max_records=4)[ORDERS_0]] == [4, 5, 6, 7]
        assert list(consumer.poll_columns(1000)[ORDERS_0].offsets) == [8, 9]


def test_poll_without_position_updates_keeps_the_iteration_remainder(cluster: LogCluster) -> None:
    cluster.append("orders", 0, *[b"%d" % number for number in range(5)])
    with cluster.consumer("orders") as consumer:
        assert next(consumer).offset == 0
        for _ in range(2):
            kept = consumer.poll(max_records=2, update_offsets=False)
            assert [record.offset for record in kept[ORDERS_0]] == [1, 2]
        assert consumer.position(ORDERS_0) == 1
        assert next(consumer).offset == 1


def test_columns_are_the_records(cluster: LogCluster) -> None:
    for number in range(6):
        cluster.append("orders", number % 3, b"a%d" % number, b"b%d" % number, timestamp=number)
    with cluster.consumer("orders") as consumer:
        columns: dict[TopicPartition, list[tuple[int, int, Any]]] = {}
        while found := consumer.poll_columns(1000, max_records=3):
            for partition, some in found.items():
                rows = zip(some.offsets, some.timestamps, some.values, strict=True)
                columns.setdefault(partition, []).extend(rows)
        consumer.seek_to_beginning()
        records: dict[TopicPartition, list[tuple[int, int, Any]]] = {}
        while polled := consumer.poll(1000):
            for partition, some_records in polled.items():
                rows_of = [(record.offset, record.timestamp, record.value) for record in some_records]
                records.setdefault(partition, []).extend(rows_of)
        assert columns == records
        consumer.seek(ORDERS_0, 1)
        assert consumer.poll_columns(1000)[ORDERS_0].offsets[0] == 1, "also from the middle of a batch"


# ---------------------------------------------------------------------------------------- positions


def test_seeking(cluster: LogCluster, consumer: KafkaConsumer) -> None:
    cluster.append("orders", 0, *[b"%d" % number for number in range(100)])
    drain(consumer)
    consumer.seek(ORDERS_0, 42)
    assert consumer.position(ORDERS_0) == 42
    assert consumer.poll(1000, max_records=1)[ORDERS_0][0].offset == 42
    consumer.seek_to_beginning(ORDERS_0)
    assert consumer.position(ORDERS_0) == 0
    consumer.seek_to_end()
    assert consumer.position(ORDERS_0) == 100
    assert consumer.poll(600) == {}
    cluster.append("orders", 0, b"new")
    assert drain(consumer) == {ORDERS_0: [b"new"]}


@pytest.mark.parametrize("delay", [0.0, 0.0005, 0.0015, 0.5])
def test_seek_discards_records_fetched_before(cluster: LogCluster, delay: float) -> None:
    cluster.append("orders", 0, *[b"%d" % number for number in range(10)])
    with cluster.consumer() as consumer:
        consumer.assign([ORDERS_0])
        for target in (5, 2, 8):
            consumer.poll()
            cluster.runtime.run_for(delay)  # a fetch is in flight, or its data in the buffer
            consumer.seek(ORDERS_0, 9)
            consumer.seek(ORDERS_0, target)
            assert consumer.poll(1000, max_records=1)[ORDERS_0][0].offset == target


def test_an_answer_that_is_there_but_not_read_yet_does_not_undo_a_seek(cluster: LogCluster) -> None:
    cluster.append("orders", 0, *[b"%d" % number for number in range(10)])
    with cluster.consumer() as consumer:
        consumer.assign([ORDERS_0])
        consumer.seek(ORDERS_0, 0)
        while not cluster.brokers[0].requests(FetchRequest):
            consumer.poll()
            cluster.runtime.run_for(0.0001)
        cluster.arrive()  # the bytes wait in the socket while the application seeks
        consumer.seek(ORDERS_0, 7)
        assert [record.offset for record in consumer.poll(1000)[ORDERS_0]] == [7, 8, 9]
        consumer.seek(ORDERS_0, 0)
        cluster.runtime.run_for(0.0001)
        cluster.arrive()
        consumer.assign([ORDERS_1])
        assert consumer.poll(1000) == {}
        assert consumer.metrics()["buffered-bytes"] == 0


def test_positions_of_others_are_refused(cluster: LogCluster, consumer: KafkaConsumer) -> None:
    elsewhere = TopicPartition("bills", 0)
    for call in (consumer.position, consumer.seek_to_end, consumer.pause):
        with pytest.raises(IllegalState, match="bills-0 is not assigned"):
            call(elsewhere)
    with pytest.raises(IllegalState, match="bills-0 is not assigned"):
        consumer.seek(elsewhere, 0)
    consumer.poll(1000)
    for wrong in (-1, 1.5, "7", True):
        with pytest.raises(ValueError, match="offset="):
            consumer.seek(ORDERS_0, wrong)  # type: ignore[arg-type]


def test_the_ends_of_partitions(cluster: LogCluster, consumer: KafkaConsumer) -> None:
    cluster.append("orders", 0, b"a", b"b", b"c", timestamp=100)
    cluster.append("orders", 0, b"d", timestamp=200)
    cluster.log("orders", 0).truncate_before(3)
    cluster.append("orders", 1, b"e")
    partitions = [ORDERS_0, ORDERS_1, ORDERS_2]
    assert consumer.beginning_offsets(partitions) == {ORDERS_0: 3, ORDERS_1: 0, ORDERS_2: 0}
    assert consumer.end_offsets(partitions) == {ORDERS_0: 4, ORDERS_1: 1, ORDERS_2: 0}
    times = consumer.offsets_for_times({ORDERS_0: 150, ORDERS_2: 0})
    assert times == {ORDERS_0: OffsetAndTimestamp(3, 200), ORDERS_2: None}
    assert consumer.end_offsets([]) == {}
    with pytest.raises(ValueError, match="negative"):
        consumer.offsets_for_times({ORDERS_0: -5})


def test_end_offsets_is_retried_at_the_new_leader(cluster: LogCluster, consumer: KafkaConsumer) -> None:
    cluster.append("orders", 0, b"a")
    assert consumer.end_offsets([ORDERS_0]) == {ORDERS_0: 1}
    cluster.move_leader("orders", 0, 2)
    assert consumer.end_offsets([ORDERS_0], timeout_ms=3000) == {ORDERS_0: 1}


def test_offsets_of_missing_partitions_raise_in_time(cluster: LogCluster, consumer: KafkaConsumer) -> None:
    before = cluster.now
    with pytest.raises(UnknownTopicOrPartition, match="nowhere"):
        consumer.end_offsets([TopicPartition("nowhere", 0)], timeout_ms=3000)
    with pytest.raises(UnknownTopicOrPartition, match="no partition 9"):
        consumer.end_offsets([TopicPartition("orders", 9)], timeout_ms=3000)
    assert cluster.now - before < 7


@pytest.mark.parametrize("missing", [TopicPartition("nowhere", 0), TopicPartition("orders", 9)])
@pytest.mark.parametrize("call", ["beginning_offsets", "end_offsets", "offsets_for_times"])
def test_offsets_of_a_known_and_a_missing_partition_end_with_a_timeout_after_default_api_timeout_ms(
    cluster: LogCluster, call: str, missing: TopicPartition
) -> None:
    """The same as in Java and kafka-python; 60 seconds by default, whatever request_timeout_ms is."""
    cluster.append("orders", 0, b"a")
    with cluster.consumer(default_api_timeout_ms=7000, request_timeout_ms=1000) as consumer:
        before = cluster.now
        with pytest.raises(KafkaTimeoutError) as caught:
            getattr(consumer, call)(dict.fromkeys([ORDERS_0, missing], 0))
        assert 7 <= cluster.now - before < 8.5
        assert isinstance(caught.value, UnknownTopicOrPartition), "programs may tell it from other timeouts"
        assert ("nowhere" if missing.topic == "nowhere" else "no partition 9") in str(caught.value)
        assert consumer.end_offsets([ORDERS_0]) == {ORDERS_0: 1}


def test_the_topics_and_their_partitions(cluster: LogCluster, consumer: KafkaConsumer) -> None:
    assert consumer.topics() == {"orders", "bills"}
    assert consumer.partitions_for_topic("orders") == {0, 1, 2}
    assert consumer.partitions_for_topic("nowhere") is None


# ---------------------------------------------------------------------------------------- resets


def test_latest_starts_with_records_appended_afterwards(cluster: LogCluster) -> None:
    cluster.append("orders", 0, b"old")
    with cluster.consumer("orders", auto_offset_reset="latest") as consumer:
        assert consumer.poll(1000) == {}
        cluster.append("orders", 0, b"new")
        assert drain(consumer) == {ORDERS_0: [b"new"]}


def test_policy_none_requires_an_explicit_position(cluster: LogCluster) -> None:
    cluster.append("orders", 0, b"a", b"b")
    with cluster.consumer(auto_offset_reset="none") as consumer:
        consumer.assign([ORDERS_0])
        with pytest.raises(NoOffsetForPartition, match="orders-0"):
            consumer.poll(1000)
        with pytest.raises(NoOffsetForPartition, match="orders-0"):
            consumer.position(ORDERS_0)
        consumer.seek(ORDERS_0, 1)
        assert drain(consumer) == {ORDERS_0: [b"b"]}


@pytest.mark.parametrize(("policy", "values"), [("earliest", [b"d"]), ("latest", []), ("none", None)])
def test_an_offset_that_is_not_in_the_log(
    cluster: LogCluster, policy: str, values: list[bytes] | None
) -> None:
    cluster.append("orders", 0, b"a", b"b", b"c")
    cluster.append("orders", 0, b"d")
    cluster.log("orders", 0).truncate_before(3)
    with cluster.consumer(auto_offset_reset=policy) as consumer:
        consumer.assign([ORDERS_0])
        consumer.seek(ORDERS_0, 1)
        if values is None:
            for _ in range(2):
                with pytest.raises(OffsetOutOfRange, match="orders-0: offset 1"):
                    consumer.poll(1000)
            assert consumer.position(ORDERS_0) == 1
            consumer.seek(ORDERS_0, 3)
            values = [b"d"]
        assert drain(consumer).get(ORDERS_0, []) == values
        assert consumer.position(ORDERS_0) == 4


def test_records_fetched_before_a_truncation_are_still_returned(
    cluster: LogCluster, consumer: KafkaConsumer
) -> None:
    cluster.append("orders", 0, b"a", b"b")
    fetch_ahead(cluster, consumer)
    log = cluster.log("orders", 0)
    log.start, log.end, log.batches = 10, 10, []
    cluster.append("orders", 0, b"k")
    assert drain(consumer) == {ORDERS_0: [b"a", b"b", b"k"]}


# ---------------------------------------------------------------------------------------- calling threads


def test_a_second_thread_is_refused_at_once(cluster: LogCluster, consumer: KafkaConsumer) -> None:
    caught: list[BaseException] = []

    def intrude() -> None:
        for call in (lambda: consumer.poll(), lambda: consumer.position(ORDERS_0), lambda: consumer.close()):
            try:
                call()
            except BaseException as error:
                caught.append(error)

    def in_the_middle() -> bool:
        thread = threading.Thread(target=intrude)
        thread.start()
        thread.join()
        return True

    cluster.runtime.call_later(0.5, lambda: (in_the_middle(), None)[1])
    consumer.poll(1000)
    assert [type(error) for error in caught] == [ConcurrentUse] * 3
    assert consumer.poll(10) == {}, "the owner goes on"


def test_wakeup_ends_a_poll_early_and_once(cluster: LogCluster, consumer: KafkaConsumer) -> None:
    drain(consumer)
    cluster.runtime.call_later(0.5, consumer.wakeup)
    before = cluster.now
    assert consumer.poll(60_000) == {}
    assert cluster.now - before < 2
    consumer.wakeup()
    before = cluster.now
    assert consumer.poll(1000) == {}
    assert cluster.now == before, "one that comes first is not lost"
    consumer.poll(1000)
    assert cluster.now - before == pytest.approx(1)


@pytest.mark.parametrize("takes", ["poll", "poll_columns"])
def test_wakeup_ends_a_poll_that_has_records_too(
    cluster: LogCluster, consumer: KafkaConsumer, takes: str
) -> None:
    """The same as in Java: it must stop a busy consumer as well; the records come with the next poll."""
    for _ in range(3):
        cluster.append("orders", 0, b"x")
    poll = getattr(consumer, takes)
    assert poll(1000, max_records=1)
    consumer.wakeup()
    assert poll(1000, max_records=1) == {}
    assert poll(1000, max_records=1)


def test_wakeup_ends_an_iteration_that_has_records_too(cluster: LogCluster) -> None:
    cluster.append("orders", 0, *[b"x"] * 100)
    with cluster.consumer("orders", consumer_timeout_ms=1000) as consumer:
        offsets = []
        for record in consumer:
            offsets.append(record.offset)
            if len(offsets) == 3:
                consumer.wakeup()
        assert 3 <= len(offsets) < 20, "but what was at hand"
        assert [record.offset for record in consumer] == list(range(len(offsets), 100))


def test_wakeup_does_not_interrupt_calls_other_than_poll(cluster: LogCluster) -> None:
    with cluster.consumer() as consumer:
        consumer.assign([ORDERS_0])
        consumer.wakeup()
        assert consumer.position(ORDERS_0) == 0
        consumer.assign([TopicPartition("orders", 9)])
        before = cluster.now
        with pytest.raises(UnknownTopicOrPartition, match="no partition 9"):
            consumer.position(TopicPartition("orders", 9), timeout_ms=3000)
        assert cluster.now - before == pytest.approx(3)
        cluster.topics["orders"].leaders[1] = -1
        consumer.assign([ORDERS_1])
        with pytest.raises(KafkaTimeoutError, match="orders-1"):
            consumer.position(ORDERS_1, timeout_ms=3000)


def test_a_broker_out_of_reach_is_named_by_explain(cluster: LogCluster) -> None:
    with cluster.consumer("orders") as consumer:
        drain(consumer)
        cluster.brokers[2].stop()
        consumer.poll(3000)
        assert "broker-2:9092 cannot be reached" in consumer.explain()
        why = consumer.health()["unreachable"]["broker-2:9092"]
        assert why.startswith("nothing listens there (connection refused)")


def test_closed_consumer_raises_client_closed(cluster: LogCluster, consumer: KafkaConsumer) -> None:
    consumer.poll(100)
    consumer.close(False)  # kafka-python's autocommit
    consumer.close()
    for call in (consumer.poll, consumer.assignment, consumer.topics, lambda: next(consumer)):
        with pytest.raises(ClientClosed):
            call()
    assert consumer.explain() == "The consumer is closed."
    assert all(t.is_closed for broker in cluster.brokers for t in broker.transports)


def test_a_dropped_consumer_warns_and_leaves_no_loop_behind(cluster: LogCluster) -> None:
    consumer = cluster.consumer("orders")
    consumer.poll(100)
    with pytest.warns(ResourceWarning, match="KafkaConsumer"):
        del consumer
    cluster.runtime.run_for(1)
    assert all(task.is_stopped for task in cluster.runtime.tasks)
    assert all(t.is_closed for broker in cluster.brokers for t in broker.transports)


def test_a_consumer_is_not_pickled(consumer: KafkaConsumer) -> None:
    with pytest.raises(TypeError, match="options"):
        pickle.dumps(consumer)


# ---------------------------------------------------------------------------------------- bad input


def test_topic_that_is_created_after_the_first_poll_is_read(cluster: LogCluster) -> None:
    with cluster.consumer("nowhere", default_api_timeout_ms=10_000) as consumer:
        assert consumer.poll(5000) == {}
        assert consumer.poll(60_000) == {}
        assert "'nowhere' does not exist" in consumer.explain()
        cluster.add_topic("nowhere", [1])
        cluster.append("nowhere", 0, b"late")
        assert consumer.poll(5000)


def test_other_partitions_are_read_while_one_does_not_exist(cluster: LogCluster) -> None:
    with cluster.consumer(default_api_timeout_ms=5000) as consumer:
        consumer.assign([TopicPartition("orders", 7), ORDERS_0])
        for value in (b"a", b"b"):
            cluster.append("orders", 0, value)
            assert consumer.poll(2000)
            assert consumer.poll(60_000) == {}
        assert "no partition 7" in consumer.explain()


def test_a_topic_that_may_not_be_read_is_named_at_once_and_again(cluster: LogCluster) -> None:
    cluster.topics["bills"].error_code = TopicAuthorizationFailed.code
    with cluster.consumer("bills") as consumer:
        before = cluster.now
        for _ in range(2):
            with pytest.raises(TopicAuthorizationFailed, match="bills"):
                consumer.poll(60_000)
        assert cluster.now - before < 2
        cluster.topics["bills"].error_code = 0
        cluster.append("bills", 0, b"a")
        consumer_sees = drain_despite(consumer)
        assert consumer_sees == [b"a"]


def drain_despite(consumer: KafkaConsumer) -> list[bytes]:
    for _ in range(10):
        try:
            records = consumer.poll(2000)
        except TopicAuthorizationFailed:
            continue
        if records:
            return [record.value for some in records.values() for record in some]
    return []


def test_unreachable_brokers_are_named_in_the_error(cluster: LogCluster) -> None:
    for broker in cluster.brokers:
        broker.stop()
    with cluster.consumer("orders", default_api_timeout_ms=5000) as consumer:
        assert consumer.poll(60_000) == {}
        for call in (consumer.topics, consumer.bootstrap, lambda: consumer.end_offsets([ORDERS_0])):
            before = cluster.now
            with pytest.raises(NoBrokersAvailable, match=r"broker-0:9092.*refused"):
                call()
            assert cluster.now - before == pytest.approx(5, abs=0.5)
        assert "refused" in consumer.explain()


def test_bootstrap_connects_before_the_first_subscription(cluster: LogCluster) -> None:
    with cluster.consumer() as consumer:
        consumer.bootstrap()
        assert consumer.health()["metadata_version"] == 1
        consumer.bootstrap()
        assert consumer.health()["metadata_version"] == 1
        consumer.bootstrap(refresh=True)
        assert consumer.health()["metadata_version"] == 2
    for broker in cluster.brokers:
        broker.stop()
    with cluster.consumer() as consumer, pytest.raises(NoBrokersAvailable, match="refused"):
        consumer.bootstrap(timeout_ms=3000)


def test_options_that_cannot_be(cluster: LogCluster) -> None:
    with pytest.raises(UnknownOption, match="auto_offset_reset"):
        KafkaConsumer(auto_ofset_reset="earliest")  # type: ignore[call-arg]
    with pytest.raises(ConfigurationError, match="auto_offset_reset='soon'"):
        KafkaConsumer(auto_offset_reset="soon")
    with pytest.raises(ConfigurationError, match="group_id"):
        KafkaConsumer("orders", enable_auto_commit=True)
    with pytest.raises(ConfigurationError, match="deserializer"):
        KafkaConsumer(key_deserializer=7)
    with pytest.raises(TypeError, match="7"):
        KafkaConsumer(7)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "partition", ["orders", ("orders", "0"), (b"orders", 0), (None, 0), ("orders", 0, 1), ("orders", True)]
)
def test_invalid_partition_is_rejected_and_reading_continues(cluster: LogCluster, partition: Any) -> None:
    # It must not reach the IO thread, whose requests name all topics wanted.
    cluster.append("orders", 0, b"a")
    with cluster.consumer(auto_offset_reset="earliest") as consumer:
        calls: list[Callable[[], object]] = [
            lambda: consumer.assign([partition]),
            lambda: consumer.beginning_offsets([partition]),
            lambda: consumer.end_offsets([partition]),
            lambda: consumer.offsets_for_times({partition: 0}),
        ]
        for call in calls:
            with pytest.raises(TypeError, match=r"partition|topic"):
                call()
        with pytest.raises(TypeError, match="topic"):
            consumer.partitions_for_topic(b"orders")  # type: ignore[arg-type]
        consumer.assign([ORDERS_0])
        assert drain(consumer) == {ORDERS_0: [b"a"]}


def test_a_closed_consumer_that_is_polled_on_does_not_grow(cluster: LogCluster) -> None:
    consumer = cluster.consumer("orders")
    consumer.close()
    errors: list[ClientClosed] = []
    for _ in range(3):
        with pytest.raises(ClientClosed) as caught:
            consumer.poll()
        errors.append(caught.value)
    assert len({len(traceback.extract_tb(error.__traceback__)) for error in errors}) == 1
    assert len(set(map(id, errors))) == 3


def test_a_mapping_with_dotted_names_may_come_first(cluster: LogCluster) -> None:
    config = {"bootstrap.servers": "broker-0:9092", "auto.offset.reset": "earliest", "max.poll.records": 2}
    cluster.append("orders", 0, b"a", b"b", b"c")
    runtime: Any = cluster.runtime
    with KafkaConsumer(config, "orders", runtime=runtime) as consumer:
        assert [record.value for record in consumer.poll(1000)[ORDERS_0]] == [b"a", b"b"]


def test_group_calls_without_group_id_raise_illegal_state(consumer: KafkaConsumer) -> None:
    calls: list[Callable[[], object]] = [
        consumer.commit,
        consumer.commit_sync,
        consumer.commit_async,
        consumer.group_metadata,
        lambda: consumer.committed(ORDERS_0),
        lambda: consumer.store_offsets(offsets={ORDERS_0: 1}),
    ]
    for call in calls:
        with pytest.raises(IllegalState, match="group_id"):
            call()
    with pytest.raises(IllegalState, match="group_id"):
        consumer.enforce_rebalance()
    with pytest.raises(ConfigurationError, match="group_id"):
        consumer.subscribe(["orders"], on_assigned=print)


def test_without_a_group_a_pattern_means_all_partitions_of_its_topics() -> None:
    cluster = LogCluster({"orders": [0, 1], "ordinary": [0], "refunds": [0]})
    for topic in cluster.topics:
        cluster.append(topic, 0, topic.encode())
    with cluster.consumer(metadata_max_age_ms=1000) as consumer:
        consumer.subscribe(pattern="ord")
        found = read_values(consumer, 10)
        assert found == [b"orders", b"ordinary"]
        assert consumer.subscription() == {"orders", "ordinary"}
        cluster.add_topic("ordered", [1])
        cluster.append("ordered", 0, b"ordered")
        assert read_values(consumer, 30) == [b"ordered"]
        with pytest.raises(IllegalState, match="not both"):
            consumer.subscribe(["orders"], pattern="ord")


@pytest.mark.parametrize("missing", ["the topic", "a partition"])
def test_partition_missing_on_one_stale_broker_is_read_on(missing: str) -> None:
    """If the topic counted as deleted, the reset policy would apply: at the end, past the records that came
    meanwhile.
    """
    cluster = LogCluster({"orders": [0, 0]})
    with cluster.consumer(auto_offset_reset="latest", metadata_max_age_ms=1000) as consumer:
        consumer.subscribe(pattern="ord")
        assert read_values(consumer, 5) == []
        seen = len(cluster.requests(MetadataRequest))

        def behind(request: MetadataRequest, broker: ScriptedBroker) -> Answer:
            answer = cluster.metadata(request)
            if len(cluster.requests(MetadataRequest)) == seen + 1:
                if missing == "the topic":
                    answer.topics.clear()
                else:
                    answer.topics[0].partitions.pop()
                cluster.append("orders", 1, b"a")
            return answer

        cluster.on(MetadataRequest, behind)
        assert read_values(consumer, 20) == [b"a"]
        assert len(cluster.requests(MetadataRequest)) > seen + 1
        del cluster.topics["orders"]
        consumer.poll(3000)
        assert consumer.subscription() == set()


def read_values(consumer: KafkaConsumer, polls: int) -> list[bytes]:
    polled = [consumer.poll(100) for _ in range(polls)]
    return sorted(record.value for one in polled for records in one.values() for record in records)


@pytest.mark.parametrize(
    ("topics", "words"), [("orders", r"write subscribe\(\['orders'\]\)"), (b"orders", "list"), (5, "list")]
)
def test_topics_of_a_wrong_type_recommend_a_list(consumer: KafkaConsumer, topics: Any, words: str) -> None:
    with pytest.raises(IllegalArgument, match=words) as raised:
        consumer.subscribe(topics)
    assert isinstance(raised.value, TypeError), "as with kafka-python"
    assert consumer.subscription() == {"orders"}


def test_wrong_arguments_are_refused_with_words(consumer: KafkaConsumer) -> None:
    with pytest.raises(ValueError, match="max_records"):
        consumer.poll(max_records=0)
    with pytest.raises(ValueError, match="timeout_ms"):
        consumer.poll(-1)
    with pytest.raises(ValueError, match="timeout_ms"):
        consumer.poll(float("nan"))
    with pytest.raises(ValueError, match="max_records"):
        consumer.poll_columns(max_records=0)
    with pytest.raises(ValueError, match="timeout_ms"):
        consumer.poll_columns(-1)


def test_explain_does_not_call_an_address_unreachable_that_was_never_tried() -> None:
    with KafkaConsumer("orders", bootstrap_servers="localhost:1") as consumer:
        assert "No broker is connected: localhost:1: not tried yet" in consumer.explain()


def test_health_and_words(cluster: LogCluster, consumer: KafkaConsumer) -> None:
    assert "No broker is connected" in consumer.explain()
    cluster.append("orders", 0, b"a", b"b")
    consumer.poll(1000, max_records=1)
    health = consumer.health()
    assert health["state"] == "open"
    assert health["partitions"]["orders-0"]["position"] == 1
    assert health["partitions"]["orders-0"]["high_watermark"] == 2
    assert "fetched bytes from offset 1 for the next poll()" in consumer.explain()
    drain(consumer)
    assert "orders-0 is read to its high watermark, offset 2." in consumer.explain()
    assert consumer.highwater(ORDERS_0) == 2
    assert consumer.bootstrap_connected()
    assert consumer.metrics()["bytes-consumed-total"] > 0


def test_explain_names_no_fetched_bytes_once_poll_returned_the_last_record(
    cluster: LogCluster, consumer: KafkaConsumer
) -> None:
    cluster.append("orders", 0, b"a", b"b")
    consumer.poll(1000, max_records=1)
    consumer.poll(1000, max_records=1)
    assert consumer.health()["partitions"]["orders-0"]["position"] == 2
    assert "orders-0 is read to its high watermark, offset 2." in consumer.explain()


def test_health_names_the_library_of_each_codec(consumer: KafkaConsumer) -> None:
    assert consumer.health()["codec_libraries"] == {
        name: libraries.library(name).package for name in ("gzip", "snappy", "lz4", "zstd")
    }
    for name, packages in libraries.CANDIDATES.items():
        for package in {*packages} & {"lz4", "python-snappy", "zstandard", "cramjam"}:
            with using(name, package):
                assert consumer.health()["codec_libraries"][name] == package


@pytest.mark.parametrize("offset", [-1, -2, -7])
def test_an_offset_below_zero_is_none(cluster: LogCluster, offset: int) -> None:
    """A position from a broken broker; it would be committed, and fetched, as it is."""
    cluster.append("orders", 0, b"a")
    list_partition = cluster._list_partition

    def lie(*arguments: Any) -> Any:
        answer = list_partition(*arguments)
        answer.offset = offset
        return answer

    cluster._list_partition = lie  # type: ignore[method-assign]
    with cluster.consumer() as consumer:
        consumer.assign([ORDERS_0])
        with pytest.raises(NoOffsetForPartition, match="returned no offset"):
            consumer.position(ORDERS_0, 1000)
        assert consumer.end_offsets([ORDERS_0]) == {ORDERS_0: 0}
        cluster._list_partition = list_partition  # type: ignore[method-assign]
        assert drain(consumer) == {ORDERS_0: [b"a"]}
