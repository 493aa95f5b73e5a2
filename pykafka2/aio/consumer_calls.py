"""The calls of the asyncio consumer beside reads: subscription, positions, commits, inspection."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from pykafka2.aio.bridge import Bridge
from pykafka2.aio.call_queue import CallQueue
from pykafka2.aio.listeners import Listeners
from pykafka2.cluster.client import GRACE
from pykafka2.consumer.calls.steps import CallSteps
from pykafka2.consumer.calls.subscribe import REBALANCE_REASON
from pykafka2.consumer.commit.committer import unacknowledged
from pykafka2.consumer.consumer import KafkaConsumer as SyncConsumer
from pykafka2.consumer.core import ConsumerCore
from pykafka2.errors import IllegalArgument, LoopBlocked
from pykafka2.interrupts import CancelOnError
from pykafka2.option_fields import is_async
from pykafka2.other_clients import explaining
from pykafka2.types import (
    ConsumerGroupMetadata,
    ConsumerHealth,
    ConsumerRecord,
    Metric,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    SubscriptionPattern,
    TopicPartition,
)

if TYPE_CHECKING:
    import re

    from pykafka2.cluster.offset_arguments import OffsetsToCommit
    from pykafka2.consumer.options import ConsumerOptions
    from pykafka2.driver.completion import Completion
    from pykafka2.driver.driver import Driver

T = TypeVar("T")


class Done:
    """The result of a call that has taken effect; awaiting it returns True at once."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, Literal[True]]:
        yield from ()
        return True


DONE = Done()


class ConsumerCalls:
    """Mixed into the consumer."""

    _bridge: Bridge
    _core: ConsumerCore
    _consumer: SyncConsumer[Any, Any]
    _steps: CallSteps
    _driver: Driver
    _options: ConsumerOptions
    _listeners: Listeners
    _call_queue: CallQueue

    # ------------------------------------------------------------------ subscription

    @explaining
    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | re.Pattern[str] | SubscriptionPattern | None = None,
        listener: Any = None,
        *,
        on_assigned: Callable[[Any], object] | None = None,
        on_revoked: Callable[[Any], object] | None = None,
        on_lost: Callable[[Any], object] | None = None,
    ) -> None:
        """Subscribe to topics, including partitions that are added later. Not awaited.

        Arguments are those of `pykafka2.KafkaConsumer.subscribe`.

        Listeners are plain functions or coroutine functions, called on the event loop. A coroutine is awaited
        before its partitions are given up, for at most max_poll_interval_ms. It can await this consumer's
        calls, except reads.

        Raises:
            IllegalArgument: topics is empty; await `unsubscribe()` instead.
        """
        names = (
            topics if isinstance(topics, str | bytes) or not isinstance(topics, Iterable) else list(topics)
        )
        if not names and pattern is None:
            raise IllegalArgument("subscribe(): topics is empty; to end a subscription await unsubscribe()")
        self._consumer.subscribe(
            names,
            pattern,
            self._listeners.wrapped(listener),
            on_assigned=self._listeners.function(on_assigned),
            on_revoked=self._listeners.function(on_revoked),
            on_lost=self._listeners.function(on_lost),
        )

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without joining a group. Not awaited."""
        self._consumer.assign(partitions)

    def incremental_assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Add partitions to the assignment; the others keep their positions. Not awaited."""
        self._consumer.incremental_assign(partitions)

    def incremental_unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """Remove partitions from the assignment; their offsets are committed as by `assign`. Not awaited."""
        self._consumer.incremental_unassign(partitions)

    async def unsubscribe(self) -> None:
        """Remove the subscription or assignment, and the positions.

        A member leaves its group, which takes at most 5 s.
        """
        await self._blocking(self._consumer.unsubscribe)

    def assignment(self) -> set[TopicPartition]:
        """Return the assigned partitions; empty after `subscribe` until a read has joined the group."""
        return self._consumer.assignment()

    def subscription(self) -> set[str]:
        """Return the subscribed topics, including those that match the pattern; empty after `assign`."""
        return self._consumer.subscription()

    def enforce_rebalance(self, reason: str = REBALANCE_REASON) -> None:
        """Join the group again with the next `poll`, which can start a rebalance."""
        self._consumer.enforce_rebalance(reason)

    # ------------------------------------------------------------------ positions

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue at this offset with the next `poll`. Not awaited."""
        self._consumer.seek(partition, offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> Done:
        """Continue at the first record of these partitions, or of all assigned ones without arguments.

        The call itself seeks; its result can be awaited, as in aiokafka.
        """
        self._consumer.seek_to_beginning(*partitions)
        return DONE

    def seek_to_end(self, *partitions: TopicPartition) -> Done:
        """Continue after the last record of these partitions, or of all assigned ones without arguments.

        The call itself seeks; its result can be awaited, as in aiokafka.
        """
        self._consumer.seek_to_end(*partitions)
        return DONE

    async def seek_to_committed(self, *partitions: TopicPartition) -> dict[TopicPartition, int | None]:
        """Continue at the committed offsets of these or all assigned partitions; return the offsets.

        A partition without a committed offset stays at its position; its offset is None.

        Raises:
            IllegalState: a partition is not assigned, or no partition is.
        """
        return await self._blocking(self._consumer.seek_to_committed, *partitions)

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until `resume`. Not awaited."""
        self._consumer.pause(*partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again. Not awaited."""
        self._consumer.resume(*partitions)

    def paused(self) -> set[TopicPartition]:
        """Return the paused partitions."""
        return self._consumer.paused()

    def next_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets after the returned records, for `send_offsets_to_transaction` (KIP-1094).

        Not awaited.
        """
        return self._consumer.next_offsets()

    def lag(self, partition: TopicPartition) -> int | None:
        """Return how many offsets of this partition remain, as of its last fetch; sends no request."""
        return self._consumer.lag(partition)

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the high watermark of the last fetch, or None before the first; sends no request."""
        return self._consumer.highwater(partition)

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        """Return the last stable offset of the last fetch; sends no request.

        None before the first fetch, and without isolation_level='read_committed', since brokers name it to
        such consumers only.
        """
        return self._consumer.last_stable_offset(partition)

    def last_poll_timestamp(self, partition: TopicPartition) -> int | None:
        """Return when a broker has last confirmed `highwater` and `last_stable_offset`; sends no request.

        In milliseconds since the epoch; None before the first fetch. The response need not have records.
        """
        return self._consumer.last_poll_timestamp(partition)

    @explaining
    async def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """Return the offset of the next record that `poll` will return for this partition.

        See `pykafka2.KafkaConsumer.position`.
        """
        self._bridge.enter()
        try:
            return self._consumer.position(partition, timeout_ms)
        except LoopBlocked:
            return await self._blocking(self._consumer.position, partition, timeout_ms)

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each partition, assigned or not."""
        return await self._blocking(self._consumer.beginning_offsets, partitions, timeout_ms)

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the high watermark of each partition, or with read_committed the last stable offset."""
        return await self._blocking(self._consumer.end_offsets, partitions, timeout_ms)

    @explaining
    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the offset of each partition's first record at or after a time, or None without one."""
        return await self._blocking(self._consumer.offsets_for_times, timestamps, timeout_ms)

    async def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return the topic's partition numbers, or None if the topic does not exist."""
        self._bridge.enter()
        try:
            return self._consumer.partitions_for_topic(topic)
        except LoopBlocked:
            return await self._blocking(self._consumer.partitions_for_topic, topic)

    async def topic_id(self, topic: str) -> bytes | None:
        """Return the topic's id (KIP-516), 16 bytes; None if the topic does not exist, or has none."""
        return await self._blocking(self._consumer.topic_id, topic)

    async def topics(self) -> set[str]:
        """Return the names of all topics that the user can describe."""
        return await self._blocking(self._consumer.topics)

    # ------------------------------------------------------------------ commits

    @explaining
    async def commit(self, offsets: OffsetsToCommit | None = None, timeout_ms: float | None = None) -> None:
        """Commit offsets to the group, and wait until they are written.

        See `pykafka2.KafkaConsumer.commit`. If the task is cancelled, it is unknown whether the offsets were
        committed.
        """
        self._bridge.enter()
        commit, timeout = self._steps.begin_commit(offsets, timeout_ms)
        completion = commit.completion
        with CancelOnError(completion):
            seconds = timeout + GRACE
            if not await self._bridge.wait(self._driver, completion.done, seconds, completion.waiters):
                error = unacknowledged(timeout)
                self._steps.fail_commit(commit, error)
                raise error
        self._steps.end_commit(commit)

    async def commit_async(
        self,
        offsets: OffsetsToCommit | None = None,
        callback: Callable[[Mapping[TopicPartition, OffsetAndMetadata], Any], Any] | None = None,
    ) -> Completion[None]:
        """Commit offsets without waiting. The commit is sent once and fails after request_timeout_ms.

        The returned completion can be awaited. The callback runs on the event loop, as callback(offsets,
        error), during a later call of the consumer.
        """
        self._bridge.enter()
        if callable(callback) and not is_async(callback):
            callback = self._bridge.on_loop(callback)
        return self._consumer.commit_async(offsets, callback)

    @explaining
    async def store_offsets(
        self, record: ConsumerRecord[Any, Any] | None = None, offsets: OffsetsToCommit | None = None
    ) -> None:
        """Store the offsets that the next commit commits, automatic or not.

        It needs enable_auto_offset_store=False.
        """
        self._bridge.enter()
        self._consumer.store_offsets(record, offsets)

    @overload
    async def committed(
        self,
        partition: TopicPartition,
        metadata: Literal[False] = False,
        timeout_ms: float | None = None,
    ) -> int | None: ...
    @overload
    async def committed(
        self, partition: TopicPartition, metadata: Literal[True], timeout_ms: float | None = None
    ) -> OffsetAndMetadata | None: ...
    @overload
    async def committed(
        self,
        partition: list[TopicPartition] | AbstractSet[TopicPartition],
        metadata: bool = False,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata | None]: ...
    @explaining
    async def committed(
        self,
        partition: TopicPartition | Iterable[TopicPartition],
        metadata: bool = False,
        timeout_ms: float | None = None,
    ) -> Any:
        """Return the group's committed offset, even if the partition is not assigned to this consumer.

        See `pykafka2.KafkaConsumer.committed`.
        """
        return await self._blocking(self._consumer.committed, partition, metadata, timeout_ms)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the membership metadata for a transactional producer (KIP-447)."""
        return self._consumer.group_metadata()

    # ------------------------------------------------------------------ inspection

    async def bootstrap(self, timeout_ms: float | None = None, refresh: bool = False) -> None:
        """Connect to the cluster now, instead of with the first call that needs it.

        Like `start`, but it assigns nothing, and after an error the consumer stays open.
        """
        await self._blocking(self._consumer.bootstrap, timeout_ms, refresh)

    def bootstrap_connected(self) -> bool:
        """Return whether any broker is connected."""
        return self._consumer.bootstrap_connected()

    def metrics(self) -> dict[str, float]:
        """Return Kafka's consumer metrics without tags by name; `metric_rows` returns all.

        Totals count from the start; rates, averages and maxima cover the last 30 to 60 s.
        """
        return self._consumer.metrics()

    def metric_rows(self) -> list[Metric]:
        """Return every metric as a row: name, group, value, kind, unit, tags, description.

        Names, groups and tags are Apache Kafka's; the tag client-id is always there. Metrics of topics
        and partitions appear with their first record. Nothing is sent.
        """
        return self._consumer.metric_rows()

    async def client_instance_id(self, timeout_ms: float | None = None) -> str:
        """Return the id that a broker gave this consumer for the metrics that it pushes (KIP-714).

        Opens the first connection if there is none. `timeout_ms` is default_api_timeout_ms by default.

        Raises:
            IllegalState: enable_metrics_push is False.
            UnsupportedVersion: the brokers do not receive metrics of clients.
            NoBrokersAvailable, KafkaTimeoutError: no broker responded in time.
        """
        return await self._blocking(self._consumer.client_instance_id, timeout_ms)

    def register_metrics(self, rows: Callable[[], Iterable[Metric]]) -> None:
        """Push these metrics of the application with those of the consumer (KIP-1076).

        `rows` is called before each push, on the IO thread: it must not block. It returns `Metric` rows with
        names that the consumer does not have. If it raises, that is logged once, and its rows are left out.
        Nothing calls it while no broker asks for metrics.
        """
        self._consumer.register_metrics(rows)

    def unregister_metrics(self, rows: Callable[[], Iterable[Metric]]) -> None:
        """Push the metrics of this function no more; does nothing if it is not registered."""
        self._consumer.unregister_metrics(rows)

    def health(self) -> ConsumerHealth:
        """Return the state of the consumer as data for a monitor."""
        return self._consumer.health()

    def explain(self) -> str:
        """Explain in words what the consumer is waiting for."""
        return self._consumer.explain()

    # ------------------------------------------------------------------ inside

    async def _blocking(self, function: Callable[..., T], *args: Any) -> T:
        """Run a call that can block on a helper thread, after earlier ones; a listener's call at once."""
        self._bridge.enter()
        if self._listeners.is_running:
            call = self._bridge.start(function, *args)
        else:
            call = await self._call_queue.start(lambda: self._bridge.start(function, *args))
        return await call.own_result()
