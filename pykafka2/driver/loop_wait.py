"""Suspends an asyncio task until another thread wakes a wait queue.

Leaves nothing behind: a cancelled task leaves the queue at once, and a task whose loop has closed is skipped.
All wake-ups of one loop that arrive before it runs share one `call_soon_threadsafe`, so an IO turn that
completes a hundred batches writes once to the loop's socket.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from threading import get_ident
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

from pykafka2.driver.wait_queue import WaitQueue

if TYPE_CHECKING:
    import asyncio

    from pykafka2.driver.runtime import Step
    from pykafka2.network.transport import Ready


class LoopCalls:
    """Calls from other threads that one event loop runs together."""

    __slots__ = ("_calls", "_is_scheduled", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # Weak, because the table below, which is keyed by loop, refers to this object.
        self._loop = ref(loop)
        self._calls: deque[Callable[[], object]] = deque()
        self._is_scheduled = False

    def post(self, call: Callable[[], object]) -> None:
        """Run `call` on the loop soon. Any thread; does nothing if the loop has closed."""
        self._calls.append(call)
        if not self._is_scheduled:
            of_turn = _loops_of_turns.get(get_ident())
            if of_turn is None:
                self.schedule()
            else:
                self._is_scheduled = True
                of_turn.append(self)

    def schedule(self) -> None:
        """Wake the loop to run the calls. Any thread."""
        self._is_scheduled = True
        loop = self._loop()
        try:
            if loop is not None:
                loop.call_soon_threadsafe(self._run)
                return
        except RuntimeError:
            pass
        # The loop has closed, so nothing waits any more.
        self._calls.clear()
        self._is_scheduled = False

    def _run(self) -> None:
        # Before the calls are taken: a call that arrives from here on schedules another run.
        self._is_scheduled = False
        calls = self._calls
        for _ in range(len(calls)):
            call = calls.popleft()
            try:
                call()
            except Exception as error:
                loop = self._loop()
                if loop is not None:  # always, as it runs
                    function = getattr(call, "func", call)  # of a partial
                    name = getattr(function, "__qualname__", repr(function))
                    words = f"the callback {name} of a pykafka2 client failed"
                    context = {"message": words, "exception": error}
                    loop.call_exception_handler(context)
            except BaseException:
                # A SystemExit ends this run of the loop; the next one, which cancels tasks, needs the rest.
                if calls and not self._is_scheduled:
                    self.schedule()
                raise


_loops_of_turns: dict[int, list[LoopCalls]] = {}
"""The event loops that an IO turn wakes at its end, by the thread of the turn."""


class WakingStep:
    """A loop of IO whose turns wake each event loop once, at the end of the turn.

    A wake-up in the midst of a turn would let the thread of the event loop take CPython's global lock, find
    one batch done, and sleep again until the turn completes the next one.
    """

    __slots__ = ("_step",)

    def __init__(self, step: Step) -> None:
        self._step = step

    def run_once(self, now: float, events: Sequence[Ready]) -> float:
        thread = get_ident()
        of_turn = _loops_of_turns[thread] = []
        try:
            return self._step.run_once(now, events)
        finally:
            del _loops_of_turns[thread]
            for calls in of_turn:
                calls.schedule()


def wake_loops() -> None:
    """Wake the event loops now, in the midst of a turn whose rest can take long."""
    of_turn = _loops_of_turns.get(get_ident())
    while of_turn:
        of_turn.pop().schedule()


_calls_by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopCalls] = WeakKeyDictionary()


def calls_of(loop: asyncio.AbstractEventLoop) -> LoopCalls:
    """Return the calls of this loop. On the loop's own thread."""
    calls = _calls_by_loop.get(loop)
    if calls is None:
        calls = _calls_by_loop[loop] = LoopCalls(loop)
    return calls


class LoopWaiter:
    """A `Waiter` that completes a future of an event loop."""

    __slots__ = ("_calls", "done")

    def __init__(self, calls: LoopCalls, done: asyncio.Future[None]) -> None:
        self._calls = calls
        self.done = done

    def unpark(self) -> None:
        self._calls.post(self.wake)

    def wake(self) -> None:
        """Complete the future. On the loop's thread."""
        if not self.done.done():
            self.done.set_result(None)


def wait_in_loop(is_over: Callable[[], bool], queue: WaitQueue) -> Generator[Any, None, None]:
    """Suspend the running task until `is_over()`, which must be true before the queue is woken."""
    import asyncio  # programs without an event loop do not load it

    while not is_over():
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        waiter = LoopWaiter(calls_of(loop), done)
        queue.join(waiter)
        try:
            if not is_over():  # it may have come between the first look and joining
                yield from done
        finally:
            queue.leave(waiter)
