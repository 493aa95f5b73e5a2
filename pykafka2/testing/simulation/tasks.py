"""Entries of the scheduler's heap other than actors: loops with their turns, and single calls.

Used only under the baton; scheduler.py decides when each is due.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from pykafka2.clock import FOREVER
from pykafka2.driver.runtime import Step, ignore_error
from pykafka2.network.transport import Selector
from pykafka2.testing.simulation.trace import Trace

logger = logging.getLogger(__name__)


class Due(Protocol):
    """An entry of the heap: `fire` is called unless `token` has changed since."""

    token: int

    def fire(self) -> None: ...


class Timer:
    """One call at one moment."""

    __slots__ = ("_call", "token")

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self.token = 0

    def fire(self) -> None:
        self.token += 1
        self._call()

    def cancel(self) -> None:
        self.token += 1


class TaskSelector(Selector, Protocol):
    """The task's additional interface to its in-memory selector."""

    def has_ready(self) -> bool: ...

    def attach(self, task: SimTask) -> None: ...


class TaskScheduler(Protocol):
    """The scheduler's interface for loops (scheduler.py)."""

    now: float
    trace: Trace
    paused: dict[str, float]
    deferred: dict[str, int]
    current_task: SimTask | None
    after_turn: Callable[[SimTask], None] | None

    def hop(self) -> float: ...

    def push(self, when: float, due: Due) -> None: ...

    def resumes_at(self, place: str) -> float: ...

    def loop_failed(self, task: SimTask, error: Exception) -> None: ...


class SimTask:
    """A loop that the scheduler turns when it is due, woken, or its selector has something."""

    __slots__ = (
        "_due_at",
        "_in_turn",
        "_on_failed",
        "_scheduler",
        "_selector",
        "_step",
        "_stopped",
        "_woken",
        "error",
        "name",
        "place",
        "token",
        "turns",
        "turns_before",
        "worked",
    )

    def __init__(
        self,
        scheduler: TaskScheduler,
        name: str,
        place: str,
        step: Step,
        selector: TaskSelector | None,
        on_failed: Callable[[BaseException], None] = ignore_error,
    ) -> None:
        self.name = name
        self.place = place
        self.error: BaseException | None = None
        self.token = 0
        self.turns = 0
        self.worked = 0.0
        self.turns_before = 0
        """Number of turns up to the current virtual second."""
        self._on_failed = on_failed
        self._scheduler = scheduler
        self._step = step
        self._selector = selector
        self._due_at = FOREVER
        self._in_turn = False
        self._woken = False
        self._stopped = False

    @property
    def is_stopped(self) -> bool:
        return self._stopped

    def wake(self) -> None:
        if self._in_turn:
            self._woken = True
        else:
            self.be_turned_by(self._scheduler.now + self._scheduler.hop())

    def be_turned_by(self, when: float) -> None:
        """Schedule the next turn at `when`, unless an earlier one is scheduled."""
        if when < self._due_at and not self._stopped:
            self._due_at = when
            self.token += 1
            self._scheduler.push(when, self)

    def fire(self) -> None:
        # Hot: about 20,000 times in a virtual minute of a busy cluster.
        scheduler = self._scheduler
        now = scheduler.now
        self._due_at = FOREVER
        if scheduler.paused:
            resumes_at = scheduler.resumes_at(self.place)
            if resumes_at > now:
                scheduler.deferred[self.place] = scheduler.deferred.get(self.place, 0) + 1
                self.be_turned_by(resumes_at)
                return
        self.turns += 1
        scheduler.trace.turned(now, self.name)
        before, scheduler.current_task = scheduler.current_task, self
        self._in_turn = True
        self._woken = False
        try:
            selector = self._selector
            wake_at = self._step.run_once(now, () if selector is None else selector.select(0.0))
        except Exception as error:
            self._end(error)
            return
        finally:
            self._in_turn = False
            scheduler.current_task = before
        if scheduler.after_turn is not None:
            scheduler.after_turn(self)
        self._rest_until(wake_at)

    def _rest_until(self, wake_at: float) -> None:
        if self._stopped:
            self._close_selector()
            return
        scheduler = self._scheduler
        soonest = scheduler.now + scheduler.hop()
        if self._woken or (self._selector is not None and self._selector.has_ready()):
            self.be_turned_by(soonest)
        elif wake_at < FOREVER:
            self.be_turned_by(wake_at if wake_at > soonest else soonest)

    def _end(self, error: Exception) -> None:
        logger.error("the loop %s ended by %r", self.name, error, exc_info=error)
        self._on_failed(error)
        self.error = error
        self._stopped = True
        self._close_selector()
        self._scheduler.loop_failed(self, error)

    def stop(self, timeout: float = 5.0) -> bool:
        """Run at once: only the loop itself can be inside its turn."""
        if not self._stopped:
            self._stopped = True
            self.token += 1
            if not self._in_turn:
                self._close_selector()
        return True

    def _close_selector(self) -> None:
        if self._selector is not None:
            self._selector.close()
