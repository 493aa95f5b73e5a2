"""Suspends an asyncio task until another thread wakes a wait queue.

Leaves nothing behind: a cancelled task leaves the queue at once, and a task whose loop has closed is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from pykafka2.driver.wait_queue import WaitQueue

if TYPE_CHECKING:
    import asyncio


class LoopWaiter:
    """A `Waiter` that completes a future of an event loop."""

    __slots__ = ("_done", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, done: asyncio.Future[None]) -> None:
        self._loop = loop
        self._done = done

    def unpark(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._set_done)
        except RuntimeError:  # the loop has closed, so nothing waits any more
            pass

    def _set_done(self) -> None:
        if not self._done.done():
            self._done.set_result(None)


def wait_in_loop(is_over: Callable[[], bool], queue: WaitQueue) -> Generator[Any, None, None]:
    """Suspends the running task until `is_over()`, which must be true before the queue is woken."""
    import asyncio  # programs without an event loop do not load it

    while not is_over():
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        waiter = LoopWaiter(loop, done)
        queue.join(waiter)
        try:
            if not is_over():  # it may have come between the first look and joining
                yield from done
        finally:
            queue.leave(waiter)
