"""The queue of a producer's tasks that wait for memory, first in, first out.

On the event loop. Only the first task waits in the buffer pool. When it has appended its record, the next one
mostly finds memory in the same batch, so ten thousand tasks cost little more than one.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict


class QueuedTask:
    """One task in the queue."""

    __slots__ = ("_is_next", "_queue")

    def __init__(self, queue: MemoryQueue, is_next: asyncio.Future[None]) -> None:
        self._queue = queue
        self._is_next = is_next

    @property
    def is_first(self) -> bool:
        return self._queue.first is self._is_next

    async def wait(self, timeout: float) -> bool:
        """Wait until the task is the first one; False after the timeout."""
        timer = asyncio.get_running_loop().call_later(timeout, _wake, self._is_next)
        try:
            await self._is_next
        finally:
            timer.cancel()
        return self.is_first

    def leave(self) -> None:
        """Leave the queue, and wake the next task."""
        self._queue.leave(self._is_next)


class MemoryQueue:
    """The tasks that wait, in order."""

    def __init__(self) -> None:
        self.waiting: OrderedDict[asyncio.Future[None], None] = OrderedDict()
        # Unlike a dict it finds its first entry at once, after any number of removals.

    @property
    def first(self) -> asyncio.Future[None] | None:
        return next(iter(self.waiting), None)

    def join(self) -> QueuedTask:
        """Add a task at the end."""
        is_next: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting[is_next] = None
        if len(self.waiting) == 1:
            _wake(is_next)
        return QueuedTask(self, is_next)

    def leave(self, is_next: asyncio.Future[None]) -> None:
        """Remove a task."""
        was_first = self.first is is_next
        del self.waiting[is_next]
        following = self.first
        if was_first and following is not None:
            _wake(following)


def _wake(is_next: asyncio.Future[None]) -> None:
    if not is_next.done():
        is_next.set_result(None)
