"""The table of a member's states: every state with every event, and what holds for the table as a whole."""

from __future__ import annotations

import itertools

import pytest

from pykafka2.consumer.group.kip848.membership import ConsumerMembership
from pykafka2.consumer.group.kip848.states import JOINED, MEMBERS, MOVES, MemberEvent, MemberState
from pykafka2.consumer.options import CONSUMER_OPTIONS
from pykafka2.consumer.state.group_identity import GroupStatus
from tests.cluster.scripted import BOOTSTRAP, ScriptedCluster
from tests.consumer.group.state_tables import assert_follows_table, states_reached


def membership() -> ConsumerMembership:
    cluster = ScriptedCluster(1, {})
    settings = {"bootstrap_servers": BOOTSTRAP, "group_id": "g", "group_protocol": "consumer"}
    return ConsumerMembership(CONSUMER_OPTIONS.parse(None, settings), cluster.client(), GroupStatus("g"))


@pytest.mark.parametrize(("state", "event"), list(itertools.product(MemberState, MemberEvent)))
def test_state_changes_follow_the_table_or_raise(state: MemberState, event: MemberEvent) -> None:
    assert_follows_table(membership(), MOVES, state, event)


def test_every_state_can_be_reached_and_left() -> None:
    assert states_reached(MOVES, MemberState.UNSUBSCRIBED) == set(MemberState)
    left = {before for (before, _), after in MOVES.items() if after is not before}
    assert left == set(MemberState)


def test_a_member_can_leave_from_everywhere() -> None:
    assert {state for state in MemberState if (state, MemberEvent.LEAVE) in MOVES} == set(MemberState)


def test_expelled_states_return_only_by_a_join() -> None:
    into = {before for (before, _), after in MOVES.items() if after in MEMBERS and before not in MEMBERS}
    events = {event for (before, event), after in MOVES.items() if after in MEMBERS and before not in MEMBERS}
    assert into == set(MemberState) - MEMBERS
    assert events == {MemberEvent.JOIN}


def test_only_members_are_expelled_refused_or_late() -> None:
    for event in (MemberEvent.EXPELLED, MemberEvent.REFUSED, MemberEvent.OVERRUN):
        assert {before for (before, one) in MOVES if one is event} == MEMBERS


def test_stable_state_follows_only_an_acknowledgement() -> None:
    into = {before for (before, _), after in MOVES.items() if after is MemberState.STABLE}
    assert into == {MemberState.ACKNOWLEDGING}
    into = {before for (before, _), after in MOVES.items() if after is MemberState.ACKNOWLEDGING}
    assert into == JOINED
