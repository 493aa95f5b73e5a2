"""The writers of batches and micro-batches, which Spark creates on the driver.

Spark creates a stream writer twice for each micro-batch: before the tasks, which receive a copy of it, and
again for `commit` or `abort`, which receive the messages of the tasks.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from pykafka2.errors import ConfigurationError
from spark_connector.errors import ExactlyOnceError
from spark_connector.options.sink_options import PER_TASK, SinkOptions
from spark_connector.sink.checkpoint import PlannedBatch, planned_batch
from spark_connector.sink.context import Epoch, stream_epoch, task_place
from spark_connector.sink.exactly_once import protocol as scripts
from spark_connector.sink.exactly_once.identity import BatchIdentity
from spark_connector.sink.exactly_once.ledger_state import checks_of
from spark_connector.sink.exactly_once.messages import Written
from spark_connector.sink.exactly_once.runner import Cluster
from spark_connector.sink.preflight import check_before_tasks, sink_options
from spark_connector.sink.sending import write_at_least_once
from spark_connector.sink.task import write_epoch, write_job

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class KafkaStreamWriter(DataSourceStreamArrowWriter):
    """Writes micro-batches.  Holds no connection."""

    def __init__(self, options: SinkOptions, planned: PlannedBatch | None = None) -> None:
        self._options = options
        self._planned = planned

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        place = task_place()
        if not self._options.is_transactional:
            return write_at_least_once(self._options, iterator, place.partition)
        return write_epoch(self._options, stream_epoch(self._planned), iterator, place)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        written = [message for message in messages if isinstance(message, Written)]
        epoch = _epoch_of(written, batchId)
        if epoch is not None:
            commit_epoch(self._options, epoch, written)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        written = [message for message in messages if isinstance(message, Written)]
        epoch = _epoch_of(written, batchId)
        if epoch is not None:
            abort_epoch(self._options, epoch, written)


def stream_writer(user_options: Mapping[str, str], schema: StructType, overwrite: bool) -> KafkaStreamWriter:
    """Return the writer of a micro-batch; `overwrite` is set in output mode complete, which repeats all
    rows.

    Raises:
        ConfigurationError, UnknownOption, WrongSchema, UnknownTopicOrPartition: as `check_before_tasks`.
    """
    options = sink_options(user_options, streaming=True)
    check_before_tasks(options, schema)
    return KafkaStreamWriter(options, planned_batch(user_options) if options.is_transactional else None)


def commit_epoch(options: SinkOptions, epoch: Epoch, written: list[Written]) -> None:
    cluster = Cluster(options, epoch.sink)
    if options.delivery == PER_TASK:
        cluster.perform(scripts.commit_per_task(epoch, written, checks_of(options)))
    else:
        cluster.perform(
            scripts.commit(epoch, written, checks_of(options), id_per_attempt=options.id_per_attempt)
        )


def abort_epoch(options: SinkOptions, epoch: Epoch, written: list[Written]) -> None:
    """Abort the batch.  Rows that tasks committed themselves stay; a later run skips them."""
    if options.delivery != PER_TASK or any(message.transaction is not None for message in written):
        Cluster(options, epoch.sink).perform(scripts.abort(epoch, written))


def _epoch_of(written: list[Written], batch: int) -> Epoch | None:
    """Return the batch that the tasks name, None without transactions."""
    runs = {
        (message.sink, message.run)
        for message in written
        if message.sink is not None and message.run is not None
    }
    if not runs:
        return None
    if len(runs) > 1:
        raise ExactlyOnceError(
            f"Tasks of batch {batch} belong to several runs: {sorted(runs)!r}. Start the query only once."
        )
    ((sink, run),) = runs
    return Epoch(sink, run, batch, BatchIdentity.of(written).source)


class KafkaBatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame: copied to the tasks, and back to `commit` or `abort`.  Holds no connection.

    job: unique for each write.
    """

    def __init__(self, options: SinkOptions, job: str) -> None:
        self._options = options
        self._job = job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        place, options, epoch = task_place(), self._options, self._epoch
        if not options.is_transactional:
            return write_at_least_once(options, iterator, place.partition)
        if epoch is not None:
            return write_epoch(options, epoch, iterator, place)
        return write_job(options, self._job, iterator, place)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        if not self._options.is_transactional:
            return
        written, epoch = _written(messages), self._epoch
        if epoch is not None:
            commit_epoch(self._options, epoch, written)
            return
        script = scripts.commit_job(written, id_per_attempt=self._options.id_per_attempt)
        Cluster(self._options, self._job).perform(script)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        if not self._options.is_transactional:
            return
        written, epoch = _written(messages), self._epoch
        if epoch is not None:
            abort_epoch(self._options, epoch, written)
        else:
            Cluster(self._options, self._job).perform(scripts.abort_job(written))

    @property
    def _epoch(self) -> Epoch | None:
        options = self._options
        if options.epoch_sink is None or options.epoch_run is None or options.epoch_batch is None:
            return None
        return Epoch(options.epoch_sink, options.epoch_run, options.epoch_batch)


def batch_writer(user_options: Mapping[str, str], schema: StructType, overwrite: bool) -> KafkaBatchWriter:
    """Return the writer of a DataFrame.

    Raises:
        ConfigurationError: the save mode is overwrite, or an option is illegal.
        UnknownOption, WrongSchema, UnknownTopicOrPartition: as `check_before_tasks`.
    """
    if overwrite:
        raise ConfigurationError(
            "mode('overwrite') is not supported, because the sink never deletes records. Use mode('append')."
        )
    options = sink_options(user_options, streaming=False)
    check_before_tasks(options, schema)
    return KafkaBatchWriter(options, f"job-{uuid.uuid4().hex}")


def _written(messages: list[WriterCommitMessage | None]) -> list[Written]:
    return [message for message in messages if isinstance(message, Written)]
