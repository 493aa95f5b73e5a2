"""Promises of every assignor for any group: validity, balance, stickiness, equal results for equal input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import attrs
import hypothesis
import pytest
from hypothesis import strategies as st

from pykafka2.consumer.assignors.assignor import (
    Assignment,
    Assignor,
    ClusterMetadata,
    LastAssignment,
    MemberSubscription,
)
from pykafka2.consumer.assignors.registry import BUILT_IN
from tests.consumer.assignors.groups import a_cluster, assert_everything_is_assigned_once
from tests.consumer.assignors.stories import Answers, Question, Shape, play

RANGE, ROUND_ROBIN = BUILT_IN["range"](), BUILT_IN["roundrobin"]()
STICKY, COOPERATIVE = BUILT_IN["sticky"](), BUILT_IN["cooperative-sticky"]()

ALL_AT_ONCE = pytest.mark.parametrize("assignor", [RANGE, ROUND_ROBIN, STICKY], ids=lambda one: one.name)
BOTH_STICKY = pytest.mark.parametrize("assignor", [STICKY, COOPERATIVE], ids=lambda one: one.name)
EVERY = pytest.mark.parametrize("assignor", [make() for make in BUILT_IN.values()], ids=lambda one: one.name)

SHAPES = st.builds(
    Shape,
    members=st.integers(1, 9),
    topics=st.integers(1, 5),
    partitions=st.integers(1, 9),
    rebalances=st.integers(1, 4),
    read_the_same=st.booleans(),
    has_racks=st.booleans(),
    are_static=st.booleans(),
)
SEEDS = st.integers(0, 2**20)


def cluster_of(question: Question) -> ClusterMetadata:
    sizes = {topic: len(brokers) for topic, brokers in question.replicas.items()}
    return a_cluster(sizes, question.racks, question.replicas)


def rebalances(assignor: Assignor, shape: Shape, seed: int) -> Iterator[tuple[Question, Answers]]:
    return play(
        shape, seed, assignor, lambda question: assignor.assign(cluster_of(question), question.members)
    )


def with_answers(
    members: Mapping[str, MemberSubscription], answers: Answers, assignor: Assignor, generation: int
) -> dict[str, MemberSubscription]:
    """The members after they have received their assignments."""
    last = {
        member: LastAssignment(assignment.partitions, generation) for member, assignment in answers.items()
    }
    return {
        member: attrs.evolve(
            one,
            owned=last[member].partitions,
            generation=generation,
            user_data=assignor.user_data(frozenset(one.topics), last[member]),
        )
        for member, one in members.items()
    }


def counts_of(answers: Answers) -> dict[str, int]:
    return {member: len(assignment.partitions) for member, assignment in answers.items()}


@ALL_AT_ONCE
@hypothesis.given(shape=SHAPES, seed=SEEDS)
def test_every_partition_is_assigned_to_one_of_its_subscribers(
    assignor: Assignor, shape: Shape, seed: int
) -> None:
    for question, answers in rebalances(assignor, shape, seed):
        assert_everything_is_assigned_once(cluster_of(question), question.members, answers)


@EVERY
@hypothesis.given(shape=SHAPES, seed=SEEDS)
def test_the_order_of_members_counts_for_nothing(assignor: Assignor, shape: Shape, seed: int) -> None:
    for question, answers in rebalances(assignor, shape, seed):
        backwards = {member: question.members[member] for member in sorted(question.members, reverse=True)}
        assert assignor.assign(cluster_of(question), backwards) == answers


@hypothesis.given(shape=SHAPES, seed=SEEDS)
def test_ranges_of_a_topic_differ_by_one_at_most(shape: Shape, seed: int) -> None:
    for question, answers in rebalances(RANGE, shape, seed):
        for topic in question.replicas:
            counts = [
                sum(one.topic == topic for one in answers[member].partitions)
                for member, subscription in question.members.items()
                if topic in subscription.topics
            ]
            assert max(counts, default=0) - min(counts, default=0) <= 1


@ALL_AT_ONCE
@hypothesis.given(shape=SHAPES, seed=SEEDS)
def test_members_with_equal_subscriptions_get_equal_counts(
    assignor: Assignor, shape: Shape, seed: int
) -> None:
    same = attrs.evolve(shape, read_the_same=True, topics=1 if assignor is RANGE else shape.topics)
    for _, answers in rebalances(assignor, same, seed):
        counts = counts_of(answers).values()
        assert max(counts) - min(counts) <= 1


@hypothesis.given(shape=SHAPES, seed=SEEDS)
def test_no_move_would_make_a_sticky_assignment_more_balanced(shape: Shape, seed: int) -> None:
    for question, answers in rebalances(STICKY, shape, seed):
        counts = counts_of(answers)
        least = {
            topic: min(counts[member] for member, one in question.members.items() if topic in one.topics)
            for topic in {topic for one in question.members.values() for topic in one.topics}
        }
        for member, assignment in answers.items():
            for one in assignment.partitions:
                assert counts[member] <= least[one.topic] + 1, one


@BOTH_STICKY
@hypothesis.given(shape=SHAPES, seed=SEEDS)
def test_unchanged_group_keeps_its_assignment(assignor: Assignor, shape: Shape, seed: int) -> None:
    for question, answers in rebalances(assignor, attrs.evolve(shape, has_racks=False), seed):
        settled = settle(assignor, question, answers) if assignor is COOPERATIVE else answers
        repeated = with_answers(question.members, settled, assignor, 100)
        assert assignor.assign(cluster_of(question), repeated) == settled


@hypothesis.given(shape=SHAPES, seed=SEEDS)
def test_members_keep_as_many_partitions_as_balance_allows(shape: Shape, seed: int) -> None:
    same = attrs.evolve(shape, read_the_same=True, has_racks=False)
    for question, answers in rebalances(STICKY, same, seed):
        sizes = {topic: len(brokers) for topic, brokers in question.replicas.items()}
        share, larger = divmod(sum(sizes.values()), len(question.members))
        owned = [len(one.owned) for one in question.members.values()]
        may_keep_more = sum(count > share for count in owned)
        possible = sum(min(count, share) for count in owned) + min(larger, may_keep_more)
        kept = sum(
            len({*answers[member].partitions} & {*one.owned}) for member, one in question.members.items()
        )
        assert kept == possible


@hypothesis.given(shape=SHAPES, seed=SEEDS)
def test_cooperative_assignor_never_assigns_a_partition_owned_by_another(shape: Shape, seed: int) -> None:
    for question, answers in rebalances(COOPERATIVE, shape, seed):
        for member, assignment in answers.items():
            others = {
                one for other, claim in question.members.items() if other != member for one in claim.owned
            }
            assert not {*assignment.partitions} & others


MOST_REBALANCES: Final = 5
"""Two without racks; with them a move may make room for another that brings more near to its reader."""

RESTLESS_IN_KAFKA: Final = (76, 88, 480)


def settle(assignor: Assignor, question: Question, answers: Answers) -> Answers:
    """The result when members give up their lost partitions and rejoin, until no member loses a partition."""
    members = question.members
    for generation in range(100, 100 + MOST_REBALANCES):
        lost = [{*one.owned} - {*answers[member].partitions} for member, one in members.items()]
        members = with_answers(members, answers, assignor, generation)
        if not any(lost):
            return answers
        answers = assignor.assign(cluster_of(question), members)
    raise AssertionError("the group does not come to rest")


@hypothesis.given(shape=SHAPES, seed=SEEDS)
def test_cooperative_group_settles_with_every_partition_assigned_once(shape: Shape, seed: int) -> None:
    for question, answers in rebalances(COOPERATIVE, shape, seed):
        settled = settle(COOPERATIVE, question, answers)
        assert_everything_is_assigned_once(cluster_of(question), question.members, settled)


def test_a_cooperative_group_comes_to_rest_where_kafkas_does_not() -> None:
    """The assignor of kafka-clients 4.3.1 moves partitions here in every rebalance, for ever."""
    shape = Shape(8, 5, 14, 2, read_the_same=False, has_racks=True)
    for seed in RESTLESS_IN_KAFKA:
        for question, answers in rebalances(COOPERATIVE, shape, seed):
            settle(COOPERATIVE, question, answers)


@pytest.mark.gate
@pytest.mark.slow
@EVERY
@pytest.mark.parametrize("read_the_same", [True, False])
@pytest.mark.parametrize("has_racks", [True, False])
def test_a_large_group_is_divided_at_once(assignor: Assignor, read_the_same: bool, has_racks: bool) -> None:
    """About 2,000 partitions and 200 members; 2 s would delay a rebalance, a fifth of that is typical
    here."""
    shape = Shape(200, 20, 190, 2, read_the_same, has_racks)
    for _, answers in rebalances(assignor, shape, 7):
        assert sum(counts_of(answers).values()) > 1000


def test_members_without_existing_topics_get_empty_assignments() -> None:
    for make in BUILT_IN.values():
        assert make().assign(a_cluster({"t": 3}), {}) == {}
        nothing = {"a": MemberSubscription(()), "b": MemberSubscription(("missing",))}
        assert make().assign(a_cluster({"t": 3}), nothing) == {"a": Assignment(), "b": Assignment()}
