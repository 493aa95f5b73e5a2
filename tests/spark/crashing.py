"""A stand-in for Spark that runs the sink's own code in a child process, and is killed at named steps.

It keeps what Spark keeps, a log of batches begun and one of batches done, and plays a batch that is not done
again after a restart.  Much quicker than Spark, so every step is tried in every way; tests/spark/kills.py
does the same with Spark itself.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attrs

TASKS = 3
ROWS = 40
PARTITIONS = 4
RUN_TIMEOUT = 180.0

CRASH_AT = "PYKAFKA2_TEST_CRASH_AT"
HOOK = "tests.spark.crashing:on_step"

_seen: Counter[str] = Counter()


def on_step(step: str, known: dict[str, Any]) -> None:
    """Kill this process when the step is reached for the n-th time: `CRASH_AT=step:n`."""
    wanted, _, number = os.environ.get(CRASH_AT, "").partition(":")
    if step == wanted:
        _seen[step] += 1
        if _seen[step] == int(number):
            os.kill(os.getpid(), signal.SIGKILL)


@attrs.define
class Query:
    """A streaming query with its checkpoint; `options` are the sink's.

    until: how many batches there are in all.
    """

    folder: Path
    options: dict[str, str]
    until: int = 4
    name: str = attrs.field(factory=lambda: f"query-{uuid.uuid4().hex[:8]}")
    tasks: int = TASKS
    rows: int = ROWS
    fresh: bool = False
    """The batch function as foreachBatch passes it."""

    def done(self) -> int:
        """How many batches the checkpoint has as done."""
        return len(list(self.folder.glob("commit-*")))

    def run(self, crash_at: str = "", **more: Any) -> int:
        """Start the query in a child and wait for its end; its exit code, -9 if it was killed."""
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["tests.spark.crashing_child"])
        child = context.Process(target=_in_child, args=(self, crash_at, more), daemon=True)
        child.start()
        child.join(RUN_TIMEOUT)
        if child.is_alive():
            child.kill()
            child.join()
            raise AssertionError(f"the run that was to crash at {crash_at!r} hung")
        assert child.exitcode is not None
        return child.exitcode

    def expected(self) -> Counter[str]:
        return Counter(
            f"{batch}/{task}/{row}"
            for batch in range(self.until)
            for task in range(self.tasks)
            for row in range(self.rows)
        )


def _in_child(query: Query, crash_at: str, more: dict[str, Any]) -> None:
    from tests.spark.crashing_child import play

    os.environ["PYKAFKA2_SPARK_STEP_HOOK"] = HOOK
    os.environ[CRASH_AT] = crash_at
    play(query, **more)


def pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=2)
