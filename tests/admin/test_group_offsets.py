"""Committed offsets of groups: list, alter, reset, delete; two coordinators in virtual time."""

from __future__ import annotations

import pytest

from pykafka2 import OffsetAndMetadata, TopicPartition
from pykafka2.admin.outcomes import ItemsFailed
from pykafka2.errors import (
    GroupIdNotFound,
    GroupSubscribedToTopic,
    IllegalArgument,
    KafkaTimeoutError,
    NonEmptyGroup,
    OffsetMetadataTooLarge,
    UnknownMemberId,
    UnknownTopicOrPartition,
)
from pykafka2.protocol.messages.committed_offsets import OffsetCommitRequest, OffsetFetchRequest
from tests.admin.worlds import GROUPS, World

ORDERS = [TopicPartition("orders", number) for number in range(3)]
PAYMENTS = [TopicPartition("payments", number) for number in range(2)]


def committed(world: World, group: str) -> dict[str, int]:
    return {str(one): offset.offset for one, offset in world.admin.list_group_offsets(group).items()}


def test_offsets_of_a_group_are_listed(world: World) -> None:
    world.commit("g", {ORDERS[1]: 5, PAYMENTS[0]: 7})
    admin = world.admin
    assert admin.list_group_offsets("g") == {
        ORDERS[1]: OffsetAndMetadata(5),
        PAYMENTS[0]: OffsetAndMetadata(7),
    }
    assert admin.list_group_offsets("g", [ORDERS[0], ORDERS[1]]) == {ORDERS[1]: OffsetAndMetadata(5)}
    assert admin.list_group_offsets("g", []) == {}
    assert admin.list_group_offsets("nobody") == {}


@pytest.mark.gate
def test_offsets_of_many_groups_are_listed_at_once(world: World) -> None:
    for number, group in enumerate(GROUPS):
        world.commit(group, {ORDERS[0]: number, PAYMENTS[1]: number + 10})
    world.cluster.history.clear()
    found = world.admin.list_offsets_of_groups(GROUPS)
    assert [found[group][PAYMENTS[1]].offset for group in GROUPS] == [10, 11, 12, 13, 14, 15]
    assert world.cluster.history.count(OffsetFetchRequest) == 2, "one request for each coordinator"
    some = world.admin.list_offsets_of_groups({"group-1": [ORDERS[0]], "group-2": None})
    assert {name: list(offsets) for name, offsets in some.items()} == {
        "group-1": [ORDERS[0]],
        "group-2": [ORDERS[0], PAYMENTS[1]],
    }


def test_offsets_of_an_old_coordinator_are_listed_one_group_at_a_time(world: World) -> None:
    """The responses of brokers before Kafka 3.0, which take one group per OffsetFetch request."""
    world.commit("group-0", {ORDERS[0]: 3})
    world.commit("group-1", {ORDERS[0]: 4, PAYMENTS[0]: 5})
    for number in (1, 2):
        world.cluster.controls.rule(api="OffsetFetch", nth=number, then="error:UNSUPPORTED_VERSION")
    found = world.admin.list_offsets_of_groups({"group-0": None, "group-1": [PAYMENTS[0], PAYMENTS[1]]})
    assert {name: list(offsets.values()) for name, offsets in found.items()} == {
        "group-0": [OffsetAndMetadata(3)],
        "group-1": [OffsetAndMetadata(5)],
    }


def test_offsets_of_an_open_transaction_are_waited_for_if_requested(world: World) -> None:
    world.commit("g", {ORDERS[0]: 1})
    consumer = world.member("g")
    producer = world.producer("txn", transactional_id="t")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send_offsets_to_transaction({ORDERS[0]: OffsetAndMetadata(3)}, consumer.group_metadata())
    assert world.admin.list_group_offsets("g")[ORDERS[0]].offset == 1
    with pytest.raises(KafkaTimeoutError, match=r"list_group_offsets .* orders-0: .*transaction"):
        world.admin.list_group_offsets("g", require_stable=True, timeout=2)
    producer.commit_transaction()
    assert world.admin.list_group_offsets("g", require_stable=True)[ORDERS[0]].offset == 3
    producer.close()


def test_offsets_are_altered(world: World) -> None:
    admin = world.admin
    done = admin.alter_group_offsets("g", {ORDERS[0]: 5, PAYMENTS[1]: OffsetAndMetadata(3, "by hand")})
    assert list(done) == [ORDERS[0], PAYMENTS[1]]
    assert admin.list_group_offsets("g") == {
        ORDERS[0]: OffsetAndMetadata(5),
        PAYMENTS[1]: OffsetAndMetadata(3, "by hand"),
    }


@pytest.mark.gate
def test_offsets_of_a_group_with_members_cannot_be_altered(world: World) -> None:
    world.turn(world.member("g", "orders"))
    outcomes = world.admin.alter_group_offsets("g", {ORDERS[0]: 5}, raise_errors=False)
    assert isinstance(outcomes.errors[ORDERS[0]], UnknownMemberId)
    with pytest.raises(ItemsFailed, match="stop them"):
        world.admin.alter_group_offsets("g", {ORDERS[0]: 5})


def test_altered_offset_of_a_missing_partition_has_its_own_error(world: World) -> None:
    outcomes = world.admin.alter_group_offsets(
        "g", {ORDERS[0]: 5, TopicPartition("none", 0): 1}, raise_errors=False
    )
    assert outcomes[ORDERS[0]] is None
    assert isinstance(outcomes.errors[TopicPartition("none", 0)], UnknownTopicOrPartition)
    with pytest.raises(IllegalArgument, match="orders-0"):
        world.admin.alter_group_offsets("g", {ORDERS[0]: -1})


def test_commit_is_repeated_while_the_coordinator_loads(world: World) -> None:
    world.cluster.controls.rule(api="OffsetCommit", nth=1, then="error:COORDINATOR_LOAD_IN_PROGRESS")
    world.admin.alter_group_offsets("g", {ORDERS[0]: 5})
    assert committed(world, "g") == {"orders-0": 5}


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ({}, [1, 0, 0]),
        ({"to": "earliest"}, [1, 0, 0]),
        ({"to": "latest"}, [5, 2, 0]),
        ({"to": "current"}, [3, 1, 0]),
        ({"timestamp_ms": 52_000}, [2, 2, 0]),
        ({"timestamp_ms": 51_000}, [1, 1, 0]),
        ({"shift": 1}, [4, 2, 0]),
        ({"shift": -9}, [1, 0, 0]),
        ({"shift": 9}, [5, 2, 0]),
        ({"offset": 2}, [2, 2, 0]),
        ({"offset": 0}, [1, 0, 0]),
    ],
)
def test_offsets_are_reset(world: World, target: dict[str, object], expected: list[int]) -> None:
    world.fill("orders", [5, 2, 0], first_ms=50_000)
    world.admin.delete_records({ORDERS[0]: 1})
    world.commit("g", {ORDERS[0]: 3, ORDERS[1]: 1, ORDERS[2]: 0})
    world.cluster.history.clear()
    dry = world.admin.reset_group_offsets("g", dry_run=True, **target)  # type: ignore[arg-type]
    assert world.cluster.history.count(OffsetCommitRequest) == 0
    assert [dry[partition].offset for partition in ORDERS] == expected
    assert world.admin.reset_group_offsets("g", **target) == dry  # type: ignore[arg-type]
    assert list(committed(world, "g").values()) == expected


def test_latest_is_behind_the_records_of_an_open_transaction(world: World) -> None:
    world.fill("orders", [1])
    world.commit("g", {ORDERS[0]: 0})
    producer = world.producer("txn", transactional_id="t")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("orders", b"open", partition=0).result(10)
    assert world.admin.reset_group_offsets("g", to="latest")[ORDERS[0]].offset == 2
    assert world.admin.reset_group_offsets("g", offset=9)[ORDERS[0]].offset == 2
    producer.abort_transaction()
    producer.close()


def test_commit_that_fails_is_an_error_of_the_reset(world: World) -> None:
    world.commit("g", {ORDERS[0]: 0, ORDERS[1]: 0})
    world.cluster.controls.rule(api="OffsetCommit", nth=1, then="error:OFFSET_METADATA_TOO_LARGE")
    with pytest.raises(OffsetMetadataTooLarge):
        world.admin.reset_group_offsets("g")


@pytest.mark.gate
def test_chosen_partitions_and_topics_are_reset(world: World) -> None:
    world.fill("orders", [5, 2, 1])
    world.fill("payments", [4, 3])
    world.commit("g", {ORDERS[0]: 3})
    reset = world.admin.reset_group_offsets("g", ["payments", ORDERS[1]], to="latest")
    assert {str(one): offset.offset for one, offset in reset.items()} == {
        "orders-1": 2,
        "payments-0": 4,
        "payments-1": 3,
    }
    assert committed(world, "g") == {"orders-0": 3, "orders-1": 2, "payments-0": 4, "payments-1": 3}
    assert world.admin.reset_group_offsets("new", ["orders"], to="latest")[ORDERS[0]].offset == 5
    assert world.admin.reset_group_offsets("nobody") == {}


@pytest.mark.gate
def test_group_with_members_is_only_reset_in_a_dry_run(world: World) -> None:
    world.fill("orders", [5, 2, 0])
    consumer = world.member("g", "orders")
    world.turn(consumer)
    consumer.commit()
    with pytest.raises(NonEmptyGroup, match="'g' is Stable with 1 member;"):
        world.admin.reset_group_offsets("g")
    assert committed(world, "g") == {"orders-0": 5, "orders-1": 2, "orders-2": 0}
    assert world.admin.reset_group_offsets("g", dry_run=True)[ORDERS[0]].offset == 0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"to": "newest"}, "earliest"),
        ({"to": "earliest", "shift": 1}, "to and shift"),
        ({"timestamp_ms": -1}, "timestamp_ms"),
        ({"offset": -1}, "offset"),
        ({"shift": "1"}, "shift"),
        ({"partitions": "orders"}, "list"),
        ({"partitions": [("orders", "x")]}, "partitions"),
    ],
)
def test_invalid_resets_are_refused(world: World, arguments: dict[str, object], named: str) -> None:
    with pytest.raises(IllegalArgument, match=named):
        world.admin.reset_group_offsets("g", **arguments)  # type: ignore[arg-type]


def test_reset_of_missing_topics_or_offsets_changes_nothing(world: World) -> None:
    world.commit("g", {ORDERS[0]: 0})
    with pytest.raises(UnknownTopicOrPartition, match="none"):
        world.admin.reset_group_offsets("g", ["orders", "none"])
    with pytest.raises(IllegalArgument, match="orders-1"):
        world.admin.reset_group_offsets("g", ["orders"], shift=1)
    assert committed(world, "g") == {"orders-0": 0}


def test_committed_offsets_are_deleted(world: World) -> None:
    world.commit("g", {ORDERS[0]: 0, ORDERS[1]: 1, PAYMENTS[0]: 2})
    deleted = world.admin.delete_group_offsets("g", [ORDERS[0], PAYMENTS[0], ORDERS[2]])
    assert list(deleted) == [ORDERS[0], PAYMENTS[0], ORDERS[2]]
    assert committed(world, "g") == {"orders-1": 1}


def test_offsets_of_subscribed_topics_are_not_deleted(world: World) -> None:
    consumer = world.member("g", "orders")
    world.turn(consumer)
    consumer.commit()
    consumer.commit({PAYMENTS[0]: 1})
    outcomes = world.admin.delete_group_offsets("g", [ORDERS[0], PAYMENTS[0]], raise_errors=False)
    assert isinstance(outcomes.errors[ORDERS[0]], GroupSubscribedToTopic)
    assert outcomes[PAYMENTS[0]] is None
    with pytest.raises(GroupIdNotFound):
        world.admin.delete_group_offsets("nobody", [ORDERS[0]])
