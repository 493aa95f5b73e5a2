"""Batch reading: all ranges are settled when the query is planned, on the driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pykafka2 import TopicPartition
from pykafka2.errors import ConfigurationError
from spark_connector import connections
from spark_connector.offsets import Offsets
from spark_connector.options.source_options import EARLIEST, SourceOptions
from spark_connector.source.losses import tell
from spark_connector.source.positions import ending_offsets, starting_offsets
from spark_connector.source.ranges import OffsetRange, tasks_of
from spark_connector.source.reading import RangeTask
from spark_connector.source.topics import Topics

if TYPE_CHECKING:
    import pyarrow as pa


class RangePartition(InputPartition):
    """A task of Spark's: one range, or none."""

    def __init__(self, wanted: OffsetRange | None) -> None:
        super().__init__(wanted)


class KafkaBatchReader(DataSourceReader):
    """Planned on the driver, read in tasks; what travels are options and ranges."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._task = RangeTask(options, columns)

    def partitions(self) -> Sequence[InputPartition]:
        kafka = self._options.kafka
        with connections.new_consumer(kafka) as consumer, connections.new_admin(kafka) as admin:
            ranges = self._ranges(Topics(self._options, consumer, admin))
        tasks = tasks_of(ranges, self._options.min_partitions, self._options.max_records_per_partition)
        return [RangePartition(one) for one in tasks] or [RangePartition(None)]

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]] | Iterator[pa.RecordBatch]:
        wanted = cast("OffsetRange | None", partition.value)
        return iter(()) if wanted is None else self._task.read(wanted)

    # ------------------------------------------------------------------ inside

    def _ranges(self, topics: Topics) -> list[OffsetRange]:
        partitions = topics.partitions()
        starts = starting_offsets(self._options, topics, partitions, EARLIEST)
        ends = ending_offsets(self._options, topics, partitions)
        starts = self._checked(starts, ends, topics.beginnings(partitions))
        return [OffsetRange(one.topic, one.partition, starts[one], ends[one]) for one in sorted(partitions)]

    def _checked(self, starts: Offsets, ends: Offsets, beginnings: Mapping[TopicPartition, int]) -> Offsets:
        """Starts that can be read."""
        found: Offsets = {}
        for partition, start in starts.items():
            name, end = f"{partition.topic}-{partition.partition}", ends[partition]
            if start > end:
                raise ConfigurationError(
                    f"{name}: the starting offset {start} is behind the ending offset {end}: startingOffsets "
                    "and endingOffsets do not fit, or records were lost at the end"
                )
            first = beginnings[partition]
            if start < first and start < end:
                lost = f"{name}: offsets {start} to {min(first, end) - 1} are gone"
                tell(lost, fails=self._options.fail_on_data_loss)
                start = min(first, end)
            found[partition] = start
        return found
