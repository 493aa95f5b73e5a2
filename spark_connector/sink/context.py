"""The attempt, partition and micro-batch of a task, from Spark's local properties.

Spark does not document the names of these properties; tests check them for each version of Spark.
"""

from __future__ import annotations

import attrs
from pyspark import TaskContext

from spark_connector.errors import SparkConnectorError
from spark_connector.sink.checkpoint import PlannedBatch

QUERY_ID = "sql.streaming.queryId"
"""Kept in the checkpoint, so the same after a restart."""
BATCH_ID = "streaming.sql.batchId"
RUN_ID = "spark.jobGroup.id"
"""Of a streaming query the id of this run of it."""
SPECULATION = "spark.speculation"


@attrs.define(frozen=True)
class TaskPlace:
    """partition, attempt: of the task.  is_speculating: the session may run two attempts at once."""

    partition: int
    attempt: int
    is_speculating: bool


@attrs.define(frozen=True)
class Epoch:
    """A micro-batch of a sink, and who writes it.

    sink: the name under which the ledger knows it: the streaming query's id, or what the user chose.
    run: a name of its own for each start of the query.
    number: the batch's id.
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
    """The micro-batch that this task belongs to.

    planned: the newest batch in the checkpoint, whose offsets count if it is this one.

    Raises SparkConnectorError where Spark does not say.
    """
    context = _context()
    told = {name: context.getLocalProperty(name) or "" for name in (QUERY_ID, BATCH_ID, RUN_ID)}
    missing = [name for name, value in told.items() if not value]
    if missing:
        raise SparkConnectorError(
            f"this version of Spark does not tell its tasks {', '.join(missing)}, which "
            "delivery=exactly_once needs; use delivery=at_least_once, or exactly_once_batches() in "
            "foreachBatch"
        )
    number = int(told[BATCH_ID])
    source = planned.digest if planned is not None and planned.number == number else None
    return Epoch(told[QUERY_ID], told[RUN_ID], number, source)


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise SparkConnectorError("rows are written by Spark's tasks; this is none")
    return context
