"""Batch reading: all ranges are fixed on the driver when the query is planned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pykafka2 import TopicPartition
from pykafka2.errors import ConfigurationError
from spark_connector import connections
from spark_connector.offsets import Offsets
from spark_connector.options.source_options import EARLIEST, SourceOptions
from spark_connector.source.losses import report_loss
from spark_connector.source.positions import ending_offsets, starting_offsets
from spark_connector.source.ranges import OffsetRange, tasks_of
from spark_connector.source.reading import RangeTask
from spark_connector.source.topics import Topics

if TYPE_CHECKING:
    import pyarrow as pa


class RangePartition(InputPartition):
    """A Spark task: one range, or none."""

    def __init__(self, offset_range: OffsetRange | None) -> None:
        super().__init__(offset_range)


class KafkaBatchReader(DataSourceReader):
    """Plans on the driver and reads in tasks; only options and ranges are copied to the tasks."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._task = RangeTask(options, columns)

    def partitions(self) -> Sequence[InputPartition]:
        kafka = self._options.kafka
        with connections.new_consumer(kafka) as consumer, connections.new_admin(kafka) as admin:
            ranges = self._ranges(Topics(self._options, consumer, admin))
        tasks = tasks_of(ranges, self._options.min_partitions, self._options.max_records_per_partition)
        return [RangePartition(offset_range) for offset_range in tasks] or [RangePartition(None)]

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]] | Iterator[pa.RecordBatch]:
        offset_range = cast("OffsetRange | None", partition.value)
        return iter(()) if offset_range is None else self._task.read(offset_range)

    # ------------------------------------------------------------------ inside

    def _ranges(self, topics: Topics) -> list[OffsetRange]:
        partitions = topics.partitions()
        starts = starting_offsets(self._options, topics, partitions, EARLIEST)
        ends = ending_offsets(self._options, topics, partitions)
        starts = self._checked(starts, ends, topics.beginnings(partitions))
        return [
            OffsetRange(partition.topic, partition.partition, starts[partition], ends[partition])
            for partition in sorted(partitions)
        ]

    def _checked(self, starts: Offsets, ends: Offsets, beginnings: Mapping[TopicPartition, int]) -> Offsets:
        """Return start offsets that exist; report lost records."""
        found: Offsets = {}
        for partition, start in starts.items():
            name, end = f"{partition.topic}-{partition.partition}", ends[partition]
            if start > end:
                raise ConfigurationError(
                    f"{name}: the starting offset {start} is after the ending offset {end}. Correct "
                    "startingOffsets "
                    "and endingOffsets, or check whether records at the end were lost."
                )
            first = beginnings[partition]
            if start < first and start < end:
                lost = f"{name}: offsets {start} to {min(first, end) - 1} were deleted"
                report_loss(lost, fails=self._options.fail_on_data_loss)
                start = min(first, end)
            found[partition] = start
        return found
