"""Who wants to be called with the outcomes of a batch's records: callables, each for a run of records.

Added to on any thread, emptied once on the thread that tells them; part of batch_outcome.py.  Programs give
one callable for all their records, so a record's costs no object: the run before it grows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from types import MethodType
from typing import Any

WHOLE_BATCH = -1
"""In the place of an index: the callable takes no record's outcome but None."""

# What CPython takes: for a run the object, its numbers and its place in a queue; for a callable with
# arguments a `partial`, too; for the first of a batch the queue.
RUN_BYTES = 130
PARTIAL_BYTES = 250
LISTENERS_BYTES = 650


class Run:
    """A callable for the records from `first` up to, without, `end`."""

    __slots__ = ("callback", "end", "first")

    def __init__(self, first: int, callback: Callable[[Any], object]) -> None:
        self.first = first
        self.end = first + 1
        self.callback = callback


class Listeners:
    """Runs in the order in which they were added, those of a record in the order of its own.

    `last` is the one that may grow.  It does so only while nobody is told, and without a call between the
    look and the change, where Python could go over to another thread (`Delivery.add_callback`).
    """

    __slots__ = ("_runs", "last")

    def __init__(self) -> None:
        self._runs: deque[Run] = deque()
        self.last: Run | None = None

    def __bool__(self) -> bool:
        return bool(self._runs)

    def add(self, index: int, callback: Callable[[Any], object]) -> None:
        """For a record that the last run cannot grow by.  Who adds looks afterwards whether all is told."""
        run = Run(index, callback)
        self._runs.append(run)
        self.last = run

    def take(self) -> Iterator[tuple[range, Callable[[Any], object]]]:
        """Each run once, as its records' indexes and its callable; should two threads be here, to one."""
        runs = self._runs
        while runs:
            try:
                run = runs.popleft()
            except IndexError:
                return
            yield range(run.first, run.end), run.callback

    def clear(self) -> None:
        self._runs.clear()

    @property
    def size_bytes(self) -> int:
        """What they take of memory."""
        if not self._runs:
            return 0
        # Those of one partition are of one kind, as a rule.
        has_arguments = isinstance(self._runs[-1].callback, partial)
        return LISTENERS_BYTES + len(self._runs) * (RUN_BYTES + (PARTIAL_BYTES if has_arguments else 0))


def is_same(one: Callable[[Any], object], other: Callable[[Any], object]) -> bool:
    """Whether both do the same: a method is another object each time that it is named."""
    # Two methods are compared by their objects and functions; `==` of any other callable is the user's own.
    return one is other or (type(one) is MethodType and type(other) is MethodType and one == other)
