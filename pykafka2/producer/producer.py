"""`KafkaProducer`: the public calls, for callers' threads. core.py creates the parts.

`send` is the hot path: it tries two shortcuts without a lock, then append.py. Neighbors: bulk/sender.py
(`send_many`), transactions/transactions.py, shutdown.py (`flush` and `close`), sending/sender.py (the IO
thread), delivery/delivery.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, Unpack, overload

from pykafka2 import lifecycle
from pykafka2.cluster.arguments import checked_timeout
from pykafka2.errors import ClientClosed, ForkedClientError, IllegalState, KafkaError
from pykafka2.flattened import flattened
from pykafka2.metrics import without_tags
from pykafka2.other_clients import explaining, unexpected_argument, with_foreign_calls
from pykafka2.producer.accumulator.batch_sizes import SMALLEST_RECORD_BYTES
from pykafka2.producer.accumulator.open_batch import NS_PER_MS, note_time
from pykafka2.producer.arguments import K, V, refuse
from pykafka2.producer.delivery.delivery import Delivery
from pykafka2.producer.transactions.transactions import TransactionCalls
from pykafka2.records.encoder import NO_HEADERS

if TYPE_CHECKING:
    from pykafka2.driver.runtime import Runtime
    from pykafka2.producer.bulk.columns import ArrowData
    from pykafka2.producer.bulk.delivery import BulkDelivery, OnBatch
    from pykafka2.producer.core import ProducerCore
    from pykafka2.producer.delivery.delivery import OnDelivery
    from pykafka2.producer.options import ProducerConfig
    from pykafka2.producer.transactions.transactions import TransactionRunner
    from pykafka2.records.encoder import Row
    from pykafka2.serializers import Buffer, SupportsSerialize, ToBytes
    from pykafka2.types import GivenHeaders, Metric, PartitionInfo, ProducerHealth

    AnySerializer = SupportsSerialize[V] | ToBytes[V] | Callable[[Any], bytes | None]


@with_foreign_calls
@flattened
class KafkaProducer(TransactionCalls, Generic[K, V]):
    """Sends records to a cluster in batches. Thread-safe; one producer is enough for a whole program.

    Options have Kafka's names with underscores (`linger_ms=5`) and the Java client's defaults. The first
    argument can be a mapping with Kafka's dotted names. The first `send` opens the first connection. Close
    the producer, or use it as a context manager: leaving the block sends what is left, or raises.

        with KafkaProducer(bootstrap_servers="localhost:9092") as producer:
            producer.send("orders", b"value", key=b"key")

    A signal handler can call the producer, except while it interrupts a `send` that holds a lock: then the
    call raises `IllegalState`. A handler that only sets a flag always works.

    Args:
        config: options by dotted or underscored name.
        runtime: `simulation.runtime.at("shop")` in a `Simulation`; None for real threads and sockets.
        options: options by underscored name.

    Raises:
        UnknownOption, ConfigurationError: an option is unknown, invalid, or contradicts another.
        CodecUnavailable: no library of the codec can be imported.
    """

    if TYPE_CHECKING:
        # For pyright, which infers K and V here; mypy infers them from `__init__`. Both check the options
        # there, so a wrong one is one short error. The last overload leaves everything else to `__init__`,
        # including that of a subclass with its own arguments.

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
        with lifecycle.loading:  # importing the class loads none of its parts
            from pykafka2.producer.core import ProducerCore
            from pykafka2.producer.options import PRODUCER_OPTIONS
        self._hold(ProducerCore(PRODUCER_OPTIONS.parse(config, options), runtime))

    def _hold(self, core: ProducerCore) -> None:
        """Become the sync producer of this core."""
        self._core = core
        # What the shortcuts of `send` read.
        self._shortcut = core.shortcut
        self._open_batches = core.open_batches if core.shortcut is None else None
        self._routes_by_topic = core.routes.by_topic
        self._hashes = core.strategy.hashes
        self._keys_decide = core.strategy.choose is None and not core.strategy.ignores_keys
        self._metadata = core.client.metadata
        self._wall_ns = core.driver.clock.wall_ns
        description = f"a KafkaProducer ({core.options.client_id})"
        self._tracked = lifecycle.track(self, description, core.shutdown.drop)

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
        callback: None = None,
    ) -> Delivery:
        """Append a record to its partition's batch and return its delivery. The IO thread sends the batch.

        Block at most max_block_ms: for the metadata of a new topic, and while buffer_memory is full. If it
        raises, the record was not appended.

        Args:
            topic: the topic's name.
            value: bytes, or the argument of value_serializer; None is a null value.
            key: bytes, or the argument of key_serializer; None is a null key.
            headers: pairs of a name and bytes (or None).
            partition: if None, the partitioner chooses.
            timestamp_ms: milliseconds since the epoch; None is now.
            on_delivery: called once on the IO thread as on_delivery(metadata, error), one of them None. It
                must not block. Its exceptions are logged; BaseExceptions (such as SystemExit) are also
                raised from a later call of this producer.

        Raises:
            SerializationError: a serializer failed, or a key or value is not bytes and has no serializer.
            IllegalArgument: headers, partition, timestamp_ms or on_delivery has the wrong type or value.
            RecordTooLarge: the record exceeds max_request_size or buffer_memory.
            IllegalState, TransactionFailed, ProducerFenced: with a transactional_id, no transaction is open,
                or it has failed; the message names the next call.
            BufferExhausted: buffer_memory stayed full for max_block_ms.
            UnknownTopicOrPartition, TopicAuthorizationFailed, NoBrokersAvailable, KafkaTimeoutError: the
                topic's metadata did not arrive within max_block_ms.
            ClientClosed, ForkedClientError: the producer is closed, or belongs to the parent process.
            ClientFailed: the IO thread failed, and every waiting record with it.
            TypeError: the topic is not a str.
        """
        # `callback` is always None: `callback=f` gets a TypeError that names `on_delivery`.
        # Hot: the two shortcuts are for plain records and for those with only a key and a value; see
        # accumulator/open_batch.py. The keyed one saves 12 % even on unique keys (2.9 us against 3.3).
        open_batches = self._open_batches
        if (
            open_batches is not None
            and headers is None
            and partition is None
            and timestamp_ms is None
            and callback is None
            and type(value) is bytes
            and (on_delivery is None or callable(on_delivery))
        ):
            wall_ns = self._wall_ns  # a local name saves the search for a method of that name
            row: Row | None = None
            size_bytes = SMALLEST_RECORD_BYTES + len(value)
            if key is None:
                try:
                    batch = open_batches[topic]
                except (KeyError, TypeError):  # none yet, or not hashable
                    pass
                else:
                    if batch.since_ns <= wall_ns() < batch.until_ns:
                        row = (value, None, batch.timestamp, NO_HEADERS, on_delivery)
            elif type(key) is bytes and self._keys_decide:
                key_bytes: Any = key  # mypy cannot narrow K
                try:
                    route = self._routes_by_topic[topic]
                except (KeyError, TypeError):
                    pass
                else:
                    if route.snapshot is self._metadata.snapshot:
                        tail = route.queues[self._hashes[key_bytes] % route.count].tail
                        now_ns = wall_ns()
                        if tail is not None and (
                            tail.since_ns <= now_ns < tail.until_ns or note_time(tail, now_ns // NS_PER_MS)
                        ):
                            batch = tail
                            row = (value, key_bytes, tail.timestamp, NO_HEADERS, on_delivery)
                            size_bytes += len(key_bytes)
            if row is not None:
                outcome, fields = batch.outcome, batch.fields
                # `append_unlocked` without its call, an eighth of a record's time.
                if (room_bytes := batch.room_bytes - size_bytes) >= 0: batch.room_bytes = room_bytes; fields += row; index = batch.count; batch.count = index + 1  # fmt: skip # noqa: E501, E701, E702
                if room_bytes >= 0:
                    delivery = Delivery()
                    delivery.batch_outcome = outcome  # type: ignore[assignment]
                    delivery.batch_index = index
                    return delivery
        elif (
            (shortcut := self._shortcut) is not None
            and headers is None
            and partition is None
            and timestamp_ms is None
            and callback is None
            and (compiled_delivery := shortcut(topic, value, key, on_delivery)) is not None
        ):
            return compiled_delivery
        if callback is not None:
            raise unexpected_argument(self, "send", "callback")
        core = self._core
        if core.refusal is not None:
            core.check_open()
        return core.appender.append(
            topic, value, key, headers, partition, timestamp_ms, on_delivery, core.open_batches
        )

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

        Row by row it does what `send` does: keys, partitions, serializers and the partitioner have the same
        effect, and the rows of a partition keep their order. Your own serializers, interceptors and
        partitioners are called for each record. Block until all rows are appended: at most max_block_ms for
        metadata, and as long each time that buffer_memory is full.

        Args:
            topic: the topic of all records.
            values: a sequence of values as for `send`; or an Arrow column of binary or string (pyarrow, or a
                library with Arrow's C interface), read from its buffers; or an Arrow table or record batch
                with the column `value` and, instead of the arguments, `key`, `headers`, `partition` and
                `timestamp_ms` (or `timestamp`).
            keys: as many keys as values; None for no keys.
            headers: a list of pairs for all records, or a list of such lists (or None), one per record.
            partition: the partition of all records.
            partitions: one partition per record; None lets the partitioner choose.
            timestamps_ms: milliseconds since the epoch, or Arrow timestamps, one per record; None is now.
            on_delivery: called on the IO thread as on_delivery(metadata, error), one of them None, once for
                each batch with records of this call. Its `BatchMetadata` has their row numbers;
                `delivery.failures()` has the rows that failed.

        Raises:
            SerializationError, IllegalArgument: an argument, or an entry, has the wrong type or value; the
                message names it. Nothing was appended.
            RecordTooLarge: a record exceeds max_request_size or buffer_memory. Nothing was appended.
            IncompleteSend: the call ended midway, for example with `BufferExhausted` as its cause. `taken` is
                the number of records appended, `left` has the other rows.
            KafkaError: as for `send`. Nothing was appended.
        """
        self._core.check_open()
        if not isinstance(topic, str):
            refuse("topic", topic, topic, "must be a str")
        if on_delivery is not None and not callable(on_delivery):
            refuse("on_delivery", on_delivery, topic, "must be a callable of metadata and error")
        with lifecycle.loading:
            from pykafka2.producer.bulk.columns import BulkArguments
            from pykafka2.producer.bulk.sender import BulkSender
        arguments = BulkArguments(topic, values, keys, headers, partition, partitions, timestamps_ms)
        return BulkSender(self._core.appender).send(arguments, on_delivery)

    def flush(self, timeout: float | None = None) -> None:
        """Send everything appended so far, and wait until the outcome of every record is known.

        `timeout` is in seconds; None waits as long as it takes, which delivery_timeout_ms bounds.

        Raises:
            KafkaError: records have failed since the last flush and no callback, `result` or `exception` has
                reported it. The class is that of the first failure.
            KafkaTimeoutError: records remain after `timeout`; they are still being sent.
            ClientClosed, IllegalState: the producer is closed, or this is a callback on the IO thread.
        """
        self._core.check_open()
        timeout = checked_timeout(timeout)
        monotonic = self._core.driver.clock.monotonic
        began = monotonic()
        try:
            self._core.shutdown.flush(timeout)
        finally:
            self._core.metrics.count_ns("flush-time-ns-total", monotonic() - began)

    @explaining
    def purge(self) -> int:
        """Drop queued records that were never sent. Return how many.

        Each fails with `RecordPurged`, which `flush` and `close` do not raise. A record that was sent once
        continues, as the broker can have written it. A transaction that lost records must be aborted.

        Raises:
            ClientClosed, IllegalState: the producer is closed, or this is a callback on the IO thread.
        """
        self._core.check_open()
        return self._core.shutdown.purge()

    def partitions_for(self, topic: str) -> set[int]:
        """Return the topic's partition numbers. Block at most max_block_ms; raise as `send` does."""
        return {info.partition for info in self.partition_infos(topic)}

    def partition_infos(self, topic: str) -> list[PartitionInfo]:
        """Return the topic's partitions in order, with leaders and replicas. Like `partitions_for`."""
        self._core.check_open()
        self._core.accumulator.check_not_interrupted()
        known = self._core.client.wait_for_topic(topic, self._core.options.max_block)
        return [known.partitions[number] for number in sorted(known.partitions)]

    # ------------------------------------------------------------------ inspection

    def bootstrap_connected(self) -> bool:
        """Return whether any broker is connected. The first `send` opens the first connection."""
        return self._core.client.nodes.has_connection

    def metrics(self, raw: bool = False) -> dict[str, float]:
        """Return Kafka's producer metrics without tags by name; `metric_rows` returns all. Any thread.

        Totals count from the start; rates, averages and maxima cover the last 30 to 60 s. `raw` has no
        effect; it exists for kafka-python's programs.
        """
        return without_tags(self.metric_rows())

    def metric_rows(self) -> list[Metric]:
        """Return every metric as a row: name, group, value, kind, unit, tags, description. Any thread.

        Names, groups and tags are Apache Kafka's; the tag client-id is always there. Metrics of a topic
        appear with its first record. Nothing is sent.
        """
        return self._core.inspection.metric_rows()

    def client_instance_id(self, timeout: float | None = None) -> str:
        """Return the id that a broker gave this producer for the metrics that it pushes (KIP-714).

        Opens the first connection if there is none. `timeout` is max_block_ms by default.

        Raises:
            IllegalState: enable_metrics_push is False.
            UnsupportedVersion: the brokers do not receive metrics of clients.
            NoBrokersAvailable, KafkaTimeoutError: no broker responded in time.
        """
        self._core.check_open()
        return self._core.client.client_instance_id(timeout)

    def register_metrics(self, rows: Callable[[], Iterable[Metric]]) -> None:
        """Push these metrics of the application with those of the producer (KIP-1076). Any thread.

        `rows` is called before each push, on the IO thread: it must not block. It returns `Metric` rows with
        names that the producer does not have. If it raises, that is logged once, and its rows are left out.
        Nothing calls it while no broker asks for metrics.
        """
        self._core.check_open()
        self._core.client.register_metrics(rows)

    def unregister_metrics(self, rows: Callable[[], Iterable[Metric]]) -> None:
        """Push the metrics of this function no more; does nothing if it is not registered. Any thread."""
        self._core.client.unregister_metrics(rows)

    def health(self) -> ProducerHealth:
        """Return the state of the producer as data: waiting records, memory, metadata, producer id.

        `codec_libraries` has the package that each codec uses, or None if there is none.
        """
        return self._core.inspection.health()

    def explain(self) -> str:
        """Explain in words what the producer is waiting for."""
        return self._core.inspection.explain()

    # ------------------------------------------------------------------ the end

    def close(self, timeout: float | None = None) -> None:
        """Send what is left, then close the connections and end the thread. Can be repeated, on any thread.

        An open transaction is aborted; a detached one stays as it is. No record is accepted after the first
        call. After a Ctrl-C nothing is lost: call close() again to continue. Concurrent calls wait for the
        same end and raise the same error.

        `timeout` is in seconds for the whole call; None waits until the outcome of every record is known,
        which delivery_timeout_ms bounds.

        Raises:
            KafkaTimeoutError: records remained after `timeout`; they failed with `ClientClosed`.
            KafkaError: records failed that nothing has reported (see `flush`).
            IllegalState: called in a callback on the IO thread.
        """
        core = self._core
        if isinstance(core.refusal, ForkedClientError):
            return  # the parent process owns the connections
        if core.driver.is_own_thread():
            raise IllegalState("close() inside a callback of the IO thread would wait for itself")
        timeout = checked_timeout(timeout)
        core.accumulator.close()  # refuses a signal handler in the middle of a send
        core.refusal = ClientClosed("the producer is closed; create a new one")
        self._shortcut = self._open_batches = core.open_batches = None
        try:
            core.shutdown.close(timeout)
        finally:
            if core.shutdown.is_closed:
                self._tracked.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close. If the block raised, its exception continues, with a note of what was not delivered."""
        try:
            self.close()
        except KafkaError as closing:
            if error is None:
                raise
            error.add_note(f"while the producer was closed: {type(closing).__name__}: {closing}")

    def __reduce__(self) -> NoReturn:
        lifecycle.refuse_pickling(self)

    def __repr__(self) -> str:
        core = self.__dict__.get("_core")
        return lifecycle.repr_of("KafkaProducer", None if core is None else core.options)

    # ------------------------------------------------------------------ inside

    def _runner(self, call: str) -> TransactionRunner:
        return self._core.transaction_runner(call)

    # ------------------------------------------------------------------ lifecycle.LiveClient

    def _on_fork_in_child(self, error: ForkedClientError) -> None:
        self._core.refusal = error
        self._shortcut = self._open_batches = self._core.open_batches = None
        self._core.driver.abandon(error)

    def _on_exit(self, timeout: float) -> int:
        return self._core.shutdown.at_exit(timeout)


def producer_of(core: ProducerCore) -> KafkaProducer[Any, Any]:
    """Return a sync producer that uses this core; for the asyncio producer, which holds the core, too."""
    producer: KafkaProducer[Any, Any] = KafkaProducer.__new__(KafkaProducer)
    producer._hold(core)
    return producer
