"""`KafkaProducer`: construction and the public calls. Used on callers' threads.

`send` is the hot path: flat, with local names. Whatever can block or fail is in slower methods. Neighbors:
partitioning/route_table.py, accumulator/accumulator.py, sending/sender.py (the IO thread),
delivery/delivery.py.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, Unpack, overload

from pykafka2 import lifecycle
from pykafka2.cluster.arguments import checked_topic
from pykafka2.cluster.client import ClusterClient
from pykafka2.errors import (
    ClientClosed,
    ForkedClientError,
    IllegalArgument,
    IllegalState,
    KafkaError,
    SerializationError,
)
from pykafka2.metrics import Metrics
from pykafka2.other_clients import no_such_attribute
from pykafka2.producer.accumulator.accumulator import Accumulator, admit_always
from pykafka2.producer.accumulator.batch import ProducerBatch
from pykafka2.producer.accumulator.batch_sizes import SMALLEST_RECORD_BYTES
from pykafka2.producer.accumulator.partition_queue import NS_PER_MS, PartitionQueue, note_open
from pykafka2.producer.arguments import (
    NO_TIMESTAMP_FROM,
    checked_headers,
    checked_partition,
    checked_timeout,
    checked_timestamp,
    encoded_headers,
    refuse,
)
from pykafka2.producer.bulk.columns import ArrowData, BulkArguments
from pykafka2.producer.bulk.delivery import BulkDelivery, OnBatch
from pykafka2.producer.bulk.rows import BulkReader
from pykafka2.producer.bulk.sender import BulkSender
from pykafka2.producer.delivery.delivery import Delivery, OnDelivery
from pykafka2.producer.inspection import MEASURED, RATES, SHARED_TOTALS, TOTALS, Inspection
from pykafka2.producer.interceptors import Interceptors, ProducerRecord, fields_of
from pykafka2.producer.options import PRODUCER_OPTIONS, K, ProducerConfig, V
from pykafka2.producer.partitioning.partitioners import strategy_of
from pykafka2.producer.partitioning.route_table import Routes
from pykafka2.producer.partitioning.sticky import NodeDelays, StickyChoice
from pykafka2.producer.partitioning.topic_route import Route
from pykafka2.producer.sending.sender import Sender
from pykafka2.producer.shutdown import Shutdown
from pykafka2.producer.transactions.state import Call, TransactionStatus
from pykafka2.producer.transactions.transactions import (
    TransactionalCalls,
    TransactionCalls,
    transactional_parts,
)
from pykafka2.records.encoder import NO_HEADERS, SHORT, Row, load_codec
from pykafka2.serializers import Buffer, SerializeFunction, SupportsSerialize, ToBytes, serialize_function
from pykafka2.text import brief
from pykafka2.types import (
    GivenHeaders,
    Headers,
    PartitionInfo,
)

if TYPE_CHECKING:
    from pykafka2.driver.runtime import Runtime

    AnySerializer = SupportsSerialize[V] | ToBytes[V] | Callable[[Any], bytes | None]

logger = logging.getLogger(__name__)


class KafkaProducer(TransactionalCalls, Generic[K, V]):
    """Sends records to a cluster, in batches.  Thread-safe; one producer serves a whole program.

    Options are Kafka's with underscores (`linger_ms=5`), with the Java client's defaults; a mapping with
    Kafka's dotted names is accepted as first argument.  Nothing is connected to before the first `send`.
    Close it, or use it as a context manager: leaving the block sends what is left, or raises.

    A signal handler may call it, but is refused (`IllegalState`) where it interrupted a `send` of its thread
    at a moment when that holds a lock: better have it set a flag.

        with KafkaProducer(bootstrap_servers="localhost:9092") as producer:
            producer.send("orders", b"value", key=b"key")

    Args:
        config: options by dotted or underscored name.
        runtime: what it runs on; None for threads and sockets of its own.

    Raises:
        UnknownOption, ConfigurationError: an option is unknown, illegal, or contradicts another.
    """

    if TYPE_CHECKING:
        # For pyright, which infers K and V here: mypy infers them from `__init__`.  Both check the options
        # there, so that a wrong one is one short error.  The last overload leaves everything else to
        # `__init__`, including that of a subclass with arguments of its own.

        @overload
        def __new__(cls, config: Mapping[str, object], /, **options: Any) -> Self: ...

        @overload
        def __new__(
            cls,
            config: None = None,
            /,
            *,
            key_serializer: None = None,
            value_serializer: None = None,
            **options: Any,
        ) -> Self: ...

        @overload
        def __new__(
            cls,
            config: None = None,
            /,
            *,
            key_serializer: None = None,
            value_serializer: AnySerializer[V],
            **options: Any,
        ) -> KafkaProducer[Buffer, V]: ...

        @overload
        def __new__(
            cls,
            config: None = None,
            /,
            *,
            key_serializer: AnySerializer[K],
            value_serializer: None = None,
            **options: Any,
        ) -> KafkaProducer[K, Buffer]: ...

        @overload
        def __new__(
            cls,
            config: None = None,
            /,
            *,
            key_serializer: AnySerializer[K],
            value_serializer: AnySerializer[V],
            **options: Any,
        ) -> KafkaProducer[K, V]: ...

        @overload
        def __new__(cls, *args: Any, **options: Any) -> Self: ...

        def __new__(cls, *args: Any, **options: Any) -> Any: ...  # type: ignore[misc]

    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        /,
        *,
        runtime: Runtime | None = None,
        **options: Unpack[ProducerConfig[K, V]],
    ) -> None:
        self._options = parsed = PRODUCER_OPTIONS.parse(config, options)
        self._serialize_key = serialize_function(parsed.key_serializer, "key_serializer")
        self._serialize_value = serialize_function(parsed.value_serializer, "value_serializer")
        self._interceptors = Interceptors(parsed.interceptors) if parsed.interceptors else None
        self._has_serializers = self._serialize_key is not None or self._serialize_value is not None
        self._refusal: KafkaError | None = None
        self._transactions: TransactionCalls | None = None
        self._guard: Callable[[], object] | None = None
        """Called by every send before anything else: raises if there is nothing to be sent (any more)."""
        lifecycle.load_for_io_thread(lambda: load_codec(parsed.compression_type, parsed.compression_level))
        self._client = client = ClusterClient(parsed, name=parsed.client_id, runtime=runtime)
        self._driver = driver = client.driver
        self._metrics = Metrics(
            [*TOTALS, *SHARED_TOTALS],
            {name: endings for name, (endings, _) in MEASURED.items()},
            {name: of for name, (of, _) in RATES.items()},
            driver.clock.monotonic,
        )
        self._metadata = client.metadata
        self._wall_ns = driver.clock.wall_ns
        self._monotonic = driver.clock.monotonic
        status = None
        if parsed.transactional_id is not None:
            status = TransactionStatus(parsed.transactional_id, client.event_sink)
        self._accumulator = Accumulator(
            parsed,
            monotonic=driver.clock.monotonic,
            wait_until=driver.wait_until,
            wake=driver.wake,
            interrupt=driver.interrupt,
            metrics=self._metrics,
            admit=admit_always if status is None else partial(status.check, Call.SEND),
        )
        try:
            strategy = strategy_of(
                parsed.partitioner, ignores_keys=parsed.partitioner_ignore_keys, seeded=driver.entropy.random
            )
        except BaseException:
            client.close()  # its thread runs by now
            raise
        self._choose = strategy.choose
        self._hashes = strategy.hashes
        self._ignores_keys = strategy.ignores_keys
        self._keys_decide = strategy.choose is None and not strategy.ignores_keys
        delays = NodeDelays()
        self._sticky = StickyChoice(
            batch_bytes=parsed.batch_size,
            is_adaptive=parsed.partitioner_adaptive_partitioning_enable,
            availability_timeout=parsed.partitioner_availability_timeout,
            delays=delays,
            seeded=driver.entropy.random,
            monotonic=driver.clock.monotonic,
        )
        self._routes = Routes(client, self._accumulator, self._sticky, self._metrics)
        self._routes_by_topic = self._routes.by_topic
        self._open_batches: dict[str, ProducerBatch] | None = None
        if not (self._interceptors or self._has_serializers or strategy.choose):
            self._open_batches = {}
        manager = None
        if status is not None:
            manager, self._transactions = transactional_parts(
                client, parsed, status, self._accumulator, self._metrics
            )
        self._sender = Sender(
            parsed,
            self._accumulator,
            client.metadata,
            client.router,
            delays,
            random=driver.entropy.random,
            event_sink=client.event_sink,
            metrics=self._metrics,
            transactions=manager,
        )
        # What it calls of the producer is given with each call: a circle would keep a dropped producer alive.
        self._bulk = partial(
            BulkSender,
            parsed,
            self._routes,
            self._accumulator,
            strategy,
            self._sticky,
            driver.clock,
            BulkReader(driver.clock, self._interceptors, self._serialize_key, self._serialize_value),
            self._interceptors,
        )
        self._inspection = Inspection(
            client, self._accumulator, self._sender, self._routes, self._metrics, status
        )
        driver.on_failed(self._sender.on_loop_failed)
        client.add(self._sender, *([] if manager is None else [manager]))
        self._closing = Shutdown(
            client,
            self._accumulator,
            self._sender,
            self._inspection,
            self._interceptors,
            strategy.close,
            self._transactions,
        )
        description = f"a KafkaProducer ({parsed.client_id})"
        self._tracked = lifecycle.track(self, description, self._closing.drop)

    # ------------------------------------------------------------------ sending

    def send(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        headers: GivenHeaders | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Append a record to its partition's batch and return its delivery; the IO thread does the rest.

        Blocks at most max_block_ms: for the topic's metadata at first, and while buffer_memory is full.

        Args:
            topic: where it goes; the first send to a topic waits for its metadata.
            value: bytes, or what value_serializer takes; None is a null.
            key: bytes, or what key_serializer takes; None is a null.
            headers: pairs of a name and bytes (or None).
            partition: chosen by the partitioner where None.
            timestamp_ms: milliseconds since the epoch; now where None.
            on_delivery: called once as on_delivery(metadata, error), one of them None, on the IO thread.  It
                must not block.  What it raises is logged; what is no `Exception`, as from `sys.exit()`, is
                raised besides by a later call of this producer: `send` when it starts a batch, or what waits.

        Where it raises, nothing was appended.

        Raises:
            SerializationError: a serializer failed, or there is none and it is not bytes.
            IllegalArgument: headers, partition, timestamp_ms or on_delivery are not what is said above.
            RecordTooLarge: beyond max_request_size or buffer_memory.
            IllegalState, TransactionFailed, ProducerFenced: with a transactional_id, outside of a
                transaction, or in one that has failed; the message says which call comes next.
            BufferExhausted: no room within max_block_ms.
            UnknownTopicOrPartition, TopicAuthorizationFailed, NoBrokersAvailable, KafkaTimeoutError: no
                metadata of the topic within max_block_ms.
            ClientClosed, ForkedClientError: this producer is closed, or belongs to the parent process.
            ClientFailed: the IO thread ended by an error; every record that waited has failed with it.
            TypeError: the topic is not a str.
        """
        # Hot, and so without any call that it can do without; benchmarks/produce_smoke.py shows its cost.
        # First the short ways of plain records, and of those with a key, which accumulator/partition_queue.py
        # is about.
        open_batches = self._open_batches
        if (
            open_batches is not None
            and key is None
            and headers is None
            and partition is None
            and timestamp_ms is None
            and type(value) is bytes
            and (on_delivery is None or callable(on_delivery))
        ):
            try:
                batch = open_batches[topic]
            except (KeyError, TypeError):  # none yet, or not hashable
                pass
            else:
                wall_ns = self._wall_ns  # called by its own name, it is not looked for among methods first
                now_ns = wall_ns()
                size_bytes = SMALLEST_RECORD_BYTES + len(value)
                if batch.since_ns <= now_ns < batch.until_ns:
                    row: Row = (value, None, batch.timestamp, NO_HEADERS, on_delivery)
                    outcome, fields = batch.outcome, batch.fields
                    # The record joins by this line, in which nothing comes between.
                    if (room_bytes := batch.room_bytes - size_bytes) >= 0: batch.room_bytes = room_bytes; fields += row; index = batch.count; batch.count = index + 1  # fmt: skip # noqa: E501, E701, E702
                    if room_bytes >= 0:
                        delivery = Delivery()
                        delivery._outcome = outcome  # type: ignore[assignment]
                        delivery._index = index
                        return delivery
        elif (
            type(key) is bytes
            and type(value) is bytes
            and headers is None
            and partition is None
            and timestamp_ms is None
            and self._keys_decide
            and open_batches is not None
            and (on_delivery is None or callable(on_delivery))
        ):
            try:
                current = self._routes_by_topic[topic]
            except (KeyError, TypeError):
                pass
            else:
                if current.snapshot is self._metadata.snapshot:
                    tail = current.queues[self._hashes[key] % current.count].tail
                    wall_ns = self._wall_ns
                    now_ms = wall_ns() // NS_PER_MS
                    if tail is not None and 0 <= now_ms - tail.base_timestamp < SHORT:
                        row = (value, key, now_ms, NO_HEADERS, on_delivery)
                        size_bytes = SMALLEST_RECORD_BYTES + len(value) + len(key)
                        outcome, fields = tail.outcome, tail.fields
                        # As above.
                        if (room_bytes := tail.room_bytes - size_bytes) >= 0: tail.room_bytes = room_bytes; fields += row; index = tail.count; tail.count = index + 1  # fmt: skip # noqa: E501, E701, E702
                        if room_bytes >= 0:
                            delivery = Delivery()
                            delivery._outcome = outcome  # type: ignore[assignment]
                            delivery._index = index
                            return delivery
        if self._guard is not None:
            self._guard()
        given = on_delivery
        interceptors = self._interceptors
        try:
            if interceptors is not None:
                record = ProducerRecord(topic, value, key, headers, partition, timestamp_ms)
                topic, value, key, headers, partition, timestamp_ms = fields_of(interceptors.on_send(record))
                on_delivery = interceptors.around(given)
            key_bytes: Any = key
            value_bytes: Any = value
            if self._has_serializers:
                key_bytes, value_bytes, headers = self._serialized(topic, key, value, headers)
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
            if given is not None and not callable(given):
                refuse("on_delivery", given, topic, "takes a callable of metadata and error")
            now_is_its_time = timestamp_ms is None
            if timestamp_ms is None:
                timestamp_ms = self._wall_ns() // 1_000_000
            elif type(timestamp_ms) is not int or not 0 <= timestamp_ms < NO_TIMESTAMP_FROM:
                timestamp_ms = checked_timestamp(topic, timestamp_ms)
            try:
                route = self._routes_by_topic.get(topic)
            except TypeError:  # not hashable
                refuse("topic", topic, topic, "a topic is named by a str")
            deadline = None  # looked up only where something may block
            if route is None or route.snapshot is not self._metadata.snapshot:
                deadline = self._monotonic() + self._options.max_block
                route = self._routes.route(topic, self._options.max_block)
            is_sticky = False
            if partition is not None:
                if type(partition) is not int:
                    partition = checked_partition(topic, partition)
                if 0 <= partition < len(route.queues):
                    queue = route.queues[partition]
                else:
                    queue = self._routes.explicit(route, topic, partition, self._remaining(deadline))
            elif self._choose is not None:
                chosen = self._choose(route, key, key_bytes, value, value_bytes)
                queue = route.sticky if chosen is None else chosen
                is_sticky = chosen is None
            elif key_bytes is None or self._ignores_keys:
                queue = route.sticky
                is_sticky = True
            else:
                queues = route.queues
                queue = queues[self._hashes[key_bytes] % len(queues)]
            row = (value_bytes, key_bytes, timestamp_ms, encoded, on_delivery)
            appended = queue.try_append(row, size_bytes)
            if appended is None:
                appended = self._append_waiting(
                    route if is_sticky else None, queue, row, size_bytes, deadline
                )
            if is_sticky and now_is_its_time and open_batches is not None:
                note_open(open_batches, route.sticky, timestamp_ms)
        except Exception as error:
            if interceptors is not None:
                interceptors.on_refused(error)
            raise
        if interceptors is not None and given is None:
            appended.add_done_callback(lambda done: interceptors.on_acknowledgement(*done.outcome()))
        return appended

    def send_many(
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

        A record a row: order within a partition is that of the rows, and what `send` says of keys,
        partitions, serializers and the partitioner holds.  Serializers, interceptors and partitioners of your
        own are called for each record, which costs what they cost.  Blocks until all is taken: at most
        max_block_ms for metadata, and as long each time that buffer_memory is full.

        Args:
            topic: where all of them go.
            values: a list or another sequence of what `send` takes as value.  Or an Arrow column of binary or
                string (of pyarrow, or what speaks Arrow's C interface), read from its buffers; or an Arrow
                table or record batch with the column `value`, and perhaps `key`, `headers`, `partition`,
                `timestamp_ms` (or `timestamp`) in the place of the arguments.
            keys: as long as values; None for no keys.
            headers: a list of pairs for all records, or a list of such lists (or None) for each.
            partition: for all records, and
            partitions: for each, None where the partitioner is to choose.
            timestamps_ms: milliseconds since the epoch for each, None for now; Arrow's timestamps, too.
            on_delivery: called as on_delivery(metadata, error), one of them None, on the IO thread: once for
                each batch that records of this call went into, with a `BatchMetadata` that has their row
                numbers; `delivery.failures()` has those of an error.

        Raises:
            SerializationError, IllegalArgument: an argument, or an entry of one, is not what is said above;
                the message names it.  Nothing was appended.
            RecordTooLarge: a record is beyond max_request_size or buffer_memory.  Nothing was appended.
            IncompleteSend: it gave up midway, say because buffer_memory stayed full (`BufferExhausted` is its
                cause): `taken` says how many records were appended, `left` which rows were not.
            KafkaError: as `send`.  Nothing was appended.
        """
        if self._guard is not None:
            self._guard()
        if not isinstance(topic, str):
            refuse("topic", topic, topic, "a topic is named by a str")
        if on_delivery is not None and not callable(on_delivery):
            refuse("on_delivery", on_delivery, topic, "takes a callable of metadata and error")
        given = BulkArguments(topic, values, keys, headers, partition, partitions, timestamps_ms)
        bulk = self._bulk(append_row=self._append_row, check=self._check_alive)
        return bulk.send(given, on_delivery)

    def flush(self, timeout: float | None = None) -> None:
        """Send everything appended so far, and wait until every record's outcome is known.

        `timeout` is in seconds; None waits for as long as it takes, which delivery_timeout_ms bounds.

        Raises:
            KafkaError: records failed since the last flush and nobody was told: neither by `on_delivery` or
                another callback, nor by `result` or `exception`.  The class is that of the first failure.
            KafkaTimeoutError: records remain after `timeout`; they stay on their way.
            ClientClosed, IllegalState: the producer is closed; or this is a callback on the IO thread.
        """
        if self._refusal is not None:
            self._refuse()
        timeout = checked_timeout(timeout)
        began = self._monotonic()
        try:
            self._closing.flush(timeout)
        finally:
            self._metrics.count_ns("flush-time-ns-total", self._monotonic() - began)

    def purge(self) -> int:
        """Give up the records that wait and were never sent; how many these were.

        Each of them fails with `RecordPurged`, so callbacks and deliveries are told; `flush` and `close` do
        not raise it.  Records that were sent, if only once and without an answer, stay on their way, as they
        may be in the log.  A transaction that lost records can only be aborted.

        Raises:
            ClientClosed, IllegalState: the producer is closed; or this is a callback on the IO thread.
        """
        if self._refusal is not None:
            self._refuse()
        return self._closing.purge()

    def partitions_for(self, topic: str) -> set[int]:
        """The numbers of the topic's partitions; blocks at most max_block_ms and raises as `send` does."""
        return {info.partition for info in self.partition_infos(topic)}

    def partition_infos(self, topic: str) -> list[PartitionInfo]:
        """The topic's partitions with their leaders and replicas, by number.  As `partitions_for`."""
        if self._refusal is not None:
            self._refuse()
        self._accumulator.check_not_interrupted()
        known = self._client.wait_for_topic(topic, self._options.max_block)
        return [known.partitions[number] for number in sorted(known.partitions)]

    # ------------------------------------------------------------------ looking at it

    def bootstrap_connected(self) -> bool:
        """True while any broker is connected; nothing is connected to before the first `send`."""
        return self._client.nodes.has_connection

    def metrics(self, raw: bool = False) -> dict[str, float]:
        """Kafka's producer metrics by name, as plain numbers: totals since the start, rates of the last
        half minute to minute, and current values.

        `raw` changes nothing.
        """
        return self._metrics.snapshot()

    def health(self) -> dict[str, Any]:
        """Return the state of the producer as data: waiting records, memory, metadata, identity."""
        return self._inspection.health()

    def explain(self) -> str:
        """Explain in words what the producer is waiting for."""
        return self._inspection.explain()

    # ------------------------------------------------------------------ the end

    def close(self, timeout: float | None = None) -> None:
        """Send what is left, then end the connections and the thread.  Safe to repeat, from any thread.

        An open transaction is aborted, one that was detached is left as it is.

        `timeout` is in seconds, for all of it; None waits until every record's outcome is known
        (delivery_timeout_ms bounds it).  No record is taken any more from the first call on.  Interrupted by
        Ctrl-C, nothing is given up: call it again to go on.  Calls at the same time end, and raise, alike.

        Raises:
            KafkaTimeoutError: records remained after `timeout`; they failed with `ClientClosed`.
            KafkaError: records failed and nobody was told (see `flush`).
            IllegalState: called in a callback on the IO thread.
        """
        if isinstance(self._refusal, ForkedClientError):
            return  # everything is the parent's
        if self._driver.is_own_thread():
            raise IllegalState("close() inside a callback of the IO thread would wait for itself")
        timeout = checked_timeout(timeout)
        self._accumulator.close()  # refuses a signal handler in the middle of a send
        self._refusal = ClientClosed("the producer is closed; make a new one")
        self._guard, self._open_batches = self._refuse, None
        try:
            self._closing.close(timeout)
        finally:
            if self._closing.is_closed:
                self._tracked.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close.  If the block raised, its exception goes on, with a note of what could not be delivered."""
        try:
            self.close()
        except KafkaError as closing:
            if error is None:
                raise
            error.add_note(f"while the producer was closed: {type(closing).__name__}: {closing}")

    if not TYPE_CHECKING:  # or every name would be known to type checkers

        def __getattr__(self, name: str) -> NoReturn:
            raise no_such_attribute(self, name)

    def __reduce__(self) -> NoReturn:
        lifecycle.refuse_pickling(self)

    def __repr__(self) -> str:
        servers = ",".join(f"{host}:{port}" for host, port in self._options.bootstrap_servers)
        return f"<KafkaProducer {self._options.client_id} to {servers}>"

    # ------------------------------------------------------------------ inside

    def _serialized(
        self, topic: str, key: Any, value: Any, headers: GivenHeaders | None
    ) -> tuple[Any, Any, GivenHeaders | None]:
        """Serialize key and value.  Serializers can add headers, as in Java."""
        # The caller's own list stays as it is.
        own: Headers = [] if headers is None else checked_headers(topic, headers)
        if key is not None and self._serialize_key is not None:
            key = _serialize(self._serialize_key, "key", topic, own, key)
        if value is not None and self._serialize_value is not None:
            value = _serialize(self._serialize_value, "value", topic, own, value)
        return key, value, own or None

    def _append_waiting(
        self,
        route: Route | None,
        queue: PartitionQueue,
        row: Row,
        size_bytes: int,
        deadline: float | None,
    ) -> Delivery:
        """The queue needs a new batch.  `route` is given for a record without a key: it may go elsewhere."""
        self._check_alive()
        if route is not None:
            tried, queue = queue, self._sticky.next(route)
            delivery = None if queue is tried else queue.try_append(row, size_bytes)
            if delivery is not None:
                return delivery
        self._metadata.want_topic(queue.topic, self._monotonic())  # in use: it must not be forgotten
        return self._accumulator.append_waiting(queue, row, size_bytes, self._remaining(deadline))

    def _check_alive(self) -> None:
        """Raise what keeps this producer from starting a batch, before anything is waited for."""
        self._driver.raise_news()
        if self._transactions is not None:
            self._transactions.status.check(Call.SEND)
        identity = self._sender.identity
        if identity is not None and identity.refusal is not None:
            raise type(identity.refusal)(str(identity.refusal))  # a new one, as each gets a traceback

    def _append_row(self, route: Route | None, queue: PartitionQueue, row: Row, size_bytes: int) -> Delivery:
        """For `send_many`, which hands over single records where they are too few for a batch."""
        delivery = queue.try_append(row, size_bytes)
        return self._append_waiting(route, queue, row, size_bytes, None) if delivery is None else delivery

    def _remaining(self, deadline: float | None) -> float:
        """How long a send may still block: max_block_ms, less what it has waited for metadata."""
        return self._options.max_block if deadline is None else max(0.0, deadline - self._monotonic())

    def _refuse(self) -> NoReturn:
        """Raise why this producer cannot be used any more (a new error, as each gets a traceback)."""
        refusal = self._refusal
        raise type(refusal)(str(refusal)) if refusal is not None else IllegalState("not refused")

    # ------------------------------------------------------------------ lifecycle.LiveClient

    def _on_fork_in_child(self, error: ForkedClientError) -> None:
        self._refusal = error
        self._guard, self._open_batches = self._refuse, None
        self._driver.abandon(error)

    def _on_exit(self, timeout: float) -> int:
        deadline = self._monotonic() + timeout
        is_over = False
        while not is_over:
            try:
                self._accumulator.close()
                if self._transactions is not None:
                    self._transactions.end_for_close(max(0.0, deadline - self._monotonic()))
                self._closing.flush(max(0.0, deadline - self._monotonic()))
                is_over = True
            except SystemExit:
                pass  # a callback asks for what is happening; the rest is to be sent all the same
            except Exception as error:
                logger.debug("the flush at exit: %s", error)
                is_over = True
        remaining = self._accumulator.unsent_records()
        self._client.close(1.0)
        return remaining


def _serialize(serialize: SerializeFunction, what: str, topic: str, headers: Headers, data: Any) -> Any:
    try:
        return serialize(topic, headers, data)
    except KafkaError:
        raise
    except Exception as error:
        raise SerializationError(f"{what}_serializer failed for topic {topic!r}: {brief(error)}") from error


def _as_bytes(what: str, topic: str, data: Any) -> bytes:
    if isinstance(data, bytes | bytearray | memoryview):
        return memoryview(data).tobytes()  # a copy: the caller may change his
    checked_topic(topic)  # looked at later: who has swapped topic and value is told so here
    raise IllegalArgument(
        f"the {what} of a record for topic {topic!r} is a {type(data).__name__}; give bytes, or set "
        f"{what}_serializer"
    )
