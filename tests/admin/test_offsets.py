"""Offsets by time and kind, and deleted records, on two brokers in virtual time."""

from __future__ import annotations

import pytest

from pykafka2 import IsolationLevel, NewTopic, TopicPartition
from pykafka2.admin.group_values import OffsetSpec
from pykafka2.admin.outcomes import ItemsFailed
from pykafka2.cluster.client import ClusterClient
from pykafka2.errors import (
    ClientClosed,
    IllegalArgument,
    KafkaTimeoutError,
    OffsetOutOfRange,
    UnknownTopicOrPartition,
)
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.messages.offsets import ListOffsetsRequest
from pykafka2.protocol.messages.topics import DeleteRecordsRequest
from pykafka2.testing import Simulation
from pykafka2.types import OffsetAndTimestamp
from tests.admin.worlds import World

ORDERS = [TopicPartition("orders", number) for number in range(3)]
PAYMENTS = TopicPartition("payments", 1)


def offsets_of(world: World, spec: str | int, **options: object) -> list[int]:
    found = world.admin.list_offsets(dict.fromkeys(ORDERS, spec), **options)  # type: ignore[arg-type]
    return [found[partition].offset for partition in ORDERS]


def test_offsets_are_listed_by_the_leaders_of_two_topics(world: World) -> None:
    world.fill("orders", [5, 0, 2])
    world.fill("payments", [0, 4])
    world.cluster.history.clear()
    found = world.admin.list_offsets(dict.fromkeys([*ORDERS, PAYMENTS], "latest"))
    assert [found[partition].offset for partition in [*ORDERS, PAYMENTS]] == [5, 0, 2, 4]
    assert list(found) == [*ORDERS, PAYMENTS]
    assert found[PAYMENTS].leader_epoch == 0
    assert world.cluster.history.count(ListOffsetsRequest) == 2, "one request for each leader"


def test_each_kind_of_offset_is_listed(world: World) -> None:
    world.fill("orders", [5, 0, 2], first_ms=50_000)
    world.admin.delete_records({ORDERS[0]: 2})
    assert offsets_of(world, "earliest") == [2, 0, 0]
    assert offsets_of(world, OffsetSpec.EARLIEST_LOCAL) == [2, 0, 0]
    assert offsets_of(world, "latest_tiered") == [-1, -1, -1]
    assert offsets_of(world, "earliest_pending_upload") == [-1, -1, -1]
    newest = world.admin.list_offsets(dict.fromkeys(ORDERS, "max_timestamp"))
    assert [newest[partition][:2] for partition in ORDERS] == [(4, 54_000), (-1, -1), (1, 51_000)]


def test_offset_by_time_is_the_first_record_that_is_not_older(world: World) -> None:
    world.fill("orders", [5, 0, 2], first_ms=50_000)
    found = world.admin.list_offsets({ORDERS[0]: 51_001, ORDERS[2]: 60_000})
    assert found[ORDERS[0]] == OffsetAndTimestamp(2, 52_000, 0)
    assert found[ORDERS[2]] == OffsetAndTimestamp(-1, -1, -1)


def test_latest_offset_of_read_committed_is_the_last_stable_one(world: World) -> None:
    world.fill("orders", [3])
    producer = world.producer("txn", transactional_id="t")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("orders", b"open", partition=0).result(10)
    assert offsets_of(world, "latest")[0] == 4
    assert offsets_of(world, "latest", isolation_level="read_committed")[0] == 3
    assert offsets_of(world, "latest", isolation_level=IsolationLevel.READ_COMMITTED)[0] == 3
    producer.abort_transaction()
    producer.close()


def test_missing_partition_has_its_own_error_and_is_not_waited_for_long(
    simulation: Simulation, world: World
) -> None:
    started = simulation.now
    outcomes = world.admin.list_offsets(
        {ORDERS[0]: "latest", TopicPartition("orders", 9): "latest", TopicPartition("none", 0): "latest"},
        raise_errors=False,
    )
    assert outcomes[ORDERS[0]].offset == 0
    assert {str(one): type(error) for one, error in outcomes.errors.items()} == {
        "orders-9": UnknownTopicOrPartition,
        "none-0": UnknownTopicOrPartition,
    }
    assert simulation.now - started < 5
    with pytest.raises(ItemsFailed, match="none-0"):
        world.admin.list_offsets({TopicPartition("none", 0): "latest"})


def test_moved_leader_is_found_again(world: World) -> None:
    world.fill("orders", [5, 4, 3])
    world.cluster.controls.rule(api="ListOffsets", nth=1, then="error:NOT_LEADER_OR_FOLLOWER")
    world.cluster.history.clear()
    assert offsets_of(world, "latest") == [5, 4, 3]
    assert world.cluster.history.count(MetadataRequest) >= 2


def test_close_during_a_request_ends_the_call_with_client_closed(
    simulation: Simulation, world: World
) -> None:
    admin = world.new_admin("second")
    world.cluster.controls.rule(api="ListOffsets", then="swallow")
    calling = simulation.spawn(
        lambda: admin.list_offsets(dict.fromkeys(ORDERS, "latest"), raise_errors=False)
    )
    simulation.sleep(1)
    admin.close()
    with pytest.raises(ClientClosed):
        calling.result()


def lose_a_leader(world: World, kind: str) -> tuple[list[TopicPartition], list[TopicPartition]]:
    """Take broker 1 from a topic with one replica; its partitions on brokers that are up, and on this one."""
    world.admin.create_topics([NewTopic("single", assignment={0: [0], 1: [1], 2: [0], 3: [1]})])
    world.admin.wait_for_topics(["single"])
    if kind == "paused":
        world.cluster.controls.pause_broker(1)
    elif kind == "silent":  # unlike a paused broker, it is not fenced
        world.cluster.controls.hold(ListOffsetsRequest, broker=1)
    else:
        world.cluster.controls.crash_broker(1, unnoticed=kind == "unnoticed")
    alive, dead = ([TopicPartition("single", number) for number in numbers] for numbers in ((0, 2), (1, 3)))
    return alive, dead


@pytest.mark.parametrize(
    ("kind", "seconds"), [("no leader", 0.1), ("unnoticed", 1.0), ("paused", 11.0), ("silent", 11.0)], ids=str
)
def test_partition_without_a_leader_fails_alone_and_is_not_waited_for(
    world: World, kind: str, seconds: float
) -> None:
    alive, dead = lose_a_leader(world, kind)
    started = world.simulation.now
    outcomes = world.admin.list_offsets(dict.fromkeys([*alive, *dead], "latest"), raise_errors=False)
    assert world.simulation.now - started < seconds
    assert [outcomes[one].offset for one in alive] == [0, 0]
    assert sorted(outcomes.errors) == dead
    assert all(error.retriable for error in outcomes.errors.values())


def test_partition_without_a_leader_is_waited_for_if_all_are_required(world: World) -> None:
    alive, dead = lose_a_leader(world, "no leader")
    with pytest.raises(ItemsFailed) as failed:
        world.admin.list_offsets(dict.fromkeys([*alive, *dead], "latest"), timeout=3)
    assert sorted(failed.value.outcomes.errors) == dead
    assert all(isinstance(error, KafkaTimeoutError) for error in failed.value.outcomes.errors.values())


@pytest.mark.parametrize("reason", ["no time", "no broker"])
def test_look_up_that_the_timeout_ends_keeps_the_outcomes_of_earlier_rounds(
    world: World, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A back-off can end just before the timeout, or after the last broker has crashed, so that no leader can
    be looked up any more.
    """
    alive, dead = lose_a_leader(world, "no leader")
    pause, ends_at = ClusterClient.pause, world.simulation.now + 3

    def pause_for_long(cluster: ClusterClient, seconds: float) -> None:
        if reason == "no time":
            pause(cluster, ends_at - world.simulation.now - 1e-6)
        else:
            world.cluster.controls.crash_broker(0)

    monkeypatch.setattr(ClusterClient, "pause", pause_for_long)
    with pytest.raises(ItemsFailed) as failed:
        world.admin.list_offsets(dict.fromkeys([*alive, *dead], "latest"), timeout=3)
    outcomes = failed.value.outcomes
    assert [outcomes[one].offset for one in alive] == [0, 0]
    for partition in dead:
        assert isinstance(outcomes.errors[partition], KafkaTimeoutError)
        assert f"{partition} has no leader" in str(outcomes.errors[partition])


@pytest.mark.parametrize("spec", ["newest", -7, True, 1.5, None, 2**63])
def test_invalid_kind_of_offset_is_refused(world: World, spec: object) -> None:
    with pytest.raises(IllegalArgument, match="latest"):
        world.admin.list_offsets({ORDERS[0]: spec})  # type: ignore[dict-item]


def test_invalid_isolation_level_and_partitions_are_refused(world: World) -> None:
    with pytest.raises(IllegalArgument, match="read_committed"):
        world.admin.list_offsets({ORDERS[0]: "latest"}, isolation_level="serializable")
    with pytest.raises(IllegalArgument, match="specs"):
        world.admin.list_offsets([ORDERS[0]])  # type: ignore[arg-type]
    with pytest.raises(IllegalArgument, match="orders"):
        world.admin.list_offsets({"orders": "latest"})  # type: ignore[dict-item]


def test_records_before_the_offsets_are_deleted(world: World) -> None:
    world.fill("orders", [5, 4, 3])
    world.cluster.history.clear()
    deleted = world.admin.delete_records({ORDERS[0]: 2, ORDERS[1]: -1, ORDERS[2]: 0})
    assert dict(deleted) == {ORDERS[0]: 2, ORDERS[1]: 4, ORDERS[2]: 0}
    assert offsets_of(world, "earliest") == [2, 4, 0]
    assert world.cluster.history.count(DeleteRecordsRequest) == 2, "one request for each leader"


def test_records_that_are_not_there_cannot_be_deleted(world: World) -> None:
    world.fill("orders", [2])
    outcomes = world.admin.delete_records({ORDERS[0]: 3, ORDERS[1]: 0}, raise_errors=False)
    assert isinstance(outcomes.errors[ORDERS[0]], OffsetOutOfRange)
    assert outcomes[ORDERS[1]] == 0
    with pytest.raises(IllegalArgument, match="orders-0"):
        world.admin.delete_records({ORDERS[0]: -2})
