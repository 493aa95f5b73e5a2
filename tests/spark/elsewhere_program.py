"""Rows into a topic, and from there by a stream into another one, exactly once, wherever Spark runs.

    python -m tests.spark.elsewhere_program SERVERS TOPIC FOLDER MASTER

MASTER is Spark's, such as local-cluster[2,1,1024], or connect:local[2] for Spark Connect.  Prints a line of
JSON with what it saw.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from spark_connector.testing import local_session

ROWS = 1000


def session(master: str) -> Any:
    if master.startswith("connect:"):
        os.environ["PYSPARK_PYTHON"] = sys.executable
        return SparkSession.builder.remote(master.removeprefix("connect:")).getOrCreate()
    # Executors of local-cluster are started by a script that lies there.
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    return local_session(master, spark_executor_memory="512m")


def main() -> None:
    servers, topic, folder, master = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    spark = session(master)
    kafka = {"kafka.bootstrap.servers": servers}
    rows = spark.range(0, ROWS, 1, 4).selectExpr("cast(id as string) as value")
    to_first = {**kafka, "topic": topic, "delivery": "exactly_once"}
    rows.write.format("pykafka2").options(**to_first).mode("append").save()
    source = spark.readStream.format("pykafka2").options(
        **kafka, subscribe=topic, startingOffsets="earliest", columns="value"
    )
    query = (
        source.load()
        .writeStream.format("pykafka2")
        .options(**kafka, topic=f"{topic}-copy", delivery="exactly_once", checkpointLocation=folder)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    copied = spark.read.format("pykafka2").options(**kafka, subscribe=f"{topic}-copy", columns="value").load()
    seen = {
        "version": spark.version,
        "is connect": type(spark).__module__.startswith("pyspark.sql.connect"),
        "rows": sorted(int(row.value) for row in copied.collect()),
    }
    answers.write(json.dumps(seen) + "\n")
    answers.close()
    spark.stop()


if __name__ == "__main__":
    main()
