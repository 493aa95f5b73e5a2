"""Members that join, leave, stall and die: what the others own, and the calls of each listener; in virtual
time.
"""

from __future__ import annotations

import pytest

from pykafka2.consumer.group.kip848.assignment import Owned
from pykafka2.consumer.group.kip848.membership import ConsumerMembership
from pykafka2.errors import CommitFailed, FencedMemberEpoch, IllegalState
from pykafka2.protocol.messages.committed_offsets import OffsetFetchRequest
from pykafka2.protocol.messages.coordinator import FindCoordinatorRequest
from pykafka2.protocol.messages.fetch import FetchRequest
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.testing import Simulation
from pykafka2.types import TopicPartition
from tests.consumer.group.kip848.groups import BEATS, beats, consumer_group, membership, owned

pytestmark = pytest.mark.slow


def test_a_member_joins_reads_commits_and_leaves(simulation: Simulation) -> None:
    group = consumer_group(simulation)
    values = group.produce(60)
    member = group.member("a")
    group.settle()
    group.turn(1)
    assert sorted(member.read) == sorted(values)
    view = group.cluster.group("g")
    assert (view.kind, view.state, view.protocol) == ("consumer", "Stable", "uniform")
    member.consumer.close()
    assert member.what("assigned", "revoked") == [[0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5]]
    assert beats(group)[-1].member_epoch == -1
    assert group.cluster.group("g").members == {}
    assert set(group.cluster.group("g").offsets.values()) == {10}


def test_a_new_member_asks_in_this_order(simulation: Simulation) -> None:
    group = consumer_group(simulation)
    group.produce(60)
    group.member("a")
    group.settle()
    group.turn(1)
    group.cluster.history.order(
        MetadataRequest, FindCoordinatorRequest, BEATS, OffsetFetchRequest, FetchRequest, BEATS, client_id="a"
    )


@pytest.mark.gate
def test_members_share_the_partitions_as_they_come_and_go(simulation: Simulation) -> None:
    group = consumer_group(simulation)
    first = group.member("a")
    group.settle()
    second, third = group.member("b"), group.member("c")
    group.settle()
    assert sorted(len(one.owned) for one in group.members) == [2, 2, 2]
    kept = set(first.owned)
    second.consumer.close()
    group.members.remove(second)
    assert group.settle() < 2, "a leave is not retried until the session ends"
    assert sorted(len(one.owned) for one in (first, third)) == [3, 3]
    assert kept <= first.owned, "what does not move is never taken away"
    assert "lost" not in {call.what for call in first.calls}


@pytest.mark.gate
def test_only_moving_partitions_are_revoked_and_reading_continues(simulation: Simulation) -> None:
    group = consumer_group(simulation)
    values = group.produce(120)
    first = group.member("a", max_poll_records=5)
    group.turn_until(lambda: len(first.read) >= 20)
    second = group.member("b", max_poll_records=5)
    group.turn_until(lambda: len(first.read) + len(second.read) >= 120)
    group.turn(1)
    assert sorted(first.read + second.read) == sorted(values), "each once: the commit precedes the hand-over"
    assert first.what("revoked") == [[3, 4, 5]]
    assert first.what("assigned") == [[0, 1, 2, 3, 4, 5], []]
    assert second.what("assigned")[-1] == [3, 4, 5]


@pytest.mark.gate
def test_crashed_member_is_replaced_after_its_session_timeout(simulation: Simulation) -> None:
    group = consumer_group(simulation)
    dead, alive = group.member("a"), group.member("b")
    group.settle()
    dead.crash()
    assert 5 < group.settle() < 8
    assert len(alive.owned) == 6


@pytest.mark.gate
def test_heartbeats_continue_while_the_application_computes(simulation: Simulation) -> None:
    group = consumer_group(simulation)
    busy, other = group.member("a"), group.member("b")
    group.settle()
    before = len(busy.calls)
    busy.is_stalled = True
    group.turn(20)
    assert len(busy.owned) == len(other.owned) == 3
    assert len(group.cluster.group("g").members) == 2
    busy.is_stalled = False
    group.turn(1)
    assert len(busy.calls) == before, "nothing has happened to it"


@pytest.mark.gate
def test_heartbeats_follow_the_interval_of_the_coordinator(simulation: Simulation) -> None:
    group = consumer_group(simulation, config={"group.consumer.heartbeat.interval.ms": 700})
    member = group.member("a")
    group.settle()
    group.turn(1)
    before = len(beats(group))
    group.turn(7)
    assert abs(len(beats(group)) - before - 10) <= 1
    assert {one.member_id for one in beats(group)} == {membership(member).member_id}


@pytest.mark.gate
def test_member_past_max_poll_interval_leaves_and_its_commit_names_the_gap(
    simulation: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    group = consumer_group(simulation, max_poll_interval_ms=10_000)
    slow, other = group.member("a"), group.member("b")
    group.produce(60)
    group.settle()
    slow.calls.clear()
    slow.is_stalled = True
    group.turn_until(lambda: len(other.owned) == 6, 12)
    assert "longer than max_poll_interval_ms=10000" in caplog.text
    assert beats(group, slow)[-1].member_epoch == -1
    assert slow.health()["state"] == "stale"
    assert "max_poll_interval_ms=10000" in slow.consumer.explain()
    group.turn(3)
    with pytest.raises(
        CommitFailed, match=r"poll\(\) was not called for 10\.\d s, .*max_poll_interval_ms=10000"
    ):
        slow.consumer.commit({TopicPartition("orders", 0): 3})
    slow.is_stalled = False
    group.settle()
    assert [call.what for call in slow.calls][:2] == ["lost", "assigned"]
    assert len(slow.owned) == 3


@pytest.mark.gate
def test_iterating_takes_part_in_rebalances(simulation: Simulation) -> None:
    group = consumer_group(simulation)
    values = group.produce(300)
    other = group.member("b")
    group.settle()
    iterating = group.member("a", consumer_timeout_ms=3000)
    found: list[bytes] = []

    def iterate() -> None:
        for record in iterating.consumer:
            found.append(record.value)
            simulation.sleep(0.02)

    actor = simulation.spawn(iterate)
    group.turn(11, other)
    actor.result()
    assert iterating.what("assigned")[-1] == [3, 4, 5]
    assert sorted(found + other.read) == sorted(values)


def test_wakeup_ends_a_poll_that_waits_for_partitions(simulation: Simulation) -> None:
    group = consumer_group(simulation)
    first = group.member("a")
    group.settle()
    second = group.member("b")
    simulation.spawn(lambda: (simulation.sleep(0.7), second.consumer.wakeup()))
    before = group.now
    assert second.consumer.poll(timeout_ms=float("inf")) == {}
    assert 0.6 < group.now - before < 0.8
    assert first.owned


def test_unsubscribing_leaves_and_subscribing_joins_again_under_the_same_id(simulation: Simulation) -> None:
    group = consumer_group(simulation)
    member = group.member("a")
    group.settle()
    member.consumer.unsubscribe()
    assert member.what("revoked") == [[0, 1, 2, 3, 4, 5]]
    assert group.cluster.group("g").members == {}
    assert member.health()["state"] == "unsubscribed"
    member.consumer.subscribe(["orders"], listener=member)
    group.settle()
    assert len({one.member_id for one in beats(group)}) == 1
    assert [one.member_epoch for one in beats(group)].count(0) == 2


@pytest.mark.gate
def test_listener_that_raises_does_not_stop_the_rebalance(simulation: Simulation) -> None:
    group = consumer_group(simulation)
    first = group.member("a")
    group.settle()

    def refuse(what: str, partitions: list[TopicPartition]) -> None:
        raise IllegalState(f"planted in {what}")

    first.in_listener = refuse
    second = group.member("b")
    group.turn_until(lambda: len(first.errors) == 2, 10)
    assert [str(error) for error in first.errors] == ["planted in revoked", "planted in assigned"]
    group.settle()
    assert first.what("revoked") == [[3, 4, 5]]
    assert second.what("assigned")[-1] == [3, 4, 5]


@pytest.mark.parametrize("when", ["assigned", "revoked"])
def test_a_listener_may_unsubscribe(simulation: Simulation, when: str) -> None:
    group = consumer_group(simulation)
    member = group.member("a")
    if when == "revoked":
        group.settle()
    member.in_listener = lambda what, partitions: what == when and member.consumer.unsubscribe()
    other = group.member("b")
    group.turn_until(lambda: len(other.owned) == 6, 10)
    assert member.consumer.assignment() == set()
    assert member.owned == set()
    assert len(group.cluster.group("g").members) == 1


@pytest.mark.gate
def test_a_listener_may_subscribe_to_something_else(simulation: Simulation) -> None:
    group = consumer_group(simulation, {"orders": 6, "bills": 2})
    member = group.member("a")

    def change(what: str, partitions: list[TopicPartition]) -> None:
        if what == "assigned" and member.consumer.subscription() == {"orders"}:
            member.consumer.subscribe(["bills"], listener=member)

    member.in_listener = change
    group.turn_until(lambda: {one.topic for one in member.owned} == {"bills"}, 10)
    group.settle()


def test_polling_in_a_listener_is_refused(simulation: Simulation) -> None:
    group = consumer_group(simulation)
    member = group.member("a")
    member.in_listener = lambda what, partitions: member.consumer.poll(0)
    group.turn_until(lambda: bool(member.errors), 10)
    with pytest.raises(IllegalState, match="inside a rebalance listener"):
        raise member.errors[0]


def test_a_rebalance_cannot_be_enforced(simulation: Simulation) -> None:
    group = consumer_group(simulation)
    member = group.member("a")
    with pytest.raises(IllegalState, match="the coordinator reassigns partitions itself"):
        member.consumer.enforce_rebalance()


def test_the_assignor_is_the_brokers_and_chosen_by_name(simulation: Simulation) -> None:
    group = consumer_group(simulation, {"orders": 3, "bills": 3}, group_remote_assignor="range")
    first = group.member("a", ["orders", "bills"])
    second = group.member("b", ["orders", "bills"])
    group.settle()
    assert group.cluster.group("g").protocol == "range"
    assert sorted(owned(first, second)) == [[0, 0, 1, 1], [2, 2]], "the same numbers of both topics"


def test_first_heartbeat_has_all_fields_and_later_ones_only_changes(simulation: Simulation) -> None:
    group = consumer_group(
        simulation,
        group_remote_assignor="uniform",
        client_rack="cellar",
        max_poll_interval_ms=23_000,
        group_instance_id="till-1",
    )
    group.member("a")
    group.settle()
    group.turn(1)
    first, second, *others = beats(group)
    assert (first.member_epoch, first.instance_id, first.rack_id) == (0, "till-1", "cellar")
    assert first.rebalance_timeout_ms == 23_000
    assert first.server_assignor == "uniform"
    assert first.subscribed_topic_names == ["orders"]
    assert first.topic_partitions == []
    assert [sorted(one.partitions) for one in second.topic_partitions or []] == [[0, 1, 2, 3, 4, 5]]
    assert second.subscribed_topic_names is None
    assert others
    for one in others:
        assert (one.instance_id, one.rack_id, one.server_assignor) == ("till-1", None, None)
        assert (one.rebalance_timeout_ms, one.topic_partitions) == (-1, None)


def test_interpreter_exit_leaves_the_group(simulation: Simulation) -> None:
    group = consumer_group(simulation)
    member = group.member("a")
    group.settle()
    assert member.consumer._on_exit(1.0) == 0
    assert beats(group)[-1].member_epoch == -1
    assert group.cluster.group("g").members == {}
    assert member.what("revoked", "lost") == [], "no listener is called as the program ends"


def test_member_losing_its_membership_takes_no_assignment(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller's thread comes between two steps of the driver's, which has counted the loss by then."""
    group = consumer_group(simulation)
    member = group.member("a")
    group.settle()
    forget = ConsumerMembership._forget_membership
    seen: list[list[str]] = []

    def look_and_forget(self: ConsumerMembership) -> None:
        assert member.consumer._core.group is not None
        if self.losses:
            member.consumer._core.group.rebalance.run(0.0)
            seen.append([call.what for call in member.calls])
        forget(self)

    monkeypatch.setattr(ConsumerMembership, "_forget_membership", look_and_forget)
    group.cluster.controls.fail_next(BEATS, FencedMemberEpoch)
    group.turn_until(lambda: bool(seen), 10)
    assert seen == [["assigned", "lost"]]
    group.settle()


def test_a_ctrl_c_just_as_it_reports_does_not_keep_the_others_waiting(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = consumer_group(simulation)
    first = group.member("a")
    group.settle()
    reconciled, strikes = ConsumerMembership.reconciled, [KeyboardInterrupt()]

    def interrupted(self: ConsumerMembership, losses: int, owned: Owned) -> None:
        if strikes and self is membership(first):
            raise strikes.pop()
        reconciled(self, losses, owned)

    monkeypatch.setattr(ConsumerMembership, "reconciled", interrupted)
    group.member("b")
    with pytest.raises(KeyboardInterrupt):
        group.settle(20)
    group.settle(20)


def test_member_that_left_after_ctrl_c_takes_no_assignment_of_the_old_membership(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C twice, and subscribed again before the driver's thread knows that the member leaves."""
    group = consumer_group(simulation)
    member = group.member("a")
    group.settle()
    member.calls.clear()

    def press(predicate: object, timeout: float, *queues: object) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(member.consumer._core.cluster.driver, "wait_until", press)
        with pytest.raises(KeyboardInterrupt):
            member.consumer.unsubscribe()
    member.owned.clear()
    member.consumer.subscribe(["orders"], listener=member)
    assert member.consumer._core.group is not None
    member.consumer._core.group.rebalance.run(0.0)
    assert member.what("assigned") == []
    group.settle(20)
    assert member.what("assigned") == [[0, 1, 2, 3, 4, 5]]
