"""`explain()` of a group in words, from values as `health()` has them."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka2.consumer.inspection import group_words
from pykafka2.consumer.options import CLASSIC
from pykafka2.consumer.state.subscription import Subscription

HEALTH: dict[str, Any] = {
    "id": "billing",
    "protocol": CLASSIC,
    "state": "joining",
    "state_age": 7.0,
    "member_id": "me",
    "generation": 4,
    "leading": False,
    "leader_id": "",
    "other_members": [],
    "coordinator": 2,
    "coordinator_address": "broker-2:9092",
    "coordinator_error": None,
    "because": "",
    "last_poll_age": 0.0,
    "last_heartbeat_age": None,
    "last_commit_error": None,
    "committed_offsets_awaited": {},
    "unfinished_rebalances": 0,
    "failure": None,
}


def words(**health: object) -> str:
    subscription = Subscription(by_group=True)
    subscription.subscribe(["orders"])
    return "\n".join(group_words({**HEALTH, **health}, subscription))


@pytest.mark.parametrize(
    ("count", "named"),
    [
        (2, "'m0', 'm1'"),
        (5, "'m0', 'm1', 'm2', 'm3', 'm4'"),
        (6, "'m0', 'm1', 'm2', 'm3', 'm4' and 1 more"),
        (9, "'m0', 'm1', 'm2', 'm3', 'm4' and 4 more"),
    ],
)
def test_a_joining_leader_names_five_other_members_and_counts_the_rest(count: int, named: str) -> None:
    text = words(other_members=[f"m{number}" for number in range(count)])
    assert text.endswith(f"; in generation 4 the others were {named}.")
    assert "has waited 7.0 s for the coordinator, broker 2 at broker-2:9092" in text


def test_explain_of_a_member_without_a_coordinator_names_no_other_member() -> None:
    text = words(coordinator=None, other_members=["m0"], coordinator_error="broker-1 is down")
    assert "has waited 7.0 s for the lookup of its coordinator." in text
    assert "the last lookup failed (broker-1 is down)" in text
    assert "m0" not in text


@pytest.mark.parametrize(
    ("leader_id", "was_leading", "expected"),
    [
        ("me", False, "The consumer leads group 'billing' and has been assigning partitions for 7.0 s."),
        ("other", True, "has waited 7.0 s for member 'other', the leader of group 'billing'"),
        ("other", False, "has waited 7.0 s for member 'other', the leader of group 'billing'"),
    ],
)
def test_a_syncing_member_waits_for_the_leader_of_this_generation(
    leader_id: str, was_leading: bool, expected: str
) -> None:
    assert expected in words(state="syncing", leader_id=leader_id, leading=was_leading)
