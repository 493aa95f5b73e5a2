"""Batch reading that hears the query's conditions, for `pushDownFilters=true`.

A class of its own: Spark refuses a reader with pushFilters() where its setting for that is off, as it is by
default.
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
        """What travels to the tasks, which are told their ranges."""
        return {**self.__dict__, "_limits": None}

    def _ranges(self, topics: Topics) -> list[OffsetRange]:
        limits = self._limits
        ranges = [
            one for one in super()._ranges(topics) if limits.selects(TopicPartition(one.topic, one.partition))
        ]
        firsts = self._firsts(topics, ranges)
        return [
            OffsetRange(
                one.topic,
                one.partition,
                max(one.start, limits.first_offset, firsts[TopicPartition(one.topic, one.partition)]),
                min(one.end, limits.end_offset),
            )
            for one in ranges
        ]

    def _firsts(self, topics: Topics, ranges: list[OffsetRange]) -> Offsets:
        """The first offset in each partition whose record may be of the time that is asked for."""
        ends = {TopicPartition(one.topic, one.partition): one.end for one in ranges}
        if self._limits.first_ms is None or not ends:
            return dict.fromkeys(ends, 0)
        found = topics.at_times(dict.fromkeys(ends, self._limits.first_ms))
        return {one: ends[one] if at is None else at for one, at in found.items()}
