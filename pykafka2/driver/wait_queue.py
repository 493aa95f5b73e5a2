"""Threads that wait for one event: a permit, an outcome, a response.

The thread that causes the event wakes them, and each waiter checks its own condition. Thread-safe without a
lock, because each operation on the dict is one step in C. `Runtime.wait_until` adds the waiters.
"""

from __future__ import annotations

from typing import Protocol


class Waiter(Protocol):
    """A thread that sleeps or is about to."""

    def unpark(self) -> None:
        """Wake it to check its condition again.  Any thread or signal handler; never blocks."""
        ...


class WaitQueue:
    """The waiters for one condition.  A thread changes the condition first and then calls `wake`."""

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: dict[Waiter, None] = {}

    def join(self, waiter: Waiter) -> None:
        """Add a waiter; it checks its condition once more before it sleeps."""
        self._waiters[waiter] = None

    def leave(self, waiter: Waiter) -> None:
        self._waiters.pop(waiter, None)

    def wake(self) -> None:
        """Wake the waiters to check their conditions.  0.05 us without waiters."""
        if self._waiters:
            for waiter in list(self._waiters):
                waiter.unpark()
