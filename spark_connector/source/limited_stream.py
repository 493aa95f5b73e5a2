"""Micro-batch reading for Spark 4.2 and later, where a source can limit its batches."""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from spark_connector.offsets import from_spark, to_spark
from spark_connector.options.fields import INT64_MAX
from spark_connector.source.stream import StreamReader


class LimitedStreamReader(StreamReader, SupportsTriggerAvailableNow):
    """Applies the limits of the options, because Spark's own limits cannot be combined.  The limit that Spark
    passes only tells whether the trigger is `Trigger.Once`, which ignores limits."""

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(INT64_MAX)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        self.commit(start)  # where the last batch has ended
        is_once = isinstance(limit, ReadAllAvailable)
        return to_spark(self._batches().end_of_next(from_spark(start), takes_all=is_once))

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        ends = self._batches().last_ends()
        return None if ends is None else to_spark(ends)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._batches().prepare_for_available_now()
