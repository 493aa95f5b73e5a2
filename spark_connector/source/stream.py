"""Micro-batch reading.  One reader lives as long as the query, in a process of its own on the driver.

A second copy is made once and travels to the tasks, which only read(); nothing that the first one learns
reaches it but by partitions().
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from spark_connector import connections
from spark_connector.offsets import from_spark, to_spark
from spark_connector.options.source_options import LATEST, SourceOptions, source_options
from spark_connector.source.batch import RangePartition
from spark_connector.source.positions import starting_offsets
from spark_connector.source.ranges import OffsetRange, tasks_of
from spark_connector.source.reading import RangeTask
from spark_connector.source.schema import chosen_columns
from spark_connector.source.topics import Topics

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class KafkaStreamReader(DataSourceStreamReader):
    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._task = RangeTask(options, columns)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        topics = self._topics()
        return to_spark(starting_offsets(self._options, topics, topics.partitions(), LATEST))

    def latestOffset(self, start: dict[str, Any], limit: object) -> dict[str, Any]:  # noqa: N802
        topics = self._topics()
        return to_spark(topics.ends(topics.partitions()))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begins, ends = from_spark(start), from_spark(end)
        ranges = [
            OffsetRange(one.topic, one.partition, begins.get(one, 0), offset) for one, offset in ends.items()
        ]
        tasks = tasks_of(ranges, self._options.min_partitions, self._options.max_records_per_partition)
        return [RangePartition(one) for one in tasks]

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]] | Iterator[pa.RecordBatch]:
        wanted = cast("OffsetRange | None", partition.value)
        return iter(()) if wanted is None else self._task.read(wanted)

    def stop(self) -> None:
        connections.close_all()

    def _topics(self) -> Topics:
        return Topics(self._options, connections.consumer(self._options.kafka))


def stream_reader(given: Mapping[str, str], schema: StructType) -> KafkaStreamReader:
    options = source_options(given, streaming=True)
    return KafkaStreamReader(options, chosen_columns(schema, options.column_names))
