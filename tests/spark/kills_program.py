"""Streaming queries that kills.py kills: JSON files to topics, exactly or at least once, at the same time.

    PYKAFKA2_TEST_KILL_PLAN=FILE python -m tests.spark.kills_program

The file says which queries, and at which step each is to stand still and wait for its end.  The program ends
by itself when no query is left.  Rows depend on the files alone, in the same tasks each time.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.spark.kill_plans import TASKS
from tests.spark.warm_pythons import warm_pythons

PLAN = "PYKAFKA2_TEST_KILL_PLAN"
SLOTS = 2
"""Threads for tasks, in addition to one for each query that may stand still."""
LONGEST_STAY = 900.0
LOOK_EVERY = 0.1


def on_step(step: str, known: dict[str, Any]) -> None:
    """Stand still when a query has come to its step for the n-th time in this start.

    The steps are counted in the query's folder, as several processes come by.
    """
    for query in planned():
        wanted, _, number = query["kill"].partition(":")
        if step == wanted and _is_of(query, known):
            if _count(Path(query["folder"]), step) == int(number):
                (Path(query["folder"]) / "frozen").touch()
                time.sleep(LONGEST_STAY)
                kill_session(os.getsid(0))
            return


@cache
def planned() -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(Path(os.environ[PLAN]).read_text())
    return found


def _is_of(query: dict[str, str], known: dict[str, Any]) -> bool:
    """Whether a step was reached by this query; delivery=at_least_once knows the topic alone."""
    if "topic" in known:
        return bool(known["topic"] == query["topic"])
    return bool(known.get("sink") == _id_of(query))


def _id_of(query: dict[str, str]) -> str:
    """By which the sink knows it."""
    return str(json.loads((Path(query["folder"]) / "checkpoint/metadata").read_text())["id"])


def _count(folder: Path, step: str) -> int:
    """How often it has been reached by now."""
    start = Path(os.environ[PLAN]).stem
    reached = 0
    while True:
        reached += 1
        try:
            (folder / f"{start}-{step}-{reached}").touch(exist_ok=False)
        except FileExistsError:
            continue
        return reached


def kill_session(session: int) -> None:
    """SIGKILL for every process of a session, the caller last."""
    own = os.getpid()
    for _ in range(3):  # a daemon may fork meanwhile
        for process in processes_of(session):
            if process != own:
                try:
                    os.kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    continue
    if own in set(processes_of(session)):
        os.kill(own, signal.SIGKILL)


def processes_of(session: int) -> Iterator[int]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if os.getsid(int(folder.name)) == session:
                    yield int(folder.name)
            except (ProcessLookupError, PermissionError):
                continue


def main() -> None:
    plan = Path(os.environ[PLAN])
    folder = plan.with_suffix(".pythons")
    folder.mkdir()
    with warm_pythons(folder) as python:
        os.environ["PYSPARK_PYTHON"] = str(python)
        spark = session()
        play(spark, planned())
        spark.stop()


def session() -> SparkSession:
    slots = SLOTS + sum(bool(query["kill"]) for query in planned())
    spark = (
        SparkSession.builder.master(f"local[{slots}]")
        .appName("kills")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", str(TASKS))
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.driver.memory", "512m")
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def play(spark: SparkSession, queries: list[dict[str, str]]) -> None:
    """Run queries to their ends, which their folders tell of then."""
    running = [(Path(one["folder"]), start(spark, one)) for one in queries]
    while running:
        ended = [one for one in running if not one[1].isActive]
        for folder, query in ended:
            problem = query.exception()
            (folder / ("done" if problem is None else "failed")).write_text(str(problem))
        running = [one for one in running if one not in ended]
        time.sleep(LOOK_EVERY)


def start(spark: SparkSession, query: dict[str, str]) -> StreamingQuery:
    """A query from where its checkpoint is."""
    folder = query["folder"]
    stream = spark.readStream.schema("value string").option("maxFilesPerTrigger", query["files"])
    return (
        stream.json(f"{folder}/in")
        .repartition(TASKS, "value")
        .selectExpr("value", "value as key")
        .writeStream.format("pykafka2")
        .options(**json.loads(query["kafka"]))
        .option("topic", query["topic"])
        .option("delivery", query["delivery"])
        .option("ledgerTopic", query["ledger"])  # a waiting query would delay the others
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )


if __name__ == "__main__":
    main()
