"""Micro-batch reading, as Spark calls it.

One reader lives as long as the query, in a process of its own on the driver.  A second copy is made before
and travels to the tasks, which only call read(): what the first one learns reaches it by partitions() alone.
Neighbour: micro_batches.py decides where batches end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from spark_connector import connections
from spark_connector.clock import monotonic
from spark_connector.offsets import from_spark, to_spark
from spark_connector.options.source_options import SourceOptions
from spark_connector.source.batch import RangePartition
from spark_connector.source.micro_batches import MicroBatches
from spark_connector.source.ranges import OffsetRange, tasks_of
from spark_connector.source.reading import RangeTask
from spark_connector.source.samples import Samples
from spark_connector.source.topics import Topics

if TYPE_CHECKING:
    import pyarrow as pa


class StreamReader(DataSourceStreamReader):
    """What is the same in all versions of Spark; latestOffset() is not."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._task = RangeTask(options, columns)
        self._planned: MicroBatches | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return to_spark(self._batches().first_offsets())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """A function of arguments and options alone: a batch that is played again has the same tasks."""
        self._batches().begun()
        begins = from_spark(start)
        ranges = [
            OffsetRange(one.topic, one.partition, begins.get(one, 0), offset)
            for one, offset in from_spark(end).items()
        ]
        tasks = tasks_of(ranges, self._options.min_partitions, self._options.max_records_per_partition)
        return [RangePartition(one) for one in tasks]

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]] | Iterator[pa.RecordBatch]:
        wanted = cast("OffsetRange | None", partition.value)
        return iter(()) if wanted is None else self._task.read(wanted)

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
