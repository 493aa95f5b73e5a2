"""Which parts of the cluster share a thread: a loop turns some parts, a runtime turns the loop.

Every duty of a broker (acceptor, processor, handler, timers) is a `Part` with `run(now)`.  By default all
parts of a cluster share one loop: under the interpreter's lock several threads would only hand work back
and forth (a hop costs 11 to 29 us, and up to 5 ms while a test computes).  With threads=separate each part
has a loop of its own, as in Apache, and in the simulation the scheduler then picks between them.

A part that raises costs its own turn: it is noted in the cluster's problems and rests for a moment, so that
it cannot spin; a target of the selector is told (`on_failure`), and ends its one connection.

`Part.signal` and `Loop.call` may be used from any thread; all else belongs to the loop's thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import current_thread, get_ident
from typing import Any

from pykafka2.broker.base.problems import Problems
from pykafka2.clock import FOREVER
from pykafka2.driver.runtime import Runtime, Task
from pykafka2.errors import IllegalState, KafkaTimeoutError
from pykafka2.network.transport import Ready, Selector

# How often parts may give each other work before the sockets are looked at again.
MAX_PASSES = 32
MAX_ROUNDS = 8
# And for how long, in seconds: who asks now would wait for all whose requests have been read already.
MAX_TURN = 0.0001
# For how many turns parts that run last wait at most, while others always have something to do.
MAX_HELD_BACK = 11
NO_THREAD = -1
CALL_TIMEOUT = 30.0
# How long a part that has failed is not run, in seconds.
REST = 0.1


class Part:
    """One duty, turned by a loop: `run(now)` is called after `signal()` and when the time it named has
    come.
    """

    runs_last = False
    """Whether it waits until no other part of its loop has anything to do."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_signalled = True
        self.wake_at = FOREVER
        self.stands_still = False
        """Not run while this is set (under the cluster's lock); it catches up afterwards."""
        self._loop: Loop | None = None

    @property
    def loop(self) -> Loop:
        if self._loop is None:
            raise IllegalState(f"{self.name} is in no loop")
        return self._loop

    def run(self, now: float) -> float:
        """Do what can be done without waiting; when to be run again at the latest."""
        raise NotImplementedError

    def signal(self) -> None:
        """Have `run` called soon.  From any thread; costs next to nothing where the loop is at work."""
        if not self.is_signalled:
            self.is_signalled = True
            # In its own turn a loop looks at every part once more before it sleeps.
            if self._loop is not None and not self._loop.is_turning_here():
                self._loop.wake()


def pause(parts: Iterable[Part]) -> None:
    """Let these parts stand still."""
    for part in parts:
        part.stands_still = True


def resume(parts: Iterable[Part]) -> None:
    """Let them go on, with whatever has come meanwhile."""
    for part in parts:
        part.stands_still = False
        part.is_signalled = False
        part.signal()


class Loop:
    """Turns its parts and hands what the selector reports to whoever registered: `on_ready(bits, now)`, and
    `on_failure(error, now)` where that raised.
    """

    def __init__(self, runtime: Runtime, name: str, problems: Problems | None = None) -> None:
        self.name = name
        self.runtime = runtime
        self.problems = Problems() if problems is None else problems
        self.selector: Selector = runtime.network.selector()
        self._parts: tuple[Part, ...] = ()
        self._last: tuple[Part, ...] = ()
        self._resting: dict[Part, float] = {}  # parts that have failed, which none of the two holds meanwhile
        self._until = FOREVER  # when this turn is over
        self._held_back = 0  # for how many turns the last ones have waited
        self.passes = 0
        """How often it has gone over its parts."""
        self._commands: deque[Callable[[], None]] = deque()
        self._is_stopped = False
        self._turning_in = NO_THREAD
        self._running: Part | None = None  # whose `run` the turn is in
        self._task: Task = runtime.spawn(name, self, self.selector)

    # ------------------------------------------------------------------ any thread

    def wake(self) -> None:
        self._task.wake()

    def is_turning_here(self) -> bool:
        """True if the caller is called by `run_once`."""
        return self._turning_in == get_ident()

    def at_work(self) -> str:
        """Who asks, by name: the part whose `run` this is called in; "" where a socket was reported.  Outside
        of this loop's turn it is the thread.
        """
        if not self.is_turning_here():
            return current_thread().name
        return "" if self._running is None else self._running.name

    def call(self, work: Callable[[], Any]) -> None:
        """Run `work` on the loop's thread and wait for it; raises what it raises.

        Not to be called with the cluster's lock held: the loop may be waiting for it.
        """
        if self.runtime.is_current(self._task):
            work()
            return
        outcome: list[BaseException | None] = []

        def command() -> None:
            try:
                work()
            except BaseException as error:
                outcome.append(error)
            else:
                outcome.append(None)

        self._commands.append(command)
        self.wake()
        done = self.runtime.wait_until(lambda: bool(outcome) or self._task.error is not None, CALL_TIMEOUT)
        if outcome and outcome[0] is not None:
            raise outcome[0]
        if not outcome:
            if done:
                raise IllegalState(f"the loop {self.name} has ended") from self._task.error
            raise KafkaTimeoutError(f"the loop {self.name} did not answer within {CALL_TIMEOUT} seconds")

    def stop(self, timeout: float) -> bool:
        """End the loop; its selector closes with it.  Safe to repeat."""
        self._is_stopped = True
        return self._task.stop(timeout)

    @property
    def error(self) -> BaseException | None:
        """Why the loop ended, if it ended by itself."""
        return self._task.error

    # ------------------------------------------------------------------ the loop's thread

    @property
    def is_shared(self) -> bool:
        """Whether it turns more than one part."""
        return len(self._parts) + len(self._last) > 1

    def add(self, part: Part) -> None:
        part._loop = self
        part.is_signalled = True
        self._take_in(part)

    def _take_in(self, part: Part) -> None:
        if part.runs_last:
            self._last = (*self._last, part)
        else:
            self._parts = (*self._parts, part)

    def remove(self, part: Part) -> None:
        self._leave_out(part)
        self._resting.pop(part, None)
        part._loop = None

    def _leave_out(self, part: Part) -> None:
        self._parts = tuple(known for known in self._parts if known is not part)
        self._last = tuple(known for known in self._last if known is not part)

    def run_once(self, now: float, events: Sequence[Ready]) -> float:
        """One turn (see `runtime.Step`)."""
        self._turning_in = get_ident()
        if self._resting:
            self._end_rests(now)
        self._turn(now, events)
        self._turning_in = NO_THREAD
        wake_at = min(self._resting.values()) if self._resting else FOREVER
        for part in (*self._parts, *self._last):
            if part.stands_still:
                continue
            if part.is_signalled:
                return now
            wake_at = min(wake_at, part.wake_at)
        return now if self._commands else wake_at

    def _turn(self, now: float, events: Sequence[Ready]) -> None:
        for target, bits in events:
            try:
                target.on_ready(bits, now)  # type: ignore[attr-defined]
            except Exception as error:
                self.problems.note(f"{self.name}: {target!r}", error)
                self._tell_failure(target, error, now)
        if self._commands:
            self._run_commands()
        self._until = self.runtime.clock.monotonic() + MAX_TURN
        for _ in range(MAX_ROUNDS):
            if not self._come_to_rest(now) and self._held_back < MAX_HELD_BACK:
                self._held_back += 1
                return  # the sockets are looked at, then those who have something to do go on
            self._held_back = 0
            if not self._pass(self._last, now) or self.is_turn_over:
                break

    @property
    def is_turn_over(self) -> bool:
        """Whether this turn has lasted so long that the sockets are to be looked at.  The loop's thread."""
        return self.runtime.clock.monotonic() >= self._until

    def _come_to_rest(self, now: float) -> bool:
        """Have all but the last parts give each other work, for a while; False if there is some left."""
        for _ in range(MAX_PASSES):
            if not self._pass(self._parts, now):
                return True
            if self.is_turn_over:
                break
        return not any(part.is_signalled and not part.stands_still for part in self._parts)

    def _tell_failure(self, target: object, error: Exception, now: float) -> None:
        try:
            target.on_failure(error, now)  # type: ignore[attr-defined]
        except Exception as another:
            self.problems.note(f"{self.name}: the end of {target!r}", another)

    def _pass(self, parts: tuple[Part, ...], now: float) -> bool:
        """Run those whose turn it is; False if there were none."""
        ran = False
        self.passes += 1
        for part in parts:
            if part._loop is not self:
                continue  # one before it has had it removed
            if (part.is_signalled or part.wake_at <= now) and not part.stands_still:
                part.is_signalled = False
                self._running = part
                try:
                    part.wake_at = part.run(now)
                except Exception as error:
                    self._failed(part, error, now)
                self._running = None
                ran = True
        return ran

    def _failed(self, part: Part, error: Exception, now: float) -> None:
        """A part has raised: the others go on, and it is run again after a rest."""
        self.problems.note(part.name, error)
        if part._loop is self:  # it may have ended meanwhile, or have ended itself
            self._leave_out(part)
            self._resting[part] = now + REST

    def _end_rests(self, now: float) -> None:
        for part in [one for one, until in self._resting.items() if until <= now]:
            del self._resting[part]
            part.is_signalled = True
            self._take_in(part)

    def _run_commands(self) -> None:
        for _ in range(len(self._commands)):
            self._commands.popleft()()
        self.runtime.notify()


class Loops:
    """Gives each part its loop: one for all of the cluster, or one for each."""

    def __init__(
        self, runtime: Runtime, name: str, *, separate: bool, problems: Problems | None = None
    ) -> None:
        self.runtime = runtime
        self.problems = Problems() if problems is None else problems
        self._name = name
        self._separate = separate
        self._shared: Loop | None = None
        self._own: dict[Part, Loop] = {}

    def add_all(self, parts: Sequence[Part]) -> None:
        """Start to turn these parts; from any thread."""
        by_loop: dict[Loop, list[Part]] = {}
        for part in parts:
            by_loop.setdefault(self._loop_for(part), []).append(part)
        for loop, own in by_loop.items():
            loop.call(lambda loop=loop, own=own: [loop.add(part) for part in own])  # type: ignore[misc]

    def call(self, part: Part, work: Callable[[], Any]) -> None:
        """Run `work` in the part's loop and wait for it."""
        part.loop.call(work)

    def remove_all(self, parts: Mapping[Part, Callable[[], object] | None]) -> None:
        """Stop turning these parts; what stands beside each runs in its loop at the end."""
        by_loop: dict[Loop, list[Part]] = {}
        for part in parts:
            if part._loop is not None:
                by_loop.setdefault(part._loop, []).append(part)

        def end(loop: Loop, own: list[Part]) -> None:
            for part in own:
                last = parts[part]
                if last is not None:
                    last()
                loop.remove(part)

        for loop, own in by_loop.items():
            if loop.error is None:
                loop.call(lambda loop=loop, own=own: end(loop, own))  # type: ignore[misc]
            else:
                end(loop, own)  # the loop has ended by a bug, so nobody else touches what is its own
            for part in own:
                if self._own.pop(part, None) is not None:
                    loop.stop(CALL_TIMEOUT)

    def stop(self, timeout: float = 5.0) -> bool:
        """End all loops; False if one did not end in time."""
        loops = [*self._own.values(), *([self._shared] if self._shared else [])]
        self._own.clear()
        self._shared = None
        stopped = [loop.stop(timeout) for loop in loops]
        return all(stopped)

    @property
    def has_failed(self) -> bool:
        """True if a loop has ended by itself."""
        return any(
            loop.error is not None
            for loop in (*self._own.values(), *([self._shared] if self._shared else []))
        )

    def raise_failure(self) -> None:
        """Raise what ended a loop by itself: a bug must not look like a slow broker."""
        for loop in (*self._own.values(), *([self._shared] if self._shared else [])):
            if loop.error is not None:
                raise IllegalState(f"the broker's loop {loop.name} ended: {loop.error!r}") from loop.error

    def _loop_for(self, part: Part) -> Loop:
        if self._separate:
            loop = self._own[part] = Loop(self.runtime, f"{self._name}-{part.name}", self.problems)
            return loop
        if self._shared is None:
            self._shared = Loop(self.runtime, self._name, self.problems)
        return self._shared
