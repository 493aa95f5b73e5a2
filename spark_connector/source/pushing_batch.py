"""Batch reading with filter pushdown, for `pushDownFilters=true`.

A separate class, because Spark rejects a reader with pushFilters() unless filter pushdown is enabled, which
is off by default.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql.datasource import Filter

from pykafka2 import TopicPartition
from spark_connector.offsets import Offsets
from spark_connector.options.source_options import SourceOptions
from spark_connector.source.batch import KafkaBatchReader
from spark_connector.source.filters import Limits
from spark_connector.source.ranges import OffsetRange
from spark_connector.source.topics import Topics


class PushingBatchReader(KafkaBatchReader):
    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        super().__init__(options, columns)
        self._limits = Limits()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        return self._limits.take(filters)

    def __getstate__(self) -> dict[str, object]:
        """Leave the limits out of the copy for the tasks, which get ranges."""
        return {**self.__dict__, "_limits": None}

    def _ranges(self, topics: Topics) -> list[OffsetRange]:
        limits = self._limits
        ranges = [
            wanted
            for wanted in super()._ranges(topics)
            if limits.selects(TopicPartition(wanted.topic, wanted.partition))
        ]
        firsts = self._firsts(topics, ranges)
        return [
            OffsetRange(
                wanted.topic,
                wanted.partition,
                max(
                    wanted.start, limits.first_offset, firsts[TopicPartition(wanted.topic, wanted.partition)]
                ),
                min(wanted.end, limits.end_offset),
            )
            for wanted in ranges
        ]

    def _firsts(self, topics: Topics, ranges: list[OffsetRange]) -> Offsets:
        """Return the first offset of each partition whose record can match the timestamp."""
        ends = {TopicPartition(wanted.topic, wanted.partition): wanted.end for wanted in ranges}
        if self._limits.first_ms is None or not ends:
            return dict.fromkeys(ends, 0)
        found = topics.at_times(dict.fromkeys(ends, self._limits.first_ms))
        return {partition: ends[partition] if at is None else at for partition, at in found.items()}
