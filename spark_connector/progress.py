"""The lag of streaming queries behind their topics, from the progress that Spark reports.

Spark's own Kafka connector reports these figures in the metrics of each source, which a Python source cannot.
Neighbor: source/limited_stream.py reports the end offsets of the partitions.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs
from pyspark.sql.streaming.listener import StreamingQueryListener

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        SourceProgress,
        StreamingQueryProgress,
    )


@attrs.define(frozen=True)
class OffsetsBehindLatest:
    """Offsets between the end of a micro-batch and the end of the topics, over the partitions of one source.

    Spark calls them minOffsetsBehindLatest, maxOffsetsBehindLatest and avgOffsetsBehindLatest.
    """

    min: int
    max: int
    avg: float


@attrs.define(frozen=True)
class QueryLag:
    """The lag of a query after one micro-batch.

    sources: one entry for each source that reads from Kafka, in the order of the query's plan.
    """

    query_id: str
    run_id: str
    name: str | None
    batch_id: int
    sources: tuple[OffsetsBehindLatest, ...]


class OffsetsBehindLatestListener(StreamingQueryListener):
    """Calls `report` with the lag of every query of the session that reads from Kafka, after each batch.

        spark.streams.addListener(OffsetsBehindLatestListener(print))

    `report` runs on Spark's listener thread on the driver, so it has to return soon.
    """

    def __init__(self, report: Callable[[QueryLag], object]) -> None:
        self._report = report

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Do nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        lag = query_lag(event.progress)
        if lag.sources:
            self._report(lag)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Do nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Do nothing."""


def query_lag(progress: StreamingQueryProgress) -> QueryLag:
    """Return the lag after a micro-batch, from `query.lastProgress` or the progress of a listener's
    event.
    """
    found = (_of_source(source) for source in progress.sources)
    return QueryLag(
        str(progress.id),
        str(progress.runId),
        progress.name,
        progress.batchId,
        tuple(behind for behind in found if behind is not None),
    )


def _of_source(source: SourceProgress) -> OffsetsBehindLatest | None:
    """Return None if the source is not Kafka, or has not looked up the latest offsets yet."""
    ends, latest = _offsets(source.endOffset), _offsets(source.latestOffset)
    if ends is None or not latest:
        return None
    behind = [max(offset - ends.get(partition, 0), 0) for partition, offset in latest.items()]
    return OffsetsBehindLatest(min(behind), max(behind), sum(behind) / len(behind))


def _offsets(text: str | None) -> dict[tuple[str, str], int] | None:
    """Return offsets by topic and partition; None if the text is not `{"topic": {"0": 23}}`."""
    try:
        parsed: Any = json.loads(text or "null")
        found = {
            (topic, partition): offset
            for topic, entries in parsed.items()
            for partition, offset in entries.items()
        }
    except (ValueError, AttributeError):
        return None
    return found if all(type(offset) is int for offset in found.values()) else None
