"""The line of a producer's tasks that wait for memory, first come, first served.

On the event loop. Only the first task waits in the buffer pool. When it has appended its record, the next one
mostly finds room in the same batch, so ten thousand tasks cost little more than one.
"""

from __future__ import annotations

import asyncio
from collections import deque


class Place:
    """The place of one task in the line."""

    __slots__ = ("_line", "_turn")

    def __init__(self, line: Line, turn: asyncio.Future[None]) -> None:
        self._line = line
        self._turn = turn

    @property
    def is_first(self) -> bool:
        return self._line.first is self._turn

    async def wait(self, timeout: float) -> bool:
        """Wait until the task is the first one; False after the timeout."""
        timer = asyncio.get_running_loop().call_later(timeout, _wake, self._turn)
        try:
            await self._turn
        finally:
            timer.cancel()
        return self.is_first

    def leave(self) -> None:
        """Give the place up; the next task goes on."""
        self._line.leave(self._turn)


class Line:
    """The tasks that wait, in order."""

    def __init__(self) -> None:
        self.waiting: deque[asyncio.Future[None]] = deque()

    @property
    def first(self) -> asyncio.Future[None] | None:
        return self.waiting[0] if self.waiting else None

    def join(self) -> Place:
        """Return a place at the end."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(turn)
        if len(self.waiting) == 1:
            _wake(turn)
        return Place(self, turn)

    def leave(self, turn: asyncio.Future[None]) -> None:
        """Take a task out."""
        waiting = self.waiting
        if waiting[0] is turn:
            waiting.popleft()
            if waiting:
                _wake(waiting[0])
        else:
            waiting.remove(turn)


def _wake(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)
