"""The table of a member's states: every state with every event, and what holds for the table as a whole."""

from __future__ import annotations

import itertools

import pytest

from pykafka2.consumer.assignors.assignor import RebalanceProtocol
from pykafka2.consumer.assignors.range import RangeAssignor
from pykafka2.consumer.group.classic.membership import Membership
from pykafka2.consumer.group.classic.states import HEARTBEATING, MOVES, MemberEvent, MemberState
from pykafka2.consumer.options import CONSUMER_OPTIONS
from pykafka2.consumer.state.group_identity import GroupStatus
from tests.cluster.scripted import BOOTSTRAP, ScriptedCluster
from tests.consumer.group.state_tables import assert_follows_table, states_reached


def membership() -> Membership:
    cluster = ScriptedCluster(1, {})
    options = CONSUMER_OPTIONS.parse(None, {"bootstrap_servers": BOOTSTRAP, "group_id": "g"})
    return Membership(
        options, cluster.client(), GroupStatus("g"), (RangeAssignor(),), RebalanceProtocol.EAGER
    )


@pytest.mark.parametrize(("state", "event"), list(itertools.product(MemberState, MemberEvent)))
def test_state_changes_follow_the_table_or_raise(state: MemberState, event: MemberEvent) -> None:
    assert_follows_table(membership(), MOVES, state, event)


def test_every_state_can_be_reached_and_left() -> None:
    assert states_reached(MOVES, MemberState.OUT) == set(MemberState)
    left = {before for (before, _), after in MOVES.items() if after is not before}
    assert left == set(MemberState) - {MemberState.FENCED}, "only the fenced one stays for good"


def test_a_member_can_leave_from_everywhere() -> None:
    assert {state for state in MemberState if (state, MemberEvent.LEAVE) in MOVES} == set(MemberState)


def test_only_members_beat() -> None:
    for state in HEARTBEATING:
        assert MOVES[state, MemberEvent.EXPELLED] is MemberState.OUT
    for state in set(MemberState) - HEARTBEATING - {MemberState.JOINING}:
        assert (state, MemberEvent.EXPELLED) not in MOVES


def test_no_partition_can_be_assigned_but_through_a_join() -> None:
    into = {before for (before, _), after in MOVES.items() if after is MemberState.STABLE}
    assert into == {MemberState.SYNCING}
    into = {before for (before, _), after in MOVES.items() if after is MemberState.SYNCING}
    assert into == {MemberState.JOINING}
