"""The settings of a run of `benchmarks.consumer`; its result has the figures of the producers' benchmark.

Plain data, as JSON between the benchmark and the processes that it runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from benchmarks.side_by_side.run import Run as OneRun

CODECS = ("none", "lz4", "zstd")
SIZES = (100, 1000, 10_000)
PARTITIONS = 6

LENGTHS = ("fixed", "varying")
PARTS = ("values", "keys", "headers")

BYTES_A_RUN = 200 << 20
MAX_RECORDS = 1_500_000


@attrs.frozen
class Cell:
    """The records of a cell and their broker, for all clients."""

    broker: str = "apache"
    size: int = 100
    codec: str = "none"
    lengths: str = "fixed"
    """Or "varying": from half of the size to one and a half."""
    parts: str = "values"
    """Or "keys", besides the values, or "headers", one for each record."""

    def __str__(self) -> str:
        size = f"{self.size} B" if self.size < 1000 else f"{self.size // 1000} KB"
        own = "" if self.lengths == "fixed" else ", varying lengths"
        own += "" if self.parts == "values" else f", with {self.parts}"
        return f"{self.broker}, {PARTITIONS} partitions, {size}{own}, codec {self.codec}"


Run = OneRun[Cell]


def records_of(cell: Cell, share: float) -> int:
    """How many records a run reads: the fewer, the larger they are; `share` 1 is a whole run."""
    return max(2000, int(min(MAX_RECORDS, BYTES_A_RUN // cell.size) * share))


def one_axis_at_a_time(brokers: Iterable[str]) -> Iterator[Cell]:
    """100 bytes without a codec, and each axis varied from there."""
    for broker in brokers:
        base = Cell(broker)
        yield base
        for size in SIZES[1:]:
            yield attrs.evolve(base, size=size)
        for codec in CODECS[1:]:
            yield attrs.evolve(base, codec=codec)
        yield attrs.evolve(base, lengths="varying")
        yield attrs.evolve(base, parts="keys")
        yield attrs.evolve(base, parts="headers")
