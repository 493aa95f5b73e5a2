"""Ranges of offsets, and their split into tasks: a pure function of ranges and options.

A replayed micro-batch has the same tasks, so that writers can skip the tasks that are already written.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs


@attrs.define(frozen=True, order=True)
class OffsetRange:
    """Offsets of one partition from `start` up to, but excluding, `end`."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start

    def split(self, parts: int) -> list[OffsetRange]:
        """Split the range into as many parts, of sizes that differ by at most one."""
        ends = [self.start + self.size * (part + 1) // parts for part in range(parts)]
        starts = [self.start, *ends[:-1]]
        return [attrs.evolve(self, start=s, end=e) for s, e in zip(starts, ends, strict=True) if s < e]


def tasks_of(
    ranges: Iterable[OffsetRange], min_partitions: int | None, max_records_per_partition: int | None
) -> list[OffsetRange]:
    """Return the ranges that tasks read, sorted, without empty ones."""
    wanted = sorted(one for one in ranges if one.size > 0)
    if max_records_per_partition is not None:
        wanted = [part for one in wanted for part in one.split(-(-one.size // max_records_per_partition))]
    if min_partitions is None or len(wanted) >= min_partitions:
        return wanted
    return _split_by_share(wanted, min_partitions)


def _split_by_share(ranges: list[OffsetRange], min_partitions: int) -> list[OffsetRange]:
    """Split each range in proportion to its share of all records.

    Small ranges, which get one part each, are set aside first; the large ones share the remaining parts.
    """
    total = sum(offset_range.size for offset_range in ranges)
    small = {offset_range for offset_range in ranges if _parts(offset_range.size, total, min_partitions) == 1}
    left_parts = max(min_partitions - len(small), 1)
    left_total = total - sum(offset_range.size for offset_range in small)
    found: list[OffsetRange] = []
    for offset_range in ranges:
        found += (
            [offset_range]
            if offset_range in small
            else offset_range.split(_parts(offset_range.size, left_total, left_parts))
        )
    return found


def _parts(size: int, total: int, parts: int) -> int:
    """Return a range's share of the parts, rounded half up, at least one."""
    return max((2 * size * parts + total) // (2 * total), 1) if total else 1
