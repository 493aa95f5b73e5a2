"""Finds the partition of each row of a column, and the rows of each partition.

Used on callers' threads. Java's murmur2 is computed by column, with numpy if it is installed; the other
hashes are functions in C, or rare.
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
"""The partition of a row that goes to the sticky partition."""

MANY_KEYS = 512
"""Number of keys from which on it is worth loading numpy."""


def partitions_of_keys(columns: RecordColumns, hashes: KeyHashes, partitions: int) -> Sequence[int]:
    """Return the partition of each row by its key; NO_PARTITION without a key."""
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
    assert numpy_hashes is not None, "Arrow columns require numpy"  # noqa: S101
    keys = column.keys
    found: Sequence[int] = _modulo(
        numpy_hashes.murmur2_buffer(keys.data, keys.offsets[:-1], keys.lengths), partitions
    )
    return found


def rows_without_partition(numbers: Sequence[int]) -> Sequence[int]:
    """Return the rows whose number is NO_PARTITION, in order."""
    if not isinstance(numbers, list):
        column: Any = numbers
        found: Sequence[int] = (column == NO_PARTITION).nonzero()[0]
        return found
    if NO_PARTITION not in numbers:
        return []
    return [row for row, number in enumerate(numbers) if number == NO_PARTITION]


def set_partition(numbers: Any, rows: Sequence[int], partition: int) -> None:
    """Set the partition of these rows in a list or an array."""
    if not isinstance(numbers, list):
        numbers[rows] = partition
        return
    for row in rows:
        numbers[row] = partition


def rows_of_partitions(numbers: Sequence[int], partitions: int) -> dict[int, Sequence[int]]:
    """Return the row numbers of each partition that has any, in order."""
    if not isinstance(numbers, list):
        column: Any = numbers
        order = column.argsort(kind="stable")
        ends = column[order].searchsorted(range(partitions), side="right").tolist()
        starts = [0, *ends[:-1]]
        return {
            number: order[start:end]
            for number, (start, end) in enumerate(zip(starts, ends, strict=True))
            if end > start
        }
    rows: list[list[int]] = [[] for _ in range(partitions)]
    appends = [own_rows.append for own_rows in rows]
    for row, number in enumerate(numbers):
        appends[number](row)
    return {number: own_rows for number, own_rows in enumerate(rows) if own_rows}


@cache
def murmur2_numpy() -> ModuleType | None:
    """Return the module with numpy's murmur2, or None without numpy. The first call takes 0.1 s."""
    try:
        from pykafka2.producer.partitioning import murmur2_numpy as loaded
    except ImportError:
        return None
    return loaded


def _modulo(hashes: Any, partitions: int) -> Any:
    numbers = (hashes & 0x7FFFFFFF) % partitions
    numbers[hashes == NO_KEY] = NO_PARTITION
    return numbers
