"""Where a task stands: which attempt at which partition of which micro-batch, as Spark's local properties
say.

Their names are Spark's own affair and not documented; tests hold on to them for each version of Spark.
"""

from __future__ import annotations

import attrs
from pyspark import TaskContext

from spark_connector.errors import SparkConnectorError

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
    """

    sink: str
    run: str
    number: int


def task_place() -> TaskPlace:
    context = _context()
    speculation = context.getLocalProperty(SPECULATION)
    return TaskPlace(
        context.partitionId(), context.attemptNumber(), str(speculation).strip().lower() == "true"
    )


def stream_epoch() -> Epoch:
    """The micro-batch that this task belongs to.

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
    return Epoch(told[QUERY_ID], told[RUN_ID], int(told[BATCH_ID]))


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise SparkConnectorError("rows are written by Spark's tasks; this is none")
    return context
