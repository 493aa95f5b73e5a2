"""Spark itself is killed while it writes, twice; kills.py does so at every step, many times."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykafka2.testing import ClusterApi
from spark_connector.testing import why_no_spark
from tests.spark.kills import Campaign

pytestmark = pytest.mark.slow


def test_killed_queries_lose_and_repeat_nothing(spark_kafka: ClusterApi, tmp_path: Path) -> None:
    reason = why_no_spark()
    if reason is not None:
        pytest.skip(reason)
    campaign = Campaign(spark_kafka.bootstrap_servers, tmp_path)
    outcomes = list(campaign.play("exactly_once", [["after-flush:4"], ["between-ends:1"]]))
    assert len(outcomes) == 2
    assert all(one.is_good for one in outcomes), outcomes
