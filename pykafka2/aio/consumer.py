"""`KafkaConsumer` for asyncio: start and close. Its calls are in reads.py and consumer_calls.py.

It runs the sync consumer, read on the event loop without a thread hop. Listeners and calls that block run on
helper threads, one at a time (call_queue.py), and the loop can use the consumer while such a thread waits
(runtime.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Generic, NoReturn, Self, Unpack

from pykafka2 import lifecycle
from pykafka2.aio.aiokafka_options import adapt_options
from pykafka2.aio.bad_records import AwaitedBadRecords
from pykafka2.aio.bridge import UNBOUND, Bridge, Call
from pykafka2.aio.call_queue import CallQueue
from pykafka2.aio.client import AsyncClient
from pykafka2.aio.consumer_calls import ConsumerCalls
from pykafka2.aio.listeners import Listeners
from pykafka2.aio.reads import Reads, stopped
from pykafka2.consumer.calls.arguments import checked_close, split_topics
from pykafka2.consumer.calls.poll import queue_and_step
from pykafka2.consumer.calls.steps import CallSteps
from pykafka2.consumer.consumer import consumer_of
from pykafka2.consumer.core import ConsumerCore
from pykafka2.consumer.options import ConsumerConfig
from pykafka2.errors import ClientClosed, IllegalState, KafkaError
from pykafka2.flattened import flattened
from pykafka2.other_clients import explaining, with_foreign_calls
from pykafka2.types import K, V

if TYPE_CHECKING:
    from pykafka2.driver.runtime import Runtime


@with_foreign_calls
@flattened
class KafkaConsumer(Reads[K, V], ConsumerCalls, AsyncClient, Generic[K, V]):
    """Reads records from a cluster, in the tasks of one event loop.

    Options, defaults, results and errors are those of `pykafka2.KafkaConsumer`. Heartbeats and fetches are
    sent by the IO thread, so a task that blocks the loop loses its partitions only after
    max_poll_interval_ms. The consumer belongs to the event loop of its first awaited call.

        servers = "localhost:9092"
        async with KafkaConsumer("orders", bootstrap_servers=servers) as consumer:
            async for record in consumer:
                print(record.offset, record.value)

    Args:
        topics: topics to subscribe to; a mapping of options can precede them.
        runtime: `simulation.runtime.at("shop")` in a `Simulation`; None for real threads and sockets.
        options: options by underscored name.

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
        with lifecycle.loading:
            from pykafka2.consumer.options import CONSUMER_OPTIONS
        config, names = split_topics(tuple(adapt_options(topic, bridge) for topic in topics))
        self._options = parsed = CONSUMER_OPTIONS.parse(config, adapt_options(options, bridge))
        self._condition = bridge.runtime.condition
        self._core = core = ConsumerCore(
            parsed,
            bridge.runtime,
            owns_runtime=bridge.owns_runtime,
            lock=self._condition,
            closed_error=stopped(),
        )
        self._sync = self._consumer = consumer_of(core, names)
        self._steps = CallSteps(core)
        self._poller = core.poller
        self._driver = core.cluster.driver
        self._queue = core.iteration_queue
        self._iteration_queue, self._step = queue_and_step(core)
        self._interceptors = core.interceptors
        self._listeners = Listeners(bridge, parsed.max_poll_interval, parsed.client_id)
        policy = parsed.on_bad_record
        self._bad_records = policy if isinstance(policy, AwaitedBadRecords) else None
        self._call_queue = CallQueue()
        self._read_lock = asyncio.Lock()
        self._loop: object = UNBOUND
        self._task_call: Call[None] | None = None
        """The step of the group that runs, or whose result no read has received."""
        self._is_stopped = False
        self._is_woken = False
        """Whether `wakeup` was called and no read has ended since."""
        self._read_since = 0.0

    # ------------------------------------------------------------------ lifecycle

    async def start(self) -> Self:
        """Connect to the cluster now, instead of with the first read. Return the consumer.

        Without a group it also assigns the partitions of the subscribed topics, so that they can be sought.

        Raises:
            NoBrokersAvailable, KafkaTimeoutError, TlsError: no broker responded within
                default_api_timeout_ms. The consumer is closed then.
            TopicAuthorizationFailed, InvalidTopicException: a topic cannot be read. The consumer is closed
                then.
        """
        try:
            await self._blocking(self._consumer.bootstrap)
            await self._blocking(self._steps.assign_subscribed)
        except KafkaError:
            await self.close()
            raise
        return self

    @explaining
    async def close(
        self,
        timeout: float | None = None,
        leave_group: bool | None = None,
        *,
        autocommit: bool = True,
    ) -> None:
        """Leave the group, close the connections and end the thread. Can be repeated.

        It commits before. Pending reads and later calls raise `ConsumerStopped`; iterations end. If the task
        is cancelled, the consumer continues to close, and a second call waits for it. Arguments are those of
        `pykafka2.KafkaConsumer.close`. A coroutine listener has half of `timeout`, then it is cancelled.
        """
        seconds = checked_close(None if isinstance(timeout, bool) else timeout, None)
        if self._bridge.has_lost_its_loop:
            self._listeners.abandon()
            self._call_queue, self._read_lock = CallQueue(), asyncio.Lock()
        loop = self._bridge.enter_to_close()
        if not self._is_stopped:
            self._is_stopped = True
            if self._step is not None:
                self._step.end_all()
            with suppress(ClientClosed):
                self._steps.rewind_iteration()  # no record is returned after the last commit
            if self._bad_records is not None:
                self._bad_records.cancel()
            self._bridge.runtime.check_waiters()  # of pending reads
        begin = partial(self._begin_close, loop, timeout, leave_group, autocommit)
        call = self._task_call
        if self._bridge.closing is None and call is not None and not self._listeners.is_inside:
            cancelling = loop.call_later(seconds, self._listeners.cancel)
            try:
                await call.wait()
                cancelling.cancel()
            except asyncio.CancelledError:  # of this task; the close goes on without it
                call.future.add_done_callback(lambda _: cancelling.cancel())
                call.future.add_done_callback(lambda _: begin())
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
        closing = self._bridge.begin_close(stopped(), close)
        if timeout is not None and not isinstance(timeout, bool):
            # Half the time for the listener that close calls, the rest to leave the group. Without a
            # timeout the listener has max_poll_interval_ms.
            ending = loop.call_later(timeout / 2, self._listeners.cancel)
            closing.future.add_done_callback(lambda _: ending.cancel())

    async def stop(self) -> None:
        """Close the client; aiokafka's name for `close`."""
        await self.close()

    async def __aenter__(self) -> Self:
        self._bridge.enter()
        self._core.check_open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; after an exception nothing is committed automatically, as in the sync consumer."""
        await self.close(autocommit=error is None)

    def __iter__(self) -> NoReturn:
        raise IllegalState("write `async for`; this is the KafkaConsumer of pykafka2.aio")
