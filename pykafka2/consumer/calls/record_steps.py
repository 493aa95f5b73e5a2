"""Iteration with hooks around each record: `on_record` before a step returns it, `on_record_done` after it.

Only consumers whose interceptors have these hooks use it. The hook is called with the record at the head of
the iteration queue, which the step takes last: so an interrupt in the hook loses no record. Used on the
caller's thread, or the loop's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Self
from weakref import WeakSet

from pykafka2.consumer.interceptors import Interceptors
from pykafka2.consumer.state.iteration_queue import IterationQueue
from pykafka2.types import ConsumerRecord

Record = ConsumerRecord[Any, Any]


class RecordStep:
    """The record that one iteration has returned last, until it is done."""

    def __init__(self, queue: IterationQueue, interceptors: Interceptors) -> None:
        self._queue = queue
        self._interceptors = interceptors
        self._current: tuple[Record, list[Any]] | None = None
        self.others: WeakSet[RecordStep] = WeakSet()
        """The steps of iterations, for the step of `next(consumer)`, which ends them at the close.

        A traceback that a log handler keeps can keep an iterator alive after its loop.
        """

    def take(self) -> Record | None:
        """Take the next record of the current slice, inside the hooks; None at its end."""
        while (record := self._queue.head) is not None:
            self._current = record, self._interceptors.on_record(record)
            if self._queue.head is record:
                for taken in self._queue.slice:
                    return taken
            self.end()  # a hook has moved the position
        return None

    def end(self) -> None:
        """End the processing of the last record, if there is one."""
        current, self._current = self._current, None
        if current is not None:
            self._interceptors.on_record_done(current[0], None, current[1])

    def end_all(self) -> None:
        """End the processing of this step's record, and those of `others`."""
        for step in [self, *self.others]:
            step.end()

    def __del__(self) -> None:
        self.end()  # the loop was left


class RecordSteps(RecordStep, Iterator[Record]):
    """An iteration of the sync consumer; `next_slice` fills the queue, or ends the iteration."""

    def __init__(
        self, queue: IterationQueue, interceptors: Interceptors, next_slice: Callable[[], object]
    ) -> None:
        super().__init__(queue, interceptors)
        self._next_slice: Callable[[], object] | None = next_slice

    def __next__(self) -> Record:
        self.end()
        while self._next_slice is not None:
            record = self.take()
            if record is not None:
                return record
            try:
                self._next_slice()
            except BaseException:
                self._next_slice = None  # as a `for` loop over a generator
                raise
        raise StopIteration


class AsyncRecordSteps(RecordStep, AsyncIterator[Record]):
    """An iteration of the asyncio consumer.

    `check_loop` raises in another loop; `fill` fills the queue, or returns False at the end.
    """

    def __init__(
        self,
        queue: IterationQueue,
        interceptors: Interceptors,
        check_loop: Callable[[], None],
        fill: Callable[[], Awaitable[bool]],
    ) -> None:
        super().__init__(queue, interceptors)
        self._check_loop = check_loop
        self._fill = fill

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record:
        self._check_loop()
        self.end()
        while True:
            record = self.take()
            if record is not None:
                return record
            if not await self._fill():
                raise StopAsyncIteration
