"""Steps of the accumulator that hold a lock, which a signal handler must not find held.

A signal handler or a finalizer runs on the thread that it interrupts. If it called the producer while that
thread holds one of the accumulator's locks, it would wait for its own thread forever. The contract:

* A method that takes a lock of the accumulator is a `locked_step`, unless it makes no call while it holds the
  lock (buffer_pool.py). It calls no other locked step, waits for nothing, and calls no code of the user.
* A public call that can wait, for a lock or for memory, calls `check` first. In a handler that interrupted a
  locked step of its thread it raises IllegalState, and nothing was changed.
* A Ctrl-C can end a step between any two lines. So each step can be repeated, and no step concludes one fact
  from another (a batch can be sealed and still be the tail). `Accumulator._undo_append` checks what was done.

The thread of a step is recorded without a lock: `running` is changed by single operations of a dict. Appends
without a lock are not steps (open_batch.py).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from threading import get_ident
from typing import Protocol, TypeVar, TypeVarTuple, Unpack

from pykafka2.errors import IllegalState


class LockedSteps:
    """The threads that are in a step. `running` is empty nearly always, so the hot path only tests that."""

    __slots__ = ("running",)

    def __init__(self) -> None:
        self.running: dict[int, None] = {}

    def check(self) -> None:
        """Raise IllegalState if this thread was interrupted in a step."""
        if get_ident() in self.running:
            raise IllegalState(
                "a signal handler or a finalizer (__del__) called the producer in the middle of a send of "
                "the same thread, which cannot continue before it returns. Let the handler set a flag, or "
                "start a thread that makes the call"
            )


class HasSteps(Protocol):
    """An object with locked steps; the objects of one accumulator share `locked_steps`."""

    @property
    def locked_steps(self) -> LockedSteps: ...


S = TypeVar("S", bound=HasSteps)
A = TypeVarTuple("A")
R = TypeVar("R")


def locked_step(method: Callable[[S, Unpack[A]], R]) -> Callable[[S, Unpack[A]], R]:
    """Record the thread while it is in the method; see the module for what the method must keep to."""

    @wraps(method)
    def step(self: S, *arguments: *A) -> R:
        running, thread = self.locked_steps.running, get_ident()
        try:
            running[thread] = None
            return method(self, *arguments)
        finally:
            running.pop(thread, None)

    # A code object of its own: CPython specializes one for the class of `self` that it sees, and slows down
    # for three of them.
    step.__code__ = step.__code__.replace()  # type: ignore[attr-defined]
    return step
