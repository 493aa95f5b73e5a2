"""The part of crashing.py that runs in the child: a driver and its tasks, as Spark has them."""

from __future__ import annotations

import uuid

import pyarrow as pa

from spark_connector import connections
from spark_connector.sink.context import Epoch, TaskPlace
from spark_connector.sink.exactly_once import protocol as scripts
from spark_connector.sink.exactly_once.messages import Written
from spark_connector.sink.exactly_once.runner import Cluster
from spark_connector.sink.preflight import sink_options
from spark_connector.sink.task import write_epoch
from spark_connector.sink.writers import abort_epoch, commit_epoch
from tests.spark.crashing import Query, pool


def play(query: Query, *, attempt: int = 0, run: str | None = None) -> None:
    """Run the query from where its checkpoint is, to its end."""
    options = sink_options(query.options, streaming=True)
    run = run or uuid.uuid4().hex
    for number in range(query.done(), query.until):
        epoch = Epoch(query.name, run, number)

        def task(partition: int, epoch: Epoch = epoch) -> Written:
            place = TaskPlace(partition, attempt, False)
            return write_epoch(options, epoch, batches_of(query, epoch.number, partition), place)

        if query.fresh:
            entry = Cluster(options, query.name).perform(scripts.enter(epoch, 0, recovers=True))
            if entry.is_written and entry.state.phase.value != "redo":
                (query.folder / f"commit-{number}").touch()
                continue
        with pool() as workers:
            messages = list(workers.map(task, range(query.tasks)))
        try:
            commit_epoch(options, epoch, messages)
        except Exception:
            abort_epoch(options, epoch, messages)
            raise
        (query.folder / f"commit-{number}").touch()
    connections.close_all()


def batches_of(query: Query, batch: int, partition: int) -> list[pa.RecordBatch]:
    """Deterministic, as the partitioning of a replayed batch is."""
    values = [f"{batch}/{partition}/{row}" for row in range(query.rows)]
    keys = [f"k{row % 7}" for row in range(query.rows)]
    half = query.rows // 2
    return [
        pa.record_batch({"key": pa.array(keys[part]), "value": pa.array(values[part])})
        for part in (slice(0, half), slice(half, None))
    ]
