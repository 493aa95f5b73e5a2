"""Communication between actors: a queue and an event whose waits pass the baton on."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

from pykafka2.clock import FOREVER
from pykafka2.testing.simulation.scheduler import Scheduler

T = TypeVar("T")


class SimQueue(Generic[T]):
    """First in, first out, unbounded or of `capacity` items.  Timeouts are virtual seconds."""

    def __init__(self, scheduler: Scheduler, capacity: int | None = None) -> None:
        self._scheduler = scheduler
        self._capacity = capacity
        self._items: deque[T] = deque()

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: T, timeout: float = FOREVER) -> None:
        """Add an item; wait while the queue is full.  Raise `TimeoutError`."""
        if not self._scheduler.wait_until(self._has_room, timeout, "room in a queue"):
            raise TimeoutError(f"the queue stayed full for {timeout} virtual seconds")
        self._items.append(item)
        self._scheduler.notify()

    def get(self, timeout: float = FOREVER) -> T:
        """Remove and return the oldest item; wait for one.  Raise `TimeoutError`."""
        if not self._scheduler.wait_until(lambda: bool(self._items), timeout, "an item in a queue"):
            raise TimeoutError(f"the queue stayed empty for {timeout} virtual seconds")
        item = self._items.popleft()
        self._scheduler.notify()
        return item

    def _has_room(self) -> bool:
        return self._capacity is None or len(self._items) < self._capacity


class SimEvent:
    """A flag; setting it wakes all waiting actors."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._is_set = False

    def is_set(self) -> bool:
        """Return whether it is set now; do not wait."""
        return self._is_set

    def set(self) -> None:
        """Set the flag and wake all waiting actors."""
        self._is_set = True
        self._scheduler.notify()

    def clear(self) -> None:
        """Clear the flag; later waits block until the next `set`."""
        self._is_set = False

    def wait(self, timeout: float = FOREVER) -> bool:
        """Return True once the flag is set, False after `timeout` virtual seconds."""
        return self._scheduler.wait_until(self.is_set, timeout, "an event")
