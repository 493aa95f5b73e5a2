"""Micro-batch reading with Spark's interface.

One reader lives as long as the query, in its own process on the driver.  Spark copies it before that for the
tasks, which only call read(): they get all facts from partitions().
Neighbor: micro_batches.py chooses where batches end.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from pykafka2.errors import KafkaError
from spark_connector import connections
from spark_connector.clock import monotonic
from spark_connector.offsets import Offsets, from_spark, to_spark
from spark_connector.options.source_options import SourceOptions
from spark_connector.source.batch import RangePartition
from spark_connector.source.micro_batches import MicroBatches
from spark_connector.source.ranges import OffsetRange, tasks_of
from spark_connector.source.reading import RangeTask
from spark_connector.source.samples import Samples
from spark_connector.source.topics import Topics

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

COMMIT_TIMEOUT = 5.0
"""Seconds that a commit to a group can delay the next micro-batch."""


class StreamReader(DataSourceStreamReader):
    """The methods that are the same in all versions of Spark; latestOffset() differs."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._task = RangeTask(options, columns)
        self._planned: MicroBatches | None = None
        self._committed: Offsets | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return to_spark(self._batches().first_offsets())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return tasks that depend only on arguments and options, so a replayed batch has the same tasks."""
        self._batches().begun()
        begins = from_spark(start)
        ranges = [
            OffsetRange(partition.topic, partition.partition, begins.get(partition, 0), offset)
            for partition, offset in from_spark(end).items()
        ]
        tasks = tasks_of(ranges, self._options.min_partitions, self._options.max_records_per_partition)
        return [RangePartition(offset_range) for offset_range in tasks]

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]] | Iterator[pa.RecordBatch]:
        offset_range = cast("OffsetRange | None", partition.value)
        return iter(()) if offset_range is None else self._task.read(offset_range)

    def commit(self, end: dict[str, Any]) -> None:
        """Commit the end of a micro-batch that is done to the group of commitToGroup; once for each end.

        Spark calls it when the next batch begins, so not for the last one of a run.
        """
        group, offsets = self._options.commit_to_group, from_spark(end)
        if group is None or not offsets or offsets == self._committed:
            return
        self._committed = offsets
        try:
            admin = connections.admin(self._options.kafka)
            admin.alter_group_offsets(group, offsets, timeout=COMMIT_TIMEOUT)
        except KafkaError as error:
            logger.warning("The offsets were not committed to commitToGroup=%s: %s", group, error)

    def stop(self) -> None:
        connections.close_all()

    def _batches(self) -> MicroBatches:
        if self._planned is None:
            kafka = self._options.kafka
            consumer = connections.consumer(kafka)
            topics = Topics(self._options, consumer, connections.admin(kafka))
            samples = Samples(consumer, self._options.isolation_level)
            self._planned = MicroBatches(self._options, topics, samples, monotonic)
        return self._planned
