"""The lag of groups in records and time, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka2 import NewTopic, TopicPartition
from pykafka2.admin import ItemsFailed
from pykafka2.admin.group_values import PartitionLag
from pykafka2.errors import GroupIdNotFound, KafkaError, LeaderNotAvailable
from pykafka2.protocol.messages.committed_offsets import OffsetFetchRequest
from pykafka2.protocol.messages.consumer_group import ConsumerGroupDescribeRequest
from pykafka2.protocol.messages.fetch import FetchRequest
from pykafka2.protocol.messages.group_admin import DescribeGroupsRequest
from pykafka2.protocol.messages.offsets import ListOffsetsRequest
from pykafka2.protocol.struct import Request
from tests.admin.worlds import World

ORDERS = [TopicPartition("orders", number) for number in range(3)]
PAYMENTS = TopicPartition("payments", 0)


@pytest.mark.gate
def test_lag_is_counted_by_partition(world: World) -> None:
    world.fill("orders", [5, 4, 3])
    world.fill("payments", [2])
    world.commit("g", {ORDERS[0]: 2, ORDERS[1]: 4, PAYMENTS: 0})
    assert world.admin.group_lag("g") == {
        ORDERS[0]: PartitionLag(2, 5, 3),
        ORDERS[1]: PartitionLag(4, 4, 0),
        PAYMENTS: PartitionLag(0, 2, 2),
    }


def test_deleted_records_are_no_lag(world: World) -> None:
    world.fill("orders", [5])
    world.commit("g", {ORDERS[0]: 1})
    world.admin.delete_records({ORDERS[0]: 3})
    assert world.admin.group_lag("g") == {ORDERS[0]: PartitionLag(1, 5, 2, start=3)}


@pytest.mark.gate
def test_records_of_an_open_transaction_are_no_lag(world: World) -> None:
    world.fill("orders", [3])
    world.commit("g", {ORDERS[0]: 1})
    producer = world.producer("txn", transactional_id="t")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("orders", b"open", partition=0).result(10)
    assert world.admin.group_lag("g")[ORDERS[0]].lag == 2
    assert world.admin.group_lag("g", isolation_level="read_uncommitted")[ORDERS[0]].lag == 3
    producer.commit_transaction()
    producer.close()
    assert world.admin.group_lag("g")[ORDERS[0]].lag == 4, "the record and the marker"


@pytest.mark.gate
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_owned_partitions_without_a_commit_count_whole(world: World, protocol: str) -> None:
    world.fill("orders", [5, 4, 0])
    consumer = world.member("g", "orders", protocol=protocol, name="reader")
    world.turn(consumer)
    consumer.commit({ORDERS[0]: 5})
    lags = world.admin.group_lag("g")
    assert [(lags[one].committed, lags[one].lag) for one in ORDERS] == [(5, 0), (-1, 4), (-1, 0)]
    assert {lags[one].client_id for one in ORDERS} == {"reader"}
    assert len({lags[one].member_id for one in ORDERS}) == 1


def test_lag_in_time_is_the_age_of_the_oldest_record_not_committed(world: World) -> None:
    now = world.cluster.runtime.clock.wall_ms() if hasattr(world.cluster, "runtime") else None
    start = now if now is not None else world.simulation.runtime.clock.wall_ms()
    world.fill("orders", [5, 2, 1], first_ms=start - 100_000, step_ms=10_000)
    world.commit("g", {ORDERS[0]: 2, ORDERS[1]: 2, ORDERS[2]: 0})
    lags = world.admin.group_lag("g", with_time=True)
    assert lags[ORDERS[0]].lag_time == pytest.approx(80, abs=1)
    assert lags[ORDERS[1]].lag_time == 0.0
    assert lags[ORDERS[2]].lag_time == pytest.approx(100, abs=1)
    assert world.admin.group_lag("g")[ORDERS[0]].lag_time is None


def test_age_is_that_of_the_first_record_not_committed_in_the_middle_of_a_batch(world: World) -> None:
    now_ms = world.simulation.runtime.clock.wall_ms()
    with world.producer(linger_ms=1000) as producer:
        for seconds in (300, 200, 100):
            producer.send("orders", b"v", partition=0, timestamp_ms=now_ms - seconds * 1000)
    world.commit("g", {ORDERS[0]: 2})
    assert len(world.cluster.log("orders", 0).batches()) == 1
    assert world.admin.group_lag("g", with_time=True)[ORDERS[0]].lag_time == pytest.approx(100, abs=5)


def test_record_of_the_future_has_no_negative_age(world: World) -> None:
    now_ms = world.simulation.runtime.clock.wall_ms()
    world.fill("orders", [1], first_ms=now_ms + 600_000)
    world.commit("g", {ORDERS[0]: 0})
    assert world.admin.group_lag("g", with_time=True)[ORDERS[0]].lag_time == 0.0


def test_partition_that_cannot_be_fetched_from_keeps_its_lag_in_records(world: World) -> None:
    world.fill("orders", [2, 1])
    world.commit("g", {ORDERS[0]: 0, ORDERS[1]: 0})
    world.cluster.controls.rule(api="Fetch", nth=1, then="error:TOPIC_AUTHORIZATION_FAILED")
    lags = world.admin.group_lag("g", with_time=True)
    assert [lags[one].lag for one in ORDERS[:2]] == [2, 1]
    assert sorted(lags[one].lag_time is None for one in ORDERS[:2]) == [False, True]


def test_offset_committed_behind_the_end_is_no_negative_lag(world: World) -> None:
    world.fill("orders", [2])
    world.commit("g", {ORDERS[0]: 7})
    assert world.admin.group_lag("g", with_time=True)[ORDERS[0]] == PartitionLag(7, 2, 0, lag_time=0.0)


@pytest.mark.gate
def test_marker_of_a_transaction_has_no_age(world: World) -> None:
    with world.producer("txn", transactional_id="t") as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("orders", b"v", partition=0)
    world.commit("g", {ORDERS[0]: 1})
    lag = world.admin.group_lag("g", with_time=True)[ORDERS[0]]
    assert (lag.committed, lag.end, lag.lag, lag.lag_time) == (1, 2, 1, None)


def test_lag_of_a_missing_group(world: World) -> None:
    with pytest.raises(GroupIdNotFound):
        world.admin.group_lag("nobody")


SINGLE = [TopicPartition("single", number) for number in range(4)]


def commit_single(world: World) -> None:
    """Let the group "g" read a topic whose partitions have one replica each, on two brokers."""
    world.admin.create_topics([NewTopic("single", assignment={0: [0], 1: [1], 2: [0], 3: [1]})])
    world.admin.wait_for_topics(["single"])
    world.fill("single", [5, 4, 3, 2])
    world.commit("g", dict.fromkeys(SINGLE, 1))


def lose_two_leaders(world: World) -> None:
    """Take the leader from two partitions; the offsets of the group "g" stay."""
    commit_single(world)
    world.cluster.controls.crash_broker(1)


def test_partitions_without_a_leader_are_not_waited_for(world: World) -> None:
    lose_two_leaders(world)
    started = world.simulation.now
    lags = world.admin.group_lag("g", with_time=True, raise_errors=False)
    assert world.simulation.now - started < 0.5
    assert {one: lag.lag for one, lag in lags.succeeded.items()} == {SINGLE[0]: 4, SINGLE[2]: 2}
    assert list(lags.errors) == [SINGLE[1], SINGLE[3]]
    with pytest.raises(LeaderNotAvailable):
        lags[SINGLE[1]]


def test_error_has_the_lags_of_the_other_partitions(world: World) -> None:
    lose_two_leaders(world)
    with pytest.raises(ItemsFailed, match="group_lag failed for 2 of 4") as failed:
        world.admin.group_lag("g", timeout=2)
    assert list(failed.value.outcomes.succeeded) == [SINGLE[0], SINGLE[2]]


@pytest.mark.parametrize("timestamp", [-2, -1], ids=["earliest", "latest"])
def test_partition_of_a_refusing_leader_is_in_the_errors(world: World, timestamp: int) -> None:
    """A leader can move, so the request is repeated for two seconds."""
    commit_single(world)
    world.cluster.controls.rule(
        api=ListOffsetsRequest,
        broker=1,
        where=lambda request: request.topics[0].partitions[0].timestamp == timestamp,
        then="error:NOT_LEADER_OR_FOLLOWER",
    )
    started = world.simulation.now
    lags = world.admin.group_lag("g", raise_errors=False)
    assert 2 <= world.simulation.now - started < 5
    assert {one: lag.lag for one, lag in lags.succeeded.items()} == {SINGLE[0]: 4, SINGLE[2]: 2}
    assert list(lags.errors) == [SINGLE[1], SINGLE[3]]


def test_time_of_a_record_at_a_silent_leader_is_not_waited_for(world: World) -> None:
    commit_single(world)
    world.cluster.controls.hold(FetchRequest, broker=1)
    started = world.simulation.now
    lags = world.admin.group_lag("g", with_time=True, raise_errors=False)
    assert world.simulation.now - started < 11
    assert {one for one, lag in lags.items() if lag.lag_time is None} == {SINGLE[1], SINGLE[3]}
    assert [lags[one].lag for one in SINGLE] == [4, 3, 2, 1]


def test_silent_broker_gets_one_request(world: World) -> None:
    """It is given ten seconds for each request, so a second one to it would double the wait."""
    commit_single(world)
    world.cluster.controls.hold(ListOffsetsRequest, broker=1)
    started = world.simulation.now
    lags = world.admin.group_lag("g", raise_errors=False)
    assert world.simulation.now - started < 11
    assert list(lags.errors) == [SINGLE[1], SINGLE[3]]


@pytest.mark.parametrize(
    "request_", [ConsumerGroupDescribeRequest, DescribeGroupsRequest, OffsetFetchRequest]
)
def test_silent_coordinator_is_not_waited_for(world: World, request_: type[Request[Any]]) -> None:
    world.commit("g", {ORDERS[0]: 0})
    world.cluster.controls.hold(request_)
    started = world.simulation.now
    with pytest.raises(KafkaError, match="did not respond"):
        world.admin.group_lag("g", raise_errors=False)
    assert world.simulation.now - started < 11
