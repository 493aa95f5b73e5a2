"""Assignments of Apache Kafka's own assignors, computed over the bridge and kept as golden data.

`python -m tests.conformance.assignments` asks Kafka again and writes tests/consumer/assignors/golden.json.
"""

from __future__ import annotations

import base64
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from pykafka2.consumer.assignors.assignor import Assignment, Assignor
from pykafka2.consumer.assignors.registry import BUILT_IN
from pykafka2.consumer.assignors.wire_format import read_assignment, subscription_bytes
from tests.consumer.assignors.stories import Question, compact, play
from tests.consumer.assignors.test_java_assignments import GOLDEN_FILE, SHAPES, STORIES, kept

from .bridge import Bridge
from .maven import jars_or_skip
from .recorded_json import one_line_per_exchange


def ask_java(java: Bridge, assignor: Assignor, question: Question) -> dict[str, Assignment]:
    """The result of the assignor of the same name in Java."""
    members = [
        {
            "id": member_id,
            "instance_id": member.instance_id,
            "subscription": base64.b64encode(subscription_bytes(member)).decode(),
        }
        for member_id, member in question.members.items()
    ]
    item = {
        "assignor": assignor.name,
        "racks": question.racks,
        "topics": question.replicas,
        "members": members,
    }
    (answer,) = java("assign", [item])
    return {member_id: read_assignment(base64.b64decode(data)) for member_id, data in answer.items()}


def golden(java: Bridge) -> dict[str, Any]:
    """Every story of test_java_assignments.py as Kafka tells it."""
    stories: dict[str, Any] = {}
    for name, title in STORIES:
        assignor = BUILT_IN[name]()
        ask = partial(ask_java, java, assignor)
        shape, seeds = SHAPES[title]
        for seed in seeds:
            outcomes = [kept(shape, compact(answers)) for _, answers in play(shape, seed, assignor, ask)]
            stories[f"{name}, {title}, {seed}"] = outcomes
    return stories


def main() -> int:
    jars = jars_or_skip()
    with tempfile.TemporaryDirectory() as folder, Bridge(jars, Path(folder) / "bridge.log") as java:
        stories = golden(java)
    GOLDEN_FILE.write_text(one_line_per_exchange(stories), encoding="utf-8")
    print(f"{len(stories)} stories written to {GOLDEN_FILE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
