"""The assignor of share groups: even shares, no partition without a member, few moves."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pykafka2.broker.coordinators.groups.share.assignor import simple

ORDERS, REFUNDS = b"o" * 16, b"r" * 16


def places(topic: bytes, count: int) -> list[tuple[bytes, int]]:
    return [(topic, number) for number in range(count)]


@given(st.integers(1, 9), st.integers(0, 9), st.integers(0, 9))
def test_equal_subscriptions_give_even_shares(members: int, orders: int, refunds: int) -> None:
    """Each partition has ceil(members / partitions) members, as in Kafka."""
    subscriptions = {f"m{number}": frozenset((ORDERS, REFUNDS)) for number in range(members)}
    assignable = {ORDERS: range(orders), REFUNDS: range(refunds)}
    assigned = simple(subscriptions, {}, assignable)
    every = places(ORDERS, orders) + places(REFUNDS, refunds)
    counts = Counter(one for held in assigned.values() for one in held)
    assert counts.keys() == set(every)
    if every:
        sharing = -(-members // len(every))
        assert set(counts.values()) <= {sharing}
        sizes = [len(held) for held in assigned.values()]
        assert max(sizes) - min(sizes) <= 1
        assert min(sizes) >= 1 or len(every) < members


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 8))
def test_nothing_moves_without_a_change_and_a_new_member_gets_its_share(
    members: int, more: int, partitions: int
) -> None:
    assignable = {ORDERS: range(partitions)}
    topics = frozenset((ORDERS,))
    before = simple({f"m{number}": topics for number in range(members)}, {}, assignable)
    assert simple(dict.fromkeys(before, topics), before, assignable) == before
    everyone = {f"m{number}": topics for number in range(members + more)}
    after = simple(everyone, before, assignable)
    sizes = [len(held) for held in after.values()]
    assert max(sizes) - min(sizes) <= 1
    for member in before:
        smaller = min(len(before[member]), len(after[member]))
        assert len(before[member] & after[member]) == smaller


@given(st.integers(1, 9), st.integers(1, 8), st.integers(1, 9))
def test_partitions_that_members_shared_are_spread_once_others_have_left(
    left: int, partitions: int, gone: int
) -> None:
    assignable = {ORDERS: range(partitions)}
    topics = frozenset((ORDERS,))
    before = simple({f"m{number}": topics for number in range(left + gone)}, {}, assignable)
    members = {f"m{number}": topics for number in range(left)}
    after = simple(members, {member: before[member] for member in members}, assignable)
    counts = Counter(one for held in after.values() for one in held)
    assert counts.keys() == set(places(ORDERS, partitions))
    assert max(counts.values()) <= -(-left // partitions)
    assert all(after.values())


def test_different_subscriptions_share_each_topic_among_its_subscribers() -> None:
    subscriptions = {"a": frozenset((ORDERS,)), "b": frozenset((ORDERS, REFUNDS)), "c": frozenset((REFUNDS,))}
    assigned = simple(subscriptions, {}, {ORDERS: range(4), REFUNDS: range(1)})
    assert {len([one for one in assigned[member] if one[0] == ORDERS]) for member in "ab"} == {2}
    assert assigned["c"] == {(REFUNDS, 0)}
    assert (REFUNDS, 0) in assigned["b"]
    again = simple(
        {**subscriptions, "b": frozenset((REFUNDS,))}, assigned, {ORDERS: range(4), REFUNDS: range(1)}
    )
    assert len(again["a"]) == 4


def test_only_initialized_partitions_are_assigned() -> None:
    topics = frozenset((ORDERS, REFUNDS))
    assert simple({"a": topics}, {}, {}) == {"a": set()}
    assert simple({"a": topics}, {"a": places(ORDERS, 3)}, {ORDERS: [0, 2]}) == {
        "a": {(ORDERS, 0), (ORDERS, 2)}
    }
