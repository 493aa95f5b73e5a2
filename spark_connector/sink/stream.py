"""Writing of micro-batches.

Spark makes this writer twice for each of them: before the tasks, which it travels to, and again for `commit`
or `abort`, where only the tasks' messages tell what was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from spark_connector.errors import ExactlyOnceError
from spark_connector.options.sink_options import PER_TASK, SinkOptions
from spark_connector.sink import scripts
from spark_connector.sink.checkpoint import PlannedBatch, planned_batch
from spark_connector.sink.checks import check_before_tasks
from spark_connector.sink.cluster import Cluster
from spark_connector.sink.context import Epoch, stream_epoch, task_place
from spark_connector.sink.identity import BatchIdentity
from spark_connector.sink.messages import Written
from spark_connector.sink.reading import sink_options
from spark_connector.sink.replays import checks_of
from spark_connector.sink.sending import write_at_least_once
from spark_connector.sink.tasks import write_epoch

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class KafkaStreamWriter(DataSourceStreamArrowWriter):
    """Holds no connection."""

    def __init__(self, options: SinkOptions, planned: PlannedBatch | None = None) -> None:
        self._options = options
        self._planned = planned

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        place = task_place()
        if not self._options.is_transactional:
            return write_at_least_once(self._options, iterator, place.partition)
        return write_epoch(self._options, stream_epoch(self._planned), iterator, place)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        written = [one for one in messages if isinstance(one, Written)]
        epoch = _epoch_of(written, batchId)
        if epoch is not None:
            commit_epoch(self._options, epoch, written)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        written = [one for one in messages if isinstance(one, Written)]
        epoch = _epoch_of(written, batchId)
        if epoch is not None:
            abort_epoch(self._options, epoch, written)


def stream_writer(given: Mapping[str, str], schema: StructType, overwrite: bool) -> KafkaStreamWriter:
    """The writer of a micro-batch; `overwrite` is set with output mode complete, whose rows are written anew.

    Raises:
        ConfigurationError, UnknownOption, WrongSchema, UnknownTopicOrPartition: as `check_before_tasks`.
    """
    options = sink_options(given, streaming=True)
    check_before_tasks(options, schema)
    return KafkaStreamWriter(options, planned_batch(given) if options.is_transactional else None)


def commit_epoch(options: SinkOptions, epoch: Epoch, written: list[Written]) -> None:
    cluster = Cluster(options, epoch.sink)
    if options.delivery == PER_TASK:
        cluster.perform(scripts.commit_per_task(epoch, written, checks_of(options)))
    else:
        cluster.perform(
            scripts.commit(epoch, written, checks_of(options), id_per_attempt=options.id_per_attempt)
        )


def abort_epoch(options: SinkOptions, epoch: Epoch, written: list[Written]) -> None:
    """Whatever was committed by tasks themselves stays; a later run passes over it."""
    if options.delivery != PER_TASK:
        Cluster(options, epoch.sink).perform(scripts.abort(epoch, written))


def _epoch_of(written: list[Written], batch: int) -> Epoch | None:
    """The batch that the tasks name; None without transactions."""
    runs = {(one.sink, one.run) for one in written if one.sink is not None and one.run is not None}
    if not runs:
        return None
    if len(runs) > 1:
        raise ExactlyOnceError(f"tasks of batch {batch} belong to several runs: {sorted(runs)!r}")
    ((sink, run),) = runs
    return Epoch(sink, run, batch, BatchIdentity.of(written).source)
