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


@given(before=SUBSCRIPTIONS, after=SUBSCRIPTIONS, sizes=SIZES)
@example(before=[frozenset({T1})], after=[frozenset({T1}), frozenset({T1, T2})], sizes={T1: 7, T2: 1})
@settings(max_examples=200)
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
