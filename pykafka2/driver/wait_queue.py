"""Threads that wait for one thing: a permit, an outcome, an answer.

Who makes that thing happen wakes them, and nobody else has to look at it.  Any thread; takes no lock, as each
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
