"""Our assignors answer as those of Apache Kafka 4.3.1 did.

golden.json has what Kafka answered; `python -m tests.conformance.assignments` asks it again.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Final

import pytest

from pykafka2.consumer.assignors.registry import BUILT_IN
from tests.consumer.assignors.groups import a_cluster
from tests.consumer.assignors.stories import Question, Shape, compact, play

GOLDEN_FILE: Final = Path(__file__).with_name("golden.json")

SHAPES: Final[dict[str, tuple[Shape, range]]] = {
    "all read the same": (Shape(7, 3, 9, 4, read_the_same=True, has_racks=False), range(12)),
    "racks": (Shape(7, 3, 9, 4, read_the_same=True, has_racks=True), range(12)),
    "they read different topics": (Shape(7, 4, 7, 4, read_the_same=False, has_racks=False), range(12)),
    "different topics and racks": (Shape(7, 4, 7, 4, read_the_same=False, has_racks=True), range(12)),
    "the first assignment": (Shape(7, 4, 9, 1, read_the_same=False, has_racks=True), range(12)),
    "static members": (Shape(6, 3, 7, 3, read_the_same=True, has_racks=True, are_static=True), range(4)),
    "large": (Shape(200, 20, 190, 3, read_the_same=True, has_racks=False), range(1)),
    "large with racks": (Shape(200, 20, 190, 3, read_the_same=True, has_racks=True), range(1)),
}
DIGESTS_FROM_MEMBERS: Final = 50
"""For groups as large as this the golden file has a digest only."""


def kept(shape: Shape, answers: dict[str, str]) -> Any:
    """The golden file's entry for one rebalance."""
    if shape.members < DIGESTS_FROM_MEMBERS:
        return answers
    return hashlib.sha256(json.dumps(answers, sort_keys=True).encode()).hexdigest()


def is_kafkas(name: str, shape: Shape) -> bool:
    """Whether the answers are the same: cooperative groups move less than Kafka's for the sake of racks."""
    return name != "cooperative-sticky" or not shape.has_racks or shape.rebalances == 1


STORIES: Final = [
    (name, title) for name in BUILT_IN for title, (shape, _) in SHAPES.items() if is_kafkas(name, shape)
]


@pytest.fixture(scope="module")
def golden() -> dict[str, Any]:
    cases: dict[str, Any] = json.loads(GOLDEN_FILE.read_text(encoding="utf-8"))
    return cases


@pytest.mark.parametrize(("name", "title"), STORIES)
def test_every_rebalance_is_kafkas(name: str, title: str, golden: dict[str, Any]) -> None:
    shape, seeds = SHAPES[title]
    assignor = BUILT_IN[name]()

    def ask(question: Question) -> Any:
        sizes = {topic: len(brokers) for topic, brokers in question.replicas.items()}
        return assignor.assign(a_cluster(sizes, question.racks, question.replicas), question.members)

    for seed in seeds:
        ours = [kept(shape, compact(answers)) for _, answers in play(shape, seed, assignor, ask)]
        assert ours == golden[f"{name}, {title}, {seed}"], f"seed {seed}"


def test_the_golden_file_has_these_stories_and_no_others(golden: dict[str, Any]) -> None:
    assert set(golden) == {f"{name}, {title}, {seed}" for name, title in STORIES for seed in SHAPES[title][1]}
