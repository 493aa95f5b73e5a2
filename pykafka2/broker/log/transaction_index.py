"""Aborted transactions of a partition, so that read_committed consumers can skip their data.

One entry per aborted transaction, in marker order, like Kafka's transaction index (KIP-98). partition_log.py
maintains it; a fetch reads the entries for the range that it returns.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from operator import attrgetter

import attrs


@attrs.define(frozen=True)
class AbortedTransaction:
    """The first offset of an aborted transaction and the offset of its marker.

    `last_stable_offset` is the value after the marker, ignoring the high watermark: all transactions that
    started before it have ended by the marker.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """Aborted transactions of one log, by the offset of their markers."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[AbortedTransaction] = ()) -> None:
        self._entries = [*entries]

    def __len__(self) -> int:
        return len(self._entries)

    def append(self, aborted: AbortedTransaction) -> None:
        """Add a transaction whose marker comes after all others."""
        if self._entries and aborted.last_offset <= self._entries[-1].last_offset:
            raise ValueError(f"{aborted} does not follow {self._entries[-1]}")
        self._entries.append(aborted)

    def overlapping(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Return the transactions with an offset in [start, end), in marker order.

        The loop ends at the first marker after which nothing was open before `end_offset`: transactions
        aborted later also started later.
        """
        if not self._entries:
            return []
        found = []
        for index in range(self._first_at(start_offset), len(self._entries)):
            aborted = self._entries[index]
            if aborted.first_offset < end_offset:
                found.append(aborted)
            if aborted.last_stable_offset >= end_offset:
                break
        return found

    def truncate_to(self, end_offset: int) -> None:
        """Drop the transactions whose marker is at or after `end_offset`."""
        del self._entries[self._first_at(end_offset) :]

    def replace_before(self, end_offset: int, kept: list[AbortedTransaction]) -> None:
        """Replace the transactions that end before `end_offset` by those that a compaction kept."""
        self._entries[: self._first_at(end_offset)] = kept

    def drop_before(self, start_offset: int) -> None:
        """Drop the transactions that end before the log's new start."""
        del self._entries[: self._first_at(start_offset)]

    def clear(self) -> None:
        self._entries.clear()

    def _first_at(self, offset: int) -> int:
        """Return the index of the first entry whose marker is at or after `offset`."""
        return bisect_left(self._entries, offset, key=attrgetter("last_offset"))
