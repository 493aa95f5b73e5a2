"""Spark itself is killed while it writes, four queries in one start; kills.py does so at every step.

Two of them then find an older copy of their checkpoint, or no ledger.  Their next start is the session that
all tests share.
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


def test_killed_queries_write_each_row_once_or_name_the_violated_condition(
    spark: SparkSession, killed: Killed
) -> None:
    queries = killed.queries()
    assert [one.kills_played for one in queries] == [1] * 6
    assert not any(one.is_done for one in queries)
    outcomes = killed.campaign.end(queries, partial(play, spark))
    assert [one.verdict for one in outcomes] == ["ok"] * 4 + ["refused"] * 2, outcomes
    assert [one.refusal for one in outcomes] == [""] * 4 + ["CheckpointBehind", "LedgerBehind"]
    assert [one.plan.delivery for one in outcomes if one.repeated] == ["at_least_once"]
