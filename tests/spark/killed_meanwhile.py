"""A start of Spark with six queries that are killed in it, while other tests run: it takes half a minute.

Neighbours: conftest.py has the fixtures, test_kills.py has the queries come to their ends.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from tests.spark.kill_campaign import Campaign, Query
from tests.spark.kill_clusters import Brokers
from tests.spark.kill_plans import LEDGER_DELETED, REORDERED, Plan

ONE_BATCH_BEHIND = "checkpoint -1"
PLANS = (
    Plan("exactly_once", ("after-flush:4",)),
    Plan("exactly_once", ("between-ends:1",)),
    Plan("exactly_once_per_task", ("after-flush:4",)),
    Plan("at_least_once", ("after-flush:4",)),
    Plan("exactly_once", ("after-done:2",), damage=ONE_BATCH_BEHIND, changed=REORDERED),
    Plan("exactly_once", ("after-done:2",), damage=LEDGER_DELETED),
)
LONGEST = 600.0


class Killed:
    """Begins at once.  Used as a context manager, which waits for its end."""

    def __init__(self, servers: str, folder: Path) -> None:
        self.campaign = Campaign(Brokers(servers), folder)
        self._thread = ThreadPoolExecutor(1)
        self._queries: Future[list[Query]] = self._thread.submit(self.campaign.begin, PLANS)

    def queries(self) -> list[Query]:
        """Once they are killed."""
        return self._queries.result(LONGEST)

    def __enter__(self) -> Killed:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown()
