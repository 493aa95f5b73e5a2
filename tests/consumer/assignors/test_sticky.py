"""The assignors "sticky" and "cooperative-sticky": kept partitions, claims that count, user data."""

from __future__ import annotations

import attrs
import pytest

from pykafka2.consumer.assignors.assignor import LastAssignment, MemberSubscription
from pykafka2.consumer.assignors.cooperative_sticky import CooperativeStickyAssignor
from pykafka2.consumer.assignors.sticky import StickyAssignor, read_claim
from pykafka2.consumer.assignors.sticky_algorithm import Claim, divide_calmly, owners
from tests.consumer.assignors.groups import a_cluster, by_member, partitions, reading

STICKY = StickyAssignor()
COOPERATIVE = CooperativeStickyAssignor()

# What StickyAssignor.subscriptionUserData of kafka-clients 4.3.1 makes of t-0, t-2 and u-1 in generation 7.
JAVA_USER_DATA = bytes.fromhex(
    "00000002" "000174" "00000002" "00000000" "00000002" "000175" "00000001" "00000001" "00000007"
)  # fmt: skip
LAST = LastAssignment(partitions("t-0", "t-2", "u-1"), 7)


def claiming(*owned: str, generation: int = 1, topics: tuple[str, ...] = ("t",)) -> MemberSubscription:
    """A member of "sticky" that was assigned these before it gave them up."""
    data = STICKY.user_data(frozenset(topics), LastAssignment(partitions(*owned), generation))
    return MemberSubscription(topics, user_data=data)


def test_user_data_is_written_as_kafka_writes_it() -> None:
    assert STICKY.user_data(frozenset("tu"), LAST) == JAVA_USER_DATA
    assert read_claim(JAVA_USER_DATA) == Claim(LAST.partitions, LAST.generation)
    assert COOPERATIVE.user_data(frozenset("tu"), LAST) == b"\0\0\0\7"


def test_user_data_before_the_first_assignment_is_empty() -> None:
    assert STICKY.user_data(frozenset("t"), None) is None
    assert COOPERATIVE.user_data(frozenset("t"), None) == b"\xff\xff\xff\xff"


def test_user_data_without_a_generation_is_read_too() -> None:
    assert read_claim(JAVA_USER_DATA[:-4]) == Claim(LAST.partitions, -1)


@pytest.mark.parametrize("data", [None, b"", b"\0\0\0\1", b"junk that is no claim"])
def test_invalid_user_data_claims_no_partition(data: bytes | None) -> None:
    assert read_claim(data) == Claim()


def test_a_member_that_leaves_moves_only_its_own() -> None:
    members = {"a": claiming("t-0", "t-1"), "b": claiming("t-4", "t-5")}
    assert by_member(STICKY.assign(a_cluster({"t": 6}), members)) == {
        "a": ["t-0", "t-1", "t-2"],
        "b": ["t-3", "t-4", "t-5"],
    }


def test_new_member_gets_the_fewest_partitions_that_balance() -> None:
    members = {"a": claiming("t-0", "t-1", "t-2"), "b": claiming("t-3", "t-4", "t-5"), "c": reading(["t"])}
    assert by_member(STICKY.assign(a_cluster({"t": 6}), members)) == {
        "a": ["t-0", "t-1"],
        "b": ["t-3", "t-4"],
        "c": ["t-2", "t-5"],
    }


def test_claim_of_the_later_generation_wins() -> None:
    members = {"a": claiming("t-0", "t-1", generation=3), "b": claiming("t-2", "t-3", "t-1", generation=5)}
    assert by_member(STICKY.assign(a_cluster({"t": 4}), members)) == {
        "a": ["t-0", "t-3"],
        "b": ["t-1", "t-2"],
    }


def test_two_claims_of_one_generation_cancel_each_other() -> None:
    members = {"a": claiming("t-0", "t-1"), "b": claiming("t-0", "t-2"), "c": claiming("t-3")}
    assert by_member(STICKY.assign(a_cluster({"t": 4}), members)) == {
        "a": ["t-0", "t-1"],
        "b": ["t-2"],
        "c": ["t-3"],
    }


def test_claims_of_missing_partitions_are_ignored() -> None:
    members = {"a": claiming("t-0", "t-7", "gone-0"), "b": claiming("t-1")}
    assert by_member(STICKY.assign(a_cluster({"t": 2}), members)) == {"a": ["t-0"], "b": ["t-1"]}


def test_partition_of_an_unsubscribed_topic_goes_to_another_member() -> None:
    members = {"a": claiming("t-0", "u-0", topics=("t",)), "b": claiming(topics=("t", "u"))}
    assert by_member(STICKY.assign(a_cluster({"t": 1, "u": 1}), members)) == {"a": ["t-0"], "b": ["u-0"]}


def test_an_owner_of_an_earlier_generation_is_preferred() -> None:
    """c was out of the group for a while: what a gives up goes to c rather than to b, which has as little."""
    members = {
        "a": claiming("t-0", "t-1", "t-2", generation=5, topics=("t", "u")),
        "b": claiming(generation=5),
        "c": claiming("t-0", generation=4),
    }
    assert by_member(STICKY.assign(a_cluster({"t": 3}), members)) == {
        "a": ["t-2"],
        "b": ["t-1"],
        "c": ["t-0"],
    }


def test_members_keep_partitions_in_their_rack() -> None:
    members = {
        "a": attrs.evolve(claiming("t-0", "t-1"), rack="east"),
        "b": attrs.evolve(claiming("t-2", "t-3"), rack="west"),
    }
    cluster = a_cluster({"t": 4}, ["east", "west"], {"t": [[1], [0], [0], [1]]})
    assert by_member(STICKY.assign(cluster, members)) == {"a": ["t-1", "t-2"], "b": ["t-0", "t-3"]}


def test_moving_partition_is_assigned_in_the_next_rebalance() -> None:
    cluster = a_cluster({"t": 4})
    first = {"a": reading(["t"], "t-0", "t-1", "t-2", "t-3", generation=1), "b": reading(["t"])}
    assert by_member(COOPERATIVE.assign(cluster, first)) == {"a": ["t-0", "t-1"], "b": []}
    second = {"a": reading(["t"], "t-0", "t-1", generation=2), "b": reading(["t"], generation=2)}
    assert by_member(COOPERATIVE.assign(cluster, second)) == {"a": ["t-0", "t-1"], "b": ["t-2", "t-3"]}


def test_unowned_partition_is_assigned_at_once() -> None:
    members = {"a": reading(["t"], "t-0", generation=1), "b": reading(["t"])}
    assert by_member(COOPERATIVE.assign(a_cluster({"t": 2}), members)) == {"a": ["t-0"], "b": ["t-1"]}


def test_partition_claimed_twice_is_assigned_in_the_next_rebalance() -> None:
    members = {"a": reading(["t"], "t-0", generation=1), "b": reading(["t"], "t-0", "t-1", generation=1)}
    assert by_member(COOPERATIVE.assign(a_cluster({"t": 2}), members)) == {"a": [], "b": ["t-1"]}


def test_a_generation_in_the_user_data_counts_for_members_of_older_clients() -> None:
    """Subscriptions of version 1 have no field for it: an evicted member must not win its partitions back."""
    members = {
        "a": attrs.evolve(reading(["t"], "t-0", "t-1"), user_data=b"\0\0\0\3"),
        "b": attrs.evolve(reading(["t"], "t-1"), user_data=b"\0\0\0\5"),
    }
    assert by_member(COOPERATIVE.assign(a_cluster({"t": 2}), members)) == {"a": ["t-0"], "b": ["t-1"]}


def test_missing_partition_has_no_owner() -> None:
    claims = {"a": Claim(partitions("t-0", "t-5", "gone-0"), 1)}
    assert owners(a_cluster({"t": 2}), claims) == dict.fromkeys(partitions("t-0"), "a")


def test_owned_partition_moves_if_another_member_is_nearer() -> None:
    """Each owns what is in the other's rack: both move, though all of it could stay."""
    cluster = a_cluster({"t": 2}, ["east", "west"], {"t": [[0], [1]]})
    members = {"a": reading("t", "t-1", rack="east"), "b": reading("t", "t-0", rack="west")}
    claims = {name: Claim(member.owned, 1) for name, member in members.items()}
    divided = divide_calmly(cluster, members, claims, owners(cluster, claims))
    assert divided == {"a": list(partitions("t-0")), "b": list(partitions("t-1"))}
