"""Open transactions of a partition, which limit the last stable offset.

A transaction limits the last stable offset while it is open, and after its marker is written until that
marker is replicated. producer_state.py holds one instance per log.
"""

from __future__ import annotations

from heapq import heappop, heappush

import attrs


@attrs.define(frozen=True)
class CompletedTransaction:
    """A transaction whose marker is written.

    `last_stable_offset` is the value after the marker, ignoring replication.
    """

    producer_id: int
    first_offset: int
    marker_offset: int
    committed: bool
    last_stable_offset: int


class OpenTransactions:
    """Transactions of one log that limit the last stable offset."""

    __slots__ = ("_ongoing", "_unreplicated")

    def __init__(self) -> None:
        # Offsets only grow, so the dict is ordered by first offset.
        self._ongoing: dict[int, int] = {}
        self._unreplicated: list[tuple[int, int]] = []  # a heap of (first offset, marker's offset)

    @property
    def ongoing(self) -> dict[int, int]:
        """First offsets by producer id, the smallest first."""
        return dict(self._ongoing)

    def first_offset_of(self, producer_id: int) -> int | None:
        return self._ongoing.get(producer_id)

    def begin(self, producer_id: int, offset: int) -> None:
        """Record a transactional batch; the first one since the last marker opens a transaction."""
        self._ongoing.setdefault(producer_id, offset)

    def end(self, producer_id: int, marker_offset: int, committed: bool) -> CompletedTransaction | None:
        """Record the producer's marker. Return None if the producer had no open transaction."""
        first_offset = self._ongoing.pop(producer_id, None)
        if first_offset is None:
            return None
        heappush(self._unreplicated, (first_offset, marker_offset))
        stable = next(iter(self._ongoing.values()), marker_offset + 1)
        return CompletedTransaction(producer_id, first_offset, marker_offset, committed, stable)

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Return the smallest first offset of transactions that are open or have an unreplicated marker."""
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
