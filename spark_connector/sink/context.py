"""The attempt, partition and micro-batch of a task, from Spark's local properties.

Spark does not document the names of these properties; tests check them for each version of Spark.
"""

from __future__ import annotations

import attrs
from pyspark import TaskContext

from spark_connector.errors import SparkConnectorError
from spark_connector.sink.checkpoint import PlannedBatch

QUERY_ID = "sql.streaming.queryId"
"""Stored in the checkpoint, so it stays the same after a restart."""
BATCH_ID = "streaming.sql.batchId"
RUN_ID = "spark.jobGroup.id"
"""For a streaming query: the id of this run."""
SPECULATION = "spark.speculation"


@attrs.define(frozen=True)
class TaskPlace:
    """The task's partition and attempt.  is_speculating: the session can run two attempts at once."""

    partition: int
    attempt: int
    is_speculating: bool


@attrs.define(frozen=True)
class Epoch:
    """A micro-batch of a sink, and the run that writes it.

    sink: its name in the ledger: the streaming query's id, or a name that the user chose.
    run: unique for each start of the query.
    source: digest of the source offsets of the batch; None if they are unknown.
    """

    sink: str
    run: str
    number: int
    source: str | None = None


def task_place() -> TaskPlace:
    context = _context()
    speculation = context.getLocalProperty(SPECULATION)
    return TaskPlace(
        context.partitionId(), context.attemptNumber(), str(speculation).strip().lower() == "true"
    )


def stream_epoch(planned: PlannedBatch | None = None) -> Epoch:
    """Return the micro-batch of this task.

    planned: the newest batch in the checkpoint, whose offsets are used if it is this batch.

    Raise SparkConnectorError if Spark does not pass the batch to its tasks.
    """
    context = _context()
    properties = {name: context.getLocalProperty(name) or "" for name in (QUERY_ID, BATCH_ID, RUN_ID)}
    missing = [name for name, value in properties.items() if not value]
    if missing:
        raise SparkConnectorError(
            f"This version of Spark does not pass {', '.join(missing)} to its tasks, which "
            "delivery=exactly_once needs. Use delivery=at_least_once, or exactly_once_batches() in "
            "foreachBatch."
        )
    number = int(properties[BATCH_ID])
    source = planned.digest if planned is not None and planned.number == number else None
    return Epoch(properties[QUERY_ID], properties[RUN_ID], number, source)


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise SparkConnectorError("Rows can be written only in a task of Spark, and this thread runs none.")
    return context
