"""Iteration without a call of ours for each record: slices of what a poll brought, one after the other.

Caller's thread.  `itertools.chain` runs through the slices; between two of them the consumer sees to commits
and to its group.  A slice is as long as takes the application a tenth of a second, so that neither waits long
for an application that is slow with each record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self

from pykafka2.clock import Clock
from pykafka2.types import ConsumerRecord

WANTED_SECONDS = 0.1
MOST_RECORDS = 500


class SliceLength:
    """How many records to hand out before the next look around."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._length = 1
        self._began_at: float | None = None

    def next(self) -> int:
        """Called when a slice is at its end: the length of the next one."""
        now = self._clock.monotonic()
        if self._began_at is not None:
            took = now - self._began_at
            if took < WANTED_SECONDS / 2:
                self._length = min(self._length * 2, MOST_RECORDS)
            elif took > WANTED_SECONDS:
                self._length = max(int(self._length * WANTED_SECONDS / took), 1)
        self._began_at = now
        return self._length

    def pause(self) -> None:
        """What follows is waiting for records, which is not the application's time."""
        self._began_at = None


class Slices:
    """An iterator over slices, for one `for` statement; it ends where `next_slice` raises StopIteration."""

    def __init__(self, next_slice: Callable[[], Iterator[ConsumerRecord[Any, Any]]]) -> None:
        self._next_slice = next_slice

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Iterator[ConsumerRecord[Any, Any]]:
        return self._next_slice()
