"""How long a member, its application and its coordinator wait for each other."""

from __future__ import annotations

import pytest

from pykafka2.errors import RebalanceInProgress
from pykafka2.protocol.messages.group import SyncGroupRequest
from pykafka2.testing import Simulation
from tests.consumer.group.life import Group

pytestmark = pytest.mark.slow


def test_a_join_is_waited_for_as_long_as_others_may_take_to_poll(simulation: Simulation) -> None:
    """Longer than request_timeout_ms: a join that timed out and was retried would start over each time."""
    group = Group(simulation, max_poll_interval_ms=60_000)
    computing = group.member("a")
    group.settle()
    waiting = group.member("b")
    computing.is_stalled = True
    group.turn(45, waiting)
    assert group.cluster.history.count("JoinGroup", client_id="b") == 2, "for its id, and to join"
    computing.resume()
    group.settle()
    assert group.cluster.history.count("JoinGroup", client_id="b") == 2
    assert waiting.errors == []


@pytest.mark.gate
def test_heartbeats_continue_while_the_group_waits_for_a_poll(simulation: Simulation) -> None:
    """Each of them gets REBALANCE_IN_PROGRESS, which is a response like any other."""
    group = Group(simulation, max_poll_interval_ms=60_000)
    computing, other = group.member("a"), group.member("b")
    group.settle()
    computing.is_stalled = True
    group.member("c")
    group.turn(20)
    assert len(group.cluster.group("g").members) == 3, "three times its session"
    computing.resume()
    group.settle()
    assert "lost" not in [call.what for call in computing.calls]
    assert other.errors == []


@pytest.mark.gate
def test_static_member_past_max_poll_interval_sends_no_leave_group(simulation: Simulation) -> None:
    """It stops its heartbeats, and may be back before its session ends (KIP-345)."""
    group = Group(simulation, max_poll_interval_ms=5000, session_timeout_ms=20_000)
    slow = group.member("a", group_instance_id="one")
    other = group.member("b", group_instance_id="two")
    group.settle()
    owned = set(slow.owned)
    slow.is_stalled = True
    group.turn(10)
    group.cluster.history.never("LeaveGroup")
    assert len(other.owned) == 3
    slow.resume()
    group.settle()
    assert slow.owned == owned


@pytest.mark.gate
def test_the_time_of_a_listener_is_the_applications(simulation: Simulation) -> None:
    group = Group(simulation, max_poll_interval_ms=5000)
    slow = group.member("a")
    slow.in_listener = lambda what, partitions: simulation.sleep(8)
    slow.poll(500)
    assert "poll() was not called for 5" in slow.consumer.explain()
    slow.in_listener = lambda what, partitions: None
    group.settle()
    assert [call.what for call in slow.calls] == ["assigned", "lost", "assigned"]


@pytest.mark.gate
def test_poll_that_continues_after_a_listener_counts_for_max_poll_interval(simulation: Simulation) -> None:
    group = Group(simulation, max_poll_interval_ms=5000)
    patient = group.member("a")
    before = group.now
    patient.poll(20_000)
    assert group.now - before > 19, "there was nothing to read"
    patient.poll()
    assert [call.what for call in patient.calls] == ["assigned"]
    group.cluster.history.never("LeaveGroup")


def test_first_rebalance_in_progress_is_retried_at_once(simulation: Simulation) -> None:
    group = Group(simulation, retry_backoff_ms=2000, retry_backoff_max_ms=4000)
    group.cluster.controls.fail_next(SyncGroupRequest, RebalanceInProgress, times=2)
    member = group.member("a")
    group.settle()
    history = group.cluster.history
    refused = [entry.received_at for entry in history.entries("SyncGroup", client_id="a")]
    joins = [entry.received_at for entry in history.entries("JoinGroup", client_id="a")]
    again = [min(join for join in joins if join > at) - at for at in refused[:2]]
    assert again[0] < 0.5
    assert again[1] > 1, "then there is rest between the attempts"
    assert member.errors == []
