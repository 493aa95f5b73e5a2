"""The runs of `benchmarks.share`: plain data, as JSON between the benchmark and its processes."""

from __future__ import annotations

import attrs

from benchmarks.side_by_side.run import Run as OneRun

PARTITIONS = 6
SIZE = 100
MAX_POLL_RECORDS = 500
"""The default of Java's and confluent-kafka's share consumers, and of pykafka2's."""


@attrs.frozen
class Cell:
    """The broker, and the size of a record in bytes."""

    broker: str = "apache"
    size: int = SIZE

    def __str__(self) -> str:
        return f"{self.broker}, {PARTITIONS} partitions, {self.size} B, max.poll.records {MAX_POLL_RECORDS}"


Run = OneRun[Cell]
"""`options` has the group, whose offsets are reset to the earliest before the run."""
