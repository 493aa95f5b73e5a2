"""Micro-batch reading for Spark 4.2 and newer, where a source may limit its batches."""

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
    """Limits are the options' and applied here, as Spark's own cannot be combined, so the limit that Spark
    hands back says one thing only: whether it is `Trigger.Once`, where none counts."""

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(INT64_MAX)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        is_once = isinstance(limit, ReadAllAvailable)
        return to_spark(self._batches().end_of_next(from_spark(start), takes_all=is_once))

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        ends = self._batches().last_look()
        return None if ends is None else to_spark(ends)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._batches().prepare_for_available_now()
