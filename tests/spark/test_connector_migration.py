"""A query's checkpoint moves between Spark's own Kafka connector and this one, to and fro."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import chain, pairwise
from pathlib import Path

import pytest

from pykafka2.testing import ClusterApi
from spark_connector.testing import why_no_spark
from tests.conformance.maven import KafkaUnavailable
from tests.spark import jvm_connector

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.slow]

ROWS = 50
RUNS = {"theirs first": 3, "ours first": 3}


@pytest.fixture(scope="module")
def reported(
    spark_kafka: ClusterApi, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[dict[str, list[int]]]]:
    """The reported assignments of each story's runs; all in one session, under the pyspark that has both."""
    reason = why_no_spark()
    if reason is not None:
        pytest.skip(reason)
    try:
        jars, environment = jvm_connector.jars(), jvm_connector.environment()
    except KafkaUnavailable as problem:
        pytest.skip(f"Spark's own connector is not to be had: {problem}")
    folder = tmp_path_factory.mktemp("checkpoints")
    command = [sys.executable, "-m", "tests.spark.moving_program", spark_kafka.bootstrap_servers, "moving"]
    done = subprocess.run(
        [*command, str(folder), ",".join(map(str, jars))],
        env=environment,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, list[dict[str, list[int]]]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("story", RUNS)
def test_query_continues_from_the_checkpoint_of_the_other_connector(
    reported: dict[str, list[dict[str, list[int]]]], story: str
) -> None:
    runs = reported[story]
    assert len(runs) == RUNS[story]
    for before, after in pairwise(runs):
        # The batch that had begun is played again, of the same records; the next ones follow.
        last = max(map(int, before))
        assert min(map(int, after)) == last
        assert after[str(last)] == before[str(last)]
    batches: dict[str, list[int]] = {}
    for run in runs:
        batches.update(run)
    assert sorted(chain.from_iterable(batches.values())) == list(range(len(runs) * ROWS))
    assert max(map(len, batches.values())) <= 31  # shares of partitions are rounded up
