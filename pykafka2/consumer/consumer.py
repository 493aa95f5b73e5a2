"""`KafkaConsumer`: construction, close, and the calls that query offsets and partitions.

One thread at a time can call it; a second one gets `ConcurrentUse` (core.py). The other
public methods are in calls/. Neighbors: poll/poller.py (poll), state/subscription.py (what is read),
fetch/fetcher.py and fetch/offset_lookups.py (the IO thread's part), fetch/buffer.py (between the two).
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, Unpack

from pykafka2 import lifecycle
from pykafka2.cluster.arguments import checked_partition, checked_partitions, checked_topic
from pykafka2.consumer.calls.arguments import (
    checked_close,
    checked_time,
    checked_timeout,
    implausible_time,
    split_topics,
)
from pykafka2.consumer.calls.commit import CommitCalls
from pykafka2.consumer.calls.poll import ReadingCalls, queue_and_step
from pykafka2.consumer.calls.subscribe import SubscriptionCalls
from pykafka2.consumer.core import ConsumerCore, Owned, owned
from pykafka2.consumer.reset_policy import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from pykafka2.errors import (
    ClientClosed,
    ClientFailed,
    ConcurrentUse,
    ForkedClientError,
)
from pykafka2.flattened import flattened
from pykafka2.interrupts import run_all
from pykafka2.metrics import without_tags
from pykafka2.other_clients import explaining, with_foreign_calls
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.types import READ_COMMITTED, ConsumerHealth, K, Metric, OffsetAndTimestamp, TopicPartition, V

if TYPE_CHECKING:
    from pykafka2.consumer.group.group import Group
    from pykafka2.consumer.options import ConsumerConfig
    from pykafka2.driver.runtime import Runtime


logger = logging.getLogger(__name__)


class QueryCalls(Owned):
    """Mixed into the consumer."""

    # ------------------------------------------------------------------ offsets

    @owned
    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each partition, assigned or not.

        Raises:
            KafkaTimeoutError, NoBrokersAvailable: a response is missing after `timeout_ms`
                (default_api_timeout_ms by default).
            UnknownUntilTimeout: a topic or partition does not exist after `timeout_ms`. It is both a
                KafkaTimeoutError, as in Java, and an UnknownTopicOrPartition.
        """
        return self._core.queries.ends(
            checked_partitions(partitions), EARLIEST_TIMESTAMP, self._seconds(timeout_ms)
        )

    @owned
    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the high watermark of each partition, or with read_committed the last stable offset.

        This is the offset of the next record that can be read. Raise the errors of `beginning_offsets`.
        """
        return self._core.queries.ends(
            checked_partitions(partitions), LATEST_TIMESTAMP, self._seconds(timeout_ms)
        )

    @owned
    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the offset of each partition's first record at or after a time, or None without one.

        Times are in milliseconds since the epoch; a time that looks like seconds or microseconds logs a
        warning. Raise the errors of `beginning_offsets`.
        """
        if not isinstance(timestamps, Mapping):
            raise TypeError(f"timestamps must be a dict {{TopicPartition: milliseconds}}, not {timestamps!r}")
        times = {checked_partition(partition): time_ms for partition, time_ms in timestamps.items()}
        wanted = {partition: checked_time(partition, time_ms) for partition, time_ms in times.items()}
        implausible = implausible_time(wanted.values())
        if implausible is not None:
            logger.warning(
                "offsets_for_times() takes milliseconds since the epoch; %d ms is in the year %d",
                implausible,
                1970 + implausible // 31_556_952_000,
            )
        return self._core.queries.at_times(wanted, self._seconds(timeout_ms))

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the high watermark of the last fetch, or None before the first; sends no request."""
        return self._core.fetcher.table.high_watermarks.get(partition)

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        """Return the last stable offset of the last fetch; sends no request.

        None before the first fetch, and without isolation_level='read_committed', since brokers name it to
        such consumers only.
        """
        if self._core.options.isolation != READ_COMMITTED:
            return None
        return self._core.fetcher.table.readable_ends.get(checked_partition(partition))

    def last_poll_timestamp(self, partition: TopicPartition) -> int | None:
        """Return when a broker has last confirmed `highwater` and `last_stable_offset`; sends no request.

        In milliseconds since the epoch; None before the first fetch. The response need not have records.
        """
        at, clock = (
            self._core.fetcher.ends_as_of(checked_partition(partition)),
            self._core.cluster.driver.clock,
        )
        return None if at is None else clock.wall_ms() - round((clock.monotonic() - at) * 1000)

    # ------------------------------------------------------------------ the cluster

    @owned
    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return the topic's partition numbers, or None if the topic does not exist.

        Raises:
            NoBrokersAvailable, KafkaTimeoutError: no broker responded within default_api_timeout_ms.
            TopicAuthorizationFailed, InvalidTopicException: the broker rejects the request.
        """
        return self._core.queries.partition_numbers(
            checked_topic(topic), self._core.options.default_api_timeout
        )

    @owned
    def topic_id(self, topic: str) -> bytes | None:
        """Return the topic's id (KIP-516), 16 bytes; None if the topic does not exist, or has none.

        Brokers before 2.8 have no ids. Raise the errors of `partitions_for_topic`.
        """
        return self._core.queries.topic_id(checked_topic(topic), self._core.options.default_api_timeout)

    @owned
    def topics(self) -> set[str]:
        """Return the names of all topics that the user can describe.

        Internal topics are included with exclude_internal_topics=False.

        Raises:
            NoBrokersAvailable, KafkaTimeoutError: no broker responded within default_api_timeout_ms.
        """
        response = self._core.cluster.request(MetadataRequest(topics=None, allow_auto_topic_creation=False))
        is_hidden = self._core.options.exclude_internal_topics
        return {
            topic.name
            for topic in response.topics
            if topic.name is not None and not topic.error_code and not (topic.is_internal and is_hidden)
        }

    @owned
    def bootstrap(self, timeout_ms: float | None = None, refresh: bool = False) -> None:
        """Connect to the cluster now, instead of with the first call that needs it.

        A consumer that was connected before does nothing, unless `refresh` is True.

        Raises:
            NoBrokersAvailable, KafkaTimeoutError, TlsError: no broker responded within `timeout_ms`
                (default_api_timeout_ms by default).
        """
        if not refresh and self._core.cluster.metadata.version:
            return
        self._core.cluster.bootstrap(self._seconds(timeout_ms))

    def bootstrap_connected(self) -> bool:
        """Return whether any broker is connected."""
        return self._core.cluster.nodes.has_connection

    def metrics(self, raw: bool = False) -> dict[str, float]:
        """Return Kafka's consumer metrics without tags by name; `metric_rows` returns all. Any thread.

        Totals count from the start; rates, averages and maxima cover the last 30 to 60 s. `raw` has no
        effect; it exists for kafka-python's programs.
        """
        return without_tags(self.metric_rows())

    def metric_rows(self) -> list[Metric]:
        """Return every metric as a row: name, group, value, kind, unit, tags, description. Any thread.

        Names, groups and tags are Apache Kafka's; the tag client-id is always there. Metrics of topics
        and partitions appear with their first record. Nothing is sent.
        """
        return self._core.inspection.metric_rows()

    def client_instance_id(self, timeout_ms: float | None = None) -> str:
        """Return the id that a broker gave this consumer for the metrics that it pushes (KIP-714).

        Any thread can call it. Opens the first connection if there is none. `timeout_ms` is by default
        default_api_timeout_ms.

        Raises:
            IllegalState: enable_metrics_push is False.
            UnsupportedVersion: the brokers do not receive metrics of clients.
            NoBrokersAvailable, KafkaTimeoutError: no broker responded in time.
        """
        self._core.check_open()
        return self._core.cluster.client_instance_id(self._seconds(timeout_ms))

    def register_metrics(self, rows: Callable[[], Iterable[Metric]]) -> None:
        """Push these metrics of the application with those of the consumer (KIP-1076). Any thread.

        `rows` is called before each push, on the IO thread: it must not block. It returns `Metric` rows with
        names that the consumer does not have. If it raises, that is logged once, and its rows are left out.
        Nothing calls it while no broker asks for metrics.
        """
        self._core.check_open()
        self._core.cluster.register_metrics(rows)

    def unregister_metrics(self, rows: Callable[[], Iterable[Metric]]) -> None:
        """Push the metrics of this function no more; does nothing if it is not registered. Any thread."""
        self._core.cluster.unregister_metrics(rows)

    def health(self) -> ConsumerHealth:
        """Return the state of the consumer as data for a monitor.  Any thread can call it.

        `state` is open, failed or closed. `group` is None without a group_id. `partitions` has, by name, the
        position, the high watermark, the last error and the seconds without progress. `codec_libraries` has
        the package that each codec uses, or None if there is none.
        """
        return self._core.inspection.health()

    def explain(self) -> str:
        """Explain in words what the consumer is waiting for.  Any thread can call it."""
        return self._core.inspection.explain()

    def _seconds(self, timeout_ms: float | None) -> float:
        return self._core.options.default_api_timeout if timeout_ms is None else checked_timeout(timeout_ms)


# Seconds for LeaveGroup at interpreter exit.
LAST_WORDS = 1.0
IS_CLOSED = "the consumer is closed"


@with_foreign_calls
@flattened
class KafkaConsumer(SubscriptionCalls, ReadingCalls[K, V], QueryCalls, CommitCalls, Generic[K, V]):
    """Reads records from a cluster. Only one thread can use it at a time.

    Any thread can call `wakeup`, `read_range`, `health`, `explain`, `metrics`, `highwater`,
    `last_stable_offset`, `last_poll_timestamp` and `bootstrap_connected`.

    Options have Kafka's names with underscores (`auto_offset_reset="earliest"`) and the Java client's
    defaults. The first argument can be a mapping with Kafka's dotted names. The first call that needs the
    cluster opens the first connection. Without a group_id it reads all partitions of its topics.

        with KafkaConsumer("orders", bootstrap_servers="kafka-1:9092") as consumer:
            for record in consumer:
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
        with lifecycle.loading:  # importing the class loads none of its parts
            from pykafka2.consumer.options import CONSUMER_OPTIONS
        config, names = split_topics(topics)
        self._hold(ConsumerCore(CONSUMER_OPTIONS.parse(config, options), runtime), names)

    def _hold(self, core: ConsumerCore, topics: Sequence[str]) -> None:
        """Become the sync consumer of this core, and subscribe to these topics."""
        self._core = core
        self._iteration_queue, self._step = queue_and_step(core)
        try:
            if topics:
                self.subscribe(topics)
        except BaseException:
            core.cluster.discard()
            raise
        description = f"a KafkaConsumer ({core.options.client_id})"
        self._tracked = lifecycle.track(self, description, functools.partial(core.cluster.close, 0.0))

    # ------------------------------------------------------------------ the end

    @explaining
    def close(
        self,
        timeout: float | None = None,
        leave_group: bool | None = None,
        *,
        autocommit: bool = True,
        timeout_ms: float | None = None,
    ) -> None:
        """Leave the group, close the connections and end the thread. Can be repeated, also after a Ctrl-C.

        A member of a group commits the records that were returned (with enable_auto_commit, unless
        `autocommit` is False), waits for other commits and calls their callbacks.  Then it calls its
        listener and leaves the group; a static member (group_instance_id) stays in it.  If an exception
        ends a `with` block, nothing is committed automatically, because the current record is possibly
        unprocessed.

        Args:
            timeout: seconds; 5 if neither timeout is set.
            leave_group: True or False overrides whether the member leaves its group.
            autocommit: False commits nothing.
            timeout_ms: milliseconds, as in kafka-python.

        Raises:
            ConcurrentUse: another thread is inside a call; call `wakeup` first.
        """
        if isinstance(self._core.refusal, ForkedClientError):
            return  # all resources belong to the parent process
        if not self._core.lock.acquire(blocking=False):
            raise ConcurrentUse("another thread is inside a call of this KafkaConsumer; call wakeup() first")
        try:
            if timeout is None or isinstance(timeout, bool):  # kafka-python's first argument is autocommit
                autocommit, timeout = autocommit and timeout is not False, None
            deadline = self._core.cluster.driver.clock.monotonic() + checked_close(timeout, timeout_ms)
            try:
                if self._step is not None:
                    self._step.end_all()
                if self._core.group is not None and self._core.refusal is None:
                    # ClientFailed was logged before; with ClientClosed, a listener has closed the consumer.
                    with suppress(ClientFailed, ClientClosed):
                        self._leave_group(self._core.group, deadline, leave_group, autocommit)
            except BaseException as error:
                if self._core.group is not None:
                    self._core.group.rebalance.leave_if_interrupted(error, IS_CLOSED, leave_group)
                raise
            finally:
                self._core.refusal = self._core.closed_error
                self._core.iteration_queue.clear()
                self._core.cluster.close(max(deadline - self._core.cluster.driver.clock.monotonic(), 0.1))
                self._tracked.end()
                self._core.interceptors.close()
        finally:
            self._core.lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(autocommit=error is None)

    def __reduce__(self) -> NoReturn:
        lifecycle.refuse_pickling(self)

    def __repr__(self) -> str:
        core = self.__dict__.get("_core")
        return lifecycle.repr_of("KafkaConsumer", None if core is None else core.options)

    # ------------------------------------------------------------------ for lifecycle.py

    def _on_fork_in_child(self, error: ForkedClientError) -> None:
        self._core.refusal = error
        self._core.iteration_queue.clear()
        self._core.lock = threading.RLock()  # its holder can be a thread that exists only in the parent
        self._core.cluster.driver.abandon(error)

    def _on_exit(self, timeout: float) -> int:
        self._core.refusal = ClientClosed("the interpreter is ending")
        if self._core.group is not None:
            self._core.group.rebalance.leave_at_exit(
                "the program ended without close()", min(timeout, LAST_WORDS)
            )
        self._core.cluster.close(timeout)
        return 0

    # ------------------------------------------------------------------ inside

    def _leave_group(self, group: Group, deadline: float, leave_group: bool | None, autocommit: bool) -> None:
        clock = self._core.cluster.driver.clock

        def commit() -> None:
            with suppress(ClientFailed, ClientClosed):
                group.committer.close(max(deadline - clock.monotonic(), 0.0), autocommit=autocommit)

        def leave() -> None:
            remaining = max(deadline - clock.monotonic(), 0.0)
            group.rebalance.end(IS_CLOSED, remaining, commit=False, leave=leave_group)

        run_all((commit, leave))


def consumer_of(core: ConsumerCore, topics: Sequence[str]) -> KafkaConsumer[Any, Any]:
    """Return a sync consumer that uses this core; for the asyncio consumer, which holds the core, too."""
    consumer: KafkaConsumer[Any, Any] = KafkaConsumer.__new__(KafkaConsumer)
    consumer._hold(core, topics)
    return consumer
