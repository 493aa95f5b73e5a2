"""Groups and members: two groups on different coordinators, classic and KIP-848, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress

import pytest

from pykafka2 import KafkaAdminClient, TopicPartition
from pykafka2.admin.group_values import GroupListing, MemberToRemove
from pykafka2.admin.outcomes import ItemsFailed
from pykafka2.admin.rounds import GRACE
from pykafka2.errors import (
    ClientClosed,
    Disconnected,
    GroupDeletionFailed,
    GroupIdNotFound,
    IllegalArgument,
    KafkaError,
    KafkaTimeoutError,
    NoBrokersAvailable,
    NonEmptyGroup,
    UnknownMemberId,
)
from pykafka2.protocol.messages.group_admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    ListGroupsRequest,
)
from pykafka2.testing import Simulation
from tests.admin.worlds import GROUPS, World

ORDERS = [TopicPartition("orders", number) for number in range(3)]
PAYMENTS = [TopicPartition("payments", number) for number in range(2)]


def test_groups_of_all_coordinators_are_listed(world: World) -> None:
    for group in GROUPS:
        world.commit(group, {ORDERS[0]: 0})
    world.cluster.history.clear()
    listed = world.admin.list_groups()
    assert [group.group_id for group in listed] == list(GROUPS)
    assert listed[0] == GroupListing("group-0", "", "Empty", "Classic")
    assert listed[0].is_simple
    assert world.cluster.history.count(ListGroupsRequest) == 2, "one request for each broker"


@pytest.mark.gate
def test_groups_of_a_crashed_broker_are_listed_by_their_next_coordinator(
    simulation: Simulation, world: World
) -> None:
    for group in GROUPS:
        world.commit(group, {ORDERS[0]: 0})
    started = simulation.now
    world.cluster.controls.crash_broker(1, unnoticed=True)
    assert [group.group_id for group in world.admin.list_groups()] == list(GROUPS)
    assert simulation.now - started < 20, "the broker is fenced after its session of nine seconds"


def test_groups_of_reachable_brokers_are_listed_without_waiting_for_the_other(
    simulation: Simulation, world: World
) -> None:
    for group in GROUPS:
        world.commit(group, {ORDERS[0]: 0})
    coordinators = {name: one.coordinator for name, one in world.admin.describe_groups(GROUPS).items()}
    kept = [name for name, node in coordinators.items() if node is not None and node.id == 0]
    assert 0 < len(kept) < len(GROUPS)
    world.cluster.controls.crash_broker(1, unnoticed=True)
    started = simulation.now
    listed = world.admin.list_groups(raise_errors=False)
    described = world.admin.describe_groups(GROUPS, raise_errors=False)
    assert simulation.now - started < 2
    assert [group.group_id for group in listed] == kept
    assert list(listed.errors) == [1]
    assert listed.errors[1].retriable
    assert list(described.succeeded) == kept
    assert len(described.errors) == len(GROUPS) - len(kept)


def test_missing_group_is_reported_without_waiting_for_another_broker(
    simulation: Simulation, world: World
) -> None:
    """Whether it is a share group is known from the lists of all brokers, which is worth no wait."""
    for group in GROUPS:
        world.commit(group, {ORDERS[0]: 0})
    missing = next(
        name for name in (f"missing-{number}" for number in range(50)) if world.cluster.coordinator(name) == 0
    )
    world.cluster.controls.crash_broker(1, unnoticed=True)
    started = simulation.now
    described = world.admin.describe_groups([missing], raise_errors=False)
    assert simulation.now - started < 2
    assert isinstance(described.errors[missing], GroupIdNotFound)


def test_complete_list_of_groups_has_no_errors(world: World) -> None:
    world.commit("g", {ORDERS[0]: 0})
    for raise_errors in (True, False):
        listed = world.admin.list_groups(raise_errors=raise_errors)
        assert ([group.group_id for group in listed], listed.errors) == (["g"], {})


@pytest.mark.gate
def test_groups_are_filtered_by_state_type_and_protocol(world: World) -> None:
    world.turn(world.member("old", "orders"), world.member("new", "payments", protocol="consumer"))
    world.commit("idle", {ORDERS[0]: 0})
    admin = world.admin

    def names(**filters: list[str]) -> list[str]:
        return [group.group_id for group in admin.list_groups(**filters)]

    assert names() == ["idle", "new", "old"]
    assert names(states=["Stable"]) == ["new", "old"]
    assert names(states=["stable", "EMPTY"]) == ["idle", "new", "old"]
    assert names(types=["Consumer"]) == ["new"]
    assert names(types=["classic"], states=["Stable"]) == ["old"]
    assert names(types=["Share", "Streams"]) == []
    assert names(protocols=["consumer"]) == ["new", "old"]
    assert names(protocols=[""]) == ["idle"]


@pytest.mark.parametrize(
    ("filters", "named"),
    [({"states": ["Asleep"]}, "Stable"), ({"types": ["Big"]}, "Classic"), ({"states": "Stable"}, "list")],
)
def test_unknown_filters_are_refused(world: World, filters: dict[str, list[str]], named: str) -> None:
    with pytest.raises(IllegalArgument, match=named):
        world.admin.list_groups(**filters)


@pytest.mark.gate
def test_classic_and_consumer_groups_are_described(world: World) -> None:
    members = [world.member("old", "orders", name=f"old-{number}") for number in range(2)]
    members += [world.member("new", "payments", protocol="consumer", name="new-0", client_rack="b")]
    world.turn(*members)
    described = world.admin.describe_groups(["old", "new"])
    old, new = described["old"], described["new"]
    assert (old.state, old.type, old.assignor, old.protocol) == ("Stable", "Classic", "range", "consumer")
    assert (old.epoch, old.assignment_epoch, old.authorized_operations) == (None, None, None)
    assert sorted(p for member in old.members for p in member.assignment) == ORDERS
    assert {member.client_id for member in old.members} == {"old-0", "old-1"}
    assert {member.topics for member in old.members} == {("orders",)}
    assert (new.state, new.type, new.assignor) == ("Stable", "Consumer", "uniform")
    assert new.epoch is not None
    assert new.epoch == new.assignment_epoch > 0
    (member,) = new.members
    assert list(member.assignment) == list(member.target or ()) == PAYMENTS
    assert (member.epoch, member.rack, member.topics) == (new.epoch, "b", ("payments",))
    assert member.is_classic is False


@pytest.mark.gate
def test_groups_are_described_by_their_coordinators(world: World) -> None:
    for group in GROUPS:
        world.commit(group, {ORDERS[0]: 0})
    described = world.admin.describe_groups(GROUPS)
    coordinators = {group: described[group].coordinator for group in GROUPS}
    assert {node.id for node in coordinators.values() if node is not None} == {0, 1}
    assert list(described) == list(GROUPS)


def test_authorized_operations_are_returned_if_requested(world: World) -> None:
    world.commit("idle", {ORDERS[0]: 0})
    found = world.admin.describe_groups(["idle"], include_authorized_operations=True)["idle"]
    assert found.authorized_operations is not None
    assert {"READ", "DELETE", "DESCRIBE"} <= set(found.authorized_operations)


def test_missing_group_has_its_own_error(world: World) -> None:
    world.commit("idle", {ORDERS[0]: 0})
    outcomes = world.admin.describe_groups(["nobody", "idle"], raise_errors=False)
    assert outcomes["idle"].state == "Empty"
    assert isinstance(outcomes.errors["nobody"], GroupIdNotFound)
    with pytest.raises(ItemsFailed, match="nobody"):
        world.admin.describe_groups(["nobody"])


@pytest.mark.gate
def test_groups_of_a_broker_without_consumer_groups_are_described(world: World) -> None:
    """The response of brokers before Kafka 4.0 to ConsumerGroupDescribe."""
    world.turn(world.member("g", "orders"))
    world.cluster.controls.rule(api="ConsumerGroupDescribe", then="error:UNSUPPORTED_VERSION")
    assert world.admin.describe_groups(["g"])["g"].state == "Stable"


def test_moved_coordinator_is_found_again(world: World) -> None:
    world.commit("group-0", {ORDERS[0]: 7})
    admin = world.admin
    before = admin.describe_groups(["group-0"])["group-0"].coordinator
    assert before is not None
    world.cluster.controls.move_coordinator("group-0", to=1 - before.id)
    after = admin.describe_groups(["group-0"])["group-0"].coordinator
    assert after is not None
    assert after.id == 1 - before.id
    world.cluster.controls.rule(api="DescribeGroups", nth=1, then="error:NOT_COORDINATOR")
    assert admin.describe_groups(["group-0"])["group-0"].state == "Empty"


@pytest.mark.gate
def test_groups_without_members_are_deleted(world: World) -> None:
    for group in GROUPS:
        world.commit(group, {ORDERS[0]: 0})
    world.turn(world.member("busy", "payments"))
    world.cluster.history.clear()
    outcomes = world.admin.delete_groups([*GROUPS, "busy", "nobody"], raise_errors=False)
    assert world.cluster.history.count(DeleteGroupsRequest) == 2, "one request for each coordinator"
    assert {name: type(error) for name, error in outcomes.errors.items()} == {
        "busy": NonEmptyGroup,
        "nobody": GroupIdNotFound,
    }
    assert [name for name in outcomes if name not in outcomes.errors] == list(GROUPS)
    assert [group.group_id for group in world.admin.list_groups()] == ["busy"]
    with pytest.raises(ItemsFailed, match="busy"):
        world.admin.delete_groups(["busy"])
    with pytest.raises(IllegalArgument, match="list"):
        world.admin.delete_groups("busy")


@pytest.mark.parametrize(
    ("as_version", "words"), [("4.4", "the disk is full"), ("4.3", "could not be deleted")]
)
def test_failed_deletion_has_the_brokers_message_since_kafka_4_4(
    simulation: Simulation, as_version: str, words: str
) -> None:
    def failed(request: DeleteGroupsRequest, response: DeleteGroupsResponse) -> DeleteGroupsResponse:
        for result in response.results:
            result.error_code, result.error_message = GroupDeletionFailed.code, "the disk is full"
        return response

    with closing(World(simulation, as_version=as_version)) as world:
        world.commit("g", {ORDERS[0]: 0})
        world.cluster.controls.rule(api="DeleteGroups", times=1, then="replace_reply", reply=failed)
        outcomes = world.admin.delete_groups(["g"], raise_errors=False)
    assert isinstance(outcomes.errors["g"], GroupDeletionFailed)
    assert words in str(outcomes.errors["g"])


@pytest.mark.gate
def test_static_and_dynamic_members_are_removed(world: World) -> None:
    static = world.member("g", "orders", group_instance_id="one", name="static")
    dynamic = world.member("g", "orders", name="dynamic")
    world.turn(static, dynamic)
    admin = world.admin
    members = {member.client_id: member for member in admin.describe_groups(["g"])["g"].members}
    removed = admin.remove_members("g", ["one"], reason="maintenance")
    assert list(removed) == ["one"]
    assert [member.client_id for member in admin.describe_groups(["g"])["g"].members] == ["dynamic"]
    admin.remove_members("g", [members["dynamic"].member_id])
    assert admin.describe_groups(["g"])["g"].members == ()


@pytest.mark.gate
def test_all_members_are_removed(world: World) -> None:
    world.turn(
        world.member("g", "orders", group_instance_id="one", name="static"),
        world.member("g", "orders", name="dynamic"),
    )
    removed = world.admin.remove_members("g")
    assert len(removed) == 2
    assert "one" in removed
    assert world.admin.describe_groups(["g"])["g"].state == "Empty"
    assert len(world.admin.remove_members("g")) == 0


def test_unknown_members_have_their_own_error(world: World) -> None:
    world.turn(world.member("g", "orders", group_instance_id="one", name="static"))
    outcomes = world.admin.remove_members(
        "g", [MemberToRemove(group_instance_id="two"), "three", "one"], raise_errors=False
    )
    assert {name: type(error) for name, error in outcomes.errors.items()} == {
        "two": UnknownMemberId,
        "three": UnknownMemberId,
    }
    assert outcomes["one"] is None
    with pytest.raises(GroupIdNotFound):
        world.admin.remove_members("nobody", ["one"])
    with pytest.raises(IllegalArgument, match="either"):
        world.admin.remove_members("g", [MemberToRemove()])


@pytest.mark.gate
def test_group_is_waited_for(simulation: Simulation, world: World) -> None:
    consumer = world.member("g", "orders")
    waiting = simulation.spawn(lambda: world.admin.wait_for_group("g", members=1))
    world.turn(consumer)
    found = waiting.result()
    assert found.state == "Stable"
    consumer.close()
    assert world.admin.wait_for_group("g", state="Empty").members == ()
    world.admin.delete_groups(["g"])
    assert world.admin.wait_for_group("g", state="Dead").state == "Dead"


@pytest.mark.gate
def test_group_that_does_not_become_stable_is_named(simulation: Simulation, world: World) -> None:
    started = simulation.now
    with pytest.raises(KafkaTimeoutError, match="'g' did not become Stable within 3 s; it does not exist"):
        world.admin.wait_for_group("g", timeout=3)
    assert simulation.now - started == pytest.approx(3, abs=0.6)
    world.commit("g", {ORDERS[0]: 0})
    with pytest.raises(KafkaTimeoutError, match="Stable with 2 members within 1 s; it is Empty with 0"):
        world.admin.wait_for_group("g", members=2, timeout=1)


def test_group_is_waited_for_until_it_has_exactly_the_number_of_members(
    simulation: Simulation, world: World
) -> None:
    world.turn(world.member("g", "orders"))
    for members in (0, 2):
        with pytest.raises(KafkaTimeoutError, match=f"Stable with {members} members .* is Stable with 1 mem"):
            world.admin.wait_for_group("g", members=members, timeout=1)
    assert len(world.admin.wait_for_group("g", members=1, timeout=1).members) == 1
    with pytest.raises(KafkaTimeoutError, match=r"Dead with 1 members .* does not exist"):
        world.admin.wait_for_group("missing", state="Dead", members=1, timeout=1)


@pytest.mark.gate
@pytest.mark.parametrize("version", ["2.8", "3.7", "3.9"])
def test_group_is_waited_for_at_a_broker_without_share_groups(simulation: Simulation, version: str) -> None:
    """Brokers before Kafka 3.8 cannot list groups by type."""
    with closing(World(simulation, brokers=1, as_version=version)) as world:
        waiting = simulation.spawn(lambda: world.admin.wait_for_group("g", state="Empty"))
        simulation.sleep(1)
        assert not waiting.is_done
        world.commit("g", {ORDERS[0]: 0})
        assert waiting.result().type == "Classic"


REQUESTS_OF_A_WAIT = (
    "FindCoordinator",
    "ConsumerGroupDescribe",
    "DescribeGroups",
    "ShareGroupDescribe",
    "ListGroups",
)


@pytest.mark.parametrize("api", REQUESTS_OF_A_WAIT)
def test_wait_for_a_group_survives_lost_connections(simulation: Simulation, world: World, api: str) -> None:
    rule = world.cluster.controls.rule(api=api, times=3, then="close_before")
    waiting = simulation.spawn(lambda: world.admin.wait_for_group("g", state="Empty", timeout=20))
    simulation.sleep(5)
    assert (waiting.is_done, rule.fired) == (False, 3)
    world.commit("g", {ORDERS[0]: 0})
    assert waiting.result().state == "Empty"


@pytest.mark.parametrize("api", [*REQUESTS_OF_A_WAIT, None])
def test_wait_for_a_group_ends_at_its_timeout_although_responses_are_late(
    simulation: Simulation, world: World, api: str | None
) -> None:
    for one in REQUESTS_OF_A_WAIT if api is None else [api]:
        world.cluster.controls.rule(api=one, then="delay:3.5" if api is None else "hold")
    started = simulation.now
    with pytest.raises(KafkaTimeoutError, match="'g' did not become Empty within 4 s; it "):
        world.admin.wait_for_group("g", state="Empty", timeout=4)
    assert 4 <= simulation.now - started < 5.5


def test_group_that_appears_just_before_the_timeout_is_found(simulation: Simulation, world: World) -> None:
    waiting = simulation.spawn(lambda: world.admin.wait_for_group("g", state="Empty", timeout=2.2))
    simulation.sleep(2.15)
    world.admin.alter_group_offsets("g", {ORDERS[0]: 0})
    assert waiting.result().state == "Empty"


OTHER_REQUESTS = (
    "AlterShareGroupOffsets",
    "DeleteGroups",
    "DescribeShareGroupOffsets",
    "LeaveGroup",
    "ListOffsets",
    "Metadata",
    "OffsetCommit",
    "OffsetFetch",
)
CALLS_OF_SEVERAL_REQUESTS: dict[str, Callable[[KafkaAdminClient], object]] = {
    "list_groups": lambda admin: admin.list_groups(timeout=4),
    "describe_groups": lambda admin: admin.describe_groups(["g"], timeout=4),
    "delete_groups": lambda admin: admin.delete_groups(["g"], timeout=4),
    "delete_share_groups": lambda admin: admin.delete_share_groups(["queue"], timeout=4),
    "remove_members": lambda admin: admin.remove_members("g", ["member"], timeout=4),
    "group_lag": lambda admin: admin.group_lag("g", with_time=True, timeout=4),
    "reset_group_offsets": lambda admin: admin.reset_group_offsets("g", ["orders"], timeout=4),
    "reset_share_group_offsets": lambda admin: admin.reset_share_group_offsets("queue", timeout=4),
}


@pytest.mark.parametrize("delay", [0.4, 0.9, 1.5, 2.5])
@pytest.mark.parametrize("name", CALLS_OF_SEVERAL_REQUESTS)
def test_requests_of_a_call_share_its_timeout(
    simulation: Simulation, world: World, name: str, delay: float
) -> None:
    world.commit("g", {ORDERS[0]: 0})
    world.admin.alter_share_group_offsets("queue", {ORDERS[0]: 0})
    for api in (*REQUESTS_OF_A_WAIT, *OTHER_REQUESTS):
        world.cluster.controls.rule(api=api, then=f"delay:{delay}")
    started = simulation.now
    with suppress(KafkaError):
        CALLS_OF_SEVERAL_REQUESTS[name](world.admin)
    assert simulation.now - started < 4 + GRACE


def test_missing_group_is_an_outcome_even_if_the_list_of_groups_fails(world: World) -> None:
    world.cluster.controls.rule(api="ListGroups", then="close_before")
    described = world.admin.describe_groups(["g"], raise_errors=False)
    assert isinstance(described.errors["g"], GroupIdNotFound)
    with pytest.raises(Disconnected):  # without the list, it could be a share group
        world.admin.describe_groups(["g"], timeout=2)


def test_call_of_a_client_that_is_closed_meanwhile_raises_client_closed(
    simulation: Simulation, world: World
) -> None:
    admin = world.new_admin("second")
    admin.list_groups()
    world.cluster.controls.rule(api="DescribeGroups", then="error:COORDINATOR_LOAD_IN_PROGRESS")
    calling = simulation.spawn(lambda: admin.describe_groups(["g"], raise_errors=False))
    simulation.sleep(1)
    admin.close()
    with pytest.raises(ClientClosed):
        calling.result()


def test_list_without_any_response_is_requested_once(simulation: Simulation, world: World) -> None:
    world.cluster.controls.hold(ListGroupsRequest)
    started = simulation.now
    with pytest.raises(KafkaError, match="did not respond"):
        world.admin.list_groups(raise_errors=False)
    assert simulation.now - started < 11


def test_groups_of_an_unreachable_cluster(world: World) -> None:
    for broker in range(2):
        world.cluster.controls.crash_broker(broker)
    with pytest.raises((NoBrokersAvailable, KafkaTimeoutError)):
        world.admin.list_groups(timeout=2)
