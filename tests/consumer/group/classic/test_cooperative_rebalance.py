"""Cooperative rebalances and static members: what stays where it is, and what moves only in two steps."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from pykafka2.errors import (
    CommitFailed,
    CoordinatorLoadInProgress,
    KafkaError,
    NotCoordinator,
    RebalanceInProgress,
    UnknownMemberId,
)
from pykafka2.protocol.messages.committed_offsets import OffsetCommitRequest
from pykafka2.protocol.messages.coordinator import FindCoordinatorRequest
from pykafka2.protocol.messages.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from pykafka2.testing import Simulation
from pykafka2.types import TopicPartition
from tests.consumer.group.life import Group, Member
from tests.gate import rest_in_gate

pytestmark = pytest.mark.slow

COOPERATIVE = {"partition_assignment_strategy": "cooperative-sticky"}


def test_new_member_revokes_only_the_partitions_it_gets(simulation: Simulation) -> None:
    group = Group(simulation, **COOPERATIVE)
    first = group.member("a")
    group.settle()
    second = group.member("b")
    group.settle()
    assert [call.what for call in first.calls][:3] == ["assigned", "revoked", "assigned"]
    (revoked,) = first.what("revoked")
    assert len(revoked) == 3, "the others were read all the time"
    assert second.what("assigned") == [[], revoked], "in the rebalance after that"
    assert all(call == [] for call in first.what("assigned")[1:])


@pytest.mark.gate
def test_kept_partitions_are_read_during_a_cooperative_rebalance(simulation: Simulation) -> None:
    group = Group(simulation, **COOPERATIVE)
    first = group.member("a")
    group.settle()
    slow = group.member("c")
    group.settle()
    kept = set(first.owned)
    slow.is_stalled = True
    newcomer = group.member("b")
    group.turn_until(lambda: newcomer.health()["state"] == "joining", 5)
    group.turn(1)
    assert first.health()["state"] == "joining"
    values = group.produce(60)
    group.turn(1)
    assert kept == first.owned
    assert set(first.read) == {
        value
        for number, value in enumerate(values)
        if number % 6 in {partition.partition for partition in kept}
    }


def test_eager_group_revokes_all_partitions_before_it_rejoins(simulation: Simulation) -> None:
    group = Group(simulation, partition_assignment_strategy="range")
    first = group.member("a")
    group.settle()
    group.member("b")
    group.settle()
    assert first.what("revoked") == [[0, 1, 2, 3, 4, 5]]


def test_one_eager_assignor_among_those_offered_makes_the_member_eager(simulation: Simulation) -> None:
    group = Group(simulation)  # the default: range and cooperative-sticky
    first = group.member("a")
    group.settle()
    group.member("b")
    group.settle()
    assert first.what("revoked") == [[0, 1, 2, 3, 4, 5]]
    assert group.cluster.group("g").protocol == "range"


@pytest.mark.gate
def test_group_changes_from_eager_to_cooperative_in_two_rolling_restarts(simulation: Simulation) -> None:
    group = Group(simulation)
    steps = [("range",), ("range", "cooperative-sticky"), ("cooperative-sticky",)]
    members = [group.member(f"{number}", partition_assignment_strategy=steps[0]) for number in range(2)]
    group.settle()
    for step in steps[1:]:
        for number, member in enumerate(members):
            member.consumer.close()
            group.members.remove(member)
            members[number] = group.member(f"{number}", partition_assignment_strategy=step)
            group.settle()
            for one in members:
                assert one.errors == []
    assert group.cluster.group("g").protocol == "cooperative-sticky"


def test_partitions_of_unsubscribed_topics_are_revoked_before_the_join(simulation: Simulation) -> None:
    group = Group(simulation, {"orders": 4, "refunds": 2}, **COOPERATIVE)
    member = group.member("a", ["orders", "refunds"])
    group.settle()
    member.calls.clear()
    member.consumer.subscribe(["orders"], listener=member)
    group.settle()
    assert [(call.what, len(call.partitions)) for call in member.calls] == [("revoked", 2), ("assigned", 0)]


@pytest.mark.gate
@pytest.mark.parametrize("how", ["moves", "crashes"])
def test_coordinator_change_during_a_cooperative_rebalance_loses_no_partition(
    simulation: Simulation, how: str
) -> None:
    """The new one knows the generation before: after a loss, what was not committed yet would come again."""
    group = Group(simulation, brokers=3, **COOPERATIVE)
    values = group.produce(60)
    first = group.member("a", auto_commit_interval_ms=60_000)
    group.turn_until(lambda: len(first.read) == 60, 10)
    first.calls.clear()
    controls = group.cluster.controls
    rule = controls.hold(SyncGroupRequest)
    second = group.member("b")
    group.turn_until(lambda: first.health()["state"] == "syncing", 20)
    group.turn(1)  # heartbeats have come to lie behind what is held
    before = group.cluster.coordinator("g")
    if how == "moves":
        controls.move_coordinator("g", (before + 1) % 3)
    else:
        controls.crash_broker(before)
    controls.remove_rule(rule)
    group.settle()
    group.turn(1)
    assert first.what("lost") == []
    (revoked,) = first.what("revoked")
    assert len(revoked) == 3
    assert sorted(first.read + second.read) == sorted(values), "each once"


@pytest.mark.gate
def test_commit_of_revoked_partitions_succeeds_in_the_listener(simulation: Simulation) -> None:
    group = Group(simulation, enable_auto_commit=False, **COOPERATIVE)
    values = group.produce(600)
    first = group.member("a", max_poll_records=20)
    failed: list[KafkaError] = []

    def commit(what: str, partitions: list[TopicPartition]) -> None:
        if what == "revoked":
            try:
                first.consumer.commit()
            except KafkaError as error:
                failed.append(error)

    first.in_listener = commit
    group.turn_until(lambda: len(first.read) > 100)
    second = group.member("b", max_poll_records=20)
    group.turn_until(lambda: len(first.read) + len(second.read) >= 600)
    group.turn(1)
    assert failed == []
    assert sorted(first.read + second.read) == sorted(values), "each once"


@pytest.mark.gate
def test_evicted_member_loses_all_partitions_and_rejoins(simulation: Simulation) -> None:
    group = Group(simulation, max_poll_interval_ms=5_000, **COOPERATIVE)
    first, second = group.member("a"), group.member("b")
    group.settle()
    first.calls.clear()
    first.is_stalled = True
    group.turn_until(lambda: len(second.owned) == 6, 10)
    first.is_stalled = False
    group.settle()
    assert first.calls[0].what == "lost"
    assert len(first.calls[0].partitions) == 3
    assert len(first.owned) == len(second.owned) == 3


# ---------------------------------------------------------------------------------------- close

TOPICS = {"orders": 6, "refunds": 6}
ENDS: dict[str, Callable[[Member], object]] = {
    "close": lambda member: member.consumer.close(),
    "unsubscribe": lambda member: member.consumer.unsubscribe(),
}


def rejoining(simulation: Simulation, **options: Any) -> tuple[Group, Member, list[bytes]]:
    """A member that has read its partitions while it waits for the others to rejoin, and all values."""
    defaults = {
        "heartbeat_interval_ms": 3000,
        "session_timeout_ms": 45_000,
        "auto_commit_interval_ms": 60_000,
    }
    group = Group(simulation, TOPICS, **{**defaults, **COOPERATIVE, **options})
    first = group.member("a", TOPICS)
    group.settle()
    values = group.produce(60) + group.produce(60, "refunds", start=1000)
    group.turn_until(lambda: len(first.read) == 120)
    group.member("b", TOPICS)
    group.turn_until(lambda: bool(first.what("revoked")) and first.health()["state"] == "joining")
    values += group.produce(60, start=2000) + group.produce(60, "refunds", start=3000)
    group.turn_until(lambda: len(first.read) == 180, 2.5)
    assert first.health()["state"] == "joining"
    return group, first, values


def read_once(group: Group, first: Member, values: list[bytes]) -> None:
    """The other member reads the rest."""
    group.members.remove(first)
    group.settle()
    others = [value for member in group.members for value in member.read]
    group.turn_until(lambda: set(values) <= {*first.read, *(v for one in group.members for v in one.read)})
    group.turn(1)
    others = [value for member in group.members for value in member.read]
    assert sorted(first.read + others) == sorted(values), "each once"


@pytest.mark.gate
@pytest.mark.parametrize("end", ENDS)
def test_end_while_the_others_rejoin_commits_the_kept_partitions(simulation: Simulation, end: str) -> None:
    group, first, values = rejoining(simulation)
    began_at = simulation.now
    ENDS[end](first)
    assert simulation.now - began_at < 1.0, "it does not wait for the others' heartbeats"
    read_once(group, first, values)


@pytest.mark.gate
@pytest.mark.parametrize("end", ENDS)
def test_end_while_the_others_rejoin_does_not_wait_for_a_fetch(simulation: Simulation, end: str) -> None:
    group, first, values = rejoining(simulation, fetch_max_wait_ms=20_000)
    began_at = simulation.now
    ENDS[end](first)
    assert simulation.now - began_at < 1.0
    read_once(group, first, values)


@pytest.mark.gate
@pytest.mark.parametrize("end", ENDS)
def test_end_while_the_leader_assigns_commits_in_the_new_generation(simulation: Simulation, end: str) -> None:
    group, first, values = rejoining(simulation)
    controls = group.cluster.controls
    rule = controls.hold(SyncGroupRequest)
    group.turn_until(lambda: first.health()["state"] == "syncing", 10)
    simulation.spawn(lambda: (simulation.sleep(1.5), controls.remove_rule(rule), controls.release()))
    ENDS[end](first)
    read_once(group, first, values)


@pytest.mark.gate
@pytest.mark.parametrize("end", ENDS)
def test_end_just_as_the_rebalance_completes_commits_in_the_new_generation(
    simulation: Simulation, end: str
) -> None:
    """The commit carries the old generation; the response to JoinGroup is on its way."""
    group, first, values = rejoining(simulation)
    generation = group.cluster.group("g").epoch
    group.cluster.controls.delay_client("a", 0.5)
    (other,) = (member for member in group.members if member is not first)
    group.turn_until(lambda: group.cluster.group("g").epoch > generation, 10, other)
    assert first.health()["state"] == "joining"
    ENDS[end](first)
    read_once(group, first, values)


@pytest.mark.gate
@pytest.mark.parametrize("end", ENDS)
def test_commit_that_arrives_after_the_rebalance_is_repeated_in_the_new_generation(
    simulation: Simulation, end: str
) -> None:
    """The member has its new assignment when the commit with the old generation is refused."""
    group, first, values = rejoining(simulation)
    controls, generation = group.cluster.controls, group.cluster.group("g").epoch
    controls.hold(OffsetCommitRequest, client_id="a", times=1)
    ending = simulation.spawn(lambda: ENDS[end](first))
    (other,) = (member for member in group.members if member is not first)
    group.turn_until(
        lambda: group.cluster.group("g").epoch > generation and first.health()["state"] == "stable", 10, other
    )
    controls.release(OffsetCommitRequest)
    ending.result()
    read_once(group, first, values)


@pytest.mark.gate
def test_commit_while_the_others_rejoin_raises_at_once(simulation: Simulation) -> None:
    """Only the last commit is sent then: the application can poll and commit again."""
    group, first, _ = rejoining(simulation)
    began_at, sent = simulation.now, group.cluster.history.count(OffsetCommitRequest)
    with pytest.raises(RebalanceInProgress):
        first.consumer.commit()
    assert simulation.now - began_at < 0.1
    assert group.cluster.history.count(OffsetCommitRequest) == sent


@pytest.mark.gate
def test_close_of_a_member_that_is_removed_meanwhile_sends_no_commit_of_its_successor(
    simulation: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    group, first, _ = rejoining(simulation, brokers=3)
    controls = group.cluster.controls
    controls.fail_next(OffsetCommitRequest, CoordinatorLoadInProgress, 100, client_id="a")
    controls.fail_next(JoinGroupRequest, UnknownMemberId, client_id="a")
    before = first.health()["member_id"]
    controls.move_coordinator("g", (group.cluster.coordinator("g") + 1) % 3)
    with caplog.at_level(logging.WARNING, "pykafka2"):
        first.consumer.close()
    commits = group.cluster.history.requests(OffsetCommitRequest)
    assert {request.member_id for request in commits} == {before}
    assert min(request.generation_id_or_member_epoch for request in commits) > 0
    assert [message for message in caplog.messages if "the last commit of " in message]


@pytest.mark.gate
@pytest.mark.parametrize("end", ENDS)
def test_end_in_a_rebalance_that_does_not_complete_warns_of_the_missing_commit(
    simulation: Simulation, caplog: pytest.LogCaptureFixture, end: str
) -> None:
    group, first, _ = rejoining(simulation)
    group.cluster.controls.hold(SyncGroupRequest)
    group.turn_until(lambda: first.health()["state"] == "syncing", 10)
    began_at = simulation.now
    with caplog.at_level(logging.WARNING, "pykafka2"):
        ENDS[end](first)
        assert simulation.now - began_at < 6
        first.consumer.close()
    [message] = [message for message in caplog.messages if "the last commit of " in message]
    assert "some records can be redelivered" in message


@pytest.mark.gate
def test_close_while_the_others_rejoin_finds_the_next_coordinator(simulation: Simulation) -> None:
    group, first, values = rejoining(simulation, brokers=3)
    before = group.cluster.coordinator("g")
    controls = group.cluster.controls
    rule = controls.hold(FindCoordinatorRequest)
    controls.move_coordinator("g", (before + 1) % 3)
    simulation.spawn(lambda: (simulation.sleep(0.5), controls.remove_rule(rule), controls.release()))
    began_at = simulation.now
    first.consumer.close()
    assert simulation.now - began_at < 3.0, "the commit is not sent behind the next JoinGroup"
    read_once(group, first, values)


@pytest.mark.gate
def test_close_while_the_others_rejoin_looks_up_the_coordinator_that_refused_the_commit(
    simulation: Simulation,
) -> None:
    group, first, values = rejoining(simulation)
    history = group.cluster.history
    group.cluster.controls.fail_next(OffsetCommitRequest, NotCoordinator, client_id="a")
    before, began_at = history.count(FindCoordinatorRequest), simulation.now
    first.consumer.close()
    assert simulation.now - began_at < 3.0, "the commit does not wait behind the JoinGroup"
    assert history.count(FindCoordinatorRequest) > before
    read_once(group, first, values)


def test_close_after_the_membership_was_lost_warns_of_the_missing_commit(
    simulation: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    group = Group(simulation, auto_commit_interval_ms=60_000, **COOPERATIVE)
    first = group.member("a")
    group.settle()
    group.produce(12)
    group.turn_until(lambda: len(first.read) == 12)
    group.cluster.controls.fail_next(HeartbeatRequest, UnknownMemberId, client_id="a")
    simulation.sleep(2)
    with caplog.at_level(logging.WARNING, "pykafka2"):
        first.consumer.close()
    assert [message for message in caplog.messages if "the last commit of " in message]


# ---------------------------------------------------------------------------------------- static members


def test_a_static_member_restarts_without_a_rebalance(simulation: Simulation) -> None:
    group = Group(simulation)
    first = group.member("a", group_instance_id="till-1")
    second = group.member("b", group_instance_id="till-2")
    group.settle()
    owned, generation, before = set(first.owned), first.health()["generation"], len(second.calls)
    first.consumer.close()
    group.members.remove(first)
    assert group.cluster.history.count(LeaveGroupRequest) == 0
    group.turn(3)
    again = group.member("a2", group_instance_id="till-1")
    group.settle()
    assert again.owned == owned
    assert again.health()["generation"] == generation
    assert len(second.calls) == before, "the other one has noticed nothing"


@pytest.mark.gate
def test_rolling_restart_of_many_static_members_causes_no_rebalance(simulation: Simulation) -> None:
    """Those that stay beat by themselves, and would hear of a rebalance by that."""
    count = 30
    group = Group(simulation, {"orders": count}, session_timeout_ms=30_000)
    for number in range(count):
        group.member(f"m{number}", group_instance_id=f"till-{number}")
    group.settle()
    assert len({member.health()["generation"] for member in group.members}) == 1
    owned = [set(member.owned) for member in group.members]
    generation = group.members[0].health()["generation"]
    for number in range(count):
        gone = group.members.pop(0)
        gone.consumer.close()
        simulation.sleep(0.2)
        again = group.member(f"again{number}", group_instance_id=f"till-{number}")
        group.turn_until(lambda one=again: bool(one.owned), 10, again)  # type: ignore[misc]
    group.turn(1.0)
    assert {member.health()["generation"] for member in group.members} == {generation}
    assert {member.health()["state"] for member in group.members} == {"stable"}
    assert [member.owned for member in group.members] == owned


@pytest.mark.gate
def test_absent_static_member_is_removed_after_its_session_timeout(simulation: Simulation) -> None:
    group = Group(simulation)
    first = group.member("a", group_instance_id="till-1")
    second = group.member("b", group_instance_id="till-2")
    group.settle()
    first.consumer.close()
    group.members.remove(first)
    assert group.turn_until(lambda: len(second.owned) == 6, 9) > 5


@pytest.mark.gate
def test_static_member_leaves_with_leave_group(simulation: Simulation) -> None:
    group = Group(simulation)
    first = group.member("a", group_instance_id="till-1")
    second = group.member("b")
    group.settle()
    first.consumer.close(leave_group=True)
    group.members.remove(first)
    assert group.turn_until(lambda: len(second.owned) == 6, 3) < 2


@pytest.mark.gate
def test_static_member_that_does_not_poll_stops_heartbeats_without_leaving(simulation: Simulation) -> None:
    group = Group(simulation, max_poll_interval_ms=5_000)
    first = group.member("a", group_instance_id="till-1")
    second = group.member("b", group_instance_id="till-2")
    group.settle()
    first.is_stalled = True
    group.turn(8)
    assert group.cluster.history.count(LeaveGroupRequest) == 0
    assert len(second.owned) == 3, "its session is not over yet"
    with pytest.raises(CommitFailed, match="max_poll_interval_ms=5000"):
        first.consumer.commit({TopicPartition("orders", 0): 1})
    group.turn_until(lambda: len(second.owned) == 6, 6)


@pytest.mark.gate
def test_rejoining_static_leader_keeps_the_assignment(simulation: Simulation) -> None:
    group = Group(simulation)
    members = [group.member(name, group_instance_id=name) for name in ("till-1", "till-2", "till-3")]
    group.settle()
    (leader,) = [member for member in members if member.health()["leading"]]
    before = {member.name: set(member.owned) for member in members}
    leader.consumer.close()
    group.members.remove(leader)
    again = group.member(leader.name, group_instance_id=leader.name)
    group.settle()
    assert {member.name: set(member.owned) for member in group.members} == before
    assert again.owned == before[leader.name]


@pytest.mark.gate
def test_partition_a_static_member_must_revoke_is_read_after_its_restart(simulation: Simulation) -> None:
    """It comes back without a rebalance to what it was to keep, and knows of nothing to give up."""
    group = Group(simulation, {"orders": 6, "refunds": 1}, **COOPERATIVE)
    group.member("till-1", ["refunds"], group_instance_id="till-1")  # leads
    group.settle()
    giver = group.member("till-2", group_instance_id="till-2")
    group.settle()
    taker = group.member("till-3", group_instance_id="till-3")
    giver.is_stalled = True
    group.turn_until(lambda: giver.health()["state"] == "must join", 5)
    giver.poll(0)
    group.turn_until(lambda: giver.health()["state"] == taker.health()["state"] == "stable", 5)
    assert len(giver.owned) == 6, "it has received its share, and not polled yet"
    giver.crash()
    again = group.member("till-2", group_instance_id="till-2")
    assert group.settle(10) > 5, "a session"
    assert len(again.owned) == len(taker.owned) == 3
    assert len(again.what("assigned")[0]) == 3, "what was left to it came at once"


@pytest.mark.gate
@pytest.mark.parametrize("grows", rest_in_gate(["while it is away", "afterwards"]))
def test_partitions_that_come_while_a_static_leader_restarts_are_read(
    simulation: Simulation, grows: str
) -> None:
    group = Group(simulation, metadata_max_age_ms=1000)
    members = [group.member(name, group_instance_id=name) for name in ("till-1", "till-2", "till-3")]
    group.settle()
    (leader,) = [member for member in members if member.health()["leading"]]
    leader.consumer.close()
    group.members.remove(leader)
    if grows == "while it is away":
        group.add_partitions("orders", 8)
    again = group.member(leader.name, group_instance_id=leader.name)
    group.turn_until(lambda: bool(again.owned))
    if grows == "afterwards":
        group.add_partitions("orders", 8)
    group.settle(10)
    assert sum(len(member.owned) for member in group.members) == 8


@pytest.mark.gate
def test_new_topic_of_a_rejoining_static_leader_is_read(simulation: Simulation) -> None:
    """The coordinator keeps the assignment, which says nothing of the topic."""
    group = Group(simulation)
    members = [group.member(name, group_instance_id=name) for name in ("till-1", "till-2")]
    group.settle()
    (leader,) = [member for member in members if member.health()["leading"]]
    leader.consumer.close()
    group.members.remove(leader)
    group.cluster.create_topic("refunds", 2)
    group.counts["refunds"] = 2
    again = group.member(leader.name, subscribes=False, group_instance_id=leader.name)
    assert again.consumer.partitions_for_topic("refunds") == {0, 1}, "it knows the topic when it joins"
    again.consumer.subscribe(["orders", "refunds"], listener=again)
    group.settle(10)
    assert {partition.topic for partition in again.owned} == {"orders", "refunds"}


@pytest.mark.gate
def test_manual_assignment_sends_no_join_group(simulation: Simulation) -> None:
    group = Group(simulation)
    values = group.produce(60)
    member = group.member("a", subscribes=False)
    member.consumer.assign([TopicPartition("orders", number) for number in range(6)])
    member.owned = set(member.consumer.assignment())
    group.turn(20)
    assert sorted(member.read) == sorted(values)
    member.consumer.close()
    for request in (JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, LeaveGroupRequest):
        assert group.cluster.history.count(request) == 0
    commits = group.cluster.history.requests(OffsetCommitRequest)
    assert {(one.generation_id_or_member_epoch, one.member_id) for one in commits} == {(-1, "")}
