"""Requested positions, the records that are returned, and the position that a consumer shows."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka2 import BadRecord, ConsumerRecord
from pykafka2.consumer.bad_records import BadRecords
from pykafka2.consumer.fetch.fetched_data import FetchedData
from pykafka2.consumer.state.iteration_queue import IterationQueue, SliceLength
from pykafka2.errors import CorruptData, KafkaError, KafkaTimeoutError
from pykafka2.hooks import Hooks
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.messages.offsets import ListOffsetsRequest, ListOffsetsResponse
from pykafka2.records.batch import stamp
from pykafka2.types import TopicPartition
from tests.cluster.scripted import Hold, VirtualClock
from tests.consumer.fetch.test_fetch_sessions import read
from tests.consumer.fetch.test_truncation import EpochCluster
from tests.consumer.logs import LogCluster, build_batch
from tests.consumer.poll.test_corrupt_data import damage

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.fixture
def cluster() -> LogCluster:
    return LogCluster({"orders": [0, 0]}, brokers=1)


# ---------------------------------------------------------------------------------------- offsets


def test_list_offsets_request_has_isolation_level_and_leader_epoch(cluster: LogCluster) -> None:
    cluster.move_leader("orders", 0, 0)
    with cluster.consumer(isolation_level="read_committed") as consumer:
        assert consumer.end_offsets([ORDERS_0]) == {ORDERS_0: 0}
    (request,) = cluster.requests(ListOffsetsRequest)
    assert request.isolation_level == 1
    assert request.topics[0].partitions[0].current_leader_epoch == 1


def test_beginning_and_end_of_a_partition_are_requested_one_after_the_other(cluster: LogCluster) -> None:
    for number in range(5):
        cluster.append("orders", 0, b"%d" % number)
    with cluster.consumer() as consumer:
        consumer.assign([ORDERS_0])
        consumer.bootstrap()
        consumer.seek_to_beginning(ORDERS_0)
        assert consumer.end_offsets([ORDERS_0]) == {ORDERS_0: 5}
        assert consumer.position(ORDERS_0) == 0


def test_partition_missing_in_the_list_offsets_response_is_retried_after_a_pause(cluster: LogCluster) -> None:
    cluster.on(ListOffsetsRequest, lambda request, broker: ListOffsetsResponse(topics=[]))
    with cluster.consumer() as consumer:
        with pytest.raises(KafkaTimeoutError):
            consumer.end_offsets([ORDERS_0], timeout_ms=3000)
        assert 3 <= len(cluster.requests(ListOffsetsRequest)) <= 30


def test_partitions_for_topic_finds_added_partitions(cluster: LogCluster) -> None:
    with cluster.consumer() as consumer:
        assert consumer.partitions_for_topic("orders") == {0, 1}
        cluster.topics["orders"].leaders.append(0)
        cluster.topics["orders"].epochs.append(0)
        consumer.partitions_for_topic("orders")
        cluster.runtime.run_for(2)
        assert consumer.partitions_for_topic("orders") == {0, 1, 2}


# ---------------------------------------------------------------------------------------- handing over


def test_poll_columns_limits_records_across_all_partitions(cluster: LogCluster) -> None:
    for number in range(10):
        cluster.append("orders", number // 7, b"%d" % number)
    with cluster.consumer() as consumer:
        consumer.assign([ORDERS_0, ORDERS_1])
        consumer.poll()
        cluster.runtime.run_for(1)
        found = [sum(map(len, consumer.poll_columns(1000, max_records=8).values())) for _ in range(2)]
        assert found == [8, 2]


@pytest.mark.parametrize(("call", "epoch"), [("poll", 2), ("poll_columns", -1)])
def test_the_epoch_before_damage_is_that_of_the_last_record_or_unknown(call: str, epoch: int) -> None:
    cluster = EpochCluster()
    cluster.write(b"0")
    with cluster.consumer() as consumer:
        consumer.assign([ORDERS_0])
        getattr(consumer, call)(1000)
        assert consumer._core.subscription.leader_epochs[ORDERS_0] == 1
        cluster.epoch = 2
        log = cluster.log("orders")
        log.append(b"1")
        log.append(b"2")
        for at in (1, 2):
            batch = bytearray(log.batches[at])
            stamp(batch, at, at + 1)
            log.batches[at] = bytes(batch)
        log.batches[2] = damage(log.batches[2], "value")
        cluster.arrive()
        assert getattr(consumer, call)(1000)
        assert consumer.position(ORDERS_0) == 2
        assert consumer._core.subscription.leader_epochs[ORDERS_0] == epoch


def test_records_taken_back_are_returned_again_with_the_former_position() -> None:
    cluster = EpochCluster()
    cluster.write(b"0", b"1")
    with cluster.consumer() as consumer:
        consumer.assign([ORDERS_0])
        assert len(consumer.poll(1000)[ORDERS_0]) == 2
        consumer._core.poller.collector.undo_last_pass()
        assert consumer.position(ORDERS_0) == 0
        assert ORDERS_0 not in consumer._core.subscription.leader_epochs
        assert read(consumer) == [b"0", b"1"]
        cluster.epoch = 2
        cluster.write(b"2")
        assert read(consumer, 1) == [b"2"]
        consumer._core.poller.collector.undo_last_pass()
        assert consumer._core.subscription.leader_epochs[ORDERS_0] == 1


def test_seek_away_skips_damage_behind_returned_records(cluster: LogCluster) -> None:
    for number in range(3):
        cluster.append("orders", 0, b"%d" % number)
    log = cluster.log("orders")
    log.batches[2] = damage(log.batches[2], "value")
    with cluster.consumer() as consumer:
        consumer.assign([ORDERS_0])
        for _ in range(3):
            assert read(consumer, 1) == [b"0", b"1"]
            consumer.seek(ORDERS_0, 0)


def test_records_taken_back_are_returned_again_before_the_damage(cluster: LogCluster) -> None:
    for number in range(2):
        cluster.append("orders", 0, b"%d" % number)
    log = cluster.log("orders")
    log.batches[1] = damage(log.batches[1], "value")
    with cluster.consumer() as consumer:
        consumer.assign([ORDERS_0])
        for _ in range(3):
            assert read(consumer, 1) == [b"0"]
            consumer._core.poller.collector.undo_last_pass()


def test_poll_without_position_updates_raises_leading_damage(cluster: LogCluster) -> None:
    cluster.append("orders", 0, b"0")
    log = cluster.log("orders")
    log.batches[0] = damage(log.batches[0], "value")
    with cluster.consumer() as consumer:
        consumer.assign([ORDERS_0])
        with pytest.raises(KafkaError, match="orders-0 at offset 0"):
            consumer.poll(1000, update_offsets=False)


def test_prefetched_records_of_a_reset_position_leave_no_gap(cluster: LogCluster) -> None:
    """Prefetched data can arrive between the restart on the driver's thread and the response in flight."""
    with cluster.consumer() as consumer:
        consumer.assign([ORDERS_0])
        assert consumer.poll(1000) == {}
        generation = consumer._core.subscription.assigned[ORDERS_0].generation
        ahead = memoryview(build_batch([(None, b"5")], 5))
        consumer._core.buffer.put(FetchedData(ORDERS_0, generation, 5, ahead))
        assert consumer.poll(0) == {}
        assert consumer.position(ORDERS_0) == 0
        cluster.append("orders", 0, *[b"%d" % number for number in range(6)])
        assert read(consumer, 2) == [b"%d" % number for number in range(6)]


def test_damaged_record_is_retried_once_for_each_position() -> None:
    bad = BadRecord("orders", 0, 5, 6, CorruptData("damaged"))
    policy = BadRecords("skip", Hooks(()))
    assert [policy.is_repeated(bad, generation) for generation in (1, 2, 2, 2)] == [
        False,
        False,
        True,
        False,
    ]


def test_iteration_queue_restores_records_taken_back() -> None:
    records: list[Any] = [ConsumerRecord("orders", 0, number, 0, 0, None, None, []) for number in range(3)]
    iteration_queue = IterationQueue()
    iteration_queue.put({ORDERS_0: records})
    assert iteration_queue.take(2, keep=False) == {ORDERS_0: records[:2]}
    iteration_queue.restore_taken()
    assert iteration_queue.first_offset(ORDERS_0) == 0


# ---------------------------------------------------------------------------------------- what is shown


def test_health_reports_metadata_age_and_throttling(cluster: LogCluster) -> None:
    with cluster.consumer(group_id="g", request_timeout_ms=1000) as consumer:
        group = consumer.health()["group"]
        assert (group["last_commit_age"], group["last_heartbeat_age"]) == (None, None)
        consumer.assign([ORDERS_0])
        consumer.beginning_offsets([ORDERS_0])
        link: Any = consumer._core.cluster.nodes.known_link(0)
        link.connection.throttled_until = cluster.now + 3600
        assert "throttle" in consumer.explain()
        link.connection.throttled_until = 0
        cluster.on(MetadataRequest, lambda request, broker: Hold())
        cluster.runtime.run_for(20)
        consumer._core.cluster.metadata.request_update()
        cluster.runtime.run_for(10)
        health = consumer.health()
        assert health["metadata_age"] >= 30 > health["metadata_request_age"]


# ---------------------------------------------------------------------------------------- calls


@pytest.mark.parametrize("is_iterating", [True, False])
def test_a_call_that_is_refused_gives_back_nothing_of_the_poll_before(
    cluster: LogCluster, is_iterating: bool
) -> None:
    cluster.append("orders", 0, b"0", b"1", b"2")
    with cluster.consumer() as consumer:
        consumer.assign([ORDERS_0])
        if is_iterating:
            assert next(iter(consumer)).offset == 0
        assert len(consumer.poll(1000)[ORDERS_0]) == (2 if is_iterating else 3)
        with pytest.raises(ValueError, match="max_records"):
            consumer.poll(max_records=0)
        assert read(consumer, 2) == []
        assert consumer.position(ORDERS_0) == 3


@pytest.mark.parametrize("call", ["subscribe", "assign"])
def test_iteration_returns_no_remaining_records_after_unsubscribe_or_subscribe(call: str) -> None:
    cluster = LogCluster({"orders": [0], "bills": [0]}, brokers=1)
    cluster.append("orders", 0, b"0", b"1", b"2")
    cluster.append("bills", 0, b"bill")
    with cluster.consumer(consumer_timeout_ms=1000) as consumer:
        consumer.subscribe(["orders"]) if call == "subscribe" else consumer.assign([ORDERS_0])
        assert next(iter(consumer)).value == b"0"
        if call == "subscribe":
            consumer.subscribe(["bills"])
        else:
            consumer.assign([TopicPartition("bills", 0)])
        assert [record.value for record in consumer] == [b"bill"]


def test_dropped_pattern_subscription_stops_requesting_all_topics(cluster: LogCluster) -> None:
    with cluster.consumer() as consumer:
        consumer.subscribe(pattern="ord")
        consumer.poll(100)
        assert cluster.requests(MetadataRequest)[-1].topics is None
        consumer.unsubscribe()
        consumer.assign([ORDERS_0])
        consumer.bootstrap(refresh=True)
        consumer.poll(100)
        assert [one.name for one in cluster.requests(MetadataRequest)[-1].topics] == ["orders"]


def test_an_application_that_grows_slow_is_handed_shorter_slices() -> None:
    clock = VirtualClock()
    length = SliceLength(clock)
    assert max(length.next() for _ in range(12)) == 500
    clock.now += 10
    assert length.next() == 5


def test_a_peek_at_records_of_a_new_leader_leaves_the_epoch_of_each_position() -> None:
    cluster = EpochCluster()
    cluster.write(b"0")
    with cluster.consumer() as consumer:
        consumer.assign([ORDERS_0])
        assert len(consumer.poll(1000)[ORDERS_0]) == 1
        cluster.epoch = 2
        cluster.write(b"1")
        for _ in range(2):
            assert len(consumer.poll(1000, update_offsets=False)[ORDERS_0]) == 1
            assert consumer._core.subscription.leader_epochs[ORDERS_0] == 1
        assert read(consumer, 1) == [b"1"]
        assert consumer._core.subscription.leader_epochs[ORDERS_0] == 2
