"""Cancels a coroutine at its n-th await point, at different moments of that wait."""

from __future__ import annotations

import asyncio
import contextvars
import types
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from functools import partial
from typing import Any

import attrs

MODES = ("at once", "with the wake-up", "later")
MOST_POINTS = 40


@attrs.define(frozen=True)
class Conditions:
    """How long attempts can take, and when a later cancellation comes."""

    stall: float = 20.0
    """Seconds after which an attempt fails with TimeoutError."""
    delay: Callable[[], float] = lambda: 0.002
    """Seconds from the await point to a later cancellation."""
    has_faults: bool = False
    """Whether connections break, so that requests that are sent once can fail."""


ON_SOCKETS = Conditions()
conditions: contextvars.ContextVar[Conditions] = contextvars.ContextVar("conditions", default=ON_SOCKETS)


@attrs.define
class Attempt:
    """A coroutine that is cancelled at one of its await points, and its outcome."""

    mode: str
    point: int
    is_reached: bool = False
    is_cancelled: bool = False
    value: Any = None
    error: BaseException | None = None

    async def run(self, coroutine: Coroutine[Any, Any, Any]) -> Attempt:
        try:
            async with asyncio.timeout(conditions.get().stall):
                self.value = await asyncio.create_task(self._task(coroutine))
        except asyncio.CancelledError:
            self.is_cancelled = True
        except Exception as error:
            self.error = error
        return self

    async def _task(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return await self._steps(coroutine)

    @types.coroutine
    def _steps(self, coroutine: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
        step: Callable[[], Any] = partial(coroutine.send, None)
        points = 0
        while True:
            try:
                awaited = step()
            except StopIteration as end:
                return end.value
            points += 1
            if points == self.point:
                self.is_reached = True
                self._cancel(awaited)
            try:
                value = yield awaited
            except BaseException as error:
                step = partial(coroutine.throw, error)
            else:
                step = partial(coroutine.send, value)

    def _cancel(self, awaited: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        if self.mode == "later":
            asyncio.get_running_loop().call_later(conditions.get().delay(), task.cancel)
        elif self.mode == "with the wake-up" and awaited is not None:
            awaited.add_done_callback(lambda _: task.cancel())
        else:
            task.cancel()


async def attempts(
    call: Callable[[], Coroutine[Any, Any, Any]], before: Callable[[], Awaitable[object]] | None = None
) -> AsyncIterator[Attempt]:
    """Yield an attempt for each await point of `call()` in each mode, until it has no further point."""
    for mode in MODES:
        for point in range(1, MOST_POINTS):
            if before is not None:
                await before()
            attempt = await Attempt(mode, point).run(call())
            yield attempt
            if not attempt.is_reached:
                break
