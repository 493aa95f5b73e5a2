"""Static members (group_instance_id): they leave for a while, come back, and hold their place."""

from __future__ import annotations

import pytest

from pykafka2.errors import FencedMemberEpoch, UnknownMemberId, UnreleasedInstanceId
from pykafka2.testing import Simulation
from tests.consumer.group.kip848.groups import BEATS, beats, consumer_group, membership, owned

pytestmark = pytest.mark.slow


def test_returning_static_member_gets_its_former_partitions(simulation: Simulation) -> None:
    group = consumer_group(simulation)
    one, two = group.member("a", group_instance_id="till-1"), group.member("b", group_instance_id="till-2")
    group.settle()
    had, before = set(one.owned), len(two.calls)
    one.consumer.close()
    group.members.remove(one)
    assert beats(group, one)[-1].member_epoch == -2
    group.turn(3)
    again = group.member("c", group_instance_id="till-1")
    group.settle()
    assert again.owned == had
    assert len(two.calls) == before, "the other one has noticed nothing"


@pytest.mark.gate
def test_absent_static_member_is_replaced_after_its_session_timeout(simulation: Simulation) -> None:
    group = consumer_group(simulation)
    one, two = group.member("a", group_instance_id="till-1"), group.member("b", group_instance_id="till-2")
    group.settle()
    one.consumer.close()
    group.members.remove(one)
    assert 5 < group.settle() < 8
    assert len(two.owned) == 6


@pytest.mark.parametrize(
    ("instance", "leave_group", "epochs"),
    [
        ("till-1", None, [-2]),
        ("till-1", True, [-1]),
        ("till-1", False, [-2]),
        (None, None, [-1]),
        (None, True, [-1]),
        (None, False, []),
    ],
)
def test_leave_group_argument_of_close_decides_the_leave_epoch(
    simulation: Simulation, instance: str | None, leave_group: bool | None, epochs: list[int]
) -> None:
    group = consumer_group(simulation)
    member = group.member("a", group_instance_id=instance)
    group.settle()
    member.consumer.close(leave_group=leave_group)
    assert [one.member_epoch for one in beats(group) if one.member_epoch < 0] == epochs
    assert len(group.cluster.group("g").members) == (epochs != [-1])


@pytest.mark.gate
def test_duplicate_static_member_is_refused_and_the_first_continues(simulation: Simulation) -> None:
    group = consumer_group(simulation)
    first = group.member("a", group_instance_id="till-1")
    group.settle()
    double = group.member("b", group_instance_id="till-1")
    group.turn_until(lambda: len(double.errors) >= 2, 10)
    with pytest.raises(
        UnreleasedInstanceId, match=r"group_instance_id='till-1'.*a group_instance_id of its own"
    ):
        raise double.errors[0]
    group.turn(3)
    assert len(first.owned) == 6
    assert first.errors == []
    first.consumer.close()
    group.members.remove(first)
    double.consumer.subscribe(["orders"], listener=double)
    group.settle()


@pytest.mark.gate
def test_static_member_keeps_its_partitions_beyond_max_poll_interval(simulation: Simulation) -> None:
    group = consumer_group(
        simulation, max_poll_interval_ms=2000, config={"group.consumer.session.timeout.ms": 20_000}
    )
    slow, other = group.member("a", group_instance_id="till-1"), group.member("b")
    group.settle()
    had = set(slow.owned)
    slow.calls.clear()
    slow.is_stalled = True
    group.turn(6)
    assert beats(group, slow)[-1].member_epoch == -2
    assert len(other.owned) == 3
    slow.resume()
    group.settle()
    assert slow.owned == had
    assert [call.what for call in slow.calls] == ["lost", "assigned"]


@pytest.mark.parametrize("error", [FencedMemberEpoch, UnknownMemberId], ids=["epoch", "member"])
def test_expelled_static_member_rejoins_under_its_instance_id(
    simulation: Simulation, error: type[FencedMemberEpoch] | type[UnknownMemberId]
) -> None:
    """The coordinator still has it under its instance id: it gives that up before it joins again."""
    group = consumer_group(simulation)
    member = group.member("a", group_instance_id="till-1")
    group.settle()
    group.cluster.controls.fail_next(BEATS, error)
    group.turn_until(lambda: len(member.calls) >= 3, 10)
    group.settle()
    assert member.errors == []
    assert [call.what for call in member.calls] == ["assigned", "lost", "assigned"]


def test_a_first_heartbeat_without_an_answer_does_not_lock_its_sender_out(simulation: Simulation) -> None:
    group = consumer_group(simulation, request_timeout_ms=1000)
    group.cluster.controls.lose_reply(BEATS)
    member = group.member("a", group_instance_id="till-1")
    group.settle(10)
    assert member.errors == []
    assert owned(member) == [[0, 1, 2, 3, 4, 5]]
    assert {one.member_id for one in beats(group)} == {membership(member).member_id}
