"""The assignors "range" and "roundrobin"."""

from __future__ import annotations

import attrs
import pytest

from pykafka2.consumer.assignors.assignor import Assignor
from pykafka2.consumer.assignors.range import RangeAssignor
from pykafka2.consumer.assignors.round_robin import RoundRobinAssignor
from tests.consumer.assignors.groups import a_cluster, by_member, reading

BOTH = pytest.mark.parametrize("assignor", [RangeAssignor(), RoundRobinAssignor()], ids=lambda one: one.name)


def test_a_range_is_consecutive_and_the_first_get_the_larger_ones() -> None:
    members = {member: reading(["t", "u"]) for member in ("c", "a", "b")}
    assert by_member(RangeAssignor().assign(a_cluster({"t": 4, "u": 3}), members)) == {
        "a": ["t-0", "t-1", "u-0"],
        "b": ["t-2", "u-1"],
        "c": ["t-3", "u-2"],
    }


@pytest.mark.parametrize(
    ("topics", "partitions", "members", "shares", "by_turns"),
    [(2, 3, 2, [4, 2], [3, 3]), (4, 5, 3, [8, 8, 4], [7, 7, 6])],
)
def test_ranges_of_many_topics_add_up_in_favour_of_the_first(
    topics: int, partitions: int, members: int, shares: list[int], by_turns: list[int]
) -> None:
    """The same imbalance as in Java (golden.json has others): the guide describes it, and the remedy."""
    names = [f"t{number}" for number in range(topics)]
    group = {f"m{number}": reading(names) for number in range(members)}
    cluster = a_cluster(dict.fromkeys(names, partitions))
    for assignor, expected in ((RangeAssignor(), shares), (RoundRobinAssignor(), by_turns)):
        assert [len(by_member(assignor.assign(cluster, group))[one]) for one in sorted(group)] == expected


def test_more_members_than_partitions_leaves_the_last_without() -> None:
    members = {member: reading(["t"]) for member in ("a", "b", "c")}
    assert by_member(RangeAssignor().assign(a_cluster({"t": 2}), members)) == {
        "a": ["t-0"],
        "b": ["t-1"],
        "c": [],
    }


def test_round_robin_continues_across_topics() -> None:
    members = {member: reading(["t", "u"]) for member in ("a", "b")}
    assert by_member(RoundRobinAssignor().assign(a_cluster({"t": 3, "u": 3}), members)) == {
        "a": ["t-0", "t-2", "u-1"],
        "b": ["t-1", "u-0", "u-2"],
    }


def test_round_robin_skips_members_not_subscribed_to_the_topic() -> None:
    members = {"a": reading(["t"]), "b": reading(["t", "u"]), "c": reading(["t", "u", "v"])}
    assert by_member(RoundRobinAssignor().assign(a_cluster({"t": 1, "u": 2, "v": 3}), members)) == {
        "a": ["t-0"],
        "b": ["u-0"],
        "c": ["u-1", "v-0", "v-1", "v-2"],
    }


@BOTH
def test_static_members_come_first_by_their_instance_ids(assignor: Assignor) -> None:
    members = {
        "a": reading(["t"]),
        "y": attrs.evolve(reading(["t"]), instance_id="one"),
        "x": attrs.evolve(reading(["t"]), instance_id="two"),
    }
    assert by_member(assignor.assign(a_cluster({"t": 3}), members)) == {
        "a": ["t-2"],
        "y": ["t-0"],
        "x": ["t-1"],
    }


@BOTH
def test_unknown_topic_is_left_out(assignor: Assignor) -> None:
    assert by_member(assignor.assign(a_cluster({"t": 1}), {"a": reading(["t", "missing"])})) == {"a": ["t-0"]}


def test_range_prefers_partitions_with_a_replica_in_the_rack() -> None:
    members = {"a": reading(["t"], rack="east"), "b": reading(["t"], rack="west")}
    cluster = a_cluster({"t": 4}, ["west", "east"], {"t": [[0], [1], [0], [1]]})
    assert by_member(RangeAssignor().assign(cluster, members)) == {"a": ["t-1", "t-3"], "b": ["t-0", "t-2"]}


def test_balance_has_priority_over_racks() -> None:
    members = {"a": reading(["t"], rack="east"), "b": reading(["t"], rack="west")}
    cluster = a_cluster({"t": 4}, ["west", "east"], {"t": [[0], [0], [0], [1]]})
    assert by_member(RangeAssignor().assign(cluster, members)) == {"a": ["t-2", "t-3"], "b": ["t-0", "t-1"]}


def test_topics_divided_alike_stay_so_when_racks_count() -> None:
    members = {"a": reading(["t", "u"], rack="east"), "b": reading(["t", "u"], rack="west")}
    cluster = a_cluster({"t": 2, "u": 2}, ["west", "east"], {"t": [[0], [1]], "u": [[0], [0]]})
    assert by_member(RangeAssignor().assign(cluster, members)) == {"a": ["t-1", "u-1"], "b": ["t-0", "u-0"]}
