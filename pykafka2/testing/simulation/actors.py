"""Actors: blocking code on real threads, exactly one of which runs at a time.

The right to run is a baton: one binary semaphore per actor.  Only this module of the simulation uses threads
and real time: the watchdog counts real ticks during which the holder of the baton did not return to the
scheduler.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, Protocol

from pykafka2.clock import FOREVER
from pykafka2.testing.simulation.problems import ActorFailed, ActorStuck, SimulationEnded, SimulationError

WATCHDOG_TICK = 0.25
JOIN_TIMEOUT = 5.0
STACK_FRAMES = 20
# Ended actors are dropped when so many have been made, and when as many again.
DROPPED_AT = 200


Reason = str | Callable[[], str]
"""The reason of a wait: a text, or a function that returns it for a report."""


class ActorScheduler(Protocol):
    """The scheduler's interface for actors (scheduler.py)."""

    progress: int
    failure_was_raised: bool

    def wait_until(self, predicate: Callable[[], bool], timeout: float, why: Reason = "") -> bool: ...

    def notify(self) -> None: ...

    def run_on(self, finished: Actor) -> None: ...

    def fail(self, error: BaseException) -> None: ...


class Actor:
    """One piece of blocking code and the wait that it is in.  Made by `Simulation.spawn`."""

    def __init__(self, threads: ActorThreads, name: str, body: Callable[[], object] | None) -> None:
        self.name = name
        self.is_main = body is None
        self.is_done = False
        self.is_scheduled = False
        self.is_cancelled = False
        self.is_abandoned = False
        self.token = 0
        self.deadline = FOREVER
        self.predicate: Callable[[], bool] | None = None
        self.place: object = None
        """The place whose actions can make the predicate true; None for any."""
        self.baton = threading.Lock()
        self.baton.acquire()
        self.thread: threading.Thread | None = None
        self.ident: int | None = None
        self._body = body
        self._threads = threads
        self._value: object = None
        self._error: BaseException | None = None
        self._is_claimed = False
        self._why: Reason = ""

    def result(self, timeout: float = FOREVER) -> Any:
        """Wait for the actor's end; return its function's result or raise its exception.

        `timeout` is in virtual seconds; `TimeoutError` after it.
        """
        self._is_claimed = True
        if not self._threads.scheduler.wait_until(lambda: self.is_done, timeout, f"the end of {self.name}"):
            raise TimeoutError(f"actor {self.name} still runs after {timeout} virtual seconds")
        if self._error is not None:
            raise self._error
        return self._value

    def unclaimed_failure(self) -> ActorFailed | None:
        """Return the exception that no caller of `result` has received, once."""
        if self._error is None or self._is_claimed or isinstance(self._error, SimulationEnded):
            return None
        self._is_claimed = True
        failed = ActorFailed(f"actor {self.name} ended by {self._error!r}")
        failed.__cause__ = self._error
        return failed

    @property
    def can_be_dropped(self) -> bool:
        """Whether it has ended without an exception, and its thread too."""
        is_alive = self.thread is not None and self.thread.is_alive()
        return self.is_done and self._error is None and not is_alive

    # ------------------------------------------------------------------ for the scheduler

    def fire(self) -> None:
        """Never called: actors are resumed by passing the baton."""
        raise AssertionError("the scheduler resumes actors itself")

    def begin_wait(
        self, predicate: Callable[[], bool], deadline: float, why: Reason, place: object = None
    ) -> None:
        """Wait for the predicate until a virtual time; `reason` is shown in reports."""
        self.predicate = predicate
        self.place = place
        self.deadline = deadline
        self._why = why

    def end_wait(self) -> None:
        """End the wait; pending wake-ups for it become stale."""
        self.token += 1
        self.is_scheduled = False
        self.predicate = None
        self.deadline = FOREVER

    def describe_wait(self) -> str:
        """Return a description of the wait and its place in the code."""
        why = self._why() if callable(self._why) else self._why
        what = why or getattr(self.predicate, "__qualname__", repr(self.predicate))
        until = "for ever" if self.deadline == FOREVER else f"until {self.deadline:.3f}"
        frame = sys._current_frames().get(self.ident or 0)
        stack = "" if frame is None else "".join(traceback.format_stack(frame, limit=STACK_FRAMES))
        return f"{what} ({until})\n{stack}"

    def run(self) -> None:
        """The body of the actor's thread."""
        self.ident = threading.get_ident()
        self._threads.by_ident[self.ident] = self
        self.baton.acquire()
        try:
            if not self.is_cancelled and self._body is not None:
                self._value = self._body()
        except BaseException as error:
            # Also KeyboardInterrupt and SimulationEnded: no other code of this thread handles them.
            self._error = error
        finally:
            self.is_done = True
            self._threads.by_ident.pop(self.ident, None)
            self._threads.ended(self)


class ActorThreads:
    """All actors of one simulation, the holder of the baton, and its watchdog."""

    def __init__(self, scheduler: ActorScheduler, watchdog: float) -> None:
        self.scheduler = scheduler
        self.by_ident: dict[int, Actor] = {}
        self.actors: list[Actor] = []
        self.main = Actor(self, "main", None)
        self.holder = self.main
        self._drop_at = DROPPED_AT
        self._patience = watchdog
        self._closing = False
        self._closed = threading.Event()
        self._watchdog: threading.Thread | None = None

    def adopt_main(self) -> None:
        """Make the calling thread the main actor, which holds the baton."""
        self.main.ident = threading.get_ident()
        self.by_ident[self.main.ident] = self.main
        if self._patience > 0:
            self._watchdog = threading.Thread(target=self._watch, name="simulation watchdog", daemon=True)
            self._watchdog.start()

    def make(self, name: str, body: Callable[[], object]) -> Actor:
        """Create an actor; its thread starts with its first turn."""
        if len(self.actors) >= self._drop_at:
            self.actors = [actor for actor in self.actors if not actor.can_be_dropped]
            self._drop_at = 2 * len(self.actors) + DROPPED_AT
        actor = Actor(self, name, body)
        self.actors.append(actor)
        return actor

    def current(self) -> Actor:
        actor = self.by_ident.get(threading.get_ident())
        if actor is None:
            raise SimulationError(
                f"thread {threading.current_thread().name} is no actor of this simulation; "
                "start its code with simulation.spawn(function)"
            )
        if actor.is_abandoned:
            raise SimulationEnded
        return actor

    def hand_over(self, giver: Actor, taker: Actor) -> None:
        """Let `taker` run; return when the baton comes back to `giver` (never, if it is done)."""
        self.holder = taker
        if taker.thread is None and not taker.is_main:
            taker.thread = threading.Thread(target=taker.run, name=f"actor {taker.name}", daemon=True)
            taker.thread.start()
        taker.baton.release()
        if not giver.is_done:
            giver.baton.acquire()

    def ended(self, actor: Actor) -> None:
        """Run at the end of the thread, which still holds the baton unless the watchdog took it."""
        if actor.is_abandoned:
            return
        if self._closing:
            self.hand_over(actor, self.main)
        else:
            self.scheduler.notify()
            self.scheduler.run_on(actor)

    def close(self) -> None:
        """Unwind waiting actors, one at a time, and join all threads."""
        self._closing = True
        for actor in self.actors:
            actor.is_cancelled = True
            if actor.thread is None:
                actor.is_done = True
            elif not actor.is_done and not actor.is_abandoned:
                self.hand_over(self.main, actor)
        for actor in self.actors:
            if actor.thread is not None:
                # A stuck actor can stay in C code for ever; its thread is a daemon.
                actor.thread.join(1.0 if actor.is_abandoned else JOIN_TIMEOUT)
        self._closed.set()
        if self._watchdog is not None:
            self._watchdog.join(JOIN_TIMEOUT)
            self._watchdog = None

    # ------------------------------------------------------------------ the watchdog's thread

    def _watch(self) -> None:
        """Count ticks without a turn; after enough of them, fail the simulation with the holder's stack."""
        seen, idle_ticks = -1, 0
        while not self._closed.wait(WATCHDOG_TICK):
            progress = self.scheduler.progress
            idle_ticks = idle_ticks + 1 if progress == seen else 0
            seen = progress
            if idle_ticks * WATCHDOG_TICK >= self._patience:
                self._give_up_on(self.holder)
                return

    def _give_up_on(self, actor: Actor) -> None:
        frame = sys._current_frames().get(actor.ident or 0)
        stack = "" if frame is None else "".join(traceback.format_stack(frame, limit=STACK_FRAMES))
        error = ActorStuck(
            f"{actor.name} held the baton for {self._patience} real seconds; "
            f"wait with simulation.sleep, queue or event instead.  Its stack:\n{stack}"
        )
        self.scheduler.fail(error)
        if actor.is_main:
            self.scheduler.failure_was_raised = True
            sys.stderr.write(f"{error}\n")
            raise_in_thread(actor.ident, ActorStuck)
            return
        actor.is_abandoned = True
        raise_in_thread(actor.ident, SimulationEnded)
        self.holder = self.main
        self.main.baton.release()


def raise_in_thread(ident: int | None, error: type[BaseException]) -> None:
    """Raise in another thread at its next bytecode; code that blocks in C gets it when it returns."""
    import ctypes

    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident or 0), ctypes.py_object(error))
