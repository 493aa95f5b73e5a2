"""`KafkaConsumer`: what applications call.  Everything here runs on the thread of the one who calls.

One thread at a time: a second one gets `ConcurrentUse` at once (ownership.py).  Behind it: reader.py (poll),
subscription.py (what is read), fetcher.py and positions.py (the IO thread's part), fetch_buffer.py between
the two.  The calls are in reading_calls.py, subscription_calls.py, position_calls.py, query_calls.py and
commit_calls.py; here is how a consumer begins and ends.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Generic, NoReturn, Self, Unpack

from pykafka2 import lifecycle
from pykafka2.cluster.client import ClusterClient
from pykafka2.consumer.call_arguments import (
    checked_close,
    split_topics,
)
from pykafka2.consumer.commit_calls import CommitCalls
from pykafka2.consumer.fetch_buffer import FetchBuffer
from pykafka2.consumer.fetcher import Fetcher
from pykafka2.consumer.graver import graver
from pykafka2.consumer.group_parts import GroupParts
from pykafka2.consumer.inspection import Inspection
from pykafka2.consumer.interceptors import Interceptors
from pykafka2.consumer.offset_queries import OffsetQueries
from pykafka2.consumer.options import CONSUMER_OPTIONS, ConsumerConfig, ConsumerOptions
from pykafka2.consumer.positions import OffsetLookups
from pykafka2.consumer.query_calls import QueryCalls
from pykafka2.consumer.reader import Reader
from pykafka2.consumer.reading_calls import ReadingCalls
from pykafka2.consumer.slices import SliceLength
from pykafka2.consumer.steering import Steering
from pykafka2.consumer.subscription import Subscription
from pykafka2.consumer.subscription_calls import SubscriptionCalls
from pykafka2.consumer.undelivered import Undelivered
from pykafka2.errors import (
    ClientClosed,
    ClientFailed,
    ConcurrentUse,
    ForkedClientError,
    KafkaError,
)
from pykafka2.other_clients import no_such_attribute
from pykafka2.types import K, TopicPartition, V

if TYPE_CHECKING:
    from pykafka2.driver.runtime import Runtime

# Seconds that a program's end may take for saying that a member leaves.
LAST_WORDS = 1.0
IS_CLOSED = "the consumer is closed"


class KafkaConsumer(SubscriptionCalls, ReadingCalls[K, V], QueryCalls, CommitCalls, Generic[K, V]):
    """Reads records from a cluster.  For one thread at a time.

    Any thread may call `wakeup`, `read_range`, and what only looks at it: `health`, `explain`, `metrics`,
    `highwater`, `bootstrap_connected`.

    Options are Kafka's with underscores (`auto_offset_reset="earliest"`), with the Java client's defaults; a
    mapping with Kafka's dotted names is accepted as first argument.  Nothing is connected to before the first
    call that needs the cluster.  Without a group, subscribing means reading all partitions of the topics.

        with KafkaConsumer("orders", bootstrap_servers="localhost:9092") as consumer:
            for record in consumer:
                print(record.offset, record.value)

    Args:
        topics: to subscribe to; a mapping of options may stand before them.
        runtime: what it runs on; None for threads and sockets of its own.

    Raises:
        UnknownOption, ConfigurationError: an option is unknown, illegal, or not offered yet.
    """

    def __init__(
        self,
        *topics: str | Mapping[str, object],
        runtime: Runtime | None = None,
        **options: Unpack[ConsumerConfig[K, V]],
    ) -> None:
        config, names = split_topics(topics)
        self._options = parsed = CONSUMER_OPTIONS.parse(config, options)
        self._lock = threading.RLock()
        self._refusal: KafkaError | None = None
        self._undelivered = Undelivered()
        self._kept_as_of = 0
        self._to_rewind: frozenset[TopicPartition] = frozenset()
        """Partitions whose records are just being taken out of `_undelivered`, to be read again."""
        self._interceptors = Interceptors(parsed.interceptors)
        self._subscription = Subscription(by_group=parsed.group_id is not None)
        self._cluster = cluster = ClusterClient(parsed, name=parsed.client_id, runtime=runtime)
        try:
            self._buffer = FetchBuffer(cluster.driver.wake)
            self._lookups = OffsetLookups(cluster, parsed.isolation)
            self._fetcher = Fetcher(parsed, cluster, self._buffer, self._lookups)
            self._group = group = self._new_group(parsed, cluster)
            self._steering = Steering(self._subscription, self._buffer, self._fetcher, cluster.driver)
            self._reader = Reader(
                parsed,
                cluster,
                self._subscription,
                self._buffer,
                self._fetcher,
                self._lookups,
                self._steering,
                self._interceptors,
                resume=group.resume if group is not None else None,
                poll_tasks=(group.rebalance, group.committer) if group is not None else (),
            )
            self._slice_length = SliceLength(cluster.driver.clock)
            self._queries = OffsetQueries(cluster, self._lookups)
            self._inspection = Inspection(
                cluster,
                self._subscription,
                self._buffer,
                self._fetcher,
                self._reader.bad_records,
                self._reader.progress,
                group,
            )
            cluster.add(self._lookups, self._fetcher)
            if names:
                self.subscribe(names)
        except BaseException:
            cluster.close()
            raise
        description = f"a KafkaConsumer ({parsed.client_id})"
        self._tracked = lifecycle.track(self, description, functools.partial(cluster.close, 0.0))

    # ------------------------------------------------------------------ the end

    def close(
        self,
        timeout: float | None = None,
        leave_group: bool | None = None,
        *,
        autocommit: bool = True,
        timeout_ms: float | None = None,
    ) -> None:
        """End the connections and the thread.  Safe to repeat, and after a Ctrl-C.

        `timeout` is in seconds, `timeout_ms` in milliseconds (kafka-python's); 5 s where neither is given.
        With a group, what was handed over is committed before (where that is done automatically, and
        `autocommit` is not off), what is being committed is waited for, and its callbacks are called.
        Leaving a `with` statement by an exception commits nothing automatically: the record that was being
        worked on may not be done.  Then a member's listener is told, and the member leaves its group, so that
        the others need not wait for its session to end; a static one (group_instance_id) stays.
        `leave_group` says otherwise.

        Raises:
            ConcurrentUse: another thread is inside a call; `wakeup` it first.
        """
        if isinstance(self._refusal, ForkedClientError):
            return  # everything is the parent's
        if not self._lock.acquire(blocking=False):
            raise ConcurrentUse("another thread is inside a call of this KafkaConsumer; wakeup() it first")
        try:
            if timeout is None or isinstance(timeout, bool):  # kafka-python's first argument is autocommit
                autocommit, timeout = autocommit and timeout is not False, None
            deadline = self._cluster.driver.clock.monotonic() + checked_close(timeout, timeout_ms)
            try:
                if self._group is not None and self._refusal is None:
                    # Logged, and there is nobody to commit any more; or a listener has closed it meanwhile.
                    with suppress(ClientFailed, ClientClosed):
                        self._leave_group(self._group, deadline, leave_group, autocommit)
            except BaseException as error:
                if self._group is not None and not isinstance(error, Exception):
                    self._group.rebalance.leave_in_haste(IS_CLOSED, leave_group)
                raise
            finally:
                self._refusal = ClientClosed("the consumer is closed; make a new one")
                self._undelivered.clear()
                self._cluster.close(max(deadline - self._cluster.driver.clock.monotonic(), 0.1))
                self._tracked.end()
                self._interceptors.close()
        finally:
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(autocommit=error is None)

    if not TYPE_CHECKING:  # or every name would be known to type checkers

        def __getattr__(self, name: str) -> NoReturn:
            raise no_such_attribute(self, name)

    def __reduce__(self) -> NoReturn:
        lifecycle.refuse_pickling(self)

    def __repr__(self) -> str:
        servers = ",".join(f"{host}:{port}" for host, port in self._options.bootstrap_servers)
        return f"<KafkaConsumer {self._options.client_id} to {servers}>"

    # ------------------------------------------------------------------ for lifecycle.py

    def _on_fork_in_child(self, error: ForkedClientError) -> None:
        self._refusal = error
        self._undelivered.clear()
        self._lock = threading.RLock()  # its holder may be a thread that exists in the parent only
        self._cluster.driver.abandon(error)

    def _on_exit(self, timeout: float) -> int:
        self._refusal = ClientClosed("the interpreter is ending")
        if self._group is not None:
            self._group.rebalance.leave_unasked("the program ended without close()", min(timeout, LAST_WORDS))
        self._cluster.close(timeout)
        return 0

    # ------------------------------------------------------------------ inside

    def _leave_group(
        self, group: GroupParts, deadline: float, leave_group: bool | None, autocommit: bool
    ) -> None:
        clock = self._cluster.driver.clock
        failed: BaseException | None = None
        try:
            with suppress(ClientFailed, ClientClosed):
                group.committer.close(max(deadline - clock.monotonic(), 0.0), autocommit=autocommit)
        except BaseException as error:
            failed = error
        try:
            remaining = max(deadline - clock.monotonic(), 0.0)
            group.rebalance.end(IS_CLOSED, remaining, commit=False, leave=leave_group)
        except BaseException as error:
            failed = graver(failed, error)
        if failed is not None:
            raise failed

    def _new_group(self, options: ConsumerOptions, cluster: ClusterClient) -> GroupParts | None:
        if options.group_id is None:
            return None
        return GroupParts.build(
            options,
            cluster,
            self._subscription,
            self._undelivered,
            self._interceptors,
            self._fetcher.table.is_of_old_topic,
        )
