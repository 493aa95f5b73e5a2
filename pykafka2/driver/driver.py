"""A client's driver: one loop that runs its managers, its channels and its command queue.

A `Runtime` runs the loop: a real thread in production, the seeded scheduler in the simulation. An IO turn is
one select, one large read for each readable channel, one poll of each manager that can have work, and one
gathered write for each channel with unsent bytes. Results reach callers at the end of the turn, once per
batch and not per record.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence, Sized
from functools import partial
from typing import Any, TypeVar

from pykafka2.clock import FOREVER, Clock, Entropy
from pykafka2.driver.channel import Channel, ChannelHandler, ChannelState
from pykafka2.driver.pollable import Occasional, Pollable, RequestRouter, Send
from pykafka2.driver.runtime import Outcome, Runtime, Task
from pykafka2.driver.wait_queue import WaitQueue
from pykafka2.errors import ClientClosed, ClientFailed, ForkedClientError, IllegalState, KafkaError
from pykafka2.events import EventSink
from pykafka2.interrupts import run_all
from pykafka2.metrics import Metrics
from pykafka2.network.endpoint import Endpoint
from pykafka2.network.script import Lane
from pykafka2.network.transport import Ready, SocketOptions, TlsWrapper

T = TypeVar("T")
Command = Callable[[float], None]
OnFailed = Callable[[ClientFailed, float], None]

ALWAYS = (True,)
"""The work of a manager that is polled in every turn."""

logger = logging.getLogger(__name__)


class Driver:
    """Runs the loop of one client.

    Any exception that ends the loop ends the client: `failure` holds it, later and blocked calls raise
    `ClientFailed`, and the `on_failed` listeners fail the pending work.

    Any thread: `call_soon`, `wake`, `wait_until`, `notify`, `offload`, `close`, `raise_failure`. The driver's
    thread only (inside a command, a `poll` or a handler): everything else.
    """

    def __init__(self, runtime: Runtime, name: str, router: RequestRouter | None = None) -> None:
        self.runtime = runtime
        self.name = name
        self.clock: Clock = runtime.clock
        self.entropy: Entropy = runtime.entropy
        self.event_sink = EventSink()
        self.metrics = metrics = Metrics(self.clock.monotonic)
        self._windows = metrics.windows
        self.router = router
        self.failure: BaseException | None = None
        self.is_closed = False
        self._pollables: list[tuple[Sized, Pollable]] = []
        """The managers, each with its `work` (see `Occasional`)."""
        self._channels: dict[Channel, None] = {}  # ordered, so that a seed decides all in the simulation
        self._unsettled: dict[Channel, None] = {}
        """Channels that have unsent bytes, or are closed."""
        self._commands: deque[Command] = deque()
        self._selector = runtime.network.selector()
        self._in_turn = False
        self._again = False
        self._is_finished = False
        self._on_failed: list[OnFailed] = []
        self._interruption: BaseException | None = None
        # The loop may turn before the assignment is done; an empty turn does not look at it.
        self._task: Task = runtime.spawn(name, self, self._selector, self._fail)
        self.wake: Callable[[], None] = self._task.wake
        """Polls the managers soon.  Any thread or signal handler; takes no lock."""
        self._measure_turns(self._task, self.clock.monotonic())

    # ------------------------------------------------------------------ any thread

    def call_soon(self, command: Command) -> None:
        """Run `command(now)` on the driver's thread, after those queued before it.

        Raise `ClientClosed`, or the error that ended the loop.
        """
        self.raise_failure()
        if self.is_closed:
            raise ClientClosed(f"{self.name} is closed; create a new one")
        self._commands.append(command)
        self._task.wake()

    def wait_until(self, predicate: Callable[[], bool], timeout: float, *queues: WaitQueue) -> bool:
        """Block until the predicate is true (see `Runtime.wait_until`); return its last value.

        Raise a background failure, `ClientClosed` if the driver is closed meanwhile, and at the end an
        exception passed to `interrupt`. On the driver's own thread (such as in an acknowledgement callback)
        it raises `IllegalState` at once, because it would wait for itself.
        """
        if self._in_turn and self.is_own_thread():
            raise IllegalState(
                "a blocking call inside a callback of the IO thread would wait for itself; "
                "call it from your own thread"
            )
        # Set by the predicate itself, so that it is not evaluated again after it was true.
        held = False

        def is_over() -> bool:
            nonlocal held
            held = predicate()
            return held or self.failure is not None or self.is_closed

        self.runtime.wait_until(is_over, timeout, *queues)
        if self._interruption is not None:
            self.raise_interruption()
        if not held:
            self.raise_failure()
            if self.is_closed:
                raise ClientClosed(f"{self.name} was closed while a call waited")
        return held

    def notify(self) -> None:
        self.runtime.notify()

    def offload(
        self,
        work: Callable[[], T],
        then: Callable[[Outcome[T], float], None],
        lane: Lane = Lane.COMPUTING,
    ) -> None:
        """Run blocking `work` on another thread, then `then(outcome, now)` on the driver's thread.

        If the system has no thread for it, the outcome is that error, which can pass.
        """

        def deliver(outcome: Outcome[T]) -> None:
            if not self.is_closed:
                self._commands.append(lambda now: then(outcome, now))
                self._task.wake()

        try:
            self.runtime.offload(work, deliver, lane)
        except RuntimeError as error:
            deliver(Outcome(error=error))

    def raise_failure(self) -> None:
        """Raise the error that ended the loop, if there is one; no background failure is swallowed.

        Raise `ClientFailed` or `ForkedClientError`.
        """
        failure = self.failure
        if isinstance(failure, ForkedClientError):
            raise failure
        if failure is not None:
            raise self._failed(failure) from failure

    def interrupt(self, error: BaseException) -> None:
        """Raise a callback's exception that must not be swallowed (`sys.exit()`) from a call of the user.

        On the driver's thread the loop continues, and the next blocking call of another thread raises it at
        its end, once. On any other thread it is raised at once.
        """
        if not self.is_own_thread():
            raise error
        self._interruption = error

    def raise_interruption(self) -> None:
        """Raise the exception that was passed to `interrupt`, once, on a thread of the user."""
        if self._interruption is not None and not self.is_own_thread():
            error, self._interruption = self._interruption, None
            if error is not None:
                raise error

    def raise_news(self) -> None:
        """Call `raise_failure` and `raise_interruption`; for callers that check often."""
        if self.failure is not None or self._interruption is not None:
            self.raise_failure()
            self.raise_interruption()

    def on_failed(self, listener: OnFailed) -> None:
        """Call `listener(error, now)` if an error ends the loop, on the thread that detects it.

        Listeners are called in the order in which they were added.  Call it before the driver is used.
        """
        self._on_failed.append(listener)

    def close(self, timeout: float = 5.0) -> bool:
        """Stop the loop and close all channels; False if the loop did not end in time.  Safe to repeat.

        Commands that were queued before still run, and their bytes are passed to the transports.
        """
        if isinstance(self.failure, ForkedClientError):
            return True
        self.is_closed = True
        if self.is_own_thread():
            self._task.stop()
            self._close_channels()
            return True
        deadline = self.clock.monotonic() + timeout
        self._commands.append(self._finish)
        self._task.wake()
        self.runtime.wait_until(lambda: self._is_finished or self._task.error is not None, timeout)
        stopped = self._task.stop(max(deadline - self.clock.monotonic(), 0.0))
        if stopped:
            # Otherwise the loop is stuck in some callback and still owns them.
            self._close_channels()
        self.runtime.notify()
        return stopped

    def abandon(self, error: ForkedClientError) -> None:
        """Raise this error from now on, in the child of a fork.

        Take no lock and close nothing, because the sockets and the selector belong to the parent, too.
        """
        self.failure = error
        self.is_closed = True

    def _measure_turns(self, task: Task, began: float) -> None:
        monotonic, metrics = self.clock.monotonic, self.metrics
        metrics.counter("select-total", lambda: task.turns)
        metrics.counter("io-time-ns-total", lambda: round(task.worked * 1e9))
        metrics.counter(
            "io-wait-time-ns-total", lambda: max(round((monotonic() - began - task.worked) * 1e9), 0)
        )

    def _finish(self, now: float) -> None:
        self._is_finished = True
        self._task.stop()

    def _close_channels(self) -> None:
        for channel in list(self._channels):
            channel.close()
        self._channels.clear()

    def is_own_thread(self) -> bool:
        """Return whether the caller runs on the driver's thread (in the simulation: within its turn)."""
        return self.runtime.is_current(self._task)

    # ------------------------------------------------------------------ the driver's thread

    def add(self, pollable: Pollable) -> None:
        """Poll this manager every turn, after those added before it; an `Occasional` one if it has work.

        The thread that creates the driver can also call it, before the driver is used.
        """
        work = pollable.work if isinstance(pollable, Occasional) else ALWAYS
        self._pollables.append((work, pollable))
        self._task.wake()

    def tell_waiters(self) -> None:
        """Wake waiters whose predicate is true, in the middle of a turn: the rest of it can take long."""
        self.runtime.check_waiters()

    def remove(self, pollable: Pollable) -> None:
        self._pollables = [known for known in self._pollables if known[1] is not pollable]

    def open(
        self,
        endpoint: Endpoint,
        handler: ChannelHandler,
        *,
        options: SocketOptions,
        tls: TlsWrapper | None = None,
        server_name: str | None = None,
    ) -> Channel:
        """Start to connect.  A failure is passed to the handler's `on_close`, never raised."""
        try:
            transport = self.runtime.network.connect(
                endpoint, options=options, tls=tls, server_name=server_name
            )
        except KafkaError as error:
            channel = Channel(None, self._selector, handler, str(endpoint), self._unsettled)
            failed, failure = channel, error
            self._commands.append(lambda now: failed.fail(failure, now))
            self._task.wake()
        else:
            channel = Channel(transport, self._selector, handler, unsettled=self._unsettled)
        self._channels[channel] = None
        return channel

    def run_once(self, now: float, events: Sequence[Ready]) -> float:
        """Run one IO turn (see `runtime.Step`)."""
        if now >= self._windows.due_at:
            self._windows.turn()
        self._in_turn, self._again = True, False
        try:
            for channel, bits in events:
                channel.on_ready(bits, now)  # type: ignore[attr-defined]
            commands = self._commands
            if commands:
                for _ in range(len(commands)):
                    commands.popleft()(now)
            wake_at = FOREVER
            for work, pollable in self._pollables:
                if work:
                    result = pollable.poll(now)
                    for send in result.sends:
                        self._route(send, now)
                    if result.wake_at < wake_at:
                        wake_at = result.wake_at
            if self._unsettled:
                self._settle_all(now)
            return now if commands or self._again else wake_at
        except BaseException as error:
            self._fail(error)
            raise
        finally:
            self._in_turn = False
            self.runtime.check_waiters()

    def _fail(self, error: BaseException) -> None:
        """Fail all pending work, because this error ends the loop."""
        if self.failure is not None:
            return
        logger.error("%s stopped by a bug in its loop", self.name, exc_info=error)
        self.failure = error
        self._commands.clear()
        failed, now = self._failed(error), self.clock.monotonic()
        failed.__cause__ = error
        try:
            run_all([partial(listener, failed, now) for listener in self._on_failed])
        except Exception:
            logger.exception("%s: failed to notify all waiters", self.name)

    def _failed(self, failure: BaseException) -> ClientFailed:
        return ClientFailed(f"{self.name} stopped: {failure!r}; close it, and create a new one")

    def _route(self, send: Send[Any], now: float) -> None:
        if self.router is None:
            raise IllegalState(f"{self.name} has no router for {type(send.request).__name__}")
        on_failure = send.on_failure

        # A request may fail before `route` returns, when its manager has said already how long to let it
        # sleep: so it is polled again at once.
        def on_failure_and_again(error: KafkaError, now: float) -> None:
            self._again = True
            on_failure(error, now)

        send.on_failure = on_failure_and_again
        self.router.route(send, now)

    def _settle_all(self, now: float) -> None:
        """Write the unsent bytes; drop closed channels."""
        for channel in list(self._unsettled):
            # Requests that are written from here on, by notified waiters, belong to the next turn.
            self._unsettled.pop(channel, None)
            if channel.flush(now):
                self._again = True
            if channel.state is ChannelState.CLOSED:
                self._unsettled.pop(channel, None)
                self._channels.pop(channel, None)
