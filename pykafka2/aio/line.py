"""The line of a producer's tasks that wait for memory, first come, first served.

On the event loop. Only the first task waits in the buffer pool. When it has appended its record, the next one
mostly finds room in the same batch, so ten thousand tasks cost little more than one.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict


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
        self.waiting: OrderedDict[asyncio.Future[None], None] = OrderedDict()
        # Unlike a dict it finds its first entry at once, after any number of removals.

    @property
    def first(self) -> asyncio.Future[None] | None:
        return next(iter(self.waiting), None)

    def join(self) -> Place:
        """Return a place at the end."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting[turn] = None
        if len(self.waiting) == 1:
            _wake(turn)
        return Place(self, turn)

    def leave(self, turn: asyncio.Future[None]) -> None:
        """Take a task out."""
        was_first = self.first is turn
        del self.waiting[turn]
        following = self.first
        if was_first and following is not None:
            _wake(following)


def _wake(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)
