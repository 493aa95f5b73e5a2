"""Spark itself is killed while it writes, two queries in one start; kills.py does so at every step.

Their next start is the session that all tests share, to which they are new.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.spark.killed_meanwhile import Killed
from tests.spark.kills_program import play

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


def test_killed_queries_lose_and_repeat_nothing(spark: SparkSession, killed: Killed) -> None:
    queries = killed.queries()
    assert [one.kills_played for one in queries] == [1, 1]
    assert not any(one.is_done for one in queries)
    outcomes = killed.campaign.end(queries, partial(play, spark))
    assert all(one.is_good for one in outcomes), outcomes
