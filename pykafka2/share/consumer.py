"""`KafkaShareConsumer`: the public class, whose calls wait on the caller's thread.

One thread at a time polls, commits and subscribes; any thread acknowledges. Its parts are in core.py.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    NoReturn,
    ParamSpec,
    Self,
    TypeVar,
    Unpack,
    overload,
)

from pykafka2 import lifecycle
from pykafka2.consumer.calls.arguments import checked_close, checked_limit, checked_timeout, split_topics
from pykafka2.errors import ClientClosed, ConcurrentUse, ForkedClientError, KafkaError
from pykafka2.metrics import without_tags
from pykafka2.share.core import ShareCore
from pykafka2.share.records import AcknowledgeType, ShareRecord
from pykafka2.types import K, Metric, ShareConsumerHealth, TopicPartition, V

if TYPE_CHECKING:
    from pykafka2.driver.runtime import Runtime
    from pykafka2.share.core import Callback
    from pykafka2.share.options import ShareConsumerConfig

P = ParamSpec("P")
T = TypeVar("T")

LAST_WORDS = 1.0
"""Seconds to release records at interpreter exit."""


def _refuse(name: str) -> NoReturn:
    raise ConcurrentUse(
        f"another thread is inside a call of this KafkaShareConsumer, so {name} cannot run; other threads "
        "can acknowledge records, and call wakeup(), health() and explain()"
    )


def _alone(
    method: Callable[Concatenate[KafkaShareConsumer[Any, Any], P], T],
) -> Callable[Concatenate[KafkaShareConsumer[Any, Any], P], T]:
    """Guard a call: one thread at a time, and none after close()."""

    @functools.wraps(method)
    def guarded(self: KafkaShareConsumer[Any, Any], /, *args: P.args, **kwargs: P.kwargs) -> T:
        lock = self._core.lock
        if not lock.acquire(blocking=False):
            _refuse(f"{method.__name__}()")
        try:
            self._core.check_open()
            return method(self, *args, **kwargs)
        finally:
            lock.release()

    return guarded


class KafkaShareConsumer(Generic[K, V]):
    """Takes records from the queue of a share group, and acknowledges each of them (KIP-932).

    Brokers 4.2 or later lock each record for one consumer of the group until it is accepted, released or
    rejected, or the lock expires; more consumers than partitions are useful. One thread at a time can poll,
    commit and subscribe. Any thread can acknowledge (also by `with record:`), and call `wakeup`, `health`,
    `explain` and `metrics`.

        options = {"bootstrap_servers": "kafka-1:9092", "group_id": "workers"}
        with KafkaShareConsumer("jobs", **options) as consumer:
            for record in consumer:
                with record:
                    print(record.offset, record.delivery_count, record.value)

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
        with lifecycle.loading:  # importing the class loads none of its parts
            from pykafka2.share.options import SHARE_CONSUMER_OPTIONS
        config, names = split_topics(topics)
        self._hold(ShareCore(SHARE_CONSUMER_OPTIONS.parse(config, options), runtime), names)

    def _hold(self, core: ShareCore, topics: Iterable[str]) -> None:
        """Become the sync consumer of this core, and subscribe to these topics."""
        self._core = core
        self._current: ShareRecord[K, V] | None = None
        """The record that an iteration has returned last."""
        names = list(topics)
        try:
            if names:
                core.subscribe(names)
        except BaseException:
            core.cluster.discard()
            raise
        description = f"a KafkaShareConsumer ({core.options.client_id})"
        self._tracked = lifecycle.track(self, description, functools.partial(core.cluster.close, 0.0))

    # ------------------------------------------------------------------ subscription

    @_alone
    def subscribe(self, topics: Iterable[str] | str) -> None:
        """Replace the subscription by these topics, and join the group with the next heartbeat.

        Raises:
            InvalidTopicException, IllegalArgument: a name is invalid, or there is none.
        """
        self._core.subscribe(topics)

    @_alone
    def unsubscribe(self) -> None:
        """Leave the group; records that were returned can still be acknowledged while their locks last."""
        self._core.membership.subscribe(frozenset())

    def subscription(self) -> set[str]:
        """Return the subscribed topics."""
        return set(self._core.membership.topics)

    # ------------------------------------------------------------------ records

    @_alone
    def poll(
        self, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ShareRecord[K, V]]]:
        """Return records by partition as soon as there are some, or an empty dict after `timeout_ms`.

        In implicit mode this accepts the records of the last poll(). In explicit mode it sends the decided
        acknowledgements; records that are not acknowledged stay locked. Acknowledgement callbacks are called
        here.

        Args:
            timeout_ms: milliseconds; inf waits forever.
            max_records: the maximum number of records; by default max_poll_records, and the rest of a batch
                that a broker has locked as a whole. With share_acquire_mode="record_limit" each broker also
                locks at most so many.

        Raises:
            IllegalState: no topic is subscribed.
            SerializationError, CorruptData, CorruptMessage, CodecUnavailable: a record cannot be read; it is
                released. Records before it were returned.
            GroupAuthorizationFailed, TopicAuthorizationFailed, InvalidTopicException: the broker rejects the
                client.
            UnsupportedVersion: the brokers do not serve share groups.
            ConcurrentUse, ClientClosed, ForkedClientError: another thread polls, the consumer is closed, or
                it belongs to the parent process.
        """
        checked_limit(max_records, 1)
        self._end_record()
        return self._poll(checked_timeout(timeout_ms), max_records)

    def _poll(
        self, timeout: float, max_records: int | None, *, for_iteration: bool = False
    ) -> dict[TopicPartition, list[ShareRecord[Any, Any]]]:
        try:
            return self._wait_for_records(timeout, max_records, for_iteration)
        except BaseException:
            self._core.withdraw_poll()
            raise

    def _wait_for_records(
        self, timeout: float, max_records: int | None, for_iteration: bool
    ) -> dict[TopicPartition, list[ShareRecord[Any, Any]]]:
        core, driver = self._core, self._core.cluster.driver
        found: dict[TopicPartition, list[ShareRecord[Any, Any]]] = {}
        try:
            core.begin_poll()
            deadline = core.clock.monotonic() + timeout
            while True:
                is_news = core.news()
                collected = core.collect(max_records, for_iteration=for_iteration)
                if collected or collected is None:
                    found = collected or {}
                    return found
                remaining = deadline - core.clock.monotonic()
                if remaining <= 0:
                    return found
                driver.wait_until(is_news, remaining)
                core.check_open()
        finally:
            core.end_poll(is_waiting=timeout == 0 and not found)

    def __iter__(self) -> Iterator[ShareRecord[K, V]]:
        """Iterate over records until consumer_timeout_ms passes without one, or until `wakeup`.

        In implicit mode a record is accepted when the next one is requested, unless a `with record:` block
        decides. Records whose locks expire before their turn are left out. Raise the errors of `poll`.
        """
        while True:
            record = self._next()
            if record is None:
                return
            yield record

    def _next(self) -> ShareRecord[K, V] | None:
        core = self._core
        if not core.lock.acquire(blocking=False):
            _refuse("the iteration")
        try:
            core.check_open()
            self._end_record()
            while (record := core.next_queued()) is None:
                found = self._poll(core.options.consumer_timeout, None, for_iteration=True)
                if not found:
                    return None
                core.put_queued(found)
            core.flush()  # the locks of records that are done can expire before the other ones are
        finally:
            core.lock.release()
        self._current = record  # last: after a Ctrl-C in this call the application does not have the record
        return record

    def _end_record(self) -> None:
        """End the record that an iteration has returned last, as the application asks for more."""
        record, self._current = self._current, None
        self._core.end_record(record)

    # ------------------------------------------------------------------ acknowledgements

    @overload
    def acknowledge(
        self, record: ShareRecord[Any, Any], type: AcknowledgeType = AcknowledgeType.ACCEPT
    ) -> None: ...

    @overload
    def acknowledge(
        self,
        *,
        topic: str,
        partition: int,
        offset: int,
        type: AcknowledgeType = AcknowledgeType.ACCEPT,
    ) -> None: ...

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

        Until then it can be changed. Any thread. The form with topic, partition and offset is for records
        that could not be deserialized.

        Args:
            record: a record that this consumer has returned.
            type: `AcknowledgeType.ACCEPT`, RELEASE, REJECT or RENEW. After RENEW the record stays locked, and
                must be acknowledged again.
            topic: the topic of the record, with `partition` and `offset` instead of `record`.
            partition: its partition.
            offset: its offset.

        Raises:
            IllegalState: the mode is implicit, the acknowledgement was sent already, or it is not a record of
                this consumer.
            InvalidRecordState: the lock was lost, so the record is delivered again.
        """
        core = self._core
        core.check_open()
        if record is not None:
            core.acknowledge(core.delivery_of(record), record.offset, type)
        elif topic is not None and partition is not None and offset is not None:
            core.acknowledge(core.locks.find(topic, partition, offset), offset, type)
        else:
            raise TypeError("acknowledge() needs a record, or topic, partition and offset")

    @_alone
    def commit(self, timeout_ms: float | None = None) -> dict[TopicPartition, KafkaError | None]:
        """Send the acknowledgements that are due, and wait for the brokers' confirmations.

        In implicit mode this accepts the returned records first. Return the first error of each partition, or
        None: InvalidRecordState if a lock was lost, KafkaTimeoutError if no response arrived within
        `timeout_ms` (default_api_timeout_ms by default).
        """
        core = self._core
        timeout = core.options.default_api_timeout if timeout_ms is None else checked_timeout(timeout_ms)
        self._end_record()
        locks = core.begin_commit()

        def is_over() -> bool:
            return not any(lock.is_due for lock in locks)

        core.cluster.driver.wait_until(is_over, timeout, core.locks.settled)
        core.call_back()
        return core.results(locks, timeout)

    @_alone
    def commit_async(self) -> None:
        """Send the acknowledgements that are due, without waiting; the acknowledgement callback gets the
        results."""
        self._end_record()
        self._core.begin_commit()

    @_alone
    def set_acknowledgement_commit_callback(self, callback: Callback | None) -> None:
        """Set the function that gets the results of acknowledgements; None removes it.

        It is called as `callback({partition: {offset, ...}}, error)` inside poll(), commit() and close().
        """
        self._core.set_callback(callback)

    @property
    def lock_timeout_ms(self) -> float | None:
        """How long a record is locked, from the last response of a broker; None before the first."""
        seconds = self._core.sessions.context.lock_timeout
        return None if seconds is None else seconds * 1000

    def wakeup(self) -> None:
        """End the current `poll` or iteration early, or the next one. Safe in threads and signal handlers."""
        self._core.wakeup()

    # ------------------------------------------------------------------ inspection

    def metrics(self) -> dict[str, float]:
        """Return Kafka's metrics without tags by name; `metric_rows` returns all. Any thread."""
        return without_tags(self.metric_rows())

    def metric_rows(self) -> list[Metric]:
        """Return every metric as a row: name, group, value, kind, unit, tags, description. Any thread."""
        return self._core.inspection.metric_rows()

    def client_instance_id(self, timeout_ms: float | None = None) -> str:
        """Return the id that a broker gave this consumer for the metrics that it pushes (KIP-714).

        Any thread can call it.
        Opens the first connection if there is none. `timeout_ms` is default_api_timeout_ms by default.

        Raises:
            IllegalState: enable_metrics_push is False.
            UnsupportedVersion: the brokers do not receive metrics of clients.
            NoBrokersAvailable, KafkaTimeoutError: no broker responded in time.
        """
        self._core.check_open()
        seconds = None if timeout_ms is None else checked_timeout(timeout_ms)
        return self._core.cluster.client_instance_id(seconds)

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

    def health(self) -> ShareConsumerHealth:
        """Return the state of the consumer as data for a monitor.  Any thread can call it."""
        return self._core.inspection.health()

    def explain(self) -> str:
        """Explain in words which locks are held, and what waits for which broker.  Any thread can call it."""
        return self._core.inspection.explain()

    # ------------------------------------------------------------------ the end

    def close(self, timeout: float | None = None, *, timeout_ms: float | None = None) -> None:
        """Send the decided acknowledgements, release all other records, and leave the group.

        Can be repeated, also after a Ctrl-C. A handler that is still running has its record released, and
        the brokers deliver it again.

        Args:
            timeout: seconds; 5 if neither timeout is set.
            timeout_ms: milliseconds.

        Raises:
            ConcurrentUse: another thread is inside a call; call `wakeup` first.
        """
        core = self._core
        if isinstance(core.refusal, ForkedClientError):
            return  # all resources belong to the parent process
        if not core.lock.acquire(blocking=False):
            raise ConcurrentUse(
                "another thread is inside a call of this KafkaShareConsumer; call wakeup() first"
            )
        try:
            deadline = core.clock.monotonic() + checked_close(timeout, timeout_ms)
            try:
                if core.refusal is None:
                    core.close(max(deadline - core.clock.monotonic(), 0.0))
            finally:
                core.finish(core.closed_error, max(deadline - core.clock.monotonic(), 0.1))
                self._tracked.end()
                core.call_back()
                core.hooks.close()
        finally:
            core.lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        lifecycle.refuse_pickling(self)

    def __repr__(self) -> str:
        core = self.__dict__.get("_core")
        return lifecycle.repr_of("KafkaShareConsumer", None if core is None else core.options)

    def _on_fork_in_child(self, error: ForkedClientError) -> None:
        core = self._core
        core.refusal = error
        core.queue.clear()
        core.lock = threading.RLock()  # its holder can be a thread that exists only in the parent
        core.locks.abandon(error)
        core.cluster.driver.abandon(error)

    def _on_exit(self, timeout: float) -> int:
        core = self._core
        error = ClientClosed("the interpreter is ending")
        core.refusal = error
        try:
            core.close(min(timeout, LAST_WORDS))
        except Exception as failure:
            core.hooks.report(self, "%r could not release its records at exit", failure)
        core.finish(error, timeout)
        return 0


def share_consumer_of(core: ShareCore, topics: Iterable[str]) -> KafkaShareConsumer[Any, Any]:
    """Return a sync consumer that uses this core; for the asyncio consumer, which holds the core, too."""
    consumer: KafkaShareConsumer[Any, Any] = KafkaShareConsumer.__new__(KafkaShareConsumer)
    consumer._hold(core, topics)
    return consumer
