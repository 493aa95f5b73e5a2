"""The process of the Spark session: plays the runs that stand on its input, a line of JSON each.

`benchmarks.spark` starts it.  All clients share the session, so each finds the JVM as warm as the others.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import attrs
from pyspark.sql import DataFrame, SparkSession

from benchmarks.spark import runs, timed_source
from benchmarks.spark.confluent import ConfluentDataSource
from benchmarks.spark.processes import usage
from benchmarks.spark.runs import MICRO_BATCH_ROWS, PARTITIONS, Cell, Played, Run
from pykafka2 import KafkaProducer
from spark_connector.testing import local_session

DELIVERY = {runs.ONCE: "exactly_once", runs.PER_TASK: "exactly_once_per_task"}
PATIENCE = 300.0


def play(spark: SparkSession, run: Run) -> Played:
    return _PLAYED[run.cell.kind](spark, run)


def rows(spark: SparkSession, cell: Cell, count: int) -> DataFrame:
    """The written data: each value is another one, as long as the others."""
    return _shaped(spark.range(0, count, 1, PARTITIONS).withColumnRenamed("id", "value"), cell)


def _shaped(frame: DataFrame, cell: Cell) -> DataFrame:
    columns = [f"cast(lpad(cast(value as string), {runs.VALUE_BYTES}, 'x') as binary) as value"]
    if cell.columns == "all":
        columns.append("cast(lpad(cast(value as string), 16, 'k') as binary) as key")
        columns.append(
            "array(struct('trace' as key, cast(cast(value as string) as binary) as value)) headers"
        )
    return frame.selectExpr(*columns)


def write(frame: DataFrame, run: Run) -> None:
    kafka = {"kafka.bootstrap.servers": run.bootstrap_servers, "topic": run.topic}
    if run.cell.is_tuned:
        kafka |= runs.TUNED
    if run.client.startswith(runs.CONFLUENT):
        bulk = "true" if run.client == runs.BULK else "false"
        own = {"servers": run.bootstrap_servers, "topic": run.topic, "bulk": bulk}
        writer = frame.write.format("confluent").options(**own)
    elif run.client == runs.JVM:
        has_headers = "true" if run.cell.columns == "all" else "false"
        writer = frame.write.format("kafka").options(**kafka, includeHeaders=has_headers)
    else:
        delivery = DELIVERY.get(run.client, "at_least_once")
        writer = frame.write.format("pykafka2").options(**kafka, delivery=delivery)
    writer.mode("append").save()


def read(spark: SparkSession, run: Run) -> DataFrame:
    headers = "true" if run.cell.columns == "all" else "false"
    if run.client == runs.CONFLUENT:
        options = {"servers": run.bootstrap_servers, "topic": run.topic, "headers": headers}
        return spark.read.format("confluent").options(**options).load()
    options = {"kafka.bootstrap.servers": run.bootstrap_servers, "subscribe": run.topic}
    name = "kafka" if run.client == runs.JVM else "pykafka2"
    return spark.read.format(name).options(**options, includeHeaders=headers).load()


# ---------------------------------------------------------------------------------- kinds of runs


def _sink(spark: SparkSession, run: Run) -> Played:
    frame = rows(spark, run.cell, run.records)
    return _measured(run.records, lambda: write(frame, run))


def _source(spark: SparkSession, run: Run) -> Played:
    frame = read(spark, run)
    return _measured(run.records, lambda: frame.write.format("noop").mode("overwrite").save())


def _pipeline(spark: SparkSession, run: Run) -> Played:
    """Read a topic, keep every second row, and write those rows to the topic of the option `output`."""
    kept = read(spark, run).filter("offset % 2 = 0").select("value")
    output = attrs.evolve(run, topic=run.options["output"])
    return _measured(run.records, lambda: write(kept, output))


def _micro_batches(spark: SparkSession, run: Run) -> Played:
    """The first micro-batches are left out: they find out where things are."""
    batches = run.records // MICRO_BATCH_ROWS
    source = spark.readStream.format("rate-micro-batch").options(
        rowsPerBatch=MICRO_BATCH_ROWS, numPartitions=PARTITIONS
    )
    frame = _shaped(source.load().select("value"), run.cell)
    name = "kafka" if run.client == runs.JVM else "pykafka2"
    options = {"kafka.bootstrap.servers": run.bootstrap_servers, "topic": run.topic}
    if run.client != runs.JVM:
        options["delivery"] = DELIVERY.get(run.client, "at_least_once")
    with tempfile.TemporaryDirectory() as folder:
        query = frame.writeStream.format(name).options(**options, checkpointLocation=folder).start()
        try:
            _until(lambda: len(query.recentProgress) > 2 or not query.isActive)
            before = usage()
            first = query.recentProgress[-1].batchId
            _until(lambda: query.recentProgress[-1].batchId >= first + batches or not query.isActive)
            after = usage()
            done = [one for one in query.recentProgress if first < one.batchId <= first + batches]
        finally:
            query.stop()
    query.awaitTermination()  # raises what ended it
    seconds = [one.durationMs["triggerExecution"] / 1000 for one in done]
    written = len(done) * MICRO_BATCH_ROWS
    return Played(
        MICRO_BATCH_ROWS / median(seconds),
        after.worker_seconds_since(before) / written * 1e6,
        after.worker_mb,
        p50=median(seconds),
        p99=max(seconds),
        jvm_cpu_us=after.jvm_seconds_since(before) / written * 1e6,
        batch_seconds=seconds,
    )


def _quiet_stream(spark: SparkSession, run: Run) -> Played:
    """A record now and then; what is measured is latestOffset() and partitions() of its micro-batches."""
    stop = threading.Event()

    def trickle() -> None:
        with KafkaProducer(bootstrap_servers=run.bootstrap_servers) as producer:
            while not stop.wait(0.1):
                producer.send(run.topic, b"one").result(30)

    thread = threading.Thread(target=trickle)
    times = Path(os.environ[timed_source.FILE])
    times.write_text("")
    options = {"kafka.bootstrap.servers": run.bootstrap_servers, "subscribe": run.topic}
    with tempfile.TemporaryDirectory() as folder:
        stream = spark.readStream.format("timed_pykafka2").options(**options).load()
        query = stream.writeStream.format("noop").option("checkpointLocation", folder).start()
        thread.start()
        try:
            _until(lambda: times.read_text().count("partitions") > run.records or not query.isActive)
        finally:
            stop.set()
            thread.join()
            query.stop()
    query.awaitTermination()
    per_batch, latest = [], 0.0
    for line in times.read_text().splitlines():
        what, seconds = line.split()
        if what == "latestOffset":
            latest = float(seconds)
        else:
            per_batch.append(latest + float(seconds))
    per_batch = per_batch[-run.records :]
    return Played(
        0.0, median(per_batch) * 1e6, 0.0, p50=median(per_batch), p99=max(per_batch), batch_seconds=per_batch
    )


_PLAYED = {
    "sink": _sink,
    "source": _source,
    "pipeline": _pipeline,
    "micro-batches": _micro_batches,
    "quiet stream": _quiet_stream,
}


def _measured(count: int, play: Callable[[], Any]) -> Played:
    before, began = usage(), time.perf_counter()
    play()
    seconds, after = time.perf_counter() - began, usage()
    return Played(
        count / seconds,
        after.worker_seconds_since(before) / count * 1e6,
        after.worker_mb,
        jvm_cpu_us=after.jvm_seconds_since(before) / count * 1e6,
    )


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"Spark is not there after {PATIENCE:g} s")
        time.sleep(0.05)


def main() -> None:
    """Answer each line with one: {"played": ...} or {"problem": ...}."""
    with tempfile.TemporaryDirectory(prefix="spark-benchmark-") as folder:
        os.environ[timed_source.FILE] = f"{folder}/{uuid.uuid4().hex}"
        jars = sys.argv[1] if len(sys.argv) > 1 else ""
        settings = {"spark_jars": jars} if jars else {}
        answers = os.fdopen(os.dup(1), "w", buffering=1)
        os.dup2(2, 1)  # whatever Spark prints goes elsewhere
        spark = local_session("local[2]", spark_driver_memory="2g", **settings)
        spark.dataSource.register(ConfluentDataSource)
        spark.dataSource.register(timed_source.TimedDataSource)
        answers.write(json.dumps({"pyspark": spark.version}) + "\n")
        for line in sys.stdin:
            request = json.loads(line)
            try:
                played = play(spark, Run(**{**request, "cell": Cell(**request["cell"])}))
                answer: dict[str, Any] = {"played": attrs.asdict(played)}
            except Exception as problem:
                answer = {"problem": f"{type(problem).__name__}: {problem}"[:2000]}
            answers.write(json.dumps(answer) + "\n")
        spark.stop()


if __name__ == "__main__":
    main()
