"""Threads of the cluster: a loop runs parts, and a runtime runs the loop.

Every component of a broker (acceptor, processor, handler, timers) is a `Part` with `run(now)`. By default all
parts of a cluster share one loop: under the GIL several threads would only pass work back and forth (a hop
takes 11 to 29 us, and up to 5 ms while a test computes). With threads=separate each part has its own loop, as
in Apache, and in the simulation the scheduler picks between them.

A part that raises loses only its turn: the exception is recorded in the cluster's problems, and the part
rests for a moment, so that it cannot spin. A target of the selector gets `on_failure`, and closes its one
connection.

`Part.signal` and `Loop.call` can be called from any thread; the rest belongs to the loop's thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import current_thread, get_ident
from typing import Any, NoReturn

from pykafka2.broker.base.problems import Problems
from pykafka2.clock import FOREVER
from pykafka2.driver.runtime import Runtime, Task
from pykafka2.errors import IllegalState, KafkaTimeoutError
from pykafka2.network.transport import WRITABLE, Ready, Selector

# How often parts can create work for each other before the sockets are polled again.
MAX_PASSES = 32
MAX_ROUNDS = 8
# And for how many seconds: new requests would otherwise wait for all buffered ones.
MAX_TURN = 0.0001
# Seconds for which a client that has sent something counts as active.
ACTIVE_FOR = 0.005
# Turns that `runs_last` parts wait at most while others are busy.
MAX_HELD_BACK = 11
NO_THREAD = -1
CALL_TIMEOUT = 30.0
# Seconds that a failed part is not run.
REST = 0.1


class _NoLoop:
    """The loop of a part that no loop runs."""

    def __getattr__(self, name: str) -> NoReturn:
        raise IllegalState(f"a part that belongs to no loop used {name!r} of its loop")


NO_LOOP: Any = _NoLoop()


class Part:
    """One component, run by a loop: `run(now)` is called after `signal()`, and at the time it returned."""

    runs_last = False
    """Whether it runs only when no other part of its loop has work."""
    sends = False
    """Whether it runs once more at the end of a long turn: responses leave before the sockets are polled."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_signalled = True
        self.wake_at = FOREVER
        self.is_suspended = False
        """Not run while set (under the cluster's lock); it catches up afterwards."""
        self.loop: Loop = NO_LOOP

    def run(self, now: float) -> float:
        """Do what is possible without waiting. Return when it must run again at the latest."""
        raise NotImplementedError

    def signal(self) -> None:
        """Schedule `run` soon. From any thread; nearly free while the loop is running."""
        if not self.is_signalled:
            self.is_signalled = True
            loop = self.loop
            # During its own turn a loop checks every part once more before it sleeps.
            if loop is not NO_LOOP and loop._turning_in != get_ident():
                loop.wake()


def pause(parts: Iterable[Part]) -> None:
    """Pause these parts."""
    for part in parts:
        part.is_suspended = True


def resume(parts: Iterable[Part]) -> None:
    """Resume these parts, with the work that arrived meanwhile."""
    for part in parts:
        part.is_suspended = False
        part.is_signalled = False
        part.signal()


class Loop:
    """Runs its parts and dispatches selector events.

    Calls `on_ready(bits, now)`, or `on_failure(error, now)` if that raised.
    """

    def __init__(self, runtime: Runtime, name: str, problems: Problems | None = None) -> None:
        self.name = name
        self.runtime = runtime
        self.problems = Problems() if problems is None else problems
        self.selector: Selector = runtime.network.selector()
        self._parts: tuple[Part, ...] = ()
        self._last: tuple[Part, ...] = ()
        self._senders: tuple[Part, ...] = ()  # in `_parts`, too
        self._resting: dict[Part, float] = {}  # failed parts, in neither of the two tuples meanwhile
        self._until = FOREVER  # when this turn is over
        self._held_back = 0  # turns that the last parts have waited
        self._latest_sender: object = None  # the connection that was read last
        self._latest_at = 0.0
        self._other_at = 0.0  # when any other one was read last
        self.is_shared = False
        """Whether the loop runs more than one part."""
        self.passes = 0
        """The number of passes over the parts."""
        self._commands: deque[Callable[[], None]] = deque()
        self._is_stopped = False
        self._turning_in = NO_THREAD
        self._running: Part | None = None  # whose `run` is executing
        self._task: Task = runtime.spawn(name, self, self.selector)

    # ------------------------------------------------------------------ any thread

    def wake(self) -> None:
        self._task.wake()

    def at_work(self) -> str:
        """Return the name of the part that is running.

        That is "" for a socket event, and the thread's name outside the loop.
        """
        if self._turning_in != get_ident():
            return current_thread().name
        return "" if self._running is None else self._running.name

    def call(self, work: Callable[[], Any]) -> None:
        """Run `work` on the loop's thread and wait for it; raise its exception.

        Must not be called with the cluster's lock held: the loop can be waiting for it.
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
            raise KafkaTimeoutError(f"the loop {self.name} did not respond within {CALL_TIMEOUT} seconds")

    def stop(self, timeout: float) -> bool:
        """End the loop and close its selector. Can be called repeatedly."""
        self._is_stopped = True
        return self._task.stop(timeout)

    @property
    def error(self) -> BaseException | None:
        """The exception that ended the loop, if any."""
        return self._task.error

    # ------------------------------------------------------------------ the loop's thread

    def add(self, part: Part) -> None:
        part.loop = self
        part.is_signalled = True
        self._insert(part)

    def _insert(self, part: Part) -> None:
        if part.runs_last:
            self._last = (*self._last, part)
        else:
            self._parts = (*self._parts, part)
            if part.sends:
                self._senders = (*self._senders, part)
        self.is_shared = len(self._parts) + len(self._last) > 1

    def remove(self, part: Part) -> None:
        self._discard(part)
        self._resting.pop(part, None)
        part.loop = NO_LOOP

    def _discard(self, part: Part) -> None:
        self._parts = tuple(known for known in self._parts if known is not part)
        self._last = tuple(known for known in self._last if known is not part)
        self._senders = tuple(known for known in self._senders if known is not part)
        self.is_shared = len(self._parts) + len(self._last) > 1

    def run_once(self, now: float, events: Sequence[Ready]) -> float:
        """Run one turn (see `runtime.Step`)."""
        self._turning_in = get_ident()
        if self._resting:
            self._end_rests(now)
        self._turn(now, events)
        self._turning_in = NO_THREAD
        wake_at = min(self._resting.values()) if self._resting else FOREVER
        for part in (*self._parts, *self._last):
            if (part.is_signalled or part.wake_at < wake_at) and not part.is_suspended:
                if part.is_signalled:
                    return now
                wake_at = part.wake_at
        return now if self._commands else wake_at

    def _turn(self, now: float, events: Sequence[Ready]) -> None:
        # Blocked connections are written last, because a piece of a file takes as long as a request: a client
        # that has just sent one would wait for it.
        writable = [event for event in events if event[1] == WRITABLE] if events else ()
        self._dispatch([event for event in events if event[1] != WRITABLE] if writable else events, now)
        if self._commands:
            self._run_commands()
        self._run_parts(now)
        if writable:
            self._dispatch(writable, now)

    def _dispatch(self, events: Sequence[Ready], now: float) -> None:
        for target, bits in events:
            try:
                target.on_ready(bits, now)  # type: ignore[attr-defined]
            except Exception as error:
                self.problems.note(f"{self.name}: {target!r}", error)
                self._report_failure(target, error, now)

    def _run_parts(self, now: float) -> None:
        self._until = self.runtime.clock.monotonic() + MAX_TURN
        for _ in range(MAX_ROUNDS):
            if not self._run_until_idle(now) and self._held_back < MAX_HELD_BACK:
                self._held_back += 1
                return  # poll the sockets, then the parts with work continue
            self._held_back = 0
            if not self._pass(self._last, now):
                break
            if self.is_turn_over:
                self._pass(self._senders, now)
                break

    @property
    def is_turn_over(self) -> bool:
        """Whether the turn has lasted so long that the sockets must be polled. The loop's thread."""
        return self.runtime.clock.monotonic() >= self._until

    def note_sender(self, sender: object, now: float) -> None:
        """Note that a client has sent something. The loop's thread."""
        if sender is not self._latest_sender:
            self._latest_sender, self._other_at = sender, self._latest_at
        self._latest_at = now

    def forget_sender(self, sender: object) -> None:
        """Keep no reference to a client that has disconnected. The loop's thread."""
        if sender is self._latest_sender:
            self._latest_sender = None  # its last request counts as that of another client

    def has_others(self, sender: object, now: float) -> bool:
        """Return whether other clients than this one have sent something lately. The loop's thread."""
        at = self._other_at if sender is self._latest_sender else self._latest_at
        return now < at + ACTIVE_FOR

    def _run_until_idle(self, now: float) -> bool:
        """Run all but the last parts until they are idle, for a limited time.

        Return False if work is left.
        """
        for _ in range(MAX_PASSES):
            if not self._pass(self._parts, now):
                return True
            if self.is_turn_over:
                self._pass(self._senders, now)
                break
        return not [part for part in self._parts if part.is_signalled and not part.is_suspended]

    def _report_failure(self, target: object, error: Exception, now: float) -> None:
        try:
            target.on_failure(error, now)  # type: ignore[attr-defined]
        except Exception as another:
            self.problems.note(f"{self.name}: closing {target!r}", another)

    def _pass(self, parts: tuple[Part, ...], now: float) -> bool:
        """Run the parts that are due. Return False if there were none."""
        ran = False
        self.passes += 1
        for part in parts:
            if not part.is_signalled and part.wake_at > now:
                continue  # the usual case
            # An earlier part can have removed it.
            if part.loop is self and not part.is_suspended:
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
        """Record the exception of a part, which runs again after a rest; the others continue."""
        self.problems.note(part.name, error)
        if part.loop is self:  # it can have been removed meanwhile, or have removed itself
            self._discard(part)
            self._resting[part] = now + REST

    def _end_rests(self, now: float) -> None:
        for part in [rested for rested, until in self._resting.items() if until <= now]:
            del self._resting[part]
            part.is_signalled = True
            self._insert(part)

    def _run_commands(self) -> None:
        for _ in range(len(self._commands)):
            self._commands.popleft()()
        self.runtime.notify()


class Loops:
    """Assigns a loop to each part: one shared loop, or one for each part."""

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
        """Start to run these parts; from any thread."""
        by_loop: dict[Loop, list[Part]] = {}
        for part in parts:
            by_loop.setdefault(self._loop_for(part), []).append(part)
        for loop, own in by_loop.items():
            loop.call(lambda loop=loop, own=own: [loop.add(part) for part in own])  # type: ignore[misc]

    def call(self, part: Part, work: Callable[[], Any]) -> None:
        """Run `work` in the part's loop and wait for it."""
        part.loop.call(work)

    def remove_all(self, parts: Mapping[Part, Callable[[], object] | None]) -> None:
        """Stop running these parts; the callable of each part runs in its loop at the end."""
        by_loop: dict[Loop, list[Part]] = {}
        for part in parts:
            if part.loop is not NO_LOOP:
                by_loop.setdefault(part.loop, []).append(part)

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
                end(loop, own)  # the loop ended by a bug, so no other thread uses its parts
            for part in own:
                if self._own.pop(part, None) is not None:
                    loop.stop(CALL_TIMEOUT)

    def stop(self, timeout: float = 5.0) -> bool:
        """End all loops. Return False if one did not end in time."""
        loops = [*self._own.values(), *([self._shared] if self._shared else [])]
        self._own.clear()
        self._shared = None
        stopped = [loop.stop(timeout) for loop in loops]
        return all(stopped)

    @property
    def has_failed(self) -> bool:
        """Whether a loop has ended by an exception."""
        return any(
            loop.error is not None
            for loop in (*self._own.values(), *([self._shared] if self._shared else []))
        )

    def raise_failure(self) -> None:
        """Raise the exception that ended a loop: a bug must not look like a slow broker."""
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
