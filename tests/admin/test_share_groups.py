"""Share groups: two groups and two topics in virtual time, on two brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any

import attrs
import pytest

from pykafka2 import KafkaShareConsumer, ShareRecord, TopicPartition, aio
from pykafka2.admin import ConfigResource, GroupListing, ItemsFailed
from pykafka2.broker.coordinators.internal_topics import partition_for, share_partition_key
from pykafka2.errors import (
    CoordinatorLoadInProgress,
    GroupAuthorizationFailed,
    GroupIdNotFound,
    IllegalArgument,
    KafkaTimeoutError,
    NonEmptyGroup,
    RequestTimeout,
    UnknownTopicOrPartition,
)
from pykafka2.protocol.messages.group_admin import ListedGroup
from pykafka2.testing import Simulation
from tests.admin.worlds import World
from tests.broker.share.live import SMALL

pytestmark = pytest.mark.gate

ORDERS = [TopicPartition("orders", number) for number in range(3)]
PAYMENTS = [TopicPartition("payments", number) for number in range(2)]
GROUPS = ("queue-1", "queue-2")


class ShareWorld(World):
    """A world whose groups `GROUPS` read from the earliest offset."""

    def __init__(self, simulation: Simulation, brokers: int = 2, state_replicas: int = 1) -> None:
        replicas = {"share.coordinator.state.topic.replication.factor": state_replicas}
        super().__init__(simulation, brokers, config={**SMALL, **replicas})
        earliest = {"share.auto.offset.reset": "earliest"}
        self.admin.alter_configs({ConfigResource("GROUP", name): earliest for name in GROUPS})
        self.fill("orders", [5, 2, 1])
        self.fill("payments", [1, 3])

    def share_member(self, group: str, *topics: str) -> KafkaShareConsumer[Any, Any]:
        return KafkaShareConsumer(
            *topics,
            bootstrap_servers=self.cluster.bootstrap_servers,
            group_id=group,
            client_id=f"{group}-member",
            share_acknowledgement_mode="explicit",
            runtime=self.simulation.runtime.at(f"{group}-member"),
        )


@pytest.fixture
def world(simulation: Simulation) -> Iterator[ShareWorld]:
    world = ShareWorld(simulation)
    yield world
    world.close()


def taken(member: KafkaShareConsumer[Any, Any], count: int) -> list[ShareRecord[Any, Any]]:
    """Return so many records, by partition and offset."""
    found: list[ShareRecord[Any, Any]] = []
    while len(found) < count:
        for records in member.poll(1000).values():
            found += records
    return sorted(found, key=lambda one: (one.topic, one.partition, one.offset))


def accepted(world: ShareWorld, group: str, topic: str, count: int, accepts: int) -> None:
    """Have a member take `count` records of a topic, accept some, and leave."""
    with world.share_member(group, topic) as member:
        for record in taken(member, count)[:accepts]:
            with record:
                pass
        member.commit()


def test_share_groups_are_listed_and_described_with_their_members(world: ShareWorld) -> None:
    first, second = (world.share_member(name, "orders", "payments") for name in GROUPS)
    with first, second:
        taken(first, 12)
        taken(second, 12)
        listed = world.admin.list_groups(types=["Share"])
        assert listed == [GroupListing(name, "share", "Stable", "Share") for name in GROUPS]
        assert world.admin.list_groups(states=["Empty"], types=["Share"]) == []
        described = world.admin.describe_share_groups(GROUPS, include_authorized_operations=True)
    for name, group in described.items():
        assert (group.group_id, group.state, group.type, group.protocol) == (name, "Stable", "Share", "share")
        assert group.assignor == "simple"
        assert group.epoch == group.assignment_epoch is not None
        assert group.coordinator is not None
        assert set(group.authorized_operations or ()) >= {"READ", "DELETE", "DESCRIBE"}
        (member,) = group.members
        assert (member.client_id, member.assignment) == (f"{name}-member", (*ORDERS, *PAYMENTS))
        assert (member.topics, member.group_instance_id) == (("orders", "payments"), None)
    empty = world.admin.describe_share_groups(GROUPS)
    assert [(group.state, group.members) for group in empty.values()] == [("Empty", ()), ("Empty", ())]


def test_two_share_groups_on_one_broker_are_waited_for(simulation: Simulation) -> None:
    with closing(ShareWorld(simulation, brokers=1)) as world:
        wait = world.admin.wait_for_group
        first, second = (simulation.spawn(partial(wait, name, members=1)) for name in GROUPS)
        with world.share_member("queue-1", "orders") as member:
            taken(member, 8)
            found = first.result()
            assert (found.group_id, found.type, found.state) == ("queue-1", "Share", "Stable")
            assert [one.client_id for one in found.members] == ["queue-1-member"]
            assert not second.is_done
            with pytest.raises(KafkaTimeoutError, match="Empty within 1 s; it is Stable with 1 members"):
                wait("queue-1", state="Empty", timeout=1)
            with world.share_member("queue-2", "payments") as other:
                taken(other, 4)
                assert [one.client_id for one in second.result().members] == ["queue-2-member"]
            assert wait("queue-2", state="Empty").members == ()
            assert len(wait("queue-1").members) == 1
        assert wait("queue-1", state="Empty", members=0).type == "Share"
        world.admin.delete_share_groups(["queue-1"])
        assert wait("queue-1", state="Dead").state == "Dead"
        assert wait("queue-2", state="Empty").state == "Empty"


def test_share_group_that_is_created_while_it_is_waited_for_is_found(world: ShareWorld) -> None:
    world.admin.alter_share_group_offsets("queue-1", {ORDERS[0]: 1})
    rule = world.cluster.controls.rule(api="ShareGroupDescribe", times=1, then="error:GROUP_ID_NOT_FOUND")
    assert world.admin.wait_for_group("queue-1", state="Empty").type == "Share"
    assert rule.fired == 1


def test_error_of_a_share_group_ends_the_wait_or_is_named_at_its_end(world: ShareWorld) -> None:
    world.admin.alter_share_group_offsets("queue-1", {ORDERS[0]: 1})
    rule = world.cluster.controls.rule
    rule(api="ShareGroupDescribe", times=1, then="error:GROUP_AUTHORIZATION_FAILED")
    with pytest.raises(GroupAuthorizationFailed):
        world.admin.wait_for_group("queue-1", state="Dead")
    rule(api="ShareGroupDescribe", then="error:COORDINATOR_LOAD_IN_PROGRESS")
    with pytest.raises(KafkaTimeoutError, match=r"Empty within 3 s; it cannot be described: .*loading"):
        world.admin.wait_for_group("queue-1", state="Empty", timeout=3)


def test_streams_group_is_not_waited_for(world: ShareWorld) -> None:
    def with_streams_group(request: Any, response: Any) -> Any:
        group = ListedGroup(group_id="s", protocol_type="streams", group_state="Stable", group_type="streams")
        response.groups.append(group)
        return response

    world.cluster.controls.rule(api="ListGroups", then="replace_reply", reply=with_streams_group)
    with pytest.raises(IllegalArgument, match="'s' is a streams group; pykafka2 only lists such groups"):
        world.admin.wait_for_group("s")
    with pytest.raises(IllegalArgument, match="group_id"):
        world.admin.wait_for_group(None)  # type: ignore[arg-type]


def test_groups_of_other_types_are_not_share_groups_and_the_reverse(world: ShareWorld) -> None:
    accepted(world, "queue-1", "orders", 8, 0)
    for name in ("classic", "kept"):
        world.commit(name, {ORDERS[0]: 1})
    admin = world.admin
    for call in (admin.describe_share_groups, admin.delete_share_groups):
        outcomes = call(["classic", "missing"], raise_errors=False)
        assert {name: type(error) for name, error in outcomes.errors.items()} == {
            "classic": GroupIdNotFound,
            "missing": GroupIdNotFound,
        }
    for call in (admin.describe_groups, admin.delete_groups):
        with pytest.raises(ItemsFailed, match="'queue-1' is a share group; use describe_share_groups"):
            call(["queue-1", "classic"])
        assert list(call(["missing"], raise_errors=False).errors) == ["missing"]
    assert dict(admin.list_share_group_offsets("missing")) == {}
    with pytest.raises(GroupIdNotFound):
        admin.alter_share_group_offsets("kept", {ORDERS[0]: 1})


def test_start_offsets_have_the_lag_of_records_that_are_not_done(world: ShareWorld) -> None:
    accepted(world, "queue-1", "orders", 8, 2)
    accepted(world, "queue-2", "payments", 4, 4)
    listed = {name: world.admin.list_share_group_offsets(name) for name in GROUPS}
    assert [(one.offset, one.lag) for one in listed["queue-1"].values()] == [(2, 3), (0, 2), (0, 1)]
    assert [one.lag for one in listed["queue-2"].values()] == [0, 0]
    assert list(listed["queue-1"]) == ORDERS
    world.fill("payments", [2, 0])
    some = world.admin.list_share_group_offsets("queue-2", [PAYMENTS[0], ORDERS[0]])
    assert dict(some) == {PAYMENTS[0]: attrs.evolve(listed["queue-2"][PAYMENTS[0]], lag=2)}


def test_altered_offsets_are_where_the_group_continues(world: ShareWorld) -> None:
    accepted(world, "queue-1", "orders", 8, 8)
    outcomes = world.admin.alter_share_group_offsets("queue-1", {ORDERS[0]: 3, ORDERS[1]: 1})
    assert dict(outcomes) == {ORDERS[0]: None, ORDERS[1]: None}
    with world.share_member("queue-1", "orders") as member:
        assert [(one.partition, one.offset) for one in taken(member, 3)] == [(0, 3), (0, 4), (1, 1)]
        with pytest.raises(NonEmptyGroup):
            world.admin.alter_share_group_offsets("queue-1", {ORDERS[0]: 0})
        with pytest.raises(NonEmptyGroup):
            world.admin.reset_share_group_offsets("queue-1", to="earliest")
        with pytest.raises(NonEmptyGroup):
            world.admin.delete_share_group_offsets("queue-1", ["orders"])
        with pytest.raises(ItemsFailed, match="NonEmptyGroup"):
            world.admin.delete_share_groups(["queue-1"])


def test_offset_of_a_missing_partition_is_not_set_and_others_are(world: ShareWorld) -> None:
    missing = TopicPartition("orders", 9)
    outcomes = world.admin.alter_share_group_offsets(
        "queue-1", {ORDERS[0]: 3, missing: 1}, raise_errors=False
    )
    assert outcomes.succeeded == {ORDERS[0]: None}
    assert isinstance(outcomes.errors[missing], UnknownTopicOrPartition)
    assert [one.offset for one in world.admin.list_share_group_offsets("queue-1").values()] == [3]


@pytest.mark.parametrize(
    ("target", "offsets"),
    [
        ({"to": "earliest"}, [0, 0, 0]),
        ({"to": "latest"}, [5, 2, 1]),
        ({"to": "current"}, [2, 0, 0]),
        ({"shift": 2}, [4, 2, 1]),
        ({"offset": 1}, [1, 1, 1]),
        ({"timestamp_ms": 1_003_000}, [3, 2, 1]),
    ],
)
def test_offsets_are_reset_to_a_target(world: ShareWorld, target: dict[str, Any], offsets: list[int]) -> None:
    accepted(world, "queue-1", "orders", 8, 2)
    wanted = dict(zip(ORDERS, offsets, strict=True))
    reset = world.admin.reset_share_group_offsets
    assert reset("queue-1", ["orders"], dry_run=True, **target) == wanted
    assert world.admin.list_share_group_offsets("queue-1")[ORDERS[0]].offset == 2
    assert reset("queue-1", **target) == wanted
    listed = world.admin.list_share_group_offsets("queue-1")
    assert {partition: listed[partition].offset for partition in listed} == wanted


def test_reset_of_a_group_that_does_not_exist_creates_it(world: ShareWorld) -> None:
    assert world.admin.reset_share_group_offsets("new", to="latest") == {}
    assert world.admin.reset_share_group_offsets("new", [ORDERS[0]], to="latest") == {ORDERS[0]: 5}
    assert world.admin.describe_share_groups(["new"])["new"].state == "Empty"
    with pytest.raises(IllegalArgument, match="has no offset of orders-1"):
        world.admin.reset_share_group_offsets("new", ["orders"], shift=1)


def test_offsets_of_whole_topics_are_deleted(world: ShareWorld) -> None:
    accepted(world, "queue-1", "orders", 8, 8)
    outcomes = world.admin.delete_share_group_offsets("queue-1", ["orders", "payments"], raise_errors=False)
    assert outcomes.succeeded == {"orders": None}
    assert isinstance(outcomes.errors["payments"], UnknownTopicOrPartition)
    assert dict(world.admin.list_share_group_offsets("queue-1")) == {}
    with world.share_member("queue-1", "orders") as member:
        assert len(taken(member, 8)) == 8


def test_empty_share_groups_are_deleted_with_their_offsets(world: ShareWorld) -> None:
    for name in GROUPS:
        accepted(world, name, "orders", 8, 8)
    outcomes = world.admin.delete_share_groups([*GROUPS, "missing"], raise_errors=False)
    assert outcomes.succeeded == dict.fromkeys(GROUPS)
    assert isinstance(outcomes.errors["missing"], GroupIdNotFound)
    assert world.admin.list_groups(types=["Share"]) == []
    with world.share_member("queue-1", "orders") as member:
        assert len(taken(member, 8)) == 8


def test_state_that_cannot_be_read_is_retried_or_reported_by_partition(world: ShareWorld) -> None:
    accepted(world, "queue-1", "orders", 8, 2)

    def unreadable(request: Any, response: Any) -> Any:
        partitions = response.groups[0].topics[0].partitions
        first, second, _ = sorted(partitions, key=lambda one: one.partition_index)
        first.error_code, second.lag = CoordinatorLoadInProgress.code, -1
        return response

    for raise_errors in (True, False):
        rule = world.cluster.controls.rule(
            api="DescribeShareGroupOffsets", times=1, then="replace_reply", reply=unreadable
        )
        listed = world.admin.list_share_group_offsets("queue-1", raise_errors=raise_errors)
        assert rule.fired == 1
        if raise_errors:
            assert [(one.offset, one.lag) for one in listed.values()] == [(2, 3), (0, 2), (0, 1)]
        else:
            assert [(one.offset, one.lag) for one in listed.succeeded.values()] == [(0, None), (0, 1)]
            assert {one: type(error) for one, error in listed.errors.items()} == {
                ORDERS[0]: CoordinatorLoadInProgress
            }
    with pytest.raises(IllegalArgument, match="partitions"):
        world.admin.list_share_group_offsets("queue-1", "orders")  # type: ignore[arg-type]
    with pytest.raises(IllegalArgument, match=r"offsets\[orders-0\]"):
        world.admin.alter_share_group_offsets("queue-1", {ORDERS[0]: -1})


@pytest.fixture
def moved(simulation: Simulation) -> Iterator[ShareWorld]:
    """A world in which the share coordinator of orders-0 has moved, and does not load its state yet."""
    with closing(ShareWorld(simulation, state_replicas=2)) as world:
        world.admin.alter_share_group_offsets("queue-1", {ORDERS[0]: 1, ORDERS[1]: 1})
        topic_id = world.cluster.controller.image.topics["orders"].id
        keys = [share_partition_key("queue-1", topic_id, number) for number in range(2)]
        assert len({partition_for(key, 2) for key in keys}) == 2, "orders-1 has a coordinator of its own"
        world.cluster.controls.hold_loading()
        coordinator = world.cluster.coordinator(keys[0], "share")
        world.cluster.controls.move_coordinator(keys[0], 1 - coordinator, "share")
        yield world
        world.cluster.controls.release_loading()


@pytest.mark.parametrize("raise_errors", [True, False])
@pytest.mark.parametrize(("load", "wait"), [(0.005, 0.2), (0.3, 0.5), (7.0, 8.1)])
def test_offsets_are_listed_soon_after_a_state_is_loaded(
    simulation: Simulation, moved: ShareWorld, load: float, wait: float, raise_errors: bool
) -> None:
    started = simulation.now
    listing = simulation.spawn(
        lambda: moved.admin.list_share_group_offsets("queue-1", raise_errors=raise_errors)
    )
    simulation.sleep(load)
    assert not listing.is_done
    moved.cluster.controls.release_loading()
    assert [one.offset for one in listing.result().values()] == [1, 1]
    assert load < simulation.now - started < wait


def test_asyncio_client_lists_offsets_soon_after_a_state_is_loaded(
    simulation: Simulation, moved: ShareWorld
) -> None:
    async def program() -> None:
        runtime = simulation.runtime.at("aio")
        async with aio.KafkaAdminClient(
            bootstrap_servers=moved.cluster.bootstrap_servers, runtime=runtime
        ) as admin:
            started = simulation.now
            listing = asyncio.create_task(admin.list_share_group_offsets("queue-1"))
            await asyncio.sleep(0.05)
            assert not listing.done()
            moved.cluster.controls.release_loading()
            assert [one.offset for one in (await listing).values()] == [1, 1]
            assert simulation.now - started < 0.2
            found = await admin.wait_for_group("queue-1", state="Empty", members=0)
            assert found.type == "Share"

    simulation.run(program)


def test_state_that_is_not_loaded_in_time_is_an_error_or_no_offset(
    simulation: Simulation, moved: ShareWorld
) -> None:
    started = simulation.now
    with pytest.raises(RequestTimeout, match=r"to DescribeShareGroupOffsets within (10|9\.9\d) s"):
        moved.admin.list_share_group_offsets("queue-1", raise_errors=False)
    assert simulation.now - started < 10.5
    with pytest.raises(KafkaTimeoutError):
        moved.admin.list_share_group_offsets("queue-1", timeout=5)
    started = simulation.now
    # The broker gives up after 15 s. Like Apache Kafka, it then reports that there is no offset.
    assert list(moved.admin.list_share_group_offsets("queue-1")) == [ORDERS[1]]
    assert simulation.now - started == pytest.approx(15, abs=1)


def test_reset_stays_within_the_log_and_a_dry_run_needs_no_empty_group(world: ShareWorld) -> None:
    accepted(world, "queue-1", "orders", 8, 8)
    world.admin.delete_records({ORDERS[0]: 3})
    reset = world.admin.reset_share_group_offsets
    assert reset("queue-1", [ORDERS[0]], offset=1) == {ORDERS[0]: 3}
    with world.share_member("queue-1", "orders") as member:
        taken(member, 2)
        assert reset("queue-1", [ORDERS[0]], to="latest", dry_run=True) == {ORDERS[0]: 5}


def test_topics_without_offsets_fail_when_their_offsets_are_deleted(world: ShareWorld) -> None:
    accepted(world, "queue-1", "orders", 8, 8)
    world.admin.delete_share_group_offsets("queue-1", ["orders"])
    outcomes = world.admin.delete_share_group_offsets("queue-1", ["orders"], raise_errors=False)
    assert outcomes.succeeded == {}
    assert isinstance(outcomes.errors["orders"], UnknownTopicOrPartition)

    def without_entries(request: Any, response: Any) -> Any:
        response.responses.clear()
        return response

    world.cluster.controls.rule(api="DeleteShareGroupOffsets", then="replace_reply", reply=without_entries)
    with pytest.raises(ItemsFailed, match="orders has no offset"):
        world.admin.delete_share_group_offsets("queue-1", ["orders"])
