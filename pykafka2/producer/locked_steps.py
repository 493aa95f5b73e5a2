"""Which threads are in the middle of a step that holds one of a producer's locks.

A signal handler and a finalizer (`__del__`) run wherever Python looks for them, on the thread that they
interrupt.  If one calls the producer that its thread was just changing, it would wait for that thread's own
lock for ever, and the IO thread behind it.  So steps that call anything while they hold a lock are run by
this, and what would wait asks it first.  What calls nothing under its lock is never interrupted there.

Shared by the producer's accumulator and its queues; takes no lock itself, as each operation on the dict is
one step in C.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import TypeVar

from pykafka2.errors import IllegalState

T = TypeVar("T")


class LockedSteps:
    """`running` has the threads; empty nearly always, so that the hot path looks no further."""

    __slots__ = ("running",)

    def __init__(self) -> None:
        self.running: dict[int, None] = {}

    def run(self, step: Callable[..., T], *arguments: object) -> T:
        """The value of a step that holds a lock; a step runs no other one."""
        me = get_ident()
        try:
            self.running[me] = None
            return step(*arguments)
        finally:
            self.running.pop(me, None)

    def check(self) -> None:
        """Raises IllegalState if this thread was interrupted in such a step."""
        if get_ident() in self.running:
            raise IllegalState(
                "a signal handler or a finalizer (__del__) called the producer in the middle of a send of "
                "the same thread, which cannot go on before it returns: have a handler set a flag, or start "
                "a thread that makes the call"
            )
