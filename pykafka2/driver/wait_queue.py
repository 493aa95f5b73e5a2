"""Threads that wait for one event: a permit, an outcome, a response.

The thread that causes the event wakes them, and each waiter checks its own condition. Thread-safe without a
lock, because each operation on the dict is one step in C. `Runtime.wait_until` adds the waiters.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
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


class Watched:
    """A thread that waits for a predicate without a wait queue; other threads evaluate the predicate.

    Waiting takes no lock that is held for long: a thread that finds the predicate being evaluated by another
    thread unparks the waiter, which then evaluates it itself.
    """

    __slots__ = ("_is_over", "_looking", "_predicate", "_unpark")

    def __init__(self, predicate: Callable[[], bool], unpark: Callable[[], None]) -> None:
        self._predicate = predicate
        self._is_over = False
        self._looking = threading.Lock()
        self._unpark = unpark

    def look(self) -> bool:
        """Return whether the predicate is or was true.  On the waiter's own thread; raise its exception."""
        with self._looking:
            self._is_over = self._is_over or bool(self._predicate())
            return self._is_over

    def check(self) -> None:
        """Unpark the waiter if its predicate is true.  Any thread; never blocks."""
        if not self._looking.acquire(blocking=False):
            self._unpark()
            return
        try:
            self._is_over = self._is_over or bool(self._predicate())
        except BaseException:
            self._unpark()  # to raise it on its own thread
        finally:
            self._looking.release()
        if self._is_over:
            self._unpark()


class RuntimeWaiters:
    """The threads and tasks that wait in a runtime, mixed into it (see `Runtime`).

    Each operation on its dicts is one step in C, so no side needs a lock. Sets have no order, which the
    simulation needs.
    """

    def __init__(self) -> None:
        self._waiters: dict[Waiter, None] = {}
        self._watched: dict[Watched, None] = {}

    def join(self, waiter: Waiter, watched: Watched | None) -> None:
        """Add a waiter until `leave`; `notify` wakes it, and `check_waiters` checks its predicate."""
        self._waiters[waiter] = None
        if watched is not None:
            self._watched[watched] = None

    def leave(self, waiter: Waiter, watched: Watched | None) -> None:
        """Remove a waiter."""
        self._waiters.pop(waiter, None)
        if watched is not None:
            self._watched.pop(watched, None)

    def notify(self) -> None:
        """Wake all waiters, whose conditions can have changed.  Any thread; 0.05 us without waiters."""
        if self._waiters:
            for waiter in list(self._waiters):
                waiter.unpark()

    def check_waiters(self) -> None:
        """Wake the waiters whose predicate is true."""
        if self._watched:
            for watched in list(self._watched):
                watched.check()
