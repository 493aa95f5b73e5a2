"""The settings of a run of `benchmarks.producer`.

Plain data, as JSON between the benchmark and the processes that it runs: each client gets a process of its
own, so that its processor time and its memory are its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from benchmarks.side_by_side.run import Run as OneRun

KEYS = ("none", "1000", "unique")
CODECS = ("none", "lz4", "zstd")
SIZES = (100, 1000, 10_000)
PARTITIONS = (1, 6)
MODES = ("equal", "defaults")
LENGTHS = ("fixed", "varying")

SINGLE_BATCH_BYTES = 16_384
"""The default batch_size of pykafka2 and Java."""
BATCH_BYTES = (SINGLE_BATCH_BYTES, 256 << 10, 1 << 20, 4 << 20)
BULK_BATCH_BYTES = 1 << 20
"""The same for columns, and for confluent-kafka beside them; pykafka2's bulk_batch_size."""
LINGER_MS = 5
BUFFER_BYTES = 32 << 20

BYTES_A_RUN = 60 << 20
MAX_RECORDS = 400_000


@attrs.frozen
class Cell:
    """The records of a cell and their broker, for all clients."""

    broker: str = "apache"
    mode: str = "equal"
    size: int = 100
    keys: str = "none"
    codec: str = "none"
    partitions: int = 6
    lengths: str = "fixed"
    """Or "varying": from half of the size to one and a half."""
    batch_bytes: int = SINGLE_BATCH_BYTES
    """batch_size of every client, where settings are equal."""

    def __str__(self) -> str:
        size = f"{self.size} B" if self.size < 1000 else f"{self.size // 1000} KB"
        keys = {"none": "no keys", "1000": "1,000 keys", "unique": "unique keys"}[self.keys]
        own = "" if self.lengths == "fixed" else ", varying lengths"
        where = f"{self.broker}, {self.mode}, {self.partitions} partition{'s' * (self.partitions > 1)}"
        cell = f"{where}, {size}{own}, {keys}, codec {self.codec}"
        if self.batch_bytes == SINGLE_BATCH_BYTES:
            return cell
        return f"{cell}, batch_size {self.batch_bytes >> 10:,} KiB"


Run = OneRun[Cell]


def records_of(cell: Cell, share: float) -> int:
    """How many records a run sends: the fewer, the larger they are; `share` 1 is a whole run."""
    return max(1000, int(min(MAX_RECORDS, BYTES_A_RUN // cell.size) * share))


def one_axis_at_a_time(brokers: Iterable[str], modes: Iterable[str]) -> Iterator[Cell]:
    """100 bytes without keys and codec in six partitions, and each axis varied from there."""
    for broker in brokers:
        for mode in modes:
            base = Cell(broker, mode)
            yield base
            for size in SIZES[1:]:
                yield attrs.evolve(base, size=size)
            for keys in KEYS[1:]:
                yield attrs.evolve(base, keys=keys)
            for codec in CODECS[1:]:
                yield attrs.evolve(base, codec=codec)
            yield attrs.evolve(base, partitions=1)
            yield attrs.evolve(base, lengths="varying")
            yield from _other_batch_sizes(base)


def every_cell(brokers: Iterable[str], modes: Iterable[str]) -> Iterator[Cell]:
    """Yield the product of all axes; lengths and batch_size vary at the base cell only."""
    for broker in brokers:
        for mode in modes:
            for size in SIZES:
                for keys in KEYS:
                    for codec in CODECS:
                        for partitions in PARTITIONS:
                            yield Cell(broker, mode, size, keys, codec, partitions)
            yield Cell(broker, mode, lengths="varying")
            yield from _other_batch_sizes(Cell(broker, mode))


def _other_batch_sizes(base: Cell) -> Iterator[Cell]:
    """Yield the cell with each larger batch_size, if its mode sets one."""
    if base.mode == "equal":
        for batch_bytes in BATCH_BYTES[1:]:
            yield attrs.evolve(base, batch_bytes=batch_bytes)
