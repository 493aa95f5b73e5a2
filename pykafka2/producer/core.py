"""`ProducerCore`: the parts of one producer, which the sync and the asyncio producer share.

Created on the caller's thread. It never refers to the producers that hold it, because a cycle would keep a
dropped producer alive.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from pykafka2 import lifecycle
from pykafka2.cluster.client import ClusterClient
from pykafka2.errors import IllegalState, KafkaError
from pykafka2.hooks import with_added
from pykafka2.native import QUEUE, ROUTE, compiled
from pykafka2.producer.accumulator.accumulator import Accumulator
from pykafka2.producer.accumulator.batch_sizes import SMALLEST_RECORD_BYTES
from pykafka2.producer.accumulator.open_batch import OpenBatch, note_time
from pykafka2.producer.accumulator.partition_queue import PartitionQueue
from pykafka2.producer.append import Appender, AppendGuard, Serializers
from pykafka2.producer.inspection import Inspection
from pykafka2.producer.interceptors import Interceptors
from pykafka2.producer.options import ProducerOptions
from pykafka2.producer.partitioning.key_hashes import positive_murmur2
from pykafka2.producer.partitioning.partitioners import strategy_of
from pykafka2.producer.partitioning.route_table import Routes
from pykafka2.producer.partitioning.sticky import NodeDelays, StickyChoice
from pykafka2.producer.partitioning.topic_route import Route
from pykafka2.producer.sending.results import SenderParts
from pykafka2.producer.sending.sender import Sender
from pykafka2.producer.shutdown import Shutdown
from pykafka2.producer.transactions.state import Call, TransactionStatus
from pykafka2.producer.transactions.transactions import TransactionRunner, transactional_parts
from pykafka2.protocol.registry import ApiKey
from pykafka2.records.encoder import NO_HEADERS, load_codec

if TYPE_CHECKING:
    from pykafka2.driver.runtime import Runtime
    from pykafka2.producer.delivery.delivery import Delivery

if compiled is not None:
    compiled.bind(QUEUE, PartitionQueue)
    compiled.bind(ROUTE, Route)


class ProducerCore:
    """The parts of one producer.

    Args:
        options: the options of the producer.
        runtime: clock, network and threads; None for real ones, which the client creates and closes.
        owns_runtime: whether the client closes `runtime`.

    Attributes:
        client: metadata, connections and router.
        driver: the loop of the IO thread, and the waits for it.
        accumulator: the batches and their memory.
        appender: appends single records; `routes` and `strategy` choose their partitions.
        open_batches: the batches of the shortcut for plain records, by topic; None if the producer has
            serializers, interceptors or its own partitioner, and after the close.
        shortcut: the compiled function that appends to them (pykafka2/native.py), or None.
        sender: the IO thread's part.
        transactions: runs transactional calls; None without a transactional_id.
        shutdown: `flush`, `purge` and `close`.
        inspection: `health` and `explain`.
        hooks: the interceptors.
        refusal: the error of all calls after a close or a fork; None while the producer is open.
    """

    def __init__(
        self, options: ProducerOptions, runtime: Runtime | None = None, *, owns_runtime: bool = False
    ) -> None:
        self.options = options
        self.refusal: KafkaError | None = None
        serializers = Serializers.of(options)
        self.hooks = Interceptors(with_added("producer", options.interceptors))
        lifecycle.load_for_io_thread(lambda: load_codec(options.compression_type, options.compression_level))
        self.client = client = ClusterClient(
            options, name=options.client_id, runtime=runtime, owns_runtime=owns_runtime
        )
        self.driver = driver = client.driver
        self.metrics = metrics = client.metrics
        metrics.timed_api = ApiKey.PRODUCE
        self.status: TransactionStatus | None = None
        if options.transactional_id is not None:
            self.status = TransactionStatus(options.transactional_id, client.event_sink)
        self.accumulator = accumulator = Accumulator(
            options,
            monotonic=driver.clock.monotonic,
            wait_until=driver.wait_until,
            wake=driver.wake,
            interrupt=driver.interrupt,
            metrics=metrics,
            admit=None if self.status is None else partial(self.status.check, Call.SEND),
        )
        try:
            self.strategy = strategy_of(
                options.partitioner,
                ignores_keys=options.partitioner_ignore_keys,
                seeded=driver.entropy.random,
            )
        except BaseException:
            client.discard()  # its thread runs by now
            raise
        delays = NodeDelays()
        manager = None
        self.transactions: TransactionRunner | None = None
        if self.status is not None:
            status = self.status
            manager, self.transactions = lifecycle.load_for_io_thread(
                lambda: transactional_parts(client, options, status, accumulator, metrics)
            )
        parts = SenderParts(
            options, accumulator, client.metadata, driver.entropy.random, client.event_sink, metrics, manager
        )
        self.sender = Sender(parts, client.router, delays)
        self.routes = Routes(client, accumulator, StickyChoice.of(options, driver, delays), metrics)
        self.appender = Appender(
            options,
            client,
            accumulator,
            self.routes,
            self.strategy,
            serializers,
            self.hooks,
            AppendGuard(driver, self.status, self.sender.identity),
        )
        has_shortcuts = not (self.hooks.sees_records or serializers or self.strategy.choose)
        self.open_batches: dict[str, OpenBatch] | None = {} if has_shortcuts else None
        self.shortcut: Callable[[str, Any, Any, Any], Delivery | None] | None = None
        if compiled is not None and self.open_batches is not None:
            self.shortcut = compiled.shortcut(
                self.open_batches,
                self.routes.by_topic,
                client.metadata,
                driver.clock.wall_ns,
                self.strategy.hashes.function is positive_murmur2 and not self.strategy.ignores_keys,
                note_time,
                NO_HEADERS,
                SMALLEST_RECORD_BYTES,
            )
        self.inspection = Inspection(client, accumulator, self.sender, self.routes, self.status)
        driver.on_failed(self.sender.on_loop_failed)
        client.add(self.sender, *([] if manager is None else [manager]))
        self.shutdown = Shutdown(
            client,
            accumulator,
            self.sender,
            self.inspection,
            self.hooks,
            self.strategy.close,
            self.transactions,
        )
        client.start_hooks(self.hooks, "producer", self.inspection.metric_rows)
        client.start_telemetry(self.inspection.metric_rows, self.inspection.labels)

    def check_open(self) -> None:
        """Raise the error of a producer that was closed, or belongs to the parent process."""
        if self.refusal is not None:
            raise self.refusal.anew()

    def transaction_runner(self, call: str) -> TransactionRunner:
        """Return the runner of transactional calls. Raise IllegalState without a transactional_id."""
        self.check_open()
        if self.transactions is None:
            raise IllegalState(f"{call}() needs the option transactional_id; this producer has none")
        return self.transactions
