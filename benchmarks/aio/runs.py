"""The runs of `benchmarks.aio`: plain data, as JSON between the benchmark and its processes."""

from __future__ import annotations

import attrs

from benchmarks.side_by_side.run import Run as OneRun

PARTITIONS = 6

RECORDS = {
    "send": 300_000,
    "getmany": 600_000,
    "async for": 600_000,
    "send and wait": 3000,
    "loop lag": 60_000,
}
"""How much one whole run does; of "loop lag", milliseconds."""


@attrs.frozen
class Cell:
    """The measured call, and its broker."""

    broker: str = "apache"
    what: str = "send"
    size: int = 100

    def __str__(self) -> str:
        return f"{self.what}, {self.broker}, {PARTITIONS} partitions, {self.size} B"


Run = OneRun[Cell]
