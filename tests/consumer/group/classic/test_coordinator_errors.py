"""Reactions to each error of the coordinator: a silent retry, or an error with advice."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka2.consumer.assignors.assignor import Assignment, Assignor
from pykafka2.consumer.assignors.range import RangeAssignor
from pykafka2.consumer.assignors.sticky import StickyAssignor
from pykafka2.errors import (
    AssignorFailed,
    BrokerError,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    FencedInstanceId,
    GroupAuthorizationFailed,
    GroupMaxSizeReached,
    IllegalGeneration,
    InconsistentGroupProtocol,
    InvalidGroupId,
    InvalidSessionTimeout,
    MemberIdRequired,
    NotCoordinator,
    RebalanceInProgress,
    UnknownMemberId,
)
from pykafka2.network.script import Lane
from pykafka2.protocol.messages.coordinator import FindCoordinatorRequest
from pykafka2.protocol.messages.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from pykafka2.testing import Simulation
from pykafka2.types import TopicPartition
from tests.consumer.group.life import Group
from tests.gate import rest_in_gate

pytestmark = pytest.mark.slow

CURED: list[tuple[Any, type[BrokerError]]] = [
    (FindCoordinatorRequest, CoordinatorNotAvailable),
    (FindCoordinatorRequest, CoordinatorLoadInProgress),
    (JoinGroupRequest, CoordinatorLoadInProgress),
    (JoinGroupRequest, CoordinatorNotAvailable),
    (JoinGroupRequest, NotCoordinator),
    (JoinGroupRequest, RebalanceInProgress),
    (JoinGroupRequest, UnknownMemberId),
    (JoinGroupRequest, IllegalGeneration),
    (SyncGroupRequest, CoordinatorLoadInProgress),
    (SyncGroupRequest, CoordinatorNotAvailable),
    (SyncGroupRequest, NotCoordinator),
    (SyncGroupRequest, RebalanceInProgress),
    (SyncGroupRequest, UnknownMemberId),
    (SyncGroupRequest, IllegalGeneration),
    (HeartbeatRequest, CoordinatorLoadInProgress),
    (HeartbeatRequest, CoordinatorNotAvailable),
    (HeartbeatRequest, NotCoordinator),
    (HeartbeatRequest, RebalanceInProgress),
    (HeartbeatRequest, UnknownMemberId),
    (HeartbeatRequest, IllegalGeneration),
]


def names(value: object) -> str | None:
    return value.__name__.removesuffix("Request") if isinstance(value, type) else None


@pytest.mark.parametrize(("request_type", "error"), rest_in_gate(CURED), ids=names)
def test_retriable_coordinator_error_is_not_raised(
    simulation: Simulation, request_type: Any, error: type[BrokerError]
) -> None:
    group = Group(simulation)
    group.produce(30)
    if request_type is HeartbeatRequest:
        group.member("a")
        group.settle()
    rule = group.cluster.controls.fail_next(request_type, error, times=2)
    if request_type is not HeartbeatRequest:
        group.member("a")
    (member,) = group.members
    group.turn_until(lambda: rule.fired == 2, 10)
    group.settle(10)
    group.turn_until(lambda: len(set(member.read)) == 30, 10)
    assert member.errors == []
    if request_type is HeartbeatRequest and error in (UnknownMemberId, IllegalGeneration):
        assert "lost" in {call.what for call in member.calls}
    else:
        assert "lost" not in {call.what for call in member.calls}


RAISED: list[tuple[Any, type[BrokerError], str]] = [
    (FindCoordinatorRequest, GroupAuthorizationFailed, "ACL"),
    (JoinGroupRequest, GroupAuthorizationFailed, "group 'g'; ask for an ACL"),
    (JoinGroupRequest, InconsistentGroupProtocol, r"partition_assignment_strategy \(range"),
    (JoinGroupRequest, GroupMaxSizeReached, "group.max.size"),
    (JoinGroupRequest, InvalidSessionTimeout, "session_timeout_ms=6000"),
    (JoinGroupRequest, InvalidGroupId, "group_id"),
    (SyncGroupRequest, GroupAuthorizationFailed, "group 'g'; ask for an ACL"),
    (SyncGroupRequest, InconsistentGroupProtocol, "partition_assignment_strategy"),
    (HeartbeatRequest, GroupAuthorizationFailed, "group 'g'; ask for an ACL"),
]


@pytest.mark.parametrize(("request_type", "error", "words"), rest_in_gate(RAISED), ids=names)
def test_fatal_coordinator_error_is_raised_once_and_retried_by_the_next_poll(
    simulation: Simulation, request_type: Any, error: type[BrokerError], words: str
) -> None:
    group = Group(simulation)
    member = group.member("a")
    if request_type is HeartbeatRequest:
        group.settle()
    rule = group.cluster.controls.fail_next(request_type, error)
    group.turn_until(lambda: bool(member.errors), 5)
    with pytest.raises(error, match=words):
        raise member.errors[0]
    assert rule.fired == 1
    group.settle(5)
    assert len(member.errors) == 1


@pytest.mark.parametrize(
    "strategy", ["sticky", StickyAssignor, StickyAssignor()], ids=["name", "class", "object"]
)
def test_one_assignor_alone_is_named_where_the_others_do_not_have_it(
    simulation: Simulation, strategy: object
) -> None:
    """A name was taken apart into its letters, and of a class the error was one of the client's own."""
    group = Group(simulation, partition_assignment_strategy=strategy)
    member = group.member("a")
    group.cluster.controls.fail_next(JoinGroupRequest, InconsistentGroupProtocol)
    group.turn_until(lambda: bool(member.errors), 5)
    with pytest.raises(InconsistentGroupProtocol, match=r"_strategy \((sticky|StickyAssignor)\), or"):
        raise member.errors[0]
    group.settle(5)


@pytest.mark.gate
def test_lasting_join_error_is_retried_at_most_ten_times_a_second(simulation: Simulation) -> None:
    group = Group(simulation)
    group.cluster.controls.rule(api=JoinGroupRequest, then=GroupAuthorizationFailed)
    member = group.member("a")
    began = group.now
    while group.now - began < 10:
        member.poll(0)
        group.simulation.sleep(0.001)
    assert 5 < group.cluster.history.count(JoinGroupRequest) < 100


def test_repeated_member_id_required_is_retried_at_most_ten_times_a_second(
    simulation: Simulation,
) -> None:
    group = Group(simulation)
    rule = group.cluster.controls.rule(api=JoinGroupRequest, then=MemberIdRequired)
    member = group.member("a")
    group.turn(10)
    assert 5 < group.cluster.history.count(JoinGroupRequest) < 100
    group.cluster.controls.remove_rule(rule)
    group.settle(10)
    assert member.errors == []


def test_assignor_that_raises_in_on_assignment_loses_no_partition(simulation: Simulation) -> None:
    class Proud(RangeAssignor):
        is_reported = False

        def on_assignment(self, assignment: Assignment, generation: int) -> None:
            before, self.is_reported = self.is_reported, True
            if not before:
                raise ValueError("mine")

    group = Group(simulation)
    member = group.member("a", partition_assignment_strategy=[Proud()])
    with pytest.raises(ValueError, match="mine"):
        group.turn(10)
    group.settle(10)
    assert len(member.owned) == 6


def test_assignor_that_raises_in_user_data_delays_the_join_only_once(simulation: Simulation) -> None:
    class Shy(RangeAssignor):
        is_requested = False

        def user_data(self, topics: frozenset[str], last: object) -> None:
            before, self.is_requested = self.is_requested, True
            if not before:
                raise ValueError("mine")

    group = Group(simulation)
    member = group.member("a", partition_assignment_strategy=[Shy()])
    with pytest.raises(ValueError, match="mine"):
        group.turn(10)
    group.settle(10)
    assert len(member.owned) == 6


def test_failing_assignor_is_raised_at_the_leader_and_the_group_continues(simulation: Simulation) -> None:
    class Broken(Assignor):
        name = "broken"

        def assign(self, cluster: Any, members: Any) -> Any:
            if not self.is_mended:
                raise LookupError("no such luck")
            (member,) = members
            return {member: Assignment(tuple(cluster.topic_partitions("orders")))}

        is_mended = False

    broken = Broken()
    group = Group(simulation)
    member = group.member("a", partition_assignment_strategy=[broken])
    group.turn_until(lambda: bool(member.errors), 5)
    assert isinstance(member.errors[0], AssignorFailed)
    assert "'broken'" in str(member.errors[0])
    assert "LookupError('no such luck')" in str(member.errors[0])
    broken.is_mended = True
    group.settle()


def test_assignor_that_never_returns_is_raised_at_the_leader_and_the_group_continues(
    simulation: Simulation,
) -> None:
    group = Group(simulation)
    member = group.member("a", max_poll_interval_ms=7000)
    runtime = member.consumer._core.cluster.runtime
    offload = runtime.offload

    def hang_in_assignor(work: Any, then: Any, lane: Lane) -> None:
        if lane is not Lane.ASSIGNING:
            offload(work, then, lane)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runtime, "offload", hang_in_assignor)
        group.turn_until(lambda: bool(member.errors), 30)
    assert isinstance(member.errors[0], AssignorFailed)
    assert "did not return within 7 s (max_poll_interval_ms)" in str(member.errors[0])
    group.settle()


def test_an_assignment_that_cannot_be_meant_is_rejected(
    simulation: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    class Generous(Assignor):
        name = "generous"
        requests = 0

        def assign(self, cluster: Any, members: Any) -> Any:
            self.requests += 1
            partitions = tuple(cluster.topic_partitions("orders"))
            if self.requests <= 2:
                bad = [TopicPartition("refunds", 0), TopicPartition("orders", -1)]
                partitions += (bad[self.requests - 1],)
            return {member: Assignment(partitions) for member in members}

    generous = Generous()
    group = Group(simulation, {"orders": 2, "refunds": 1})
    member = group.member("a", partition_assignment_strategy=generous)
    group.settle()
    assert generous.requests == 3
    assert "refunds-0 to this member, which has not subscribed to the topic" in caplog.text
    assert "which is not a valid partition" in caplog.text
    assert member.what("assigned") == [[0, 1]]
    assert group.now > 1, "not at once"


def test_failed_leave_group_is_repeated(simulation: Simulation) -> None:
    group = Group(simulation)
    member = group.member("a")
    group.settle()
    group.cluster.controls.fail_next(LeaveGroupRequest, NotCoordinator)
    group.cluster.controls.disconnect_next(LeaveGroupRequest)
    member.consumer.close()
    assert group.cluster.group("g").members == {}


def test_a_partition_that_a_leader_names_twice_is_assigned_once(simulation: Simulation) -> None:
    class Repetitive(Assignor):
        name = "repetitive"

        def assign(self, cluster: Any, members: Any) -> Any:
            partitions = tuple(cluster.topic_partitions("orders"))
            return {member: Assignment(partitions * 2) for member in members}

    group = Group(simulation, {"orders": 2})
    member = group.member("a", partition_assignment_strategy=Repetitive())
    group.settle()
    assert member.what("assigned") == [[0, 1]]


@pytest.mark.gate
@pytest.mark.parametrize("how", ["moved", "crashed"])
def test_leave_group_of_a_joining_member_finds_the_new_coordinator(simulation: Simulation, how: str) -> None:
    """Else the group waited for the member until its session was over."""
    group = Group(simulation, brokers=3, session_timeout_ms=30_000)
    slow, member = group.member("a"), group.member("b")
    group.settle()
    slow.is_stalled = True
    group.member("c")
    group.turn_until(lambda: member.health()["state"] == "joining", 20)
    group.turn(0.3)
    coordinator = group.cluster.coordinator("g")
    if how == "crashed":
        group.cluster.controls.crash_broker(coordinator)
    else:
        group.cluster.controls.hold(JoinGroupRequest, broker=coordinator)
        group.cluster.controls.move_coordinator("g", (coordinator + 1) % 3)
    member.consumer.close()
    group.members.remove(member)
    simulation.sleep(1)
    assert {one.client_id for one in group.cluster.group("g").members.values()} == {"a"}


def test_unfinished_rebalances_are_counted_and_warned_of(
    simulation: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    group = Group(simulation)
    member = group.member("a")
    rule = group.cluster.controls.rule(api=SyncGroupRequest, then=RebalanceInProgress)
    group.turn_until(lambda: member.health()["unfinished_rebalances"] == 4, 20)
    assert "3 rebalances in a row did not finish" in caplog.text
    assert "4 rebalances in a row did not complete" in member.consumer.explain()
    group.cluster.controls.remove_rule(rule)
    group.settle()
    assert member.health()["unfinished_rebalances"] == 0
    assert member.errors == []


@pytest.mark.gate
def test_endless_rebalances_are_retried_with_backoff(simulation: Simulation) -> None:
    group = Group(simulation)
    group.cluster.controls.rule(api=SyncGroupRequest, then=RebalanceInProgress)
    member = group.member("a")
    group.turn(10)
    assert 8 < group.cluster.history.count(SyncGroupRequest) < 40
    del member


def test_fenced_member_reports_lost_partitions_and_raises_for_good(simulation: Simulation) -> None:
    group = Group(simulation)
    first = group.member("a", group_instance_id="till-1")
    group.settle()
    first.is_stalled = True
    second = group.member("b", group_instance_id="till-1")
    group.settle()
    first.is_stalled = False
    group.turn(1)
    assert first.what("lost") == [[0, 1, 2, 3, 4, 5]]
    assert first.health()["state"] == "fenced"
    assert len(first.errors) > 1, "every poll says it"
    for error in first.errors:
        assert isinstance(error, FencedInstanceId)
        assert "group_instance_id='till-1'" in str(error)
    assert "has fenced this one in group" in first.consumer.explain()
    generation = second.health()["generation"]
    first.consumer.close()
    group.members.remove(first)
    group.turn(1)
    assert second.health()["generation"] == generation
    assert len(second.owned) == 6, "closing it takes nothing from its successor"


def test_failure_of_a_former_membership_is_not_raised_in_the_next(simulation: Simulation) -> None:
    group = Group(simulation)
    member = group.member("a")
    group.settle()
    group.cluster.controls.fail_next(HeartbeatRequest, GroupAuthorizationFailed)
    simulation.sleep(1.0)
    assert "ACL" in member.health()["failure"]
    member.consumer.unsubscribe()
    assert member.health()["failure"] is None
    member.consumer.subscribe(["orders"], listener=member)
    group.settle()
    assert member.errors == []
