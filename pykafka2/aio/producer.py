"""`KafkaProducer` for asyncio: the sync producer, whose waits suspend tasks.

On the event loop. `send` is the hot path: it appends on the loop's thread, and only a record that finds no
metadata or no memory waits. Memory is waited for on the loop (accumulator/allocation.py keeps the place in
the queue); metadata, and every other call that blocks, on a helper thread (bridge.py).
"""

from __future__ import annotations

import asyncio
from asyncio import _get_running_loop as running_loop
from asyncio import current_task
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack, cast

from pykafka2 import lifecycle
from pykafka2.aio.aiokafka_options import adapt_options
from pykafka2.aio.batch_builder import BatchBuilder
from pykafka2.aio.bridge import UNBOUND, Bridge, Call
from pykafka2.aio.client import AsyncClient
from pykafka2.aio.memory_queue import MemoryQueue, QueuedTask
from pykafka2.aio.transactions import TransactionCalls
from pykafka2.cluster.arguments import checked_timeout
from pykafka2.cluster.client import GRACE
from pykafka2.errors import ClientClosed, IllegalState, KafkaError, LoopBlocked
from pykafka2.flattened import flattened
from pykafka2.option_fields import NOT_AWAITED, is_async
from pykafka2.other_clients import explaining, unexpected_argument, with_foreign_calls
from pykafka2.producer.accumulator.allocation import Allocation, MemoryFull
from pykafka2.producer.accumulator.batch_sizes import SMALLEST_RECORD_BYTES
from pykafka2.producer.append import Prepared, headers_of, with_callback
from pykafka2.producer.arguments import K, V, refuse
from pykafka2.producer.bulk.columns import ArrowData
from pykafka2.producer.bulk.delivery import BulkDelivery, OnBatch
from pykafka2.producer.delivery.delivery import Delivery, OnDelivery
from pykafka2.producer.interceptors import ProducerRecord, fields_of
from pykafka2.producer.options import ProducerConfig
from pykafka2.producer.producer import producer_of
from pykafka2.records.encoder import NO_HEADERS
from pykafka2.text import type_of
from pykafka2.types import GivenHeaders, Metric, PartitionInfo, ProducerHealth, RecordMetadata

if TYPE_CHECKING:
    from pykafka2.driver.runtime import Runtime

T = TypeVar("T")

MAX_METADATA_CALLS = 32
"""Topics and partitions whose metadata helper threads wait for; tasks that need others wait on the loop, so
that threads are left for other calls."""

STEPS_BETWEEN_TURNS = 8
"""Steps after which a task that never waits lets other tasks run: within about 1 ms.

Each turn of the loop costs as much as 20 records. Twice as many steps save nothing that can be measured, and
turns then take more than 2 ms on a busy machine.
"""
STEPS_OF_A_RECORD = 4
"""Steps of a record that cannot take the shortcut. A plain record takes none if it finds room there: one step
is due about every 60 records, and in each millisecond."""


@with_foreign_calls
@flattened
class KafkaProducer(TransactionCalls, AsyncClient, Generic[K, V]):
    """Sends records to a cluster in batches, from the tasks of one event loop.

    Options, defaults, results and errors are those of `pykafka2.KafkaProducer`. The producer belongs to the
    event loop of its first awaited call; a call from another loop or thread raises `WrongEventLoop`.

        async with KafkaProducer(bootstrap_servers="localhost:9092") as producer:
            delivery = await producer.send("orders", b"value", key=b"key")
            metadata = await delivery

    Args:
        config: options by dotted or underscored name.
        runtime: `simulation.runtime.at("shop")` in a `Simulation`; None for real threads and sockets.
        options: options by underscored name.

    Raises:
        UnknownOption, ConfigurationError: an option is unknown, invalid, or contradicts another.
    """

    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        /,
        *,
        runtime: Runtime | None = None,
        **options: Unpack[ProducerConfig[K, V]],
    ) -> None:
        self._bridge = bridge = Bridge("KafkaProducer", runtime)
        with lifecycle.loading:
            from pykafka2.producer.core import ProducerCore
            from pykafka2.producer.options import PRODUCER_OPTIONS
        parsed = PRODUCER_OPTIONS.parse(adapt_options(config, bridge), adapt_options(options, bridge))
        self._core = core = ProducerCore(parsed, bridge.runtime, owns_runtime=bridge.owns_runtime)
        self._sync = self._producer = producer_of(core)
        self._appender = core.appender
        self._accumulator = core.accumulator
        self._driver = core.driver
        self._max_block = parsed.max_block
        self._is_send_repeatable = core.open_batches is not None
        """Whether an attempt of the sync `send` calls nothing of the application, so it can be repeated."""
        self._loop: object = UNBOUND
        self._last_sender: asyncio.Task[Any] | None = None
        """The task that used up the last `STEPS_BETWEEN_TURNS`."""
        self._steps_left = STEPS_BETWEEN_TURNS
        self._shortcut = core.shortcut
        self._open_batches = core.open_batches if core.shortcut is None else None
        self._wall_ns = self._driver.clock.wall_ns
        self._memory_queue = MemoryQueue()
        self._waiting = self._memory_queue.waiting
        self._send = self._producer.send
        self._metadata_calls: dict[tuple[str, int | None], _MetadataCall] = {}
        self._is_registered = False
        self._is_registered_by_start = False
        self._registering = asyncio.Lock()
        self._abandoned: set[asyncio.Future[Any]] = set()
        """Calls of cancelled tasks; the next transactional call begins after they ended."""

    # ------------------------------------------------------------------ sending

    async def send(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        headers: GivenHeaders | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
        callback: None = None,
    ) -> Delivery:
        """Append a record to its partition's batch and return its delivery. The IO thread sends the batch.

        The delivery can be awaited. Wait at most max_block_ms for the metadata of a new topic and for memory,
        without blocking the loop. If it raises, also because the task was cancelled, the record was not
        appended.

        Args:
            topic: the topic's name.
            value: bytes, or the argument of value_serializer; None is a null value.
            key: bytes, or the argument of key_serializer; None is a null key.
            headers: pairs of a name and bytes (or None).
            partition: if None, the partitioner chooses.
            timestamp_ms: milliseconds since the epoch; None is now.
            on_delivery: called once on the event loop as on_delivery(metadata, error), one of them None.

        Raises:
            WrongEventLoop: another loop, or no loop, runs in this thread.
            KafkaError: as for `pykafka2.KafkaProducer.send`.
        """
        # `callback` is always None: `callback=f` gets a TypeError that names `on_delivery`.
        # Hot: no task, no future and no other thread for a record that finds room. The shortcut is that of
        # the sync `send` for plain records. The class has no `__getattr__`, which slows every attribute.
        if self._loop is not running_loop():
            self._loop = self._bridge.enter()
        open_batches = self._open_batches
        if (
            open_batches is not None
            and key is None
            and headers is None
            and partition is None
            and timestamp_ms is None
            and on_delivery is None
            and callback is None
            and type(value) is bytes
            and not self._waiting
        ):
            try:
                batch = open_batches[topic]
            except (KeyError, TypeError):  # none yet, or not hashable
                pass
            else:
                wall_ns = self._wall_ns
                if batch.since_ns <= wall_ns() < batch.until_ns:
                    row = (value, None, batch.timestamp, NO_HEADERS, None)
                    size_bytes = SMALLEST_RECORD_BYTES + len(value)
                    outcome, fields = batch.outcome, batch.fields
                    # As in the sync `send`: `append_unlocked` (accumulator/open_batch.py) without its call.
                    if (room_bytes := batch.room_bytes - size_bytes) >= 0: batch.room_bytes = room_bytes; fields += row; index = batch.count; batch.count = index + 1  # fmt: skip # noqa: E501, E701, E702
                    if room_bytes >= 0:
                        delivery = Delivery()
                        delivery.batch_outcome = outcome  # type: ignore[assignment]
                        delivery.batch_index = index
                        return delivery
            self._steps_left -= 1
        elif (
            (shortcut := self._shortcut) is not None
            and key is None
            and headers is None
            and partition is None
            and timestamp_ms is None
            and on_delivery is None
            and callback is None
            and type(value) is bytes
            and not self._waiting
        ):
            compiled_delivery = shortcut(topic, value, None, None)
            if compiled_delivery is not None:
                return compiled_delivery
            self._steps_left -= 1
        else:
            if callback is not None:
                raise unexpected_argument(self, "send", "callback")
            self._steps_left -= STEPS_OF_A_RECORD
        if self._steps_left <= 0:
            self._steps_left = STEPS_BETWEEN_TURNS
            before, self._last_sender = self._last_sender, current_task(self._loop)
            if before is self._last_sender:
                # If another task has sent since, it has had its turn. A pause would only let tasks that
                # began later append before this one, such as those of one `gather`.
                await asyncio.sleep(0)
        on_loop = None if on_delivery is None else self._on_loop(topic, on_delivery)
        if self._is_send_repeatable and not self._waiting:
            try:
                return self._send(topic, value, key, headers, partition, timestamp_ms, on_loop)
            except LoopBlocked:
                pass
        return await self._send_waiting(topic, value, key, headers, partition, timestamp_ms, on_delivery)

    async def send_and_wait(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        headers: GivenHeaders | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """Send a record and wait until it is written.

        A task that is cancelled while the record is on its way does not take it back. Raise the errors of
        `send` and of the delivery.
        """
        return await (await self.send(topic, value, key, headers, partition, timestamp_ms))

    async def send_many(
        self,
        topic: str,
        values: Sequence[V | None] | ArrowData,
        *,
        keys: Sequence[K | None] | ArrowData | None = None,
        headers: GivenHeaders | Sequence[GivenHeaders | None] | ArrowData | None = None,
        partition: int | None = None,
        partitions: Sequence[int | None] | ArrowData | None = None,
        timestamps_ms: Sequence[int | None] | ArrowData | None = None,
        on_delivery: OnBatch | None = None,
    ) -> BulkDelivery:
        """Append columns of records, in batches of bulk_batch_size, without a Python call for each record.

        The returned delivery can be awaited. Arguments and errors are those of
        `pykafka2.KafkaProducer.send_many`; `failures()` of the finished delivery has the rows that failed.
        The columns are encoded on a helper thread, which also calls serializers and interceptors. If the task
        is cancelled, rows that were appended before are sent.
        """
        callback = None if on_delivery is None else self._on_loop(topic, on_delivery)
        return await self._result_of(
            self._bridge.start(
                self._producer.send_many,
                topic,
                values,
                keys=keys,
                headers=headers,
                partition=partition,
                partitions=partitions,
                timestamps_ms=timestamps_ms,
                on_delivery=callback,
            )
        )

    def create_batch(self) -> BatchBuilder:
        """Return an empty batch of up to batch_size bytes for `send_batch`, as in aiokafka.

        Raises:
            IllegalState: the producer has serializers, which a batch does not call; use `send_many`.
        """
        if self._appender.serializers:
            raise IllegalState(
                "create_batch(): a batch contains bytes, and this producer has serializers; call send_many()"
            )
        return BatchBuilder(self._core.options.batch_size)

    async def send_batch(self, batch: BatchBuilder, topic: str, *, partition: int) -> BulkDelivery:
        """Send the records of a batch to one partition, and return their delivery, as `send_many` does.

        The batch is closed and cannot be sent again.
        """
        self._bridge.enter()
        if not isinstance(batch, BatchBuilder):
            raise TypeError(f"send_batch(): batch must be a result of create_batch(), not {type_of(batch)}")
        batch.take()
        return await self.send_many(
            topic,
            cast("Sequence[V | None]", batch.values),
            keys=cast("Sequence[K | None]", batch.keys),
            headers=batch.headers,
            partition=partition,
            timestamps_ms=batch.timestamps_ms,
        )

    async def flush(self, timeout: float | None = None) -> None:
        """Send everything appended so far, and wait until the outcome of every record is known.

        Raise as `pykafka2.KafkaProducer.flush` does.
        """
        await self._bridge.run(self._producer.flush, timeout)

    @explaining
    async def purge(self) -> int:
        """Drop queued records that were never sent. Return how many. Each fails with `RecordPurged`."""
        return await self._bridge.run(self._producer.purge)

    async def partitions_for(self, topic: str) -> set[int]:
        """Return the topic's partition numbers. Wait at most max_block_ms; raise as `send` does."""
        return {info.partition for info in await self.partition_infos(topic)}

    async def partition_infos(self, topic: str) -> list[PartitionInfo]:
        """Return the topic's partitions in order, with leaders and replicas. Like `partitions_for`."""
        self._bridge.enter()
        try:
            return self._producer.partition_infos(topic)
        except LoopBlocked:
            return await self._bridge.run(self._producer.partition_infos, topic)

    # ------------------------------------------------------------------ inspection

    def bootstrap_connected(self) -> bool:
        """Return whether any broker is connected. The first `send` opens the first connection."""
        return self._producer.bootstrap_connected()

    def metrics(self) -> dict[str, float]:
        """Return Kafka's producer metrics without tags by name; `metric_rows` returns all.

        Totals count from the start; rates, averages and maxima cover the last 30 to 60 s.
        """
        return self._producer.metrics()

    def metric_rows(self) -> list[Metric]:
        """Return every metric as a row: name, group, value, kind, unit, tags, description.

        Names, groups and tags are Apache Kafka's; the tag client-id is always there. Metrics of a topic
        appear with its first record. Nothing is sent.
        """
        return self._producer.metric_rows()

    async def client_instance_id(self, timeout: float | None = None) -> str:
        """Return the id that a broker gave this producer for the metrics that it pushes (KIP-714).

        Opens the first connection if there is none. `timeout` is max_block_ms by default.

        Raises:
            IllegalState: enable_metrics_push is False.
            UnsupportedVersion: the brokers do not receive metrics of clients.
            NoBrokersAvailable, KafkaTimeoutError: no broker responded in time.
        """
        self._bridge.enter()
        return await self._bridge.run(self._producer.client_instance_id, timeout)

    def register_metrics(self, rows: Callable[[], Iterable[Metric]]) -> None:
        """Push these metrics of the application with those of the producer (KIP-1076).

        `rows` is called before each push, on the IO thread: it must not block. It returns `Metric` rows with
        names that the producer does not have. If it raises, that is logged once, and its rows are left out.
        Nothing calls it while no broker asks for metrics.
        """
        self._producer.register_metrics(rows)

    def unregister_metrics(self, rows: Callable[[], Iterable[Metric]]) -> None:
        """Push the metrics of this function no more; does nothing if it is not registered."""
        self._producer.unregister_metrics(rows)

    def health(self) -> ProducerHealth:
        """Return the state of the producer as data: waiting records, memory, metadata, producer id."""
        return self._producer.health()

    def explain(self) -> str:
        """Explain in words what the producer is waiting for."""
        return self._producer.explain()

    # ------------------------------------------------------------------ lifecycle

    async def start(self) -> Self:
        """Connect to the cluster now, instead of with the first `send`. Return the producer.

        With a transactional_id it registers that, too, as `init_transactions` does.

        Raises:
            NoBrokersAvailable, KafkaTimeoutError, TlsError: no broker responded within max_block_ms. The
                producer is closed then.
            KafkaError: as for `init_transactions`. The producer is closed then.
        """
        self._bridge.enter()
        try:
            await self._bridge.run(self._core.client.bootstrap, self._max_block)
            if self._core.options.transactional_id is not None:
                await self._register()
        except KafkaError:
            await self.close()
            raise
        return self

    async def close(self, timeout: float | None = None) -> None:
        """Send what is left, then close the connections and end the thread. Can be repeated.

        If the task is cancelled, the producer continues to close, and a second call waits for it. Raise as
        `pykafka2.KafkaProducer.close` does.
        """
        timeout = checked_timeout(timeout)
        if self._bridge.has_lost_its_loop:
            self._abandoned.clear()
        self._bridge.enter_to_close()
        self._shortcut = self._open_batches = None
        refusal = ClientClosed("the producer is closed; create a new one")
        self._bridge.begin_close(refusal, partial(self._producer.close, timeout))
        await self._bridge.end_close()

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
        """Close. If the block raised, its exception continues, with a note of what was not delivered."""
        try:
            await self.close()
        except KafkaError as closing:
            if error is None:
                raise
            error.add_note(f"while the producer was closed: {type(closing).__name__}: {closing}")

    # ------------------------------------------------------------------ inside

    async def _send_waiting(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: GivenHeaders | None,
        partition: int | None,
        timestamp_ms: int | None,
        on_delivery: OnDelivery | None,
    ) -> Delivery:
        """Append a record whose attempts call code of the application, or that must wait."""
        if self._core.refusal is not None:
            self._core.check_open()
        appender, interceptors = self._appender, self._appender.interceptors
        kept = None
        if interceptors is not None:
            record = interceptors.on_send(ProducerRecord(topic, value, key, headers, partition, timestamp_ms))
            topic, value, key, headers, partition, timestamp_ms = fields_of(record)
            kept = interceptors.kept(record)
        try:
            prepared = appender.prepare(
                topic, value, key, headers, partition, timestamp_ms, on_delivery, kept
            )
            callback = prepared[5][4]
            if callback is not None:
                prepared = with_callback(prepared, self._bridge.on_loop(callback))
            delivery = await self._place(prepared)
        except BaseException as error:
            if interceptors is not None:
                is_cancelled = isinstance(error, asyncio.CancelledError)
                reason = KafkaError("cancelled") if is_cancelled else error
                interceptors.on_refused(reason, [(headers, kept)])
            raise
        if interceptors is not None:
            interceptors.appended(kept, delivery)
        if interceptors is not None and on_delivery is None:
            encoded = headers_of(prepared)

            def acknowledge(done: Any) -> None:
                metadata, error = done.outcome()
                interceptors.on_acknowledgement(metadata, error, encoded, kept)

            delivery.call_when_done(acknowledge)
        return delivery

    async def _place(self, prepared: Prepared) -> Delivery:
        """Append a prepared record, after as many attempts as it takes."""
        began = self._driver.clock.monotonic()
        allocation = Allocation()
        queued = self._memory_queue.join() if self._waiting else None
        try:
            if queued is not None:
                await self._wait_in_queue(queued, prepared[0], began)
            while True:
                try:
                    return self._appender.place(prepared, None, allocation)
                except MemoryFull:
                    if queued is None:
                        queued = self._memory_queue.join()
                    await self._wait_for_memory(prepared[0], allocation, began)
                except LoopBlocked:
                    await self._wait_for_metadata(prepared[0], prepared[3], began)
        finally:
            allocation.leave(self._accumulator.pool)
            if queued is not None:
                queued.leave()

    async def _wait_in_queue(self, queued: QueuedTask, topic: str, began: float) -> None:
        remaining = began + self._max_block - self._driver.clock.monotonic()
        if not await queued.wait(max(0.0, remaining)):
            raise self._accumulator.exhausted(f"a record for topic {topic!r}", self._max_block)

    async def _wait_for_memory(self, topic: str, allocation: Allocation, began: float) -> None:
        permit, accumulator = allocation.permit, self._accumulator
        if permit is None or permit.waiters is None:
            return
        monotonic = self._driver.clock.monotonic
        since = monotonic()
        is_over = await self._bridge.wait(
            self._driver,
            lambda: permit.is_granted or accumulator.is_closed,
            max(0.0, began + self._max_block - since),
            permit.waiters,
            accumulator.closing,
        )
        accumulator.count_wait(monotonic() - since)
        if not is_over:
            raise accumulator.exhausted(f"a record for topic {topic!r}", self._max_block)

    async def _wait_for_metadata(self, topic: str, partition: int | None, began: float) -> None:
        """Wait for the metadata of a topic, in one call for all tasks that do."""
        deadline, monotonic = began + self._max_block, self._driver.clock.monotonic
        failure: KafkaError | None = None
        while True:
            # The call ends with its own error at about the deadline of the task that has started it. A task
            # that began later waits on with another call, which can outlast it.
            seconds, grace = max(0.0, deadline - monotonic()), GRACE if failure is None else 0.0
            try:
                if await self._join_metadata_call(topic, partition, seconds, grace):
                    return
            except KafkaError as error:
                failure = error
                if error.retriable and monotonic() < deadline:
                    continue
            if failure is not None:
                raise failure.anew() from failure.__cause__
            self._appender.await_route(topic, partition, 0.0)  # does not wait; raises the reason
            return

    async def _join_metadata_call(
        self, topic: str, partition: int | None, seconds: float, grace: float
    ) -> bool:
        """Wait for the call of this topic and partition; False if it has not ended in this time."""
        place = topic, partition
        waiting = self._metadata_calls.get(place)
        if waiting is None:
            if len(self._metadata_calls) >= MAX_METADATA_CALLS:
                return await self._wait_without_call(topic, partition, seconds)
            call = self._bridge.start(self._appender.await_route, topic, partition)
            waiting = self._metadata_calls[place] = _MetadataCall(call)
        waiting.tasks += 1
        future = waiting.call.future
        try:
            if not future.done():
                await asyncio.wait([future], timeout=seconds + grace)
            if future.done():
                future.result()
                return True
            return False
        finally:
            waiting.tasks -= 1
            if not waiting.tasks or future.done():
                waiting.call.cancel()  # has no effect on a call that has ended
                if self._metadata_calls.get(place) is waiting:
                    del self._metadata_calls[place]

    async def _wait_without_call(self, topic: str, partition: int | None, seconds: float) -> bool:
        """Wait on the loop until a response has the topic and partition; False if it has not in time.

        Also False for an error that waiting cannot cure.
        """
        metadata = self._core.client.metadata

        def is_usable() -> bool:
            known = metadata.topic(topic)
            if known is None or not known.is_usable:
                return False
            return partition is None or 0 <= partition <= max(known.partitions)

        def is_settled() -> bool:
            error = metadata.topic_error(topic)
            return is_usable() or (error is not None and not error.retriable)

        await self._bridge.wait(self._driver, is_settled, seconds, metadata.waiters)
        return is_usable()

    def _on_loop(self, topic: str, on_delivery: Any) -> Any:
        """Return a callback of the IO thread that calls `on_delivery` on the loop."""
        if not callable(on_delivery):
            refuse("on_delivery", on_delivery, topic, "must be a callable of metadata and error")
        if is_async(on_delivery):
            refuse("on_delivery", on_delivery, topic, f"{NOT_AWAITED}, or await the delivery")
        return self._bridge.on_loop(on_delivery)


class _MetadataCall:
    """A call that waits for metadata, and the number of tasks that wait for it."""

    __slots__ = ("call", "tasks")

    def __init__(self, call: Call[None]) -> None:
        self.call = call
        self.tasks = 0
