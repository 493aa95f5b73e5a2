"""A shard's timers, by name: one deadline and one action each, the earliest first.

Sans-IO: nothing fires by itself, the shard polls for due timers. Setting a timer again moves it. A cancelled
timer leaves a dead entry in the heap, which is dropped when it comes up or when dead entries prevail.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from heapq import heapify, heappop, heappush
from typing import Final

from pykafka2.broker.coordinators.replay import Result
from pykafka2.clock import FOREVER

Action = Callable[[float], Result | None]
"""Callback: called with the time; returns a result, None if there is nothing to do."""

MIN_SWEEP: Final = 64


class Timers:
    """Timers of one shard. Not thread-safe."""

    def __init__(self) -> None:
        self._armed: dict[Hashable, tuple[float, int, Action]] = {}
        self._heap: list[tuple[float, int, Hashable]] = []
        self._count = 0

    def set(self, name: Hashable, deadline: float, action: Action) -> None:
        self._count += 1
        self._armed[name] = (deadline, self._count, action)
        heappush(self._heap, (deadline, self._count, name))
        if len(self._heap) > MIN_SWEEP and len(self._heap) > 2 * len(self._armed):
            self._heap = [(at, count, key) for key, (at, count, _) in self._armed.items()]
            heapify(self._heap)

    def cancel(self, name: Hashable) -> None:
        self._armed.pop(name, None)

    def clear(self) -> None:
        self._armed.clear()
        self._heap.clear()

    def deadline(self, name: Hashable) -> float | None:
        """Return when a timer is due, None if it is not set."""
        armed = self._armed.get(name)
        return None if armed is None else armed[0]

    @property
    def next_deadline(self) -> float:
        self._drop_dead()
        return self._heap[0][0] if self._heap else FOREVER

    def pop_due(self, now: float) -> Action | None:
        """Remove the earliest due timer and return its action."""
        self._drop_dead()
        if not self._heap or self._heap[0][0] > now:
            return None
        _, _, name = heappop(self._heap)
        return self._armed.pop(name)[2]

    def run_due(self, now: float) -> Result | None:
        """Run the due actions, earliest first, until one returns a result; None if none does."""
        while (action := self.pop_due(now)) is not None:
            result = action(now)
            if result is not None:
                return result
        return None

    def _drop_dead(self) -> None:
        heap = self._heap
        while heap:
            armed = self._armed.get(heap[0][2])
            if armed is not None and armed[1] == heap[0][1]:
                return
            heappop(heap)
