"""Threads that wait for one event: a permit, an outcome, a response.

The thread that causes the event wakes them, and no other thread evaluates it.  Thread-safe without a lock, as
each
operation on the dict is one step in C.  Joined by `Runtime.wait_until`.
"""

from __future__ import annotations

from typing import Protocol


class Waiter(Protocol):
    """A thread that sleeps, or is about to."""

    def unpark(self) -> None:
        """Let it look again at what it waits for.  From any thread or signal handler; never blocks."""
        ...


class WaitQueue:
    """The waiters for one thing.  Who changes it does so first and calls `wake` afterwards."""

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: dict[Waiter, None] = {}

    def join(self, waiter: Waiter) -> None:
        """From now on it is woken; it looks once more before it sleeps."""
        self._waiters[waiter] = None

    def leave(self, waiter: Waiter) -> None:
        self._waiters.pop(waiter, None)

    def wake(self) -> None:
        """Wake the waiters to check their conditions.  0.05 us without waiters."""
        if self._waiters:
            for waiter in list(self._waiters):
                waiter.unpark()
