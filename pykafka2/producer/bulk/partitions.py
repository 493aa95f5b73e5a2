"""Which partition each row of a column goes to, and the rows of each partition.

Callers' threads.  Keys are hashed by column where their hash is Java's murmur2, with numpy where it is
installed; the other hashes are functions in C or rare.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import Any

from pykafka2.producer.partitioning.key_hashes import KeyHashes, positive_murmur2
from pykafka2.producer.partitioning.murmur2 import NO_KEY, murmur2_column
from pykafka2.records.column_encoder import ListColumns, RecordColumns

NO_PARTITION = -1
"""Of a row that the sticky partition takes."""

MANY_KEYS = 512
"""From so many keys on it is worth loading numpy, and handing it a list."""


def partitions_of_keys(columns: RecordColumns, hashes: KeyHashes, partitions: int) -> Sequence[int]:
    """A partition for each row by its key; NO_PARTITION for a row without one."""
    if isinstance(columns, ListColumns):
        keys = columns.keys
        if keys is None:
            return [NO_PARTITION] * len(columns)
        if hashes.function is not positive_murmur2:
            return [NO_PARTITION if key is None else hashes[key] % partitions for key in keys]
        numpy_hashes = murmur2_numpy() if len(keys) >= MANY_KEYS else None
        if numpy_hashes is not None:
            spread: Sequence[int] = _modulo(numpy_hashes.murmur2_array(keys), partitions)
            return spread
        return [
            NO_PARTITION if number == NO_KEY else (number & 0x7FFFFFFF) % partitions
            for number in murmur2_column(keys)
        ]
    column: Any = columns
    if column.keys is None:
        return [NO_PARTITION] * len(columns)
    if hashes.function is not positive_murmur2:
        return [
            NO_PARTITION if key is None else hashes[key] % partitions for key in column.keys.array.to_pylist()
        ]
    numpy_hashes = murmur2_numpy()
    assert numpy_hashes is not None, "whoever has Arrow's columns has numpy"  # noqa: S101
    keys = column.keys
    found: Sequence[int] = _modulo(
        numpy_hashes.murmur2_buffer(keys.data, keys.offsets[:-1], keys.lengths), partitions
    )
    return found


def rows_of_partitions(numbers: Sequence[int], partitions: int) -> dict[int, Sequence[int]]:
    """The row numbers, in order, of each partition that has any."""
    if not isinstance(numbers, list):
        column: Any = numbers
        order = column.argsort(kind="stable")
        ends = column[order].searchsorted(range(partitions), side="right").tolist()
        first = int((column == NO_PARTITION).sum())
        starts = [first, *ends[:-1]]
        found: dict[int, Sequence[int]] = {} if not first else {NO_PARTITION: order[:first]}
        found.update(
            (number, order[start:end])
            for number, (start, end) in enumerate(zip(starts, ends, strict=True))
            if end > start
        )
        return found
    rows: list[list[int]] = [[] for _ in range(partitions + 1)]  # the last one is NO_PARTITION's
    appends = [one.append for one in rows]
    for row, number in enumerate(numbers):
        appends[number](row)
    return {number if number < partitions else NO_PARTITION: one for number, one in enumerate(rows) if one}


@cache
def murmur2_numpy() -> ModuleType | None:
    """The module with numpy's murmur2; None where there is no numpy.  Loads it: 0.1 s, once."""
    try:
        from pykafka2.producer.partitioning import murmur2_numpy as loaded
    except ImportError:
        return None
    return loaded


def _modulo(hashes: Any, partitions: int) -> Any:
    numbers = (hashes & 0x7FFFFFFF) % partitions
    numbers[hashes == NO_KEY] = NO_PARTITION
    return numbers
