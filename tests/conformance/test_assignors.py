"""Our assignors beside Kafka's: the golden data is Kafka's, and random groups are divided alike."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from functools import partial

import attrs
import pytest

from pykafka2.consumer.assignors.assignor import MemberSubscription
from pykafka2.consumer.assignors.registry import BUILT_IN
from tests.consumer.assignors.stories import Answers, Question, Shape, compact, play
from tests.consumer.assignors.test_invariants import cluster_of, counts_of
from tests.consumer.assignors.test_java_assignments import GOLDEN_FILE

from .assignments import ask_java, golden
from .bridge import Bridge

RANDOM_GROUPS = 40


def test_golden_assignments_equal_those_of_kafka(java: Bridge) -> None:
    assert golden(java) == json.loads(GOLDEN_FILE.read_text(encoding="utf-8"))


def shape_of(rng: random.Random, *, has_racks: bool) -> Shape:
    return Shape(
        members=rng.randint(1, 12),
        topics=rng.randint(1, 6),
        partitions=rng.randint(1, 14),
        rebalances=3,
        read_the_same=rng.random() < 0.4,
        has_racks=has_racks,
        are_static=rng.random() < 0.2,
    )


@pytest.mark.parametrize("name", BUILT_IN)
def test_random_groups_are_divided_as_kafka_divides_them(java: Bridge, name: str) -> None:
    assignor = BUILT_IN[name]()
    for seed in range(RANDOM_GROUPS):
        shape = shape_of(random.Random(seed), has_racks=False)
        for question, answers in play(shape, seed, assignor, partial(ask_java, java, assignor)):
            ours = assignor.assign(cluster_of(question), question.members)
            assert compact(ours) == compact(answers), f"seed {seed}"


@pytest.mark.parametrize("name", BUILT_IN)
def test_with_racks_as_balanced_and_as_near_as_kafkas(java: Bridge, name: str) -> None:
    """Which of two equal partitions moves hangs on the order of a hash table in Java."""
    assignor = BUILT_IN[name]()
    for seed in range(RANDOM_GROUPS):
        shape = shape_of(random.Random(seed), has_racks=True)
        for question, answers in play(shape, seed, assignor, partial(ask_java, java, assignor)):
            ours = assignor.assign(cluster_of(question), question.members)
            if name == "cooperative-sticky":
                assert moves(question, ours) <= moves(question, answers), f"seed {seed}"
            else:
                assert counts_of(ours) == counts_of(answers), f"seed {seed}"


def moves(question: Question, answers: Answers) -> int:
    """How many partitions are taken from their owners."""
    return sum(len({*one.owned} - {*answers[member].partitions}) for member, one in question.members.items())


def test_any_names_of_members_give_the_same_balance(java: Bridge) -> None:
    """Which member gets one more than others depends on the order of a hash table in Java, and on that of the
    names here.
    """
    for name in ("sticky", "cooperative-sticky"):
        assignor = BUILT_IN[name]()
        for seed in range(RANDOM_GROUPS // 2):
            rng = random.Random(seed)
            shape = shape_of(rng, has_racks=False)
            ask = partial(ask_java, java, assignor)
            for question, _ in play(shape, seed, assignor, ask):
                renamed = attrs.evolve(question, members=named_anew(rng, question.members))
                answers = ask(renamed)
                ours = assignor.assign(cluster_of(renamed), renamed.members)
                assert sorted(counts_of(ours).values()) == sorted(counts_of(answers).values()), f"seed {seed}"
                assert moves(renamed, ours) == moves(renamed, answers), f"seed {seed}"


def named_anew(
    rng: random.Random, members: Mapping[str, MemberSubscription]
) -> dict[str, MemberSubscription]:
    return {f"consumer-{rng.randrange(10**9)}-{number}": one for number, one in enumerate(members.values())}
