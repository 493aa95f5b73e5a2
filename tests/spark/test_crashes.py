"""Kills at every step of the exactly-once protocol; whatever was being done, each row is there once.

Without Spark (crashing.py); the reader is confluent-kafka with read_committed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pykafka2.testing import ClusterApi
from tests.spark.committed import committed
from tests.spark.crashing import Query

pytestmark = pytest.mark.slow

OF_TASKS = ["before-init", "after-append", "after-flush"]
OF_DRIVER = ["before-decided", "after-decided", "between-ends", "before-done", "after-done"]
OPEN, PER_TASK = "exactly_once", "exactly_once_per_task"

NewQuery = Callable[..., Query]


def mostly_long(values: list[str], *short: str) -> list[Any]:
    """All of them for long runs, a few for each."""
    return [one if one in short else pytest.param(one, marks=pytest.mark.long) for one in values]


@pytest.fixture
def topic(spark_kafka: ClusterApi, request: pytest.FixtureRequest) -> str:
    name = f"out-{abs(hash(request.node.nodeid)):x}"
    spark_kafka.create_topic(name, partitions=4)
    return name


@pytest.fixture
def query(spark_kafka: ClusterApi, topic: str, tmp_path: Path) -> NewQuery:
    def query(delivery: str = OPEN, **more: object) -> Query:
        options = {
            "kafka.bootstrap.servers": spark_kafka.bootstrap_servers,
            "topic": topic,
            "delivery": delivery,
        }
        return Query(tmp_path, options, **more)  # type: ignore[arg-type]

    return query


@pytest.mark.parametrize("nth", [1, pytest.param(4, marks=pytest.mark.long)])
@pytest.mark.parametrize("step", mostly_long(OF_TASKS + OF_DRIVER, "after-flush", "between-ends"))
def test_a_kill_at_any_step_loses_and_repeats_nothing(
    spark_kafka: ClusterApi, topic: str, query: NewQuery, step: str, nth: int
) -> None:
    killed = query()
    assert killed.run(f"{step}:{nth if step in OF_TASKS else (nth + 1) // 2}") == -9
    assert killed.run() == 0
    assert committed(spark_kafka.bootstrap_servers, topic) == killed.expected()


@pytest.mark.parametrize(
    "first", mostly_long(["after-decided", "between-ends", "before-done"], "after-decided")
)
@pytest.mark.parametrize(
    "second", mostly_long(["in-recovery", "between-ends", "before-done", "before-claim"], "between-ends")
)
def test_a_kill_in_the_recovery_from_a_kill_loses_and_repeats_nothing(
    spark_kafka: ClusterApi, topic: str, query: NewQuery, first: str, second: str
) -> None:
    killed = query()
    assert killed.run(f"{first}:2") == -9
    assert killed.run(f"{second}:1") == -9
    assert killed.run() == 0
    assert committed(spark_kafka.bootstrap_servers, topic) == killed.expected()


@pytest.mark.parametrize("step", mostly_long([*OF_TASKS, "before-done", "after-done"], "before-done"))
def test_tasks_that_commit_themselves_are_not_written_twice(
    spark_kafka: ClusterApi, topic: str, query: NewQuery, step: str
) -> None:
    killed = query(PER_TASK)
    assert killed.run(f"{step}:{5 if step in OF_TASKS else 2}") == -9
    assert killed.run(f"{step}:2") in (-9, 0)
    assert killed.run() == 0
    assert committed(spark_kafka.bootstrap_servers, topic) == killed.expected()


@pytest.mark.parametrize(
    "step", mostly_long(["after-flush", "after-decided", "between-ends", "after-done"], "after-decided")
)
@pytest.mark.parametrize("delivery", mostly_long([OPEN, PER_TASK], OPEN))
def test_batches_of_foreach_batch_survive_kills(
    spark_kafka: ClusterApi, topic: str, query: NewQuery, step: str, delivery: str
) -> None:
    killed = query(delivery, fresh=True)
    killed.run(f"{step}:2", run="one-helper")
    assert killed.run(run="one-helper") == 0  # in the same process, say
    assert committed(spark_kafka.bootstrap_servers, topic) == killed.expected()
