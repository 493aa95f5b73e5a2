"""Batch writing: `df.write`, and the batches of `foreachBatch` that exactly_once_batches() writes."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from pykafka2.errors import ConfigurationError
from spark_connector.options.sink_options import SinkOptions
from spark_connector.sink import scripts
from spark_connector.sink.checks import check_before_tasks
from spark_connector.sink.cluster import Cluster
from spark_connector.sink.context import Epoch, task_place
from spark_connector.sink.messages import Written
from spark_connector.sink.reading import sink_options
from spark_connector.sink.sending import write_at_least_once
from spark_connector.sink.stream import abort_epoch, commit_epoch
from spark_connector.sink.tasks import write_epoch, write_job

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class KafkaBatchWriter(DataSourceArrowWriter):
    """Travels to the tasks, and from there to `commit` or `abort`.  Holds no connection.

    job: a name of its own for each write.
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


def batch_writer(given: Mapping[str, str], schema: StructType, overwrite: bool) -> KafkaBatchWriter:
    """The writer of a DataFrame.

    Raises:
        ConfigurationError: the save mode is overwrite, or an option is illegal.
        UnknownOption, WrongSchema, UnknownTopicOrPartition: as `check_before_tasks`.
    """
    if overwrite:
        raise ConfigurationError(
            "mode('overwrite') would empty the topic, which the sink does not do; use mode('append')"
        )
    options = sink_options(given, streaming=False)
    check_before_tasks(options, schema)
    return KafkaBatchWriter(options, f"job-{uuid.uuid4().hex}")


def _written(messages: list[WriterCommitMessage | None]) -> list[Written]:
    return [one for one in messages if isinstance(one, Written)]
