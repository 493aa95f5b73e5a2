"""`KafkaShareConsumer` for asyncio: it runs the parts of the sync share consumer, and waits on the loop.

Records are taken in the step that returns them, so a cancelled task never loses one. Acknowledgements never
wait, so `async with record:` works in a task that is being cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, Unpack

from pykafka2 import lifecycle
from pykafka2.aio.bridge import Bridge
from pykafka2.aio.client import AsyncClient
from pykafka2.aio.reads import stopped
from pykafka2.consumer.calls.arguments import checked_close, checked_limit, checked_timeout, split_topics
from pykafka2.errors import IllegalState, KafkaError
from pykafka2.share.consumer import share_consumer_of
from pykafka2.share.core import ShareCore
from pykafka2.share.options import ShareConsumerConfig
from pykafka2.share.records import AcknowledgeType, ShareRecord
from pykafka2.types import K, Metric, ShareConsumerHealth, TopicPartition, V

if TYPE_CHECKING:
    from pykafka2.driver.runtime import Runtime
    from pykafka2.share.core import Callback


class KafkaShareConsumer(AsyncClient, Generic[K, V]):
    """Takes records from the queue of a share group, in the tasks of one event loop (KIP-932).

    Options, defaults, results and errors are those of `pykafka2.KafkaShareConsumer`. Any number of tasks can
    iterate over it and acknowledge at the same time; each record goes to one of them.

        options = {"bootstrap_servers": "kafka-1:9092", "group_id": "workers"}
        async with KafkaShareConsumer("jobs", **options) as consumer:
            async for record in consumer:
                async with record:
                    await handle(record.value)

    Args:
        topics: topics to subscribe to; a mapping of options can precede them.
        runtime: `simulation.runtime.at("shop")` in a `Simulation`; None for real threads and sockets.
        options: options by underscored name.

    Raises:
        UnknownOption, ConfigurationError: an option is unknown or invalid, or share groups do not allow it.
    """

    def __init__(
        self,
        *topics: str | Mapping[str, object],
        runtime: Runtime | None = None,
        **options: Unpack[ShareConsumerConfig[K, V]],
    ) -> None:
        self._bridge = bridge = Bridge("KafkaShareConsumer", runtime)
        with lifecycle.loading:
            from pykafka2.share.options import SHARE_CONSUMER_OPTIONS
        config, names = split_topics(topics)
        self._core = core = ShareCore(
            SHARE_CONSUMER_OPTIONS.parse(config, options),
            bridge.runtime,
            owns_runtime=bridge.owns_runtime,
            closed_error=stopped(),
        )
        self._sync = self._consumer = share_consumer_of(core, names)
        self._read_lock = asyncio.Lock()
        self._is_stopped = False

    # ------------------------------------------------------------------ subscription

    def subscribe(self, topics: Iterable[str] | str) -> None:
        """Replace the subscription by these topics, and join the group with the next heartbeat."""
        self._check_open()
        self._core.subscribe(topics)

    def unsubscribe(self) -> None:
        """Leave the group; records that were returned can still be acknowledged while their locks last."""
        self._check_open()
        self._core.membership.subscribe(frozenset())

    def subscription(self) -> set[str]:
        """Return the subscribed topics."""
        return self._consumer.subscription()

    # ------------------------------------------------------------------ records

    async def poll(
        self, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ShareRecord[K, V]]]:
        """Return records by partition as soon as there are some, or an empty dict after `timeout_ms`.

        A cancelled call has taken no record. Arguments and errors are those of
        `pykafka2.KafkaShareConsumer.poll`.

        Raises:
            ConsumerStopped: the consumer was closed, also during the call.
        """
        checked_limit(max_records, 1)
        timeout = checked_timeout(timeout_ms)
        self._bridge.enter()
        async with self._read_lock:
            return await self._poll(timeout, max_records)

    async def _poll(
        self, timeout: float, max_records: int | None, *, for_iteration: bool = False
    ) -> dict[TopicPartition, list[ShareRecord[K, V]]]:
        core, bridge = self._core, self._bridge
        self._check_open()
        found: dict[TopicPartition, list[ShareRecord[K, V]]] = {}
        try:
            core.begin_poll()
            deadline = core.clock.monotonic() + timeout
            while True:
                is_news = core.news()
                collected = core.collect(max_records, for_iteration=for_iteration)
                self._check_open()
                if collected or collected is None:
                    found = collected or {}
                    return found
                remaining = deadline - core.clock.monotonic()
                if remaining <= 0:
                    return found
                await bridge.wait(core.cluster.driver, is_news, remaining)
                self._check_open()
        except BaseException:
            core.withdraw_poll()
            raise
        finally:
            core.end_poll(is_waiting=timeout == 0 and not found)

    async def __aiter__(self) -> AsyncIterator[ShareRecord[K, V]]:
        """Iterate over records until consumer_timeout_ms passes without one, `wakeup`, or the close.

        In implicit mode a record is accepted when the same iteration requests its next one, unless an
        `async with record:` block decides.
        """
        core = self._core
        record: ShareRecord[K, V] | None = None
        while True:
            core.end_record(record)
            record = await self._next()
            if record is None:
                return
            yield record

    async def _next(self) -> ShareRecord[K, V] | None:
        core, options = self._core, self._core.options
        self._bridge.enter()
        async with self._read_lock:
            if self._is_stopped:
                return None
            while (record := core.next_queued()) is None:
                with suppress(type(core.closed_error)):
                    core.put_queued(
                        found := await self._poll(options.consumer_timeout, None, for_iteration=True)
                    )
                    if found:
                        continue
                return None
            core.flush()
            return record

    # ------------------------------------------------------------------ acknowledgements

    def acknowledge(
        self,
        record: ShareRecord[Any, Any] | None = None,
        type: AcknowledgeType = AcknowledgeType.ACCEPT,
        *,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
    ) -> None:
        """Decide about a record; the next poll(), commit() or record of an iteration sends the decision.

        See the sync consumer. Any thread.
        """
        if record is not None:
            self._consumer.acknowledge(record, type)
        elif topic is not None and partition is not None and offset is not None:
            self._consumer.acknowledge(topic=topic, partition=partition, offset=offset, type=type)
        else:
            raise TypeError("acknowledge() needs a record, or topic, partition and offset")

    async def commit(self, timeout_ms: float | None = None) -> dict[TopicPartition, KafkaError | None]:
        """Send the acknowledgements that are due, and wait for the brokers' confirmations.

        A cancelled call leaves them being sent. The result is that of `pykafka2.KafkaShareConsumer.commit`.
        """
        core = self._core
        self._check_open()
        timeout = core.options.default_api_timeout if timeout_ms is None else checked_timeout(timeout_ms)
        locks = core.begin_commit()

        def is_over() -> bool:
            return not any(lock.is_due for lock in locks)

        await self._bridge.wait(core.cluster.driver, is_over, timeout, core.locks.settled)
        core.call_back()
        return core.results(locks, timeout)

    def commit_async(self) -> None:
        """Send the acknowledgements that are due, without waiting."""
        self._check_open()
        self._core.begin_commit()

    def set_acknowledgement_commit_callback(self, callback: Callback | None) -> None:
        """Set the function that gets the results of acknowledgements, on the loop; None removes it."""
        self._check_open()
        self._core.set_callback(callback)

    @property
    def lock_timeout_ms(self) -> float | None:
        """How long a record is locked, from the last response of a broker; None before the first."""
        return self._consumer.lock_timeout_ms

    def wakeup(self) -> None:
        """End the current `poll` or iteration early, or the next one. Safe in threads and signal handlers."""
        self._core.wakeup()

    # ------------------------------------------------------------------ inspection

    def metrics(self) -> dict[str, float]:
        """Return Kafka's metrics without tags by name; `metric_rows` returns all. Any thread."""
        return self._consumer.metrics()

    def metric_rows(self) -> list[Metric]:
        """Return every metric as a row: name, group, value, kind, unit, tags, description. Any thread."""
        return self._consumer.metric_rows()

    async def client_instance_id(self, timeout_ms: float | None = None) -> str:
        """Return the id that a broker gave this consumer for the metrics that it pushes (KIP-714).

        Opens the first connection if there is none. `timeout_ms` is default_api_timeout_ms by default.

        Raises:
            IllegalState: enable_metrics_push is False.
            UnsupportedVersion: the brokers do not receive metrics of clients.
            NoBrokersAvailable, KafkaTimeoutError: no broker responded in time.
        """
        self._bridge.enter()
        return await self._bridge.run(self._consumer.client_instance_id, timeout_ms)

    def register_metrics(self, rows: Callable[[], Iterable[Metric]]) -> None:
        """Push these metrics of the application with those of the consumer (KIP-1076). Any thread.

        `rows` is called before each push, on the IO thread: it must not block. It returns `Metric` rows with
        names that the consumer does not have. If it raises, that is logged once, and its rows are left out.
        Nothing calls it while no broker asks for metrics.
        """
        self._consumer.register_metrics(rows)

    def unregister_metrics(self, rows: Callable[[], Iterable[Metric]]) -> None:
        """Push the metrics of this function no more; does nothing if it is not registered. Any thread."""
        self._consumer.unregister_metrics(rows)

    def health(self) -> ShareConsumerHealth:
        """Return the state of the consumer as data for a monitor.  Any thread can call it."""
        return self._consumer.health()

    def explain(self) -> str:
        """Explain in words which locks are held, and what waits for which broker.  Any thread can call it."""
        return self._consumer.explain()

    # ------------------------------------------------------------------ lifecycle

    async def start(self) -> Self:
        """Connect to the cluster now, instead of with the first read. Return the consumer.

        Raises:
            NoBrokersAvailable, KafkaTimeoutError, TlsError: no broker responded within
                default_api_timeout_ms. The consumer is closed then.
        """
        try:
            core = self._core
            await self._bridge.run(core.cluster.bootstrap, core.options.default_api_timeout)
        except KafkaError:
            await self.close()
            raise
        return self

    async def close(self, timeout: float | None = None) -> None:
        """Send the decided acknowledgements, release all other records, and leave the group.

        Can be repeated. Pending polls and later calls raise `ConsumerStopped`; iterations end. If the task is
        cancelled, the consumer continues to close, and a second call waits for it.
        """
        checked_close(timeout, None)
        if self._bridge.has_lost_its_loop:
            self._read_lock = asyncio.Lock()
        self._bridge.enter_to_close()
        self._is_stopped = True
        if self._bridge.closing is None:
            self._core.wakeup()  # pending polls
        self._bridge.begin_close(stopped(), partial(self._consumer.close, timeout))
        await self._bridge.end_close()

    async def stop(self) -> None:
        """Close the client; aiokafka's name for `close`."""
        await self.close()

    async def __aenter__(self) -> Self:
        self._bridge.enter()
        self._check_open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __iter__(self) -> NoReturn:
        raise IllegalState("write `async for`; this is the KafkaShareConsumer of pykafka2.aio")

    def _check_open(self) -> None:
        if self._is_stopped:
            raise stopped()
        self._core.check_open()
