"""Connects an asyncio client with the sync client that it uses: loop, waits, and calls on helper threads.

On the event loop, except where a method says otherwise. Whatever other threads complete enters the loop
through `driver/loop_wait.py`, which wakes it once for all of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextvars import copy_context
from functools import partial
from typing import Any, Generic, TypeVar

from pykafka2 import lifecycle
from pykafka2.aio.runtime import HelperCall, LoopRuntime
from pykafka2.clock import FOREVER
from pykafka2.driver.driver import Driver
from pykafka2.driver.loop_wait import LoopCalls, LoopWaiter, calls_of, wait_in_loop
from pykafka2.driver.runtime import Outcome, Runtime
from pykafka2.driver.wait_queue import WaitQueue, Watched
from pykafka2.errors import ClientClosed, KafkaError, KafkaTimeoutError, WrongEventLoop
from pykafka2.network.script import Lane

T = TypeVar("T")

START_TIMEOUT = 60.0
"""Seconds that a call waits for a helper thread, while calls that began earlier use all of them."""

UNBOUND = object()
"""Stands for the loop before the first awaited call; None is a thread without a running loop."""


class Call(Generic[T]):
    """A call that runs on a helper thread; any number of tasks can wait for it."""

    def __init__(self, runtime: LoopRuntime, future: asyncio.Future[T]) -> None:
        self.future = future
        """Done when the loop has received the outcome; never, if it has closed before."""
        self.helper = HelperCall()
        self._runtime = runtime
        self._outcome: Outcome[T] | None = None
        self._waiters = WaitQueue()

    def cancel(self) -> None:
        """Prevent the call, or end it at its next wait."""
        self.helper.is_cancelled = True
        self._runtime.notify()

    def end(self, outcome: Outcome[T]) -> None:
        """Set the outcome, once. On the helper thread, or on the loop if the call is given up."""
        if self._outcome is not None:
            return
        if isinstance(outcome.error, StopIteration):  # futures reject it, since it ends generators
            cause, outcome.error = outcome.error, RuntimeError("a callback raised StopIteration")
            outcome.error.__cause__ = cause
        self._outcome = outcome
        self._waiters.wake()

    async def wait(self) -> None:
        """Wait for the end; a cancelled task leaves the call as it is."""
        if self.future.get_loop() is not asyncio.get_running_loop():  # that one has closed
            await _WaitInLoop(self._has_ended, self._waiters)
        elif not self.future.done():
            await asyncio.wait([self.future])

    async def result(self) -> T:
        """Wait like `wait`, and return the result."""
        await self.wait()
        assert self._outcome is not None  # noqa: S101
        return self._outcome.get()

    async def own_result(self) -> T:
        """Return the result to the task that started the call; if the task is cancelled, so is the call."""
        try:
            return await self.result()
        except asyncio.CancelledError:
            self.cancel()
            raise

    def _has_ended(self) -> bool:
        return self._outcome is not None


class _WaitInLoop:
    """`wait_in_loop`, to be awaited."""

    def __init__(self, is_over: Callable[[], bool], queue: WaitQueue) -> None:
        self._is_over = is_over
        self._queue = queue

    def __await__(self) -> Generator[Any, None, None]:
        return wait_in_loop(self._is_over, self._queue)


class Bridge:
    """One client's place on an event loop.

    `runtime` has the threads and sockets; if None, the client creates them and closes them.
    """

    def __init__(self, client: str, runtime: Runtime | None) -> None:
        self._client = client
        self.owns_runtime = runtime is None
        self.runtime = LoopRuntime(lifecycle.load_for_io_thread(_threads) if runtime is None else runtime)
        self.loop: asyncio.AbstractEventLoop | None = None
        """The loop of the first awaited call."""
        self.refusal: KafkaError | None = None
        """The error of calls on helper threads after the client was closed."""
        self._calls: LoopCalls | None = None
        self._running: set[Call[Any]] = set()
        self.closing: Call[None] | None = None
        self._is_closed = False
        """Whether a caller has received the end of the close."""

    # ------------------------------------------------------------------ the loop

    def enter(self) -> asyncio.AbstractEventLoop:
        """Return the client's loop, which is the running one; the first call binds the client to it.

        Raise WrongEventLoop.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise WrongEventLoop(
                f"no asyncio event loop runs in this thread; await calls of a {self._client} in a coroutine"
            ) from None
        if self.loop is not loop:
            if self.loop is not None:
                is_closed = self.loop.is_closed()
                raise WrongEventLoop(
                    f"this {self._client} belongs to the event loop of its first call"
                    + (", which is closed; " if is_closed else "; ")
                    + ("" if is_closed else "from another thread use asyncio.run_coroutine_threadsafe, or ")
                    + "create a client in each loop"
                )
            self.loop, self._calls = loop, calls_of(loop)
        return loop

    def enter_to_close(self) -> asyncio.AbstractEventLoop:
        """Return the running loop like `enter`; any loop can close a client whose own loop has closed."""
        if self.has_lost_its_loop:
            self.loop = self._calls = None
        return self.enter()

    @property
    def has_lost_its_loop(self) -> bool:
        """Whether the client's loop has closed, so that what waits for it waits for ever."""
        return self.loop is not None and self.loop.is_closed()

    def post(self, call: Callable[[], object]) -> None:
        """Run `call` on the loop soon. Any thread; does nothing before the first awaited call."""
        if self._calls is not None:
            self._calls.post(call)

    def on_loop(self, callback: Callable[..., object]) -> Callable[..., None]:
        """Return a function that calls `callback` on the loop; any thread can call it."""
        post = self.post
        return lambda *args: post(partial(callback, *args))

    # ------------------------------------------------------------------ waiting

    async def wait(
        self,
        driver: Driver,
        predicate: Callable[[], bool],
        timeout: float,
        *queues: WaitQueue,
        on_wake: Callable[[], object] | None = None,
    ) -> bool:
        """Suspend the task until the predicate is true; `Driver.wait_until` for a task.

        `on_wake` is called on the thread that wakes the task.
        """

        def is_over() -> bool:
            return predicate() or driver.failure is not None or driver.is_closed

        await self._wait(is_over, timeout, queues, on_wake)
        if predicate():
            return True
        driver.raise_failure()
        if driver.is_closed:
            raise ClientClosed(f"{driver.name} was closed while a call waited")
        return False

    async def _wait(
        self,
        is_over: Callable[[], bool],
        timeout: float,
        queues: tuple[WaitQueue, ...],
        on_wake: Callable[[], object] | None,
    ) -> None:
        loop, runtime = self.enter(), self.runtime
        monotonic = runtime.clock.monotonic
        deadline = monotonic() + timeout
        waiter = LoopWaiter(calls_of(loop), loop.create_future())
        unpark = waiter.unpark if on_wake is None else partial(_wake, on_wake, waiter)
        watched = None if queues else Watched(is_over, unpark)
        look = is_over if watched is None else watched.look
        runtime.join(waiter, watched)
        for queue in queues:
            queue.join(waiter)
        try:
            # Checked again after registering: a wake in between has completed the future.
            while not look():
                remaining = deadline - monotonic()
                if remaining <= 0:
                    return
                timer = None if remaining == FOREVER else loop.call_later(remaining, waiter.wake)
                try:
                    await waiter.done
                finally:
                    if timer is not None:
                        timer.cancel()
                waiter.done = loop.create_future()
        finally:
            for queue in queues:
                queue.leave(waiter)
            runtime.leave(waiter, watched)

    # ------------------------------------------------------------------ helper threads

    def start(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> Call[T]:
        """Start a blocking call on a helper thread, with a copy of the task's context variables."""
        return self._start(Lane.CALLS, partial(function, *args, **kwargs))

    def _start(self, lane: Lane, function: Callable[[], T]) -> Call[T]:
        loop, calls = self.enter(), self._calls
        if self.refusal is not None:
            raise self.refusal.anew()
        call: Call[T] = Call(self.runtime, loop.create_future())
        # Its exception is raised by the waiting tasks; if all are cancelled, nothing is left to report.
        call.future.add_done_callback(_mark_retrieved)
        self._running.add(call)
        timer = loop.call_later(START_TIMEOUT, self._give_up, call)
        call.future.add_done_callback(lambda _: timer.cancel())
        work = partial(self.runtime.run_call, call.helper, partial(copy_context().run, function))

        def then(outcome: Outcome[Any]) -> None:
            call.end(outcome)
            if calls is not None:
                calls.post(partial(self._end, call, outcome))

        self.runtime.offload(work, then, lane)
        return call

    def _give_up(self, call: Call[Any]) -> None:
        """Fail a call that has not begun."""
        if call.helper.claim():
            outcome: Outcome[Any] = Outcome(
                error=KafkaTimeoutError(
                    f"the call did not begin within {START_TIMEOUT:g} s, because earlier calls of this "
                    f"{self._client} use all its helper threads; start fewer calls at once, or pass a timeout"
                )
            )
            call.end(outcome)
            self._end(call, outcome)

    async def run(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Run a blocking call on a helper thread; if the task is cancelled, the call's next wait ends."""
        return await self.start(function, *args, **kwargs).own_result()

    def _end(self, call: Call[Any], outcome: Outcome[Any]) -> None:
        self._running.discard(call)
        if call.future.done():
            return
        if outcome.error is None:
            call.future.set_result(outcome.value)
        else:
            call.future.set_exception(outcome.error)

    # ------------------------------------------------------------------ the end

    def begin_close(self, refusal: KafkaError, close: Callable[[], None]) -> Call[None]:
        """Begin to close the client, once, and return that call; later calls raise `refusal`.

        The close does not wait until other calls leave it a thread.
        """
        if self.closing is None:
            self.closing = self._start(Lane.CLOSING, close)
            self.refusal = refusal
        return self.closing

    async def end_close(self) -> None:
        """Wait for the end of the close and raise its error; does nothing once a caller has received it."""
        if self.closing is not None and not self._is_closed:
            await self.closing.wait()
            self._is_closed = True
            await self.closing.result()


def _threads() -> Runtime:
    from pykafka2.driver.thread_driver import ThreadRuntime

    return ThreadRuntime()


def _wake(on_wake: Callable[[], object], waiter: LoopWaiter) -> None:
    on_wake()
    waiter.unpark()


def _mark_retrieved(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()
