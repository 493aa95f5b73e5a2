"""Appends one record: from the arguments of `KafkaProducer.send` to the open batch of a partition.

Used on callers' threads. The steps are: interceptors, serializers, checks, partition, append. `send` itself
tries two shortcuts first. The IO thread (sending/sender.py) does the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykafka2.cluster.arguments import checked_topic
from pykafka2.cluster.client import ClusterClient
from pykafka2.errors import IllegalArgument, KafkaError, SerializationError
from pykafka2.producer.accumulator.accumulator import Accumulator
from pykafka2.producer.accumulator.allocation import Allocation
from pykafka2.producer.accumulator.batch_sizes import SMALLEST_RECORD_BYTES
from pykafka2.producer.accumulator.open_batch import NS_PER_MS, OpenBatch, note_open
from pykafka2.producer.accumulator.partition_queue import PartitionQueue
from pykafka2.producer.arguments import (
    NO_TIMESTAMP_FROM,
    checked_headers,
    checked_partition,
    checked_timestamp,
    encoded_headers,
    refuse,
)
from pykafka2.producer.delivery.delivery import Delivery, OnDelivery
from pykafka2.producer.idempotence import ProducerIdentity
from pykafka2.producer.interceptors import Interceptors, ProducerRecord, fields_of
from pykafka2.producer.options import ProducerOptions
from pykafka2.producer.partitioning.partitioners import Strategy
from pykafka2.producer.partitioning.route_table import Routes
from pykafka2.producer.partitioning.topic_route import Route
from pykafka2.producer.transactions.state import Call, TransactionStatus
from pykafka2.records.encoder import NO_HEADERS, Row
from pykafka2.serializers import SerializeFunction, serialize_function
from pykafka2.slotted import slotted
from pykafka2.text import brief, type_of
from pykafka2.types import GivenHeaders, Headers

if TYPE_CHECKING:
    from pykafka2.driver.driver import Driver


Prepared = tuple[str, Any, Any, int | None, bool, Row, int]
"""Topic, value, key, partition, whether its time is now, the encoded record, its maximum size in bytes."""


@slotted(frozen=True)
class Serializers:
    """The functions that turn keys and values into bytes; None if they are bytes already."""

    key: SerializeFunction | None
    value: SerializeFunction | None

    @classmethod
    def of(cls, options: ProducerOptions) -> Serializers:
        """Raise ConfigurationError if an option is not a serializer."""
        return cls(
            serialize_function(options.key_serializer, "key_serializer"),
            serialize_function(options.value_serializer, "value_serializer"),
        )

    def __bool__(self) -> bool:
        return self.key is not None or self.value is not None

    def serialize(
        self, topic: str, key: Any, value: Any, headers: GivenHeaders | None
    ) -> tuple[Any, Any, GivenHeaders | None]:
        """Return the key, the value and the headers. Serializers can add headers, as in Java."""
        # A copy, so that the caller's own list does not change.
        own: Headers = [] if headers is None else checked_headers(topic, headers)
        if key is not None and self.key is not None:
            key = serialize_entry(self.key, "key", topic, own, key)
        if value is not None and self.value is not None:
            value = serialize_entry(self.value, "value", topic, own, value)
        return key, value, own or None


@slotted(frozen=True)
class AppendGuard:
    """Checks whether the producer can start a batch, before a call waits for anything."""

    driver: Driver
    status: TransactionStatus | None
    """None without a transactional_id."""
    identity: ProducerIdentity | None
    """None without idempotence."""

    def check(self) -> None:
        """Raise the IO thread's failure, or the error that ended the transaction or the producer's id."""
        self.driver.raise_news()
        if self.status is not None:
            self.status.check(Call.SEND)
        if self.identity is not None and self.identity.refusal is not None:
            raise self.identity.refusal.anew()


class Appender:
    """Appends single records to the open batches of their partitions. Thread-safe.

    `send_many` (bulk/) uses its parts, and `append_row` for the few records that do not fill a batch.
    """

    def __init__(
        self,
        options: ProducerOptions,
        client: ClusterClient,
        accumulator: Accumulator,
        routes: Routes,
        strategy: Strategy,
        serializers: Serializers,
        hooks: Interceptors,
        guard: AppendGuard,
    ) -> None:
        self.options = options
        self.clock = client.driver.clock
        self.accumulator = accumulator
        self.routes = routes
        self.strategy = strategy
        self.serializers = serializers
        self.hooks = hooks
        self.interceptors = hooks if hooks.sees_records else None
        self.guard = guard
        self.metadata = client.metadata
        self._wall_ns = client.driver.clock.wall_ns
        self._routes_by_topic = routes.by_topic
        self._has_serializers = bool(serializers)
        self._choose = strategy.choose
        self._ignores_keys = strategy.ignores_keys
        self._hashes = strategy.hashes

    def append(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: GivenHeaders | None,
        partition: int | None,
        timestamp_ms: int | None,
        on_delivery: OnDelivery | None,
        open_batches: dict[str, OpenBatch] | None,
    ) -> Delivery:
        """Append one record; the arguments and errors are those of `KafkaProducer.send`.

        A record of the current millisecond without a key puts its batch into `open_batches`, by topic, where
        `send` finds it for the next one; None without that shortcut.
        """
        interceptors = self.interceptors
        if interceptors is None:
            prepared = self.prepare(topic, value, key, headers, partition, timestamp_ms, on_delivery)
            return self.place(prepared, open_batches)
        record = interceptors.on_send(ProducerRecord(topic, value, key, headers, partition, timestamp_ms))
        kept = interceptors.kept(record)
        try:
            prepared = self.prepare(*fields_of(record), on_delivery, kept)
            delivery = self.place(prepared, open_batches)
        except BaseException as error:
            interceptors.on_refused(error, [(record.headers, kept)])
            raise
        interceptors.appended(kept, delivery)
        if on_delivery is None:
            encoded = headers_of(prepared)
            # Not add_done_callback: where an event loop runs, that is for the loop.
            delivery.batch_outcome.add_listener(
                lambda: interceptors.on_acknowledgement(*delivery.outcome(), encoded, kept)
            )
        return delivery

    def prepare(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: GivenHeaders | None,
        partition: int | None,
        timestamp_ms: int | None,
        on_delivery: OnDelivery | None,
        kept: ProducerRecord | None = None,
    ) -> Prepared:
        """Call the serializers, once for each record, and check its fields. Never blocks.

        `kept` is the record if an interceptor wants it at the acknowledgement.
        """
        key_bytes: Any = key
        value_bytes: Any = value
        if self._has_serializers:
            key_bytes, value_bytes, headers = self.serializers.serialize(topic, key, value, headers)
        size_bytes = SMALLEST_RECORD_BYTES
        if value_bytes is not None:
            if type(value_bytes) is not bytes:
                value_bytes = _as_bytes("value", topic, value_bytes)
            size_bytes += len(value_bytes)
        if key_bytes is not None:
            if type(key_bytes) is not bytes:
                key_bytes = _as_bytes("key", topic, key_bytes)
            size_bytes += len(key_bytes)
        encoded = NO_HEADERS
        if headers is not None:
            encoded = encoded_headers(topic, headers)
            size_bytes += len(encoded)
        if on_delivery is not None and not callable(on_delivery):
            refuse("on_delivery", on_delivery, topic, "must be a callable of metadata and error")
        is_now = timestamp_ms is None
        if timestamp_ms is None:
            timestamp_ms = self._wall_ns() // NS_PER_MS
        elif type(timestamp_ms) is not int or not 0 <= timestamp_ms < NO_TIMESTAMP_FROM:
            timestamp_ms = checked_timestamp(topic, timestamp_ms)
        callback = on_delivery
        if on_delivery is not None and self.interceptors is not None:
            callback = self.interceptors.around(on_delivery, encoded, kept)
        row = (value_bytes, key_bytes, timestamp_ms, encoded, callback)
        return topic, value, key, partition, is_now, row, size_bytes

    def place(
        self,
        prepared: Prepared,
        open_batches: dict[str, OpenBatch] | None,
        allocation: Allocation | None = None,
    ) -> Delivery:
        """Append a prepared record to its partition. If this raises, nothing was appended.

        With `allocation` it does not wait for memory: it raises `MemoryFull` instead, and can be repeated.
        """
        topic, value, key, partition, is_now, row, size_bytes = prepared
        if allocation is not None and allocation.partition is not None:
            partition = allocation.partition  # the partitioner was called by an earlier attempt
        route, deadline = self._route(topic)
        key_bytes = row[1]
        is_sticky = False
        if partition is not None:
            if type(partition) is not int:
                partition = checked_partition(topic, partition)
            if 0 <= partition < len(route.queues):
                queue = route.queues[partition]
            else:
                queue = self.routes.explicit(route, topic, partition, self._remaining(deadline))
        elif self._choose is not None:
            chosen = self._choose(route, key, key_bytes, value, row[0])
            queue = route.sticky if chosen is None else chosen
            is_sticky = chosen is None
            if allocation is not None and chosen is not None:
                allocation.partition = chosen.partition
        elif key_bytes is None or self._ignores_keys:
            queue = route.sticky
            is_sticky = True
        else:
            queues = route.queues
            queue = queues[self._hashes[key_bytes] % len(queues)]
        delivery = queue.try_append(row, size_bytes)
        if delivery is None:
            delivery = self._start_batch(
                route if is_sticky else None, queue, row, size_bytes, deadline, allocation
            )
        if is_sticky and is_now and open_batches is not None:
            note_open(open_batches, topic, route.sticky.tail, row[2])
        return delivery

    def await_route(self, topic: str, partition: int | None, timeout: float | None = None) -> None:
        """Wait until `place` finds the topic's route, and the partition if one is named; raise as `send`.

        Wait at most `timeout` seconds, or max_block_ms if it is None.
        """
        seconds = self.options.max_block if timeout is None else timeout
        deadline = self.clock.monotonic() + seconds
        route = self.routes.current(topic) or self.routes.route(topic, seconds)
        if partition is not None and not 0 <= partition < len(route.queues):
            self.routes.explicit(route, topic, partition, self._remaining(deadline))

    def append_row(self, route: Route | None, queue: PartitionQueue, row: Row, size_bytes: int) -> Delivery:
        """Append a record that is checked and encoded; with a route, to the partition that it sticks to."""
        delivery = queue.try_append(row, size_bytes)
        return self._start_batch(route, queue, row, size_bytes, None) if delivery is None else delivery

    def _route(self, topic: str) -> tuple[Route, float | None]:
        """Return the topic's route; if that can have blocked, also when max_block_ms ends for this call."""
        try:
            route = self._routes_by_topic.get(topic)
        except TypeError:  # not hashable
            refuse("topic", topic, topic, "must be a str")
        if route is not None and route.snapshot is self.metadata.snapshot:
            return route, None
        deadline = self.clock.monotonic() + self.options.max_block
        return self.routes.route(topic, self.options.max_block), deadline

    def _start_batch(
        self,
        route: Route | None,
        queue: PartitionQueue,
        row: Row,
        size_bytes: int,
        deadline: float | None,
        allocation: Allocation | None = None,
    ) -> Delivery:
        """Append to a new batch. With a route, the record has no key and can go to another partition."""
        self.guard.check()
        if route is not None:
            tried, queue = queue, self.routes.sticky.next(route)
            delivery = None if queue is tried else queue.try_append(row, size_bytes)
            if delivery is not None:
                return delivery
        self.metadata.want_topic(queue.topic, self.clock.monotonic())
        timeout = self.options.max_block if deadline is None else self._remaining(deadline)
        return self.accumulator.append_waiting(queue, row, size_bytes, timeout, allocation)

    def _remaining(self, deadline: float | None) -> float:
        """Return the seconds for which this call can still block."""
        return self.options.max_block if deadline is None else max(0.0, deadline - self.clock.monotonic())


def headers_of(prepared: Prepared) -> bytes:
    """Return the encoded headers of a prepared record."""
    return prepared[5][3]


def with_callback(prepared: Prepared, callback: OnDelivery | None) -> Prepared:
    """Return a prepared record with another callback."""
    row = prepared[5]
    return *prepared[:5], (*row[:4], callback), prepared[6]


def serialize_entry(serialize: SerializeFunction, what: str, topic: str, headers: Headers, data: Any) -> Any:
    """Return a serialized key or value. Raise SerializationError if the serializer failed."""
    try:
        return serialize(topic, headers, data)
    except KafkaError:
        raise
    except Exception as error:
        raise SerializationError(f"{what}_serializer failed for topic {topic!r}: {brief(error)}") from error


def _as_bytes(what: str, topic: str, data: Any) -> bytes:
    if isinstance(data, bytes | bytearray | memoryview):
        return memoryview(data).tobytes()  # a copy, as the caller can change the original
    checked_topic(topic)  # swapped arguments get the error about the topic
    raise IllegalArgument(
        f"the {what} of a record for topic {topic!r} is {type_of(data)}; give bytes, or set {what}_serializer"
    )
