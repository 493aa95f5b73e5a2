"""The calls of the asyncio consumer that read records.

Records are taken from the fetch buffer on the loop's thread, in the step that returns them, so a cancelled
task never loses one. A read that finds none waits on the loop. Steps of the group that can block or call
listeners run on a helper thread (call_queue.py).
"""

from __future__ import annotations

import asyncio
from asyncio import _get_running_loop as running_loop
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from pykafka2 import lifecycle
from pykafka2.aio.bad_records import AwaitedBadRecords
from pykafka2.aio.bridge import Bridge, Call
from pykafka2.aio.call_queue import CallQueue
from pykafka2.aio.listeners import Listeners
from pykafka2.clock import FOREVER
from pykafka2.consumer.bad_records import HandlerRunning
from pykafka2.consumer.calls.arguments import checked_limit, checked_timeout
from pykafka2.consumer.calls.steps import CallSteps
from pykafka2.consumer.consumer import KafkaConsumer as SyncConsumer
from pykafka2.errors import ClientClosed, ConsumerStopped, ConsumerWakeup, IllegalState
from pykafka2.other_clients import explaining
from pykafka2.records.columns import Columns
from pykafka2.types import ConsumerRecord, K, TopicPartition, V

if TYPE_CHECKING:
    from pykafka2.aio.runtime import CallCondition
    from pykafka2.consumer.calls.record_steps import RecordStep
    from pykafka2.consumer.interceptors import Interceptors
    from pykafka2.consumer.options import ConsumerOptions
    from pykafka2.consumer.poll.poller import Poller
    from pykafka2.consumer.state.iteration_queue import IterationQueue
    from pykafka2.driver.driver import Driver

T = TypeVar("T")

SECONDS_BETWEEN_TURNS = 0.005
"""A task that always finds records lets other tasks run after this time."""


class Reads(Generic[K, V]):
    """Mixed into the consumer."""

    _bridge: Bridge
    _consumer: SyncConsumer[K, V]
    _steps: CallSteps
    _condition: CallCondition
    _poller: Poller
    _driver: Driver
    _queue: IterationQueue
    _iteration_queue: IterationQueue
    """That of the core, for `anext(consumer)`; one that stays empty if interceptors have `on_record`."""
    _step: RecordStep | None
    """The step of `anext(consumer)`; None without such interceptors."""
    _interceptors: Interceptors
    _options: ConsumerOptions
    _listeners: Listeners
    _bad_records: AwaitedBadRecords | None
    _call_queue: CallQueue
    _read_lock: asyncio.Lock
    _loop: object
    _task_call: Call[None] | None
    """The call of `_run_tasks` that runs, or whose result no read has received."""
    _is_stopped: bool
    _is_woken: bool
    """Whether `wakeup` was called and no read has ended since."""
    _read_since: float

    @explaining
    async def poll(
        self, timeout_ms: float = 0, max_records: int | None = None, update_offsets: bool = True
    ) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
        """Return records by partition as soon as there are some, or an empty dict after `timeout_ms`.

        A cancelled call has taken no record. Arguments and errors are those of
        `pykafka2.KafkaConsumer.poll`.

        Raises:
            ConsumerStopped: the consumer was stopped, also during the call.
            WrongEventLoop: another loop, or no loop, runs in this thread.
        """
        limit, timeout = (
            checked_limit(max_records, self._options.max_poll_records),
            checked_timeout(timeout_ms),
        )
        return await self._poll(timeout, limit, not update_offsets)

    @explaining
    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
        """Poll like `poll`, by aiokafka's name; with partitions, return records of these only.

        Records of the other partitions are returned by later reads.

        Raises:
            IllegalState: one of the partitions is not among those of `assign`.
        """
        limit, timeout = (
            checked_limit(max_records, self._options.max_poll_records),
            checked_timeout(timeout_ms),
        )
        only = self._steps.checked_choice(partitions) if partitions else None
        return await self._poll(timeout, limit, only=only)

    async def _poll(
        self,
        timeout: float,
        limit: int,
        keep_position: bool = False,
        only: frozenset[TopicPartition] | None = None,
    ) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
        steps = self._steps
        async with self._reading():
            with suppress(ConsumerWakeup):
                await self._begin_read()
                if self._queue:
                    queued = steps.take_queued(limit, keep_position, only)
                    if queued:
                        return queued
                take = partial(steps.take_records, limit, keep_position, only)
                return await self._read(take, timeout) or {}
        return {}

    async def poll_columns(
        self, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, Columns]:
        """Poll records as columns: keys, values, offsets, timestamps and headers as lists or Arrow arrays.

        See `pykafka2.KafkaConsumer.poll_columns`.
        """
        limit, timeout = (
            checked_limit(max_records, self._options.max_poll_records),
            checked_timeout(timeout_ms),
        )
        async with self._reading():
            with suppress(ConsumerWakeup):
                await self._begin_read()
                self._steps.put_back_iteration()
                return await self._read(lambda: self._steps.take_columns(limit), timeout) or {}
        return {}

    async def getone(self, *partitions: TopicPartition) -> ConsumerRecord[K, V]:
        """Return the next record, of these partitions if any are named; waits until there is one.

        Raises:
            ConsumerWakeup: `wakeup` was called.
            KafkaError: as for `getmany`.
        """
        # Hot: a pop from the records of the last poll.
        if self._loop is not running_loop():
            self._loop = self._bridge.enter()
        if partitions:
            return await self._getone_of(self._steps.checked_choice(partitions))
        queue = self._queue
        for record in queue.slice:
            return record
        while True:
            await self._fill(FOREVER)
            for record in queue.slice:
                return record

    async def _getone_of(self, only: frozenset[TopicPartition]) -> ConsumerRecord[K, V]:
        steps = self._steps
        async with self._reading():
            await self._begin_read()
            found = steps.take_queued(1, False, only) if self._queue else {}
            while not found:
                found = await self._read(partial(steps.take_records, 1, False, only), FOREVER) or {}
        (records,) = found.values()
        record: ConsumerRecord[K, V] = records[0]
        return record

    def read_range(
        self,
        partition: TopicPartition,
        start: int,
        end: int,
        *,
        isolation: str | None = None,
        max_bytes: int = 1 << 20,
        topic_id: bytes | None = None,
    ) -> AsyncIterator[Columns]:
        """Iterate over the records from offset `start` up to, but not including, `end`, in columns.

        It uses no group, assignment or position, and several tasks can read ranges at the same time. A task
        that is cancelled while it waits for a piece loses none: the next step of the iteration returns it.
        Arguments and errors are those of `pykafka2.KafkaConsumer.read_range`.
        """
        pieces = self._consumer.read_range(
            partition, start, end, isolation=isolation, max_bytes=max_bytes, topic_id=topic_id
        )
        return RangePieces(self._bridge, pieces)

    def wakeup(self) -> None:
        """End the current `poll` or iteration early, or the next one. Safe in threads and signal handlers.

        `poll`, `getmany` and `poll_columns` return an empty dict, an iteration ends, and `getone` raises
        `ConsumerWakeup`. No record is lost. An iteration first returns the records of its current slice
        (about 0.1 s of work).
        """
        self._is_woken = True
        self._driver.notify()

    def process_span(self, record: ConsumerRecord[K, V]) -> AbstractContextManager[ConsumerRecord[K, V]]:
        """Return a context manager for the processing of a record that `poll` has returned.

        It serves `getmany` and `getone`, too. See `pykafka2.KafkaConsumer.process_span`.
        """
        return self._consumer.process_span(record)

    def __aiter__(self) -> AsyncIterator[ConsumerRecord[K, V]]:
        """Iterate over records until consumer_timeout_ms passes without one, or until `wakeup` or `stop`.

        Interceptors with `on_record` are called around each record.
        """
        if self._step is None:
            return self
        with lifecycle.loading:
            from pykafka2.consumer.calls.record_steps import AsyncRecordSteps
        steps = AsyncRecordSteps(self._queue, self._interceptors, self._check_loop, self._fill_for_iteration)
        self._step.others.add(steps)
        return steps

    async def __anext__(self) -> ConsumerRecord[K, V]:
        """Return the next record, as iteration does."""
        if self._loop is not running_loop():
            self._loop = self._bridge.enter()
        queue = self._iteration_queue
        for record in queue.slice:
            return record
        if self._step is not None:
            return await self._next_in_hooks(self._step)
        with suppress(ConsumerStopped, ConsumerWakeup):
            await self._fill(self._options.consumer_timeout)
            for record in queue.slice:
                return record
        raise StopAsyncIteration

    async def _next_in_hooks(self, step: RecordStep) -> ConsumerRecord[K, V]:
        step.end()
        while (record := step.take()) is None:
            if not await self._fill_for_iteration():
                raise StopAsyncIteration
        return record

    def _check_loop(self) -> None:
        if self._loop is not running_loop():
            self._loop = self._bridge.enter()

    async def _fill_for_iteration(self) -> bool:
        """Start the next slice; False if the iteration ends."""
        with suppress(ConsumerStopped, ConsumerWakeup):
            await self._fill(self._options.consumer_timeout)
        return self._queue.head is not None

    async def _fill(self, timeout: float) -> None:
        """Start the next slice of the iteration queue; reads records if it is empty."""
        async with self._reading():
            await self._begin_read()
            if not self._steps.continue_iteration():
                await self._read(self._steps.refill_iteration, timeout)

    def _reading(self) -> asyncio.Lock:
        """Return the lock of reads, which one task at a time holds, in order."""
        self._bridge.enter()
        if self._listeners.is_inside:
            raise IllegalState(
                "a read inside a rebalance listener would wait for itself; return from the listener first"
            )
        if self._bad_records is not None and self._bad_records.is_inside:
            raise IllegalState(
                "a read inside on_bad_record would wait for itself; return from the function first"
            )
        return self._read_lock

    async def _begin_read(self) -> None:
        """Let other tasks run if this one never waits. Raise ConsumerStopped, ConsumerWakeup."""
        now = self._driver.clock.monotonic()
        if now - self._read_since >= SECONDS_BETWEEN_TURNS:
            await asyncio.sleep(0)
            self._read_since = self._driver.clock.monotonic()
        if self._is_stopped:
            raise stopped()
        self._take_wakeup()

    def _take_wakeup(self) -> None:
        if self._is_woken:
            self._is_woken = False
            raise ConsumerWakeup("wakeup() was called; the next read continues")

    async def _read(self, take: Callable[[], T], timeout: float) -> T | None:
        """Take records as soon as there are some, in the step that returns them; None after the timeout."""
        poller, monotonic = self._poller, self._driver.clock.monotonic
        deadline = monotonic() + timeout
        has_waited = False
        poller.started()
        try:
            while True:
                if self._task_call is not None:
                    await self._end_task_call()
                with self._condition:
                    is_news = poller.begin()
                    has_more_to_do = poller.run_tasks_without_listeners()
                if has_more_to_do:
                    try:
                        self._task_call = await self._call_queue.start(
                            lambda: self._bridge.start(self._run_tasks), max(deadline - monotonic(), 0.0)
                        )
                    except TimeoutError:  # a call of another task waits for longer than this read
                        return None
                    await self._end_task_call()
                    has_waited = True
                try:
                    found = take()
                except HandlerRunning:
                    if self._has_handler_ended():
                        continue  # between two reads
                    found, is_handler_running = None, True
                else:
                    is_handler_running = False
                if found:
                    return found
                remaining = deadline - monotonic()
                if remaining <= 0:
                    if not has_waited:
                        await asyncio.sleep(0)
                    return None
                if poller.collector.is_unfinished:
                    await asyncio.sleep(0)
                else:
                    with self._condition:
                        seconds = poller.wait_for(remaining)
                    await self._wait_for_news(
                        self._or_handler_ended(is_news) if is_handler_running else is_news, seconds
                    )
                has_waited = True
                if self._is_stopped:
                    raise stopped()
                self._take_wakeup()
        finally:
            with self._condition:
                poller.returned()

    def _has_handler_ended(self) -> bool:
        """Return whether the coroutine of on_bad_record that ended the last pass is done."""
        return self._bad_records is not None and self._bad_records.has_ended

    def _or_handler_ended(self, is_news: Callable[[], bool]) -> Callable[[], bool]:
        return lambda: is_news() or self._has_handler_ended()

    async def _wait_for_news(self, is_news: Callable[[], bool], seconds: float) -> None:
        # From the moment at which there is news the application has max_poll_interval_ms to take it, also if
        # it blocks the loop.
        try:
            await self._bridge.wait(
                self._driver,
                lambda: is_news() or self._is_stopped or self._is_woken,
                seconds,
                on_wake=self._poller.woken,
            )
        except ClientClosed:
            if self._is_stopped:
                raise stopped() from None
            raise

    def _run_tasks(self) -> None:
        """Do what is due for the group and for commits. On a helper thread."""
        with self._condition:
            self._poller.run_tasks()

    async def _end_task_call(self) -> None:
        """Wait for `_run_tasks`, which a cancelled task leaves running."""
        call = self._task_call
        if call is None:
            return
        await call.wait()
        self._task_call = None
        if self._is_stopped:
            raise stopped()
        call.future.result()


class RangePieces:
    """The pieces of a range, each read by a call on a helper thread; one task at a time waits for it."""

    def __init__(self, bridge: Bridge, pieces: Iterator[Columns]) -> None:
        self._bridge = bridge
        self._pieces = pieces
        self._waiting = asyncio.Lock()
        self._call: Call[Columns | None] | None = None
        """The call for the next piece, also after the task that has started it was cancelled."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Columns:
        async with self._waiting:
            if self._call is None:
                self._call = self._bridge.start(next, self._pieces, None)
            call = self._call
            await call.wait()
            self._call = None
            piece = call.future.result()
        if piece is None:
            raise StopAsyncIteration
        return piece


def stopped() -> ConsumerStopped:
    """Return the error of calls of a stopped consumer."""
    return ConsumerStopped("the consumer is closed; create a new one")
