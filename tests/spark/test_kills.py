"""Spark itself is killed while it writes, twice; kills.py does so at every step, many times."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykafka2.testing import ClusterApi
from spark_connector.testing import why_no_spark
from tests.spark.kills import Campaign

pytestmark = pytest.mark.slow


@pytest.mark.long
@pytest.mark.parametrize("kill", ["after-flush:4", "between-ends:1"])
def test_a_killed_query_loses_and_repeats_nothing(spark_kafka: ClusterApi, tmp_path: Path, kill: str) -> None:
    reason = why_no_spark()
    if reason is not None:
        pytest.skip(reason)
    outcome = Campaign(spark_kafka.bootstrap_servers, tmp_path).play("exactly_once", [kill])
    assert outcome.is_good, outcome
