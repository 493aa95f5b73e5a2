"""Rebalance listeners of the asyncio consumer: plain functions or coroutines, called on the event loop.

The group calls them on a helper thread, which waits here until the coroutine has ended, so partitions are
given up after it. The listener can use the consumer meanwhile: a waiting helper thread holds no lock.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pykafka2.aio.bridge import Bridge
from pykafka2.consumer.group.listeners import ConsumerRebalanceListener
from pykafka2.driver.wait_queue import WaitQueue
from pykafka2.errors import KafkaTimeoutError
from pykafka2.logs import ClientLogger
from pykafka2.types import TopicPartition

NAMES = ("on_partitions_assigned", "on_partitions_revoked", "on_partitions_lost")


class _Run:
    """One call of a listener."""

    def __init__(self) -> None:
        self.task: asyncio.Future[Any] | None = None
        self.is_done = False
        self.error: BaseException | None = None
        self.waiters = WaitQueue()

    def end(self, error: BaseException | None) -> None:
        self.error = error
        self.is_done = True
        self.waiters.wake()


_listener_of_task: contextvars.ContextVar[_Run | None] = contextvars.ContextVar("listener", default=None)
"""The call of a listener that the task runs, or by which it was started."""


class Listeners:
    """Calls listeners on the loop, for helper threads that wait for their end."""

    def __init__(self, bridge: Bridge, timeout: float, client_id: str | None) -> None:
        self._bridge = bridge
        self._timeout = timeout
        """The rebalance timeout in seconds, after which the group gives the partitions to others."""
        self._log = ClientLogger(__name__, client_id)
        self._current: _Run | None = None

    @property
    def is_running(self) -> bool:
        """Whether a listener runs now; then calls need not wait for the call that has called it."""
        return self._current is not None

    @property
    def is_inside(self) -> bool:
        """Whether the task runs a listener of this consumer, or was started by one that still runs."""
        return self._current is not None and self._current is _listener_of_task.get()

    def cancel(self) -> None:
        """Cancel the listener that runs now. On the loop."""
        if self._current is not None:
            _cancel(self._current)

    def abandon(self) -> None:
        """End the call of a listener whose loop has closed, for the helper thread that waits for it."""
        if self._current is not None and not self._current.is_done:
            self._current.end(KafkaTimeoutError("the event loop was closed while the listener ran"))

    def wrapped(self, listener: Any) -> Any:
        """Return an object whose methods call those of `listener` on the loop."""
        if listener is None or isinstance(listener, type):
            return listener
        methods = {name: getattr(listener, name, None) for name in NAMES}
        if isinstance(listener, ConsumerRebalanceListener):
            base = ConsumerRebalanceListener
            if type(listener).on_partitions_lost is base.on_partitions_lost:
                methods["on_partitions_lost"] = None  # it would not await on_partitions_revoked
        found = {name: self.function(method) for name, method in methods.items() if callable(method)}
        return (
            type("Wrapped", (), {name: staticmethod(one) for name, one in found.items()})()
            if found
            else listener
        )

    def function(self, callback: Any) -> Any:
        """Return a plain function that calls `callback` on the loop; None and mistakes as they are."""
        if not callable(callback):
            return callback
        call: Any = partial(self._call, callback)
        call.__qualname__ = _name(callback)
        return call

    def _call(self, callback: Callable[[Sequence[TopicPartition]], object], partitions: Any) -> None:
        """Call a listener on the loop and wait for its end. On a helper thread."""
        self._current = run = _Run()
        try:
            self._bridge.post(partial(self._start, run, callback, partitions))
            is_over = self._bridge.runtime.wait_until(lambda: run.is_done, self._timeout, run.waiters)
        except BaseException:  # the call that waits for the listener was cancelled
            self._bridge.post(partial(_cancel, run))
            raise
        finally:
            self._current = None
        if not is_over:
            self._bridge.post(partial(_cancel, run))
            limit_ms = f"{self._timeout * 1000:.0f}"
            raise KafkaTimeoutError(
                f"the listener {_name(callback)} did not return within max_poll_interval_ms={limit_ms}, "
                "after which the group gives its partitions to others; it was cancelled"
            )
        if run.error is not None:
            raise run.error

    def _start(
        self, run: _Run, callback: Callable[[Sequence[TopicPartition]], object], partitions: Any
    ) -> None:
        context = contextvars.copy_context()
        context.run(_listener_of_task.set, run)
        try:
            result = context.run(callback, partitions)
        except BaseException as error:
            run.end(error)
            return
        if not inspect.isawaitable(result):
            run.end(None)
            return
        # As it is, because a task that is cancelled before its first step would not close an inner coroutine.
        listening = result if inspect.iscoroutine(result) else _awaited(result)
        run.task = task = asyncio.get_running_loop().create_task(listening, context=context)
        task.add_done_callback(lambda done: run.end(_error_of(done)))


def _name(callback: Callable[..., object]) -> str:
    return getattr(callback, "__qualname__", repr(callback))


async def _awaited(result: Any) -> None:
    await result


def _cancel(run: _Run) -> None:
    """Cancel a listener after its first step; a task that is cancelled before it never runs."""
    if run.task is not None:
        asyncio.get_running_loop().call_soon(run.task.cancel)


def _error_of(task: asyncio.Future[Any]) -> BaseException | None:
    if task.cancelled():
        return KafkaTimeoutError("the listener was cancelled, because the consumer was stopped meanwhile")
    return task.exception()
