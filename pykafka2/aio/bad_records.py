"""`on_bad_record` of the asyncio consumer: plain functions or coroutines, called on the event loop.

A pass over the fetched records cannot wait. So the first attempt at a record starts the coroutine, and ends
the pass at the record with `StillHandled`. A later pass meets the record again and takes the outcome. A read
that is cancelled or whose time is over leaves the coroutine running.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from pykafka2.consumer.bad_records import StillHandled
from pykafka2.types import BadRecord, TopicPartition

Place = tuple[TopicPartition, int]

_task_of_handler: contextvars.ContextVar[asyncio.Task[Any] | None] = contextvars.ContextVar(
    "on_bad_record", default=None
)
"""The task that handles a bad record, in it and in the tasks that it starts."""


class AwaitedBadRecords:
    """The policy of a consumer; `notify` wakes its reads when a coroutine has ended."""

    def __init__(self, function: Callable[[BadRecord], Any], notify: Callable[[], object]) -> None:
        self._function = function
        self._notify = notify
        self._tasks: dict[Place, asyncio.Task[Any]] = {}
        """By the place of the record; ended tasks whose outcome no pass has taken, too."""
        self._current: asyncio.Task[Any] | None = None
        """The task because of which the last pass ended."""

    def __call__(self, bad: BadRecord) -> None:
        """Return if the record was handled; raise the exception of the function, or `StillHandled`."""
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
            raise StillHandled(f"{bad.topic_partition} at offset {bad.offset}: on_bad_record is running")
        del self._tasks[place]
        if task.cancelled():
            raise RuntimeError("its coroutine was cancelled")
        task.result()

    @property
    def has_ended(self) -> bool:
        """Whether the task because of which the last pass ended has ended since. Any thread."""
        return self._current is not None and self._current.done()

    @property
    def is_inside(self) -> bool:
        """Whether this task runs the function, or was started by it while it still runs."""
        task = _task_of_handler.get()
        return task is not None and task in self._tasks.values() and not task.done()

    def cancel(self) -> None:
        """Cancel what runs, because the consumer stops: the records are not skipped."""
        for task in self._tasks.values():
            if task is not _task_of_handler.get():
                task.cancel()


async def _outcome_of(result: Awaitable[Any]) -> None:
    """Await a result; the result of `send`, a delivery, is awaited as well."""
    _task_of_handler.set(asyncio.current_task())
    while inspect.isawaitable(result):
        result = await result
