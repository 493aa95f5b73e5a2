"""Properties of the server-side assignors of KIP-848, also for members that read different topics."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pykafka2.broker.coordinators.groups.consumer.assignors import (
    ASSIGNORS,
    Assigned,
    Members,
    Subscriber,
    uniform,
)
from tests.gate import examples

TOPICS = [bytes([number]) * 16 for number in range(4)]
SIZES = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 7), min_size=1)
SUBSCRIPTIONS = st.lists(st.frozensets(st.sampled_from(TOPICS)), max_size=7)

T1, T2 = TOPICS[:2]


def members_of(
    subscriptions: list[frozenset[bytes]], assigned: Assigned | None = None
) -> dict[str, Subscriber]:
    return {
        f"m{number}": Subscriber(topics, frozenset((assigned or {}).get(f"m{number}", ())))
        for number, topics in enumerate(subscriptions)
    }


def check_complete(members: Members, sizes: dict[bytes, int], assigned: Assigned) -> None:
    """Check that every partition of a topic with subscribers belongs to exactly one of them."""
    owned = [one for mine in assigned.values() for one in mine]
    read = {topic for member in members.values() for topic in member.topics}
    assert sorted(owned) == sorted(
        (topic, number) for topic in read & sizes.keys() for number in range(sizes[topic])
    )
    for member_id, mine in assigned.items():
        assert {topic for topic, _ in mine} <= members[member_id].topics


def check_balance(members: Members, assigned: Assigned) -> None:
    """Check that no partition could move to a subscriber that would then still own fewer than its owner."""
    for owner, mine in assigned.items():
        for topic, _ in mine:
            for reader in (one for one in members if topic in members[one].topics):
                assert len(mine) - len(assigned[reader]) <= 1, f"{owner} to {reader}"


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@given(subscriptions=SUBSCRIPTIONS, sizes=SIZES)
def test_every_partition_is_assigned_to_exactly_one_subscriber(
    name: str, subscriptions: list[frozenset[bytes]], sizes: dict[bytes, int]
) -> None:
    members = members_of(subscriptions)
    found = ASSIGNORS[name](members, sizes)
    check_complete(members, sizes, found)
    assert found.keys() == members.keys()
    assert ASSIGNORS[name](dict(reversed(members.items())), sizes) == found


@pytest.mark.gate
@given(before=SUBSCRIPTIONS, after=SUBSCRIPTIONS, sizes=SIZES)
@example(before=[frozenset({T1})], after=[frozenset({T1}), frozenset({T1, T2})], sizes={T1: 7, T2: 1})
@settings(max_examples=examples(200))
def test_uniform_differs_by_at_most_one_between_readers_of_a_topic(
    before: list[frozenset[bytes]], after: list[frozenset[bytes]], sizes: dict[bytes, int]
) -> None:
    """Members join, leave and change their subscriptions, with the partitions from before."""
    assigned = uniform(members_of(before), sizes)
    members = members_of(after, assigned)
    found = uniform(members, sizes)
    check_complete(members, sizes, found)
    check_balance(members, found)


@given(subscriptions=SUBSCRIPTIONS, sizes=SIZES)
def test_uniform_keeps_an_unchanged_assignment(
    subscriptions: list[frozenset[bytes]], sizes: dict[bytes, int]
) -> None:
    assigned = uniform(members_of(subscriptions), sizes)
    assert uniform(members_of(subscriptions, assigned), sizes) == assigned


def test_new_reader_of_one_topic_gets_its_share_from_a_member_that_owns_all() -> None:
    """The shares differ by one, although one of the members owned all partitions."""
    sizes = {T1: 6, T2: 1}
    alone = {(T1, number) for number in range(6)} | {(T2, 0)}
    members = {
        "a": Subscriber(frozenset({T1, T2}), frozenset(alone)),
        "b": Subscriber(frozenset({T1})),
    }
    shares = sorted(len(mine) for mine in uniform(members, sizes).values())
    assert shares == [3, 4]


@given(count=st.integers(1, 7), sizes=SIZES, left=st.integers(0, 6))
@settings(max_examples=examples(60))
def test_uniform_is_balanced_and_keeps_owned_partitions(
    count: int, sizes: dict[bytes, int], left: int
) -> None:
    everything = frozenset(sizes)
    first = uniform({f"m{n}": Subscriber(everything) for n in range(count)}, sizes)
    totals = [len(partitions) for partitions in first.values()]
    assert max(totals) - min(totals) <= 1
    stay = {f"m{n}" for n in range(count) if n != left} or {"m9"}
    again = uniform({one: Subscriber(everything, frozenset(first.get(one, ()))) for one in stay}, sizes)
    totals = [len(partitions) for partitions in again.values()]
    assert max(totals) - min(totals) <= 1
    for one in stay & set(first):
        assert first[one] <= again[one], "a member that stays keeps its partitions"


def test_uniform_assigns_like_apache_kafka() -> None:
    """Seven partitions, members that come one by one and go again, as in the scenario of that name."""
    topic = TOPICS[0]
    has: dict[str, frozenset[tuple[bytes, int]]] = {}
    seen = []
    for step in ("+a", "+b", "+c", "+d", "-a", "-b", "-c"):
        if step[0] == "+":
            has[step[1]] = frozenset()
        else:
            del has[step[1]]
        members = {one: Subscriber(frozenset({topic}), owned) for one, owned in has.items()}
        assigned = uniform(members, {topic: 7})
        has = {one: frozenset(partitions) for one, partitions in assigned.items()}
        seen.append(" ".join(one + "".join(str(n) for _, n in sorted(has[one])) for one in sorted(has)))
    assert seen == [
        "a0123456",
        "a0123 b456",
        "a012 b45 c36",
        "a01 b45 c36 d2",
        "b45 c36 d012",
        "c346 d0125",
        "d0123456",
    ]


def test_range_gives_equal_numbers_of_all_topics_to_the_same_member() -> None:
    everything = frozenset(TOPICS[:2])
    members = {
        "a": Subscriber(everything),
        "b": Subscriber(everything),
        "z": Subscriber(everything, instance_id="i"),
    }
    result = ASSIGNORS["range"](members, dict.fromkeys(TOPICS[:2], 5))
    assert {name: sorted(p for t, p in owned if t == TOPICS[0]) for name, owned in result.items()} == {
        "z": [0, 1],
        "a": [2, 3],
        "b": [4],
    }
    for owned in result.values():
        assert {p for t, p in owned if t == TOPICS[0]} == {p for t, p in owned if t == TOPICS[1]}
