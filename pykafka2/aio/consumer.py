"""`KafkaConsumer` for asyncio: the sync consumer, read on the event loop without a thread hop.

Records are taken from the fetch buffer on the loop's thread, in the step that returns them, so a cancelled
task never loses one. A read that finds none waits on the loop. Listeners and calls that block run on helper
threads, one at a time (gate.py), and the loop can use the consumer while such a thread waits (runtime.py).
"""

from __future__ import annotations

import asyncio
from asyncio import _get_running_loop as running_loop
from collections.abc import Callable, Generator, Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, Self, TypeVar, Unpack, overload

from pykafka2 import lifecycle
from pykafka2.aio.aiokafka_options import adapt_options
from pykafka2.aio.bridge import UNBOUND, Bridge, Call
from pykafka2.aio.gate import Gate
from pykafka2.aio.listeners import Listeners
from pykafka2.clock import FOREVER
from pykafka2.cluster.arguments import checked_partition
from pykafka2.cluster.client import GRACE
from pykafka2.consumer.calls.arguments import checked_close, checked_timeout
from pykafka2.consumer.commit.committer import unacknowledged
from pykafka2.consumer.consumer import KafkaConsumer as SyncConsumer
from pykafka2.consumer.options import ConsumerConfig
from pykafka2.errors import (
    ClientClosed,
    ConsumerStopped,
    ConsumerWakeup,
    IllegalArgument,
    IllegalState,
    KafkaError,
    LoopBlocked,
)
from pykafka2.interrupts import CancelOnError
from pykafka2.option_fields import is_async
from pykafka2.records.columns import Columns
from pykafka2.types import (
    READ_COMMITTED,
    ConsumerGroupMetadata,
    ConsumerRecord,
    K,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    SubscriptionPattern,
    TopicPartition,
    V,
)

if TYPE_CHECKING:
    import re

    from pykafka2.cluster.offset_arguments import OffsetsToCommit
    from pykafka2.driver.completion import Completion
    from pykafka2.driver.runtime import Runtime

T = TypeVar("T")

MOST_SECONDS_OF_READING = 0.005
"""A task that always finds records lets other tasks run after this time."""


class KafkaConsumer(Generic[K, V]):
    """Reads records from a cluster, in the tasks of one event loop.

    Options, defaults, results and errors are those of `pykafka2.KafkaConsumer`. Heartbeats and fetches are
    sent by the IO thread, so a task that blocks the loop loses its partitions only after
    max_poll_interval_ms. The consumer belongs to the event loop of its first awaited call.

        async with KafkaConsumer("orders", bootstrap_servers="localhost:9092") as consumer:
            async for record in consumer:
                print(record.offset, record.value)

    Args:
        topics: topics to subscribe to; a mapping of options can precede them.
        runtime: the threads and sockets to run on; None creates its own.

    Raises:
        UnknownOption, ConfigurationError: an option is unknown, invalid, or not supported yet.
    """

    def __init__(
        self,
        *topics: str | Mapping[str, object],
        runtime: Runtime | None = None,
        **options: Unpack[ConsumerConfig[K, V]],
    ) -> None:
        self._bridge = bridge = Bridge("KafkaConsumer", runtime)
        self._consumer: SyncConsumer[K, V] = SyncConsumer(
            *(adapt_options(topic, bridge) for topic in topics),
            runtime=bridge.runtime,
            **adapt_options(options, bridge),
        )
        if bridge.owns_runtime:
            self._consumer._cluster._own_runtime = bridge.runtime  # which ends with the client
        self._consumer._lock = self._turn = bridge.runtime.turn  # type: ignore[assignment]
        self._poller = self._consumer._poller
        self._driver = self._consumer._cluster.driver
        self._queue = self._consumer._iteration_queue
        parsed = self._consumer._options
        self._options = parsed
        self._listeners = Listeners(bridge, parsed.max_poll_interval, parsed.client_id)
        self._gate = Gate()
        self._reads = asyncio.Lock()
        self._loop: object = UNBOUND
        self._attending: Call[None] | None = None
        """The step of the group that runs, or whose result no read has received."""
        self._is_stopped = False
        self._is_woken = False
        """Whether `wakeup` was called and no read has ended since."""
        self._read_since = 0.0

    # ------------------------------------------------------------------ reading

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
        limit, timeout = self._consumer._limit(max_records), checked_timeout(timeout_ms)
        return await self._poll(timeout, limit, not update_offsets)

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
        """`poll`, by aiokafka's name; with partitions it returns records of these only.

        Records of the other partitions are returned by later reads.

        Raises:
            IllegalState: one of the partitions is not among those of `assign`.
        """
        limit, timeout = self._consumer._limit(max_records), checked_timeout(timeout_ms)
        only = self._consumer._checked_choice(partitions) if partitions else None
        return await self._poll(timeout, limit, only=only)

    async def _poll(
        self,
        timeout: float,
        limit: int,
        keep_position: bool = False,
        only: frozenset[TopicPartition] | None = None,
    ) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
        consumer = self._consumer
        async with self._reading():
            with suppress(ConsumerWakeup):
                await self._begin_read()
                if self._queue:
                    queued = consumer._take_queued(limit, keep_position, only)
                    if queued:
                        return queued
                take = partial(consumer._take_records, limit, keep_position, only)
                return await self._read(take, timeout) or {}
        return {}

    async def poll_columns(
        self, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, Columns]:
        """Poll records as columns; see `pykafka2.KafkaConsumer.poll_columns`."""
        limit, timeout = self._consumer._limit(max_records), checked_timeout(timeout_ms)
        async with self._reading():
            with suppress(ConsumerWakeup):
                await self._begin_read()
                self._consumer._rewind_iteration()
                return await self._read(lambda: self._consumer._take_columns(limit), timeout) or {}
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
            return await self._getone_of(self._consumer._checked_choice(partitions))
        queue = self._queue
        for record in queue.slice:
            return record
        while True:
            await self._fill(FOREVER)
            for record in queue.slice:
                return record

    async def _getone_of(self, only: frozenset[TopicPartition]) -> ConsumerRecord[K, V]:
        consumer = self._consumer
        async with self._reading():
            await self._begin_read()
            found = consumer._take_queued(1, False, only) if self._queue else {}
            while not found:
                found = await self._read(partial(consumer._take_records, 1, False, only), FOREVER) or {}
        (records,) = found.values()
        record: ConsumerRecord[K, V] = records[0]
        return record

    def wakeup(self) -> None:
        """End the current read early, or the next one. Any thread, also signal handlers.

        `poll`, `getmany` and `poll_columns` return an empty dict, an iteration ends, and `getone` raises
        `ConsumerWakeup`. No record is lost. An iteration first returns the records of its current slice
        (about 0.1 s of work).
        """
        self._is_woken = True
        self._driver.notify()

    def __aiter__(self) -> Self:
        """Iterate over records until consumer_timeout_ms passes without one, or until `wakeup` or `stop`."""
        return self

    async def __anext__(self) -> ConsumerRecord[K, V]:
        """Return the next record, as iteration does."""
        if self._loop is not running_loop():
            self._loop = self._bridge.enter()
        queue = self._queue
        for record in queue.slice:
            return record
        with suppress(ConsumerStopped, ConsumerWakeup):
            await self._fill(self._options.consumer_timeout)
            for record in queue.slice:
                return record
        raise StopAsyncIteration

    async def _fill(self, timeout: float) -> None:
        """Start the next slice of the iteration queue; reads records if it is empty."""
        async with self._reading():
            await self._begin_read()
            if not self._consumer._continue_iteration():
                await self._read(self._consumer._refill_iteration, timeout)

    def _reading(self) -> asyncio.Lock:
        """Return the lock of reads, which one task at a time holds, in order."""
        self._bridge.enter()
        if self._listeners.is_inside:
            raise IllegalState(
                "a read inside a rebalance listener would wait for itself; return from the listener first"
            )
        return self._reads

    async def _begin_read(self) -> None:
        """Let other tasks run if this one never waits. Raises ConsumerStopped, ConsumerWakeup."""
        now = self._driver.clock.monotonic()
        if now - self._read_since >= MOST_SECONDS_OF_READING:
            await asyncio.sleep(0)
            self._read_since = self._driver.clock.monotonic()
        if self._is_stopped:
            raise _stopped()
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
        try:
            while True:
                if self._attending is not None:
                    await self._end_attending()
                with self._turn:
                    is_news = poller.begin()
                    needs_to_attend = poller.needs_to_attend()
                if needs_to_attend:
                    try:
                        self._attending = await self._gate.start(
                            lambda: self._bridge.start(self._attend), max(deadline - monotonic(), 0.0)
                        )
                    except TimeoutError:  # a call of another task waits for longer than this read
                        return None
                    await self._end_attending()
                    has_waited = True
                found = take()
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
                    with self._turn:
                        seconds = poller.wait_for(remaining)
                    await self._wait_for_news(is_news, seconds)
                has_waited = True
                if self._is_stopped:
                    raise _stopped()
                self._take_wakeup()
        finally:
            with self._turn:
                poller.returned()

    async def _wait_for_news(self, is_news: Callable[[], bool], seconds: float) -> None:
        # From the moment at which there is news the application has max_poll_interval_ms to take it, also if
        # it blocks the loop.
        try:
            await self._bridge.wait(
                self._driver,
                lambda: is_news() or self._is_stopped or self._is_woken,
                seconds,
                on_wake=self._poller.returned,
            )
        except ClientClosed:
            if self._is_stopped:
                raise _stopped() from None
            raise

    def _attend(self) -> None:
        """Take the steps of the group. On a helper thread."""
        with self._turn:
            self._poller.attend()

    async def _end_attending(self) -> None:
        """Wait for the steps of the group, which a cancelled task leaves running."""
        call = self._attending
        if call is None:
            return
        await call.wait()
        self._attending = None
        if self._is_stopped:
            raise _stopped()
        call.future.result()

    # ------------------------------------------------------------------ subscription

    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | re.Pattern[str] | SubscriptionPattern | None = None,
        listener: Any = None,
        *,
        on_assigned: Callable[[Any], object] | None = None,
        on_revoked: Callable[[Any], object] | None = None,
        on_lost: Callable[[Any], object] | None = None,
    ) -> None:
        """Subscribe to topics; see `pykafka2.KafkaConsumer.subscribe`. Not awaited.

        Listeners are plain functions or coroutine functions, called on the event loop. A coroutine is awaited
        before its partitions are given up, for at most max_poll_interval_ms. It can await this consumer's
        calls, except reads.

        Raises:
            IllegalArgument: topics is empty; await `unsubscribe()` instead.
        """
        names = (
            topics if isinstance(topics, str | bytes) or not isinstance(topics, Iterable) else list(topics)
        )
        if not names and pattern is None:
            raise IllegalArgument("subscribe(): topics is empty; to end a subscription await unsubscribe()")
        self._consumer.subscribe(
            names,
            pattern,
            self._listeners.wrapped(listener),
            on_assigned=self._listeners.function(on_assigned),
            on_revoked=self._listeners.function(on_revoked),
            on_lost=self._listeners.function(on_lost),
        )

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without joining a group. Not awaited."""
        self._consumer.assign(partitions)

    def incremental_assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Add partitions to the assignment. Not awaited."""
        self._consumer.incremental_assign(partitions)

    def incremental_unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """Remove partitions from the assignment. Not awaited."""
        self._consumer.incremental_unassign(partitions)

    async def unsubscribe(self) -> None:
        """Remove the subscription or assignment; a member leaves its group, which takes at most 5 s."""
        await self._blocking(self._consumer.unsubscribe)

    def assignment(self) -> set[TopicPartition]:
        """Return the assigned partitions; empty after `subscribe` until a read has joined the group."""
        return self._consumer.assignment()

    def subscription(self) -> set[str]:
        """Return the subscribed topics."""
        return self._consumer.subscription()

    def enforce_rebalance(self, reason: str | None = None) -> None:
        """Join the group again with the next read."""
        if reason is None:
            self._consumer.enforce_rebalance()
        else:
            self._consumer.enforce_rebalance(reason)

    # ------------------------------------------------------------------ positions

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue at this offset with the next read. Not awaited."""
        self._consumer.seek(partition, offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> Done:
        """Continue at the first record of these partitions, or of all assigned ones.

        Takes effect at the call; the result can be awaited, as in aiokafka.
        """
        self._consumer.seek_to_beginning(*partitions)
        return DONE

    def seek_to_end(self, *partitions: TopicPartition) -> Done:
        """Continue after the last record of these partitions, or of all assigned ones.

        Takes effect at the call; the result can be awaited, as in aiokafka.
        """
        self._consumer.seek_to_end(*partitions)
        return DONE

    async def seek_to_committed(self, *partitions: TopicPartition) -> dict[TopicPartition, int | None]:
        """Continue at the committed offsets of these or all assigned partitions; returns the offsets.

        A partition without a committed offset stays at its position; its offset is None.

        Raises:
            IllegalState: a partition is not assigned, or no partition is.
        """
        chosen = list(partitions) or self._consumer._subscription.some_assigned("seek_to_committed()")
        for partition in chosen:
            self._consumer._subscription.find(checked_partition(partition))
        offsets: dict[TopicPartition, int | None] = {}
        for partition, committed in (await self.committed(chosen)).items():
            offsets[partition] = None if committed is None else committed.offset
            if committed is not None:
                self.seek(partition, committed.offset)
        return offsets

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until `resume`. Not awaited."""
        self._consumer.pause(*partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again. Not awaited."""
        self._consumer.resume(*partitions)

    def paused(self) -> set[TopicPartition]:
        """Return the paused partitions."""
        return self._consumer.paused()

    def lag(self, partition: TopicPartition) -> int | None:
        """Return how many offsets of this partition remain, as of its last fetch; sends no request."""
        return self._consumer.lag(partition)

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the high watermark of the last fetch, or None before the first; sends no request."""
        return self._consumer.highwater(partition)

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        """Return the last stable offset of the last fetch; sends no request.

        None before the first fetch, and without isolation_level='read_committed', since brokers name it to
        such consumers only.
        """
        if self._options.isolation != READ_COMMITTED:
            return None
        return self._consumer._fetcher.table.readable_ends.get(checked_partition(partition))

    async def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """Return the offset of the next record to return; see `pykafka2.KafkaConsumer.position`."""
        self._bridge.enter()
        try:
            return self._consumer.position(partition, timeout_ms)
        except LoopBlocked:
            return await self._blocking(self._consumer.position, partition, timeout_ms)

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each partition, assigned or not."""
        return await self._blocking(self._consumer.beginning_offsets, partitions, timeout_ms)

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the high watermark of each partition, or with read_committed the last stable offset."""
        return await self._blocking(self._consumer.end_offsets, partitions, timeout_ms)

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the offset of each partition's first record at or after a time, or None without one."""
        return await self._blocking(self._consumer.offsets_for_times, timestamps, timeout_ms)

    async def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return the topic's partition numbers, or None if the topic does not exist."""
        self._bridge.enter()
        try:
            return self._consumer.partitions_for_topic(topic)
        except LoopBlocked:
            return await self._blocking(self._consumer.partitions_for_topic, topic)

    async def topics(self) -> set[str]:
        """Return the names of all topics that the user can describe."""
        return await self._blocking(self._consumer.topics)

    # ------------------------------------------------------------------ commits

    async def commit(self, offsets: OffsetsToCommit | None = None, timeout_ms: float | None = None) -> None:
        """Commit offsets and wait until they are written; see `pykafka2.KafkaConsumer.commit`.

        If the task is cancelled, it is unknown whether the offsets were committed.
        """
        self._bridge.enter()
        chosen, completion, timeout = self._consumer._begin_commit(offsets, timeout_ms)
        with CancelOnError(completion):
            seconds = timeout + GRACE
            if not await self._bridge.wait(self._driver, completion.done, seconds, completion.waiters):
                raise unacknowledged(timeout)
        self._consumer._end_commit(chosen, completion)

    async def commit_async(
        self,
        offsets: OffsetsToCommit | None = None,
        callback: Callable[[Mapping[TopicPartition, OffsetAndMetadata], Any], Any] | None = None,
    ) -> Completion[None]:
        """Send a commit once and return its completion, which can be awaited.

        The callback runs on the event loop, as callback(offsets, error), during a later call of the consumer.
        """
        self._bridge.enter()
        if callable(callback) and not is_async(callback):
            callback = self._bridge.on_loop(callback)
        return self._consumer.commit_async(offsets, callback)

    async def store_offsets(
        self, record: ConsumerRecord[Any, Any] | None = None, offsets: OffsetsToCommit | None = None
    ) -> None:
        """Store the offsets that the next commit commits; needs enable_auto_offset_store=False."""
        self._bridge.enter()
        self._consumer.store_offsets(record, offsets)

    @overload
    async def committed(
        self,
        partition: TopicPartition,
        metadata: Literal[False] = False,
        timeout_ms: float | None = None,
    ) -> int | None: ...
    @overload
    async def committed(
        self, partition: TopicPartition, metadata: Literal[True], timeout_ms: float | None = None
    ) -> OffsetAndMetadata | None: ...
    @overload
    async def committed(
        self,
        partition: list[TopicPartition] | AbstractSet[TopicPartition],
        metadata: bool = False,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata | None]: ...
    async def committed(
        self,
        partition: TopicPartition | Iterable[TopicPartition],
        metadata: bool = False,
        timeout_ms: float | None = None,
    ) -> Any:
        """Return the group's committed offset; see `pykafka2.KafkaConsumer.committed`."""
        return await self._blocking(self._consumer._fetch_committed, partition, metadata, timeout_ms)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the membership metadata for a transactional producer (KIP-447)."""
        return self._consumer.group_metadata()

    # ------------------------------------------------------------------ inspection

    def bootstrap_connected(self) -> bool:
        """Return whether any broker is connected."""
        return self._consumer.bootstrap_connected()

    def metrics(self) -> dict[str, float]:
        """Return totals and current values by name, as plain numbers."""
        return self._consumer.metrics()

    def health(self) -> dict[str, Any]:
        """Return the state of the consumer as data for a monitor."""
        return self._consumer.health()

    def explain(self) -> str:
        """Explain in words what the consumer is waiting for."""
        return self._consumer.explain()

    # ------------------------------------------------------------------ lifecycle

    async def start(self) -> Self:
        """Connect to the cluster now, instead of with the first read. Returns the consumer.

        Without a group it also assigns the partitions of the subscribed topics, so that they can be sought.

        Raises:
            NoBrokersAvailable, KafkaTimeoutError, TlsError: no broker responded within
                default_api_timeout_ms. The consumer is closed then.
            TopicAuthorizationFailed, InvalidTopicException: a topic cannot be read. The consumer is closed
                then.
        """
        try:
            await self._blocking(self._consumer.bootstrap)
            await self._blocking(self._consumer._assign_subscribed)
        except KafkaError:
            await self.close()
            raise
        return self

    async def stop(self) -> None:
        """`close`, by aiokafka's name."""
        await self.close()

    async def close(
        self,
        timeout: float | None = None,
        leave_group: bool | None = None,
        *,
        autocommit: bool = True,
    ) -> None:
        """Stop pending reads, commit, leave the group and close the connections. Can be repeated.

        Pending and later reads raise `ConsumerStopped`; iterations end. If the task is cancelled, the
        consumer continues to close, and a second call waits for it. Arguments are those of
        `pykafka2.KafkaConsumer.close`. A coroutine listener has half of `timeout`, then it is cancelled.
        """
        seconds = checked_close(None if isinstance(timeout, bool) else timeout, None)
        if self._bridge.has_lost_its_loop:
            self._listeners.abandon()
            self._gate, self._reads = Gate(), asyncio.Lock()
        loop = self._bridge.enter_to_close()
        if not self._is_stopped:
            self._is_stopped = True
            with suppress(ClientClosed):
                self._consumer._rewind_iteration()  # no record is returned after the last commit
            self._bridge.runtime.check_waiters()  # of pending reads
        begin = partial(self._begin_close, loop, timeout, leave_group, autocommit)
        attending = self._attending
        if self._bridge.closing is None and attending is not None and not self._listeners.is_inside:
            cancelling = loop.call_later(seconds, self._listeners.cancel)
            try:
                await attending.wait()
                cancelling.cancel()
            except asyncio.CancelledError:  # of this task; the close goes on without it
                attending.future.add_done_callback(lambda _: cancelling.cancel())
                attending.future.add_done_callback(lambda _: begin())
                raise
        begin()
        if not self._listeners.is_inside:  # a listener of this close cannot wait for it
            await self._bridge.end_close()

    def _begin_close(
        self,
        loop: asyncio.AbstractEventLoop,
        timeout: float | None,
        leave_group: bool | None,
        autocommit: bool,
    ) -> None:
        if self._bridge.closing is not None:
            return
        close = partial(self._consumer.close, timeout, leave_group, autocommit=autocommit)
        closing = self._bridge.begin_close(_stopped(), close)
        if timeout is not None and not isinstance(timeout, bool):
            # Half the time for the listener that close calls, the rest to leave the group. Without a
            # timeout the listener has max_poll_interval_ms.
            ending = loop.call_later(timeout / 2, self._listeners.cancel)
            closing.future.add_done_callback(lambda _: ending.cancel())

    async def __aenter__(self) -> Self:
        self._bridge.enter()
        if self._consumer._refusal is not None:
            self._consumer._refuse()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; after an exception nothing is committed automatically, as in the sync consumer."""
        await self.close(autocommit=error is None)

    def __enter__(self) -> NoReturn:
        raise IllegalState("write `async with`; this is the KafkaConsumer of pykafka2.aio")

    def __exit__(self, *args: object) -> None: ...

    def __iter__(self) -> NoReturn:
        raise IllegalState("write `async for`; this is the KafkaConsumer of pykafka2.aio")

    def __reduce__(self) -> NoReturn:
        lifecycle.refuse_pickling(self)

    def __repr__(self) -> str:
        return repr(self._consumer).replace("<KafkaConsumer", "<aio.KafkaConsumer", 1)

    # ------------------------------------------------------------------ inside

    async def _blocking(self, function: Callable[..., T], *args: Any) -> T:
        """Run a call that can block on a helper thread, after earlier ones; a listener's call at once."""
        self._bridge.enter()
        if self._listeners.is_running:
            call = self._bridge.start(function, *args)
        else:
            call = await self._gate.start(lambda: self._bridge.start(function, *args))
        try:
            return await call.result()
        except asyncio.CancelledError:
            call.cancel()
            raise


class Done:
    """The result of a call that has taken effect; awaiting it returns True at once."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, Literal[True]]:
        yield from ()
        return True


DONE = Done()


def _stopped() -> ConsumerStopped:
    return ConsumerStopped("the consumer is stopped; create a new one")
