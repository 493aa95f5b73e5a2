"""One seeded scheduler: virtual time, and who runs next.

Two kinds of runnables.  A *loop* (`SimTask`) is a `Step` of a client or a broker; it is turned inline, on
whichever thread happens to drive.  An *actor* is blocking user code on a real thread of its own (the test
itself is one); the holder of the baton runs, all others are parked.  An actor that blocks drives the
scheduler on its own thread until its predicate holds, or hands the baton to the actor whose turn it is.

Everything that will happen is in one heap, ordered by virtual time and then by a random priority drawn from
the seed; when nothing is due now, time jumps to the next entry.  Only the holder of the baton touches any of
this, so there are no locks here.
"""

from __future__ import annotations

from asyncio import _get_running_loop, _set_running_loop
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random

from pykafka2.clock import FOREVER
from pykafka2.driver.runtime import Step, ignore_error
from pykafka2.testing.simulation.actors import Actor, ActorThreads, Reason
from pykafka2.testing.simulation.problems import (
    Deadlock,
    HotLoop,
    LoopFailed,
    SimulationEnded,
    SimulationError,
)
from pykafka2.testing.simulation.tasks import Due, SimTask, TaskSelector, Timer
from pykafka2.testing.simulation.trace import Trace

# What a wake-up or a turn costs in virtual time: it orders what is ready "at once" by the seed, and it makes
# a loop that never rests consume time instead of hanging the simulation.
SHORTEST_HOP = 1e-6
HOP_SPREAD = 30e-6

# An idle cluster has timers for ever; actors that only wait for this long will wait for ever.
PATIENCE = 3600.0

# A loop that spins makes 60,000 turns in a virtual second; a busy cluster with its clients a few thousand.
MOST_TURNS_PER_SECOND = 40_000


def holds(predicate: Callable[[], bool] | None) -> bool:
    """Return whether the predicate is true or raises: the actor evaluates it again, and raises there."""
    try:
        return predicate is not None and bool(predicate())
    except Exception:
        return True


def NEVER() -> bool:  # noqa: N802 - a constant of the type that predicates have
    """Return the predicate of a sleeping actor, which is never evaluated."""
    return False


class Scheduler:
    """Owns virtual time.  `seed` decides every order and delay."""

    def __init__(self, seed: int | str, *, watchdog: float = 5.0, trace: Trace | None = None) -> None:
        self.now = 0.0
        """Virtual seconds since the simulation began: the monotonic clock of all brokers and clients."""
        self.trace = Trace() if trace is None else trace
        self.current_task: SimTask | None = None
        self.loop_failures: list[LoopFailed] = []
        self.failure: BaseException | None = None
        self.failure_was_raised = False
        self.is_closing = False
        self.is_over = False
        self.progress = 0
        """Number of returns to the scheduler, for the watchdog."""
        self.tasks: list[SimTask] = []
        self._second_ends = 1.0
        self._turns_before = 0
        self._firing = False
        self._random = Random(f"{seed}/schedule")
        self._draw = self._random.random
        self._heap: list[tuple[float, float, int, int, Due]] = []
        self._pushed = 0
        self._dirty = False
        self._dirty_places: dict[object, None] = {}
        self.paused: dict[str, float] = {}
        """End of the pause of each place that was ever paused."""
        self.deferred: dict[str, int] = {}
        """Number of turns of each place that a pause delayed."""
        self._last_actor_run = 0.0
        self._waiting: list[Actor] = []
        self.after_turn: Callable[[SimTask], None] | None = None
        """Called after every turn of a loop; its exception fails the simulation at once."""
        self.threads = ActorThreads(self, watchdog)
        self.threads.adopt_main()

    # ------------------------------------------------------------------ what will happen

    def hop(self) -> float:
        """Return the seeded cost of one wake-up."""
        return SHORTEST_HOP + HOP_SPREAD * self._draw()

    def push(self, when: float, due: Due) -> None:
        self._pushed += 1
        heappush(self._heap, (when, self._draw(), self._pushed, due.token, due))

    def call_at(self, when: float, call: Callable[[], None]) -> Timer:
        timer = Timer(call)
        self.push(max(when, self.now), timer)
        return timer

    def spawn_task(
        self,
        name: str,
        place: str,
        step: Step,
        selector: TaskSelector | None,
        on_failed: Callable[[BaseException], None] = ignore_error,
    ) -> SimTask:
        task = SimTask(self, name, place, step, selector, on_failed)
        self.tasks.append(task)
        if selector is not None:
            selector.attach(task)
        task.wake()
        return task

    def pause(self, place: str, until: float) -> None:
        """Pause all loops of this place before `until`, as if its process were stopped."""
        self.paused[place] = max(until, self.paused.get(place, 0.0))

    def resumes_at(self, place: str) -> float:
        return self.paused.get(place, 0.0)

    def current_place(self) -> str:
        """Return the place of the running code: the loop's place, or the actor's name."""
        return self.threads.holder.name if self.current_task is None else self.current_task.place

    # ------------------------------------------------------------------ actors

    def spawn_actor(self, name: str, body: Callable[[], object], delay: float = 0.0) -> Actor:
        """Start blocking code after a delay, as a thread that the system starts late."""
        actor = self.threads.make(name, body)
        actor.is_scheduled = True
        self.push(self.now + delay + self.hop(), actor)
        return actor

    def notify(self) -> None:
        """Evaluate the predicates of all waiting actors."""
        self._dirty = True

    def check_waiters(self, place: object) -> None:
        """Evaluate the predicates of actors that wait for this place, or for no particular place."""
        self._dirty_places[place] = None

    def wait_until(
        self, predicate: Callable[[], bool], timeout: float, why: Reason = "", *, of: object = None
    ) -> bool:
        """Block the calling actor; see `Runtime.wait_until`."""
        self._refuse_in_a_loop()
        actor = self.threads.current()
        self.progress += 1
        if actor.is_main and (self.is_over or (self.is_closing and self.failure is not None)):
            # Clients are closed after a failure too: nothing is waited for any more.
            return bool(predicate())
        self._raise_failure(actor)
        if predicate():
            # Now and then a caller that need not wait lets others run first: a real scheduler would.
            if self._draw() >= 0.25:
                return True
            self._resume_later(actor)
        elif timeout <= 0:
            self._resume_later(actor)
        # At least a hop, or a rest that is lost in rounding would be waited for again and again.
        actor.begin_wait(predicate, self.now + (max(timeout, SHORTEST_HOP) if timeout > 0 else 0.0), why, of)
        if actor.deadline < FOREVER and timeout > 0:
            self.push(actor.deadline, actor)
        self._waiting.append(actor)
        # Loops that are turned here run on no event loop, also if a coroutine blocks the one of this thread.
        event_loop = _get_running_loop()
        _set_running_loop(None)
        try:
            while True:
                self._drive(actor)
                self._raise_failure(actor)
                if predicate():
                    return True
                if self.now >= actor.deadline:
                    return False
                actor.is_scheduled = False
        finally:
            _set_running_loop(event_loop)
            actor.end_wait()
            self._waiting = [other for other in self._waiting if other is not actor]

    def sleep(self, seconds: float) -> None:
        """Let `seconds` of virtual time pass for the calling actor."""
        self.wait_until(NEVER, seconds, f"sleep({seconds})")

    def _resume_later(self, actor: Actor) -> None:
        actor.is_scheduled = True
        actor.token += 1
        self.push(self.now + self.hop(), actor)

    @property
    def is_in_a_loop(self) -> bool:
        """Whether a loop, or a timer, has its turn."""
        return self._firing

    def _refuse_in_a_loop(self) -> None:
        if self._firing:
            who = "a timer" if self.current_task is None else f"the loop {self.current_task.name}"
            raise SimulationError(f"{who} blocks inside its own turn; a step must not wait")

    def _raise_failure(self, actor: Actor) -> None:
        if actor.is_cancelled:
            raise SimulationEnded
        if self.failure is not None and actor.is_main:
            self.failure_was_raised = True
            raise self.failure

    # ------------------------------------------------------------------ the loop

    def run_on(self, finished: Actor) -> None:
        """End the actor's thread: run the scheduler until another actor takes the baton."""
        self._drive(finished)

    def _drive(self, me: Actor) -> None:
        """Run the scheduler until it is `me`'s turn, on this thread or after passing the baton."""
        while True:
            if self._dirty or self._dirty_places:
                self._look_at_waiters()
            if self.failure is not None:
                if not me.is_main:
                    self.threads.hand_over(me, self.threads.main)
                    self._raise_failure(me)
                return
            due = self._next_due()
            if due is None:
                continue
            self.progress += 1
            if isinstance(due, Actor):
                self._last_actor_run = self.now
                self.trace.turned(self.now, due.name)
                due.is_scheduled = False
                if due is not me:
                    self.threads.hand_over(me, due)
                return
            if self.now >= self._second_ends:
                self._begin_second()
            elif self.progress - self._turns_before > MOST_TURNS_PER_SECOND:
                self.fail(HotLoop(self._who_spins()))
                continue
            self._firing = True
            try:
                due.fire()
            except Exception as error:
                self.fail(error)
            finally:
                self._firing = False

    def _next_due(self) -> Due | None:
        heap = self._heap
        last_actor_run = self._last_actor_run
        while heap:
            when, _, _, token, due = heappop(heap)
            if due.token != token:
                continue
            if when > self.now:
                if when - last_actor_run > PATIENCE and self._all_wait_for_ever():
                    break
                self.now = when
            return due
        self.fail(Deadlock(self._who_waits()))
        return None

    def _begin_second(self) -> None:
        self._second_ends = self.now + 1.0
        self._turns_before = self.progress
        self.tasks = [task for task in self.tasks if not task.is_stopped]
        for task in self.tasks:
            task.turns_before = task.turns

    def _who_spins(self) -> str:
        busiest = sorted(self.tasks, key=lambda task: task.turns_before - task.turns)[:5]
        lines = [f"  {task.name}: {task.turns - task.turns_before} turns" for task in busiest]
        return (
            f"more than {MOST_TURNS_PER_SECOND} turns in the virtual second before {self.now:.6f}:\n"
            + "\n".join(lines)
        )

    def _all_wait_for_ever(self) -> bool:
        return all(actor.deadline == FOREVER for actor in self._waiting)

    def _who_waits(self) -> str:
        lines = [f"  {actor.name} waits: {actor.describe_wait()}" for actor in self._waiting]
        return f"nothing is left to happen at {self.now:.6f} s, yet\n" + "\n".join(lines)

    def _look_at_waiters(self) -> None:
        every, places = self._dirty, self._dirty_places
        self._dirty, self._dirty_places = False, {}
        for actor in self._waiting:
            if actor.is_scheduled or actor.predicate is NEVER:
                continue
            if (every or actor.place is None or actor.place in places) and holds(actor.predicate):
                actor.is_scheduled = True
                self.push(self.now + self.hop(), actor)

    # ------------------------------------------------------------------ the end

    def loop_failed(self, task: SimTask, error: Exception) -> None:
        failed = LoopFailed(f"the loop {task.name} ended at {self.now:.6f} s by {error!r}")
        failed.__cause__ = error
        self.loop_failures.append(failed)
        self.trace.note(self.now, f"loop {task.name} failed: {error!r}")
        self._dirty = True

    def fail(self, error: BaseException) -> None:
        """End the simulation: the main actor's current or next blocking call raises `error`."""
        if self.failure is None:
            self.failure = error
            self.trace.note(self.now, f"failed: {error!r}")

    def close(self) -> None:
        """Unwind every waiting actor and end the watchdog.  Called by the main actor; can be repeated."""
        self.is_over = True
        self.threads.close()
        self._heap.clear()
