"""Which transactions are open in a partition: what the last stable offset waits for.

A transaction holds the last stable offset back while it is open and, once it has its marker, until the marker
is replicated.  Kept by producer_state.py, one per log.
"""

from __future__ import annotations

from heapq import heappop, heappush

import attrs


@attrs.define(frozen=True)
class CompletedTransaction:
    """A transaction that has its marker; `last_stable_offset` as the marker left it, replicated or not."""

    producer_id: int
    first_offset: int
    marker_offset: int
    committed: bool
    last_stable_offset: int


class OpenTransactions:
    """Transactions of one log that still hold back the last stable offset."""

    __slots__ = ("_ongoing", "_unreplicated")

    def __init__(self) -> None:
        # A log's offsets only grow, so the dict's order is that of the first offsets.
        self._ongoing: dict[int, int] = {}
        self._unreplicated: list[tuple[int, int]] = []  # a heap of (first offset, marker's offset)

    @property
    def ongoing(self) -> dict[int, int]:
        """First offset by producer id, the earliest first."""
        return dict(self._ongoing)

    def first_offset_of(self, producer_id: int) -> int | None:
        return self._ongoing.get(producer_id)

    def begin(self, producer_id: int, offset: int) -> None:
        """The producer's first transactional batch since its last marker."""
        self._ongoing.setdefault(producer_id, offset)

    def end(self, producer_id: int, marker_offset: int, committed: bool) -> CompletedTransaction | None:
        """The producer's marker; None if it had nothing open here."""
        first_offset = self._ongoing.pop(producer_id, None)
        if first_offset is None:
            return None
        heappush(self._unreplicated, (first_offset, marker_offset))
        stable = next(iter(self._ongoing.values()), marker_offset + 1)
        return CompletedTransaction(producer_id, first_offset, marker_offset, committed, stable)

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Where the earliest transaction begins that is open or whose marker is not below the mark."""
        heap = self._unreplicated
        while heap and heap[0][1] < high_watermark:
            heappop(heap)
        first_ongoing = next(iter(self._ongoing.values()), None)
        if not heap:
            return first_ongoing
        return heap[0][0] if first_ongoing is None else min(heap[0][0], first_ongoing)

    def copy(self) -> OpenTransactions:
        other = OpenTransactions()
        other._ongoing = dict(self._ongoing)
        other._unreplicated = list(self._unreplicated)
        return other
