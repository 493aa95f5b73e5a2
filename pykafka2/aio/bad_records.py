"""`on_bad_record` of the asyncio consumer: plain functions or coroutines, called on the event loop.

A pass over the fetched records cannot wait. So the first pass that reaches a bad record starts the coroutine
and raises `HandlerRunning`. When the coroutine has ended, another pass reaches the record again and takes the
outcome. The coroutine continues if the read is cancelled or times out.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from pykafka2.consumer.bad_records import HandlerRunning
from pykafka2.types import BadRecord, TopicPartition

Place = tuple[TopicPartition, int]

_task_of_handler: contextvars.ContextVar[asyncio.Task[Any] | None] = contextvars.ContextVar(
    "on_bad_record", default=None
)
"""The task that handles a bad record; set in that task and in those that it starts."""


class AwaitedBadRecords:
    """The policy of a consumer; `notify` wakes its reads when a coroutine has ended."""

    def __init__(self, function: Callable[[BadRecord], Any], notify: Callable[[], object]) -> None:
        self._function = function
        self._notify = notify
        self._tasks: dict[Place, asyncio.Task[Any]] = {}
        """The coroutines by record, also those that have ended and whose outcome no pass has taken."""
        self._current: asyncio.Task[Any] | None = None
        """The task that ended the last pass."""

    def __call__(self, bad: BadRecord) -> None:
        """Return if the record was handled; raise the exception of the function, or `HandlerRunning`."""
        place = bad.topic_partition, bad.offset
        task = self._tasks.get(place)
        if task is None:
            result = self._function(bad)
            if not inspect.isawaitable(result):
                return
            task = self._tasks[place] = asyncio.get_running_loop().create_task(_outcome_of(result))
            task.add_done_callback(lambda _: self._notify())
        if not task.done():
            self._current = task
            raise HandlerRunning(f"{bad.topic_partition} at offset {bad.offset}: on_bad_record is running")
        del self._tasks[place]
        if task.cancelled():
            raise RuntimeError("the coroutine was cancelled")
        task.result()

    @property
    def has_ended(self) -> bool:
        """Whether the task that ended the last pass is done. Any thread."""
        return self._current is not None and self._current.done()

    @property
    def is_inside(self) -> bool:
        """Whether the current task runs the function, or was started by it and the function still runs."""
        task = _task_of_handler.get()
        return task is not None and task in self._tasks.values() and not task.done()

    def cancel(self) -> None:
        """Cancel the running coroutines, because the consumer stops: their records are not skipped."""
        for task in self._tasks.values():
            if task is not _task_of_handler.get():
                task.cancel()


async def _outcome_of(result: Awaitable[Any]) -> None:
    """Await a result; the result of `send`, a delivery, is awaited as well."""
    _task_of_handler.set(asyncio.current_task())
    while inspect.isawaitable(result):
        result = await result
