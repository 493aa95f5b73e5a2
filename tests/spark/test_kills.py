"""Spark itself is killed while it writes, two queries in one start; kills.py does so at every step."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykafka2.testing import ClusterApi
from spark_connector.testing import why_no_spark
from tests.spark.kill_campaign import Campaign
from tests.spark.kill_plans import Plan

pytestmark = pytest.mark.slow


def test_killed_queries_lose_and_repeat_nothing(spark_kafka: ClusterApi, tmp_path: Path) -> None:
    reason = why_no_spark()
    if reason is not None:
        pytest.skip(reason)
    campaign = Campaign(spark_kafka.bootstrap_servers, tmp_path)
    plans = [Plan("exactly_once", ("after-flush:4",)), Plan("exactly_once", ("between-ends:1",))]
    outcomes = list(campaign.play(plans))
    assert len(outcomes) == 2
    assert all(one.is_good for one in outcomes), outcomes
