"""Streaming queries that kills.py kills: JSON files to a topic, exactly or at least once.

    python -m tests.spark.kills_program SERVERS DELIVERY FOLDER ...

One query after the other; each folder is named as its topic.  Only in the last one a step may be the end.
Ends by itself when all files are written.  The rows depend on the files alone, in the same tasks each time.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

TASKS = 3
ARMED = "armed"
"""A file in the folder for crashes that is there while the last query runs."""
CRASH_AT = "PYKAFKA2_TEST_CRASH_AT"


def on_step(step: str, known: dict[str, Any]) -> None:
    """Kill everything of this query, JVM and workers, when the step is reached for the n-th time.

    The steps of one kind are counted in a folder, as several processes come by.
    """
    wanted, _, number = os.environ.get(CRASH_AT, "").partition(":")
    if step != wanted:
        return
    folder = Path(os.environ["PYKAFKA2_TEST_CRASH_FOLDER"])
    if not (folder / ARMED).exists():
        return
    reached = 0
    while True:
        reached += 1
        try:
            (folder / f"{step}-{reached}").touch(exist_ok=False)
            break
        except FileExistsError:
            continue
    if reached == int(number):
        kill_session(os.getsid(0))


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
    servers, delivery, *folders = sys.argv[1:]
    spark = (
        SparkSession.builder.master("local[2]")
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
    for folder in map(Path, folders):
        if folder == Path(folders[-1]) and os.environ.get("PYKAFKA2_TEST_CRASH_FOLDER"):
            (Path(os.environ["PYKAFKA2_TEST_CRASH_FOLDER"]) / ARMED).touch()
        run(spark, servers, delivery, folder)
        (folder / "done").touch()
    spark.stop()


def run(spark: SparkSession, servers: str, delivery: str, folder: Path) -> None:
    """A query from where its checkpoint is to its end."""
    stream = spark.readStream.schema("value string").option("maxFilesPerTrigger", 1).json(f"{folder}/in")
    query = (
        stream.repartition(TASKS, "value")
        .selectExpr("value", "value as key")
        .writeStream.format("pykafka2")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", folder.name)
        .option("delivery", delivery)
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
