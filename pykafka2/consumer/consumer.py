"""`KafkaConsumer`: what applications call.  Everything here runs on the thread of the one who calls.

One thread at a time: a second one gets `ConcurrentUse` at once (ownership.py).  Behind it: reader.py (poll),
subscription.py (what is read), fetcher.py and positions.py (the IO thread's part), fetch_buffer.py between
the two.  Other calls are in subscription_calls.py, position_calls.py, query_calls.py and commit_calls.py.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self, Unpack

from pykafka2 import lifecycle
from pykafka2.cluster.arguments import checked_partition
from pykafka2.cluster.client import ClusterClient
from pykafka2.consumer.call_arguments import (
    checked_isolation,
    checked_limit,
    checked_range,
    checked_timeout,
    split_topics,
)
from pykafka2.consumer.collecting import Records
from pykafka2.consumer.commit_calls import CommitCalls
from pykafka2.consumer.fetch_buffer import FetchBuffer
from pykafka2.consumer.fetcher import Fetcher
from pykafka2.consumer.group_parts import GroupParts
from pykafka2.consumer.inspection import Inspection
from pykafka2.consumer.interceptors import Interceptors
from pykafka2.consumer.offset_queries import OffsetQueries
from pykafka2.consumer.options import CONSUMER_OPTIONS, ConsumerConfig, ConsumerOptions
from pykafka2.consumer.ownership import handing_over
from pykafka2.consumer.position_calls import PositionCalls
from pykafka2.consumer.positions import OffsetLookups
from pykafka2.consumer.query_calls import QueryCalls
from pykafka2.consumer.range_reader import RangeReader
from pykafka2.consumer.reader import Reader
from pykafka2.consumer.slices import SliceLength, Slices
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
from pykafka2.records.columns import Columns
from pykafka2.types import ConsumerRecord, TopicPartition

if TYPE_CHECKING:
    from pykafka2.driver.runtime import Runtime

# Seconds that a program's end may take for saying that a member leaves.
LAST_WORDS = 1.0


class KafkaConsumer(SubscriptionCalls, PositionCalls, QueryCalls, CommitCalls):
    """Reads records from a cluster.  For one thread at a time; only `wakeup` may be called from any.

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
        **options: Unpack[ConsumerConfig],
    ) -> None:
        config, names = split_topics(topics)
        self._options = parsed = CONSUMER_OPTIONS.parse(config, options)
        self._lock = threading.RLock()
        self._refusal: KafkaError | None = None
        self._undelivered = Undelivered()
        self._to_rewind: dict[TopicPartition, int] = {}
        """Where reading goes on for records that are just being taken out of `_undelivered`."""
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

    # ------------------------------------------------------------------ reading

    @handing_over
    def poll(
        self, timeout_ms: float = 0, max_records: int | None = None, update_offsets: bool = True
    ) -> Records:
        """Records by partition, as soon as there are any; an empty dict after `timeout_ms`.

        With 0 it only hands over what has been fetched already; fetching goes on in the background anyway.
        Within a partition records come in order.  The position moves past what is handed over, and only then;
        with `update_offsets=False` it stays.

        Args:
            timeout_ms: milliseconds; inf waits for ever.
            max_records: max_poll_records by default.

        Raises:
            CorruptMessage, CorruptData, SerializationError: a record cannot be read; the message names topic,
                partition and offset.  Records before it were handed over; the position stays at it.
            OffsetOutOfRange, NoOffsetForPartition: the position is not in the log, or there is none, and
                auto_offset_reset is 'none'.
            UnknownTopicOrPartition, NoBrokersAvailable: a topic is missing, or no broker has been reached,
                for default_api_timeout_ms.
            TopicAuthorizationFailed, InvalidTopicException, TlsError: at once, as no waiting will help.
            ConsumerStalled: a partition has not advanced for two minutes of polling, although brokers answer
                and records are there.
            ConcurrentUse, ClientClosed, ForkedClientError: called while another thread is, or too late.
        """
        limit, timeout = self._limit(max_records), checked_timeout(timeout_ms)
        if self._to_rewind:
            self._finish_rewinding()
        if self._undelivered and not self._group_has_news():
            return self._undelivered.take(limit, keep=not update_offsets)
        return self._reader.poll(timeout, limit, keep_position=not update_offsets)

    @handing_over
    def poll_columns(
        self, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, Columns]:
        """As `poll`, column by column: keys, values, offsets, timestamps and headers as lists, or Arrow's.

        `Columns.to_arrow()` makes a pyarrow table.  A list is made when it is first looked at, so columns
        that are not needed cost little.  No deserializer is run.  Batches are handed over whole, so the last
        one may exceed `max_records`.  Raises as `poll`.
        """
        limit, timeout = self._limit(max_records), checked_timeout(timeout_ms)
        if self._to_rewind:
            self._finish_rewinding()
        self._rewind(self._subscription.assigned)
        return self._reader.poll_columns(timeout, limit)

    def read_range(
        self,
        partition: TopicPartition,
        start: int,
        end: int,
        *,
        isolation: str | None = None,
        max_bytes: int = 1 << 20,
    ) -> Iterator[Columns]:
        """The records of a partition from offset `start` up to, not including, `end`, in columns.

        For bounded reads: it takes no group and no assignment, moves no position, and any thread may do it,
        several at a time.  Each piece has up to `max_bytes` of batches, or one larger batch, and counts them
        in `size_bytes`.  The next piece is fetched meanwhile.  Offsets that hold no record (compacted,
        aborted, markers) are passed over; records that are not there yet are waited for.

        Args:
            isolation: read_uncommitted or read_committed; isolation_level by default.
            max_bytes: of one fetch.

        Raises, when iterated:
            OffsetOutOfRange: records of the range are not in the log any more.
            CorruptMessage, CorruptData: as `poll`; pieces before were handed over.
            KafkaTimeoutError, NoBrokersAvailable, UnknownTopicOrPartition: no answer, or no records up to
                `end`, within default_api_timeout_ms.
            TopicAuthorizationFailed: at once.
            ClientClosed: the consumer was closed.
        """
        if self._refusal is not None:
            self._refuse()
        partition = checked_partition(partition)
        level = checked_isolation(self._options.isolation_level if isolation is None else isolation)
        checked_range(start, end, max_bytes)
        return RangeReader(self._options, self._cluster, partition, start, end, level, max_bytes).pieces()

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Record after record.  Ends after consumer_timeout_ms without one, or a `wakeup`; raises as `poll`.

        An iterator that has ended or raised is over: iterate the consumer again to go on.
        """
        return chain.from_iterable(Slices(self._next_slice))

    def __next__(self) -> ConsumerRecord:
        """The next record alone; as iterating."""
        for record in self._undelivered.slice:
            return record  # without a lock: the slice is ended by whoever makes it void
        for record in self._next_slice():
            return record
        raise StopIteration

    @handing_over
    def _next_slice(self) -> Iterator[ConsumerRecord]:
        """Some of the records that follow; an application that iterates is handed them one by one."""
        undelivered = self._undelivered
        if self._to_rewind:
            self._finish_rewinding()
        if undelivered and not self._group_has_news():
            if undelivered.is_between_slices:
                undelivered.cut(self._slice_length.next())
            return undelivered.slice
        self._slice_length.pause()
        undelivered.put(self._reader.poll(self._options.consumer_timeout, self._options.max_poll_records))
        if not undelivered:
            raise StopIteration
        undelivered.cut(self._slice_length.next())
        return undelivered.slice

    def wakeup(self) -> None:
        """End the current `poll` or iteration, or the next one, early.  Any thread, or a signal handler."""
        self._reader.is_woken = True
        self._cluster.driver.notify()

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
                autocommit = autocommit and timeout is not False
                timeout = 5.0 if timeout_ms is None else timeout_ms / 1000
            deadline = self._cluster.driver.clock.monotonic() + timeout
            try:
                if self._group is not None and self._refusal is None:
                    with suppress(ClientFailed):  # it was logged, and there is nobody to commit any more
                        self._leave_group(self._group, deadline, leave_group, autocommit)
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

    # ------------------------------------------------------------------ for ownership.py

    def _take_back(self) -> None:
        if self._to_rewind:
            self._finish_rewinding()
        self._undelivered.take_back()
        if not self._undelivered:  # else the records of the poll are there
            self._reader.collector.take_back()

    # ------------------------------------------------------------------ inside

    def _limit(self, max_records: int | None) -> int:
        return self._options.max_poll_records if max_records is None else checked_limit(max_records)

    def _leave_group(
        self, group: GroupParts, deadline: float, leave_group: bool | None, autocommit: bool
    ) -> None:
        clock = self._cluster.driver.clock
        try:
            group.committer.close(max(deadline - clock.monotonic(), 0.0), autocommit=autocommit)
        finally:
            remaining = max(deadline - clock.monotonic(), 0.0)
            group.rebalance.end("the consumer is closed", remaining, commit=False, leave=leave_group)

    def _new_group(self, options: ConsumerOptions, cluster: ClusterClient) -> GroupParts | None:
        if options.group_id is None:
            return None
        return GroupParts.build(options, cluster, self._subscription, self._undelivered, self._interceptors)

    def _group_has_news(self) -> bool:
        """Between two polls: see to commits.  True if the membership wants a poll, and not records of the
        last one, which are read again then."""
        if self._group is None:
            return False
        if self._group.rebalance.has_news():
            self._rewind(self._subscription.assigned)
            return True
        self._group.rebalance.on_records_asked_for()
        self._group.committer.attend(0.0)
        return False
