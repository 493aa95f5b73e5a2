"""Reconciliation of KIP-848 members with their targets: two members, two topics."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka2.broker.coordinators.groups.consumer.assignment import reconcile
from pykafka2.broker.coordinators.groups.consumer.state import (
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    Target,
)
from tests.gate import examples

T1, T2 = b"1" * 16, b"2" * 16
BOTH = frozenset({T1, T2})
PARTITIONS = [(topic, number) for topic in (T1, T2) for number in range(3)]
Owned = list[tuple[bytes, list[int]]]


def target_of(partitions: set[tuple[bytes, int]]) -> Target:
    return {topic: frozenset(number for one, number in partitions if one == topic) for topic in (T1, T2)}


def step(
    group: ConsumerGroup, member_id: str, epoch: int, target: Target, owned: Owned | None
) -> ConsumerMember:
    group.put(reconcile(group, group.members[member_id], epoch, target, BOTH, False, owned))
    return group.members[member_id]


def owned_by(member: ConsumerMember) -> set[tuple[bytes, int]]:
    return {(topic, number) for topic, numbers in member.assigned.items() for number in numbers}


def listed(partitions: set[tuple[bytes, int]]) -> Owned:
    return [(topic, sorted(number for one, number in partitions if one == topic)) for topic in (T1, T2)]


def group_of(**assigned: Mapping[bytes, Mapping[int, int]]) -> ConsumerGroup:
    group = ConsumerGroup("two members")
    for member_id, mine in assigned.items():
        group.put(ConsumerMember(member_id, epoch=1, assigned={t: dict(ps) for t, ps in mine.items()}))
    return group


def test_partition_being_revoked_returns_to_its_owner_when_the_target_names_it_again() -> None:
    group = group_of(a={T1: {0: 1, 1: 1}, T2: {0: 1}}, b={T2: {1: 1}})
    member = step(group, "a", 2, target_of({(T1, 0), (T2, 0)}), listed({(T1, 0), (T1, 1), (T2, 0)}))
    assert member.state is MemberState.UNREVOKED_PARTITIONS
    assert member.pending_revocation == {T1: {1: 1}}

    # The third epoch assigns it again before the member has revoked it: no other member can own it.
    member = step(group, "a", 3, target_of({(T1, 0), (T1, 1), (T2, 0)}), listed({(T1, 0), (T2, 0)}))
    assert (member.state, member.epoch, member.pending_revocation) == (MemberState.STABLE, 3, {})
    assert owned_by(member) == {(T1, 0), (T1, 1), (T2, 0)}


def test_free_partitions_are_assigned_while_others_wait_for_revocation() -> None:
    group = group_of(a={T1: {0: 1}}, b={T1: {1: 1}})
    member = step(group, "a", 2, target_of({(T1, 0), (T1, 1), (T2, 2)}), listed({(T1, 0)}))
    assert (member.state, member.epoch) == (MemberState.UNRELEASED_PARTITIONS, 2)
    assert owned_by(member) == {(T1, 0), (T2, 2)}


@pytest.mark.gate
@given(
    targets=st.lists(st.lists(st.sampled_from("ab-"), min_size=6, max_size=6), min_size=1, max_size=4),
    turns=st.lists(st.tuples(st.sampled_from("ab"), st.booleans()), max_size=12),
)
@settings(max_examples=examples(200))
def test_members_reach_every_target_and_never_own_a_partition_together(
    targets: list[list[str]], turns: list[tuple[str, bool]]
) -> None:
    """Targets change at any moment, also while partitions are being revoked."""
    group = group_of(a={}, b={})
    holds: dict[str, set[tuple[bytes, int]]] = {"a": set(), "b": set()}
    pending = list(turns)
    for epoch, shares in enumerate(targets, start=2):
        wanted = {
            name: {one for one, owner in zip(PARTITIONS, shares, strict=True) if owner == name}
            for name in "ab"
        }
        is_last = epoch == len(targets) + 1
        now, pending = (pending, []) if is_last else (pending[:3], pending[3:])
        # At the end both report often enough to reach the target.
        for name, gives_up in [*now, *([("a", True), ("b", True)] * 4 if is_last else [])]:
            member = step(group, name, epoch, target_of(wanted[name]), listed(holds[name]))
            # Revoked partitions are still read until the member has handled their revocation.
            still_read = {
                (topic, number) for topic, numbers in member.pending_revocation.items() for number in numbers
            }
            holds[name] = owned_by(member) | (set() if gives_up else still_read & holds[name])
            assert not holds["a"] & holds["b"]
    assert {name: owned_by(group.members[name]) for name in "ab"} == wanted
    assert {group.members[name].state for name in "ab"} == {MemberState.STABLE}


def test_states_of_members_in_the_log_are_kafkas() -> None:
    """Apache Kafka opens such a data directory: 0 is stable, as it writes itself."""
    values = [ConsumerMember("m", state=state).current_value().state for state in MemberState]
    assert values == [0, 1, 2]
    assert [state.name for state in MemberState] == [
        "STABLE",
        "UNREVOKED_PARTITIONS",
        "UNRELEASED_PARTITIONS",
    ]
