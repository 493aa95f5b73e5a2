"""The queue of a consumer's calls on helper threads: one at a time, first in, first out.

On the event loop. A call whose task was cancelled keeps its place until it has really ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from pykafka2.aio.bridge import Call
from pykafka2.clock import FOREVER

T = TypeVar("T")


class CallQueue:
    """Starts each call after the end of the one before it."""

    def __init__(self) -> None:
        self._last: asyncio.Future[None] | None = None
        """Done when the last call that came has ended."""

    async def start(self, begin: Callable[[], Call[T]], timeout: float = FOREVER) -> Call[T]:
        """Wait for the calls that came before, then begin this one.

        Raise TimeoutError if they have not ended after `timeout` seconds.
        """
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        before, self._last = self._last, ended
        if before is not None and not before.done():
            try:
                await asyncio.wait([before], timeout=None if timeout == FOREVER else timeout)
                if not before.done():
                    raise TimeoutError
            except (asyncio.CancelledError, TimeoutError):
                before.add_done_callback(lambda _: ended.set_result(None))
                raise
        try:
            call = begin()
        except BaseException:
            ended.set_result(None)
            raise
        call.future.add_done_callback(lambda _: _end(ended))
        return call


def _end(ended: asyncio.Future[Any]) -> None:
    if not ended.done():
        ended.set_result(None)
