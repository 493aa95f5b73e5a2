"""Checks of a member's table of states, for members of both group protocols."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import pytest

from pykafka2.errors import IllegalTransition
from pykafka2.events import Event, StateMoved

State = TypeVar("State")


def assert_follows_table(member: Any, moves: Mapping[tuple[Any, Any], Any], state: Any, event: Any) -> None:
    """Assert that the event moves the member as the table has it, or raises and changes nothing."""
    events: list[Event] = []
    member._driver.event_sink.subscribe(events.append)
    member.state = state
    news = member.news
    if (state, event) in moves:
        member._move(event, "because")
        assert member.state is moves[state, event]
        assert member.news > news
        moved = [one for one in events if isinstance(one, StateMoved)]
        assert len(moved) == (member.state is not state)
    else:
        with pytest.raises(IllegalTransition):
            member._move(event)
        assert member.state is state
        assert member.news == news


def states_reached(moves: Mapping[tuple[State, Any], State], start: State) -> set[State]:
    """Return the states that a member can reach from `start`."""
    reached, todo = {start}, [start]
    while todo:
        state = todo.pop()
        for (before, _), after in moves.items():
            if before is state and after not in reached:
                reached.add(after)
                todo.append(after)
    return reached
