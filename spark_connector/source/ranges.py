"""Ranges of offsets, and how they are split into tasks: a pure function of ranges and options.

A micro-batch that is played again is cut into the same tasks, which writers rely on that skip what they have.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs


@attrs.define(frozen=True, order=True)
class OffsetRange:
    """Offsets of one partition from `start` up to, not including, `end`."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start

    def split(self, parts: int) -> list[OffsetRange]:
        """In as many ranges, as equal as whole numbers let them be."""
        ends = [self.start + self.size * (part + 1) // parts for part in range(parts)]
        starts = [self.start, *ends[:-1]]
        return [attrs.evolve(self, start=s, end=e) for s, e in zip(starts, ends, strict=True) if s < e]


def tasks_of(
    ranges: Iterable[OffsetRange], min_partitions: int | None, max_records_per_partition: int | None
) -> list[OffsetRange]:
    """The ranges that tasks read, in order, without empty ones."""
    wanted = sorted(one for one in ranges if one.size > 0)
    if max_records_per_partition is not None:
        wanted = [part for one in wanted for part in one.split(-(-one.size // max_records_per_partition))]
    if min_partitions is None or len(wanted) >= min_partitions:
        return wanted
    return _split_by_share(wanted, min_partitions)


def _split_by_share(ranges: list[OffsetRange], min_partitions: int) -> list[OffsetRange]:
    """Each range gets parts by its share of all records.

    Small ranges, which get one part, are set aside first: the parts left are for the large ones alone.
    """
    total = sum(one.size for one in ranges)
    small = {one for one in ranges if _parts(one.size, total, min_partitions) == 1}
    left_parts = max(min_partitions - len(small), 1)
    left_total = total - sum(one.size for one in small)
    found: list[OffsetRange] = []
    for one in ranges:
        found += [one] if one in small else one.split(_parts(one.size, left_total, left_parts))
    return found


def _parts(size: int, total: int, parts: int) -> int:
    """Rounded half up, and at least one."""
    return max((2 * size * parts + total) // (2 * total), 1) if total else 1
