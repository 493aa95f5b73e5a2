"""One poll(): updates subscription and positions, collects records, or waits for them.

Used on the caller's thread. A `PollTask`, such as a group membership or the committer, runs before each
pass and whenever it has news while poll() waits. Neighbors: collector.py (one pass), position_control.py
(moves positions), errors.py, missing_topics.py and stall_detector.py (warnings and errors).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from pykafka2.cluster.client import ClusterClient
from pykafka2.consumer.fetch.fetcher import Fetcher
from pykafka2.consumer.interceptors import Interceptors
from pykafka2.consumer.options import ConsumerOptions
from pykafka2.consumer.poll.collector import Collector
from pykafka2.consumer.poll.errors import PollErrors
from pykafka2.consumer.poll.meters import Consumption, PollTimes
from pykafka2.consumer.poll.missing_topics import MissingTopics
from pykafka2.consumer.poll.position_control import PositionControl
from pykafka2.consumer.poll.stall_detector import StallDetector
from pykafka2.consumer.reset_policy import NONE
from pykafka2.consumer.state.iteration_queue import Records
from pykafka2.consumer.state.subscription import Mode, Subscription
from pykafka2.errors import (
    ConsumerStalled,
    IllegalState,
    KafkaTimeoutError,
    NoOffsetForPartition,
)
from pykafka2.records.columns import Columns
from pykafka2.text import named
from pykafka2.types import TopicPartition

if TYPE_CHECKING:
    from pykafka2.consumer.commit.start_positions import StartPositions

logger = logging.getLogger(__name__)


class Poller:
    """Returns records, as objects or in columns."""

    def __init__(
        self,
        options: ConsumerOptions,
        cluster: ClusterClient,
        subscription: Subscription,
        fetcher: Fetcher,
        interceptors: Interceptors,
        *,
        start_positions: StartPositions | None = None,
        poll_tasks: Sequence[PollTask] = (),
    ) -> None:
        self._options = options
        self._cluster = cluster
        self._metadata = cluster.metadata
        self._driver = cluster.driver
        self._subscription = subscription
        self._buffer = fetcher.buffer
        self._fetcher = fetcher
        self._start_positions = start_positions
        self._interceptors = interceptors if interceptors.has("on_poll_start") else None
        self._poll_tasks = poll_tasks
        self._missing_topics = MissingTopics(cluster, subscription, options.group_id)
        self.stall_detector = StallDetector(options, cluster, subscription, fetcher)
        self.position_control = PositionControl(subscription, fetcher, cluster.driver)
        self._poll_errors = poll_errors = PollErrors(
            options, subscription, fetcher, self.position_control, interceptors
        )
        self.times = PollTimes(cluster.metrics, cluster.driver.clock.monotonic)
        consumption = Consumption(cluster.metrics, subscription, fetcher, self.times)
        self.collector = Collector(
            options, subscription, fetcher.buffer, poll_errors, interceptors, consumption
        )
        self.bad_records = poll_errors.bad_records
        self._pinned: frozenset[str] = frozenset()
        self._wanted: frozenset[str] = frozenset()
        self._assigned_as_of = self._matched_as_of = self._pinned_as_of = -1
        self._checked_topics: tuple[int, frozenset[str], int] | None = None
        """Metadata version, topics and assignment at the last check for missing topics."""
        self.is_in_pass = False
        """Whether a pass runs, which calls deserializers, interceptors and on_bad_record."""
        self.is_woken = False

    # ------------------------------------------------------------------ polling

    def poll(self, timeout: float, limit: int, *, keep_position: bool = False) -> Records:
        """Return records as soon as there are some; an empty dict after `timeout` seconds or wakeup()."""
        records: Records = self._poll(timeout, lambda: self.collector.records(limit, keep_position))
        if keep_position and records:
            self.stall_detector.has_read_in_place = True
        return records

    def poll_columns(self, timeout: float, limit: int) -> dict[TopicPartition, Columns]:
        """Poll columns like `poll`; the last batch can exceed `limit`."""
        columns: dict[TopicPartition, Columns] = self._poll(timeout, lambda: self.collector.columns(limit))
        return columns

    def _poll(self, timeout: float, collect: Callable[[], dict[TopicPartition, Any]]) -> Any:
        self._check()
        if self._interceptors is not None:
            self.started()
        now = self._driver.clock.monotonic()
        self.times.begin(now)
        try:
            return self._poll_until(now + timeout, collect)
        finally:
            self.returned()

    def _check(self) -> None:
        if self.is_in_pass:
            raise IllegalState(
                "poll() inside a deserializer, an interceptor or on_bad_record would read the same records "
                "again; return first"
            )
        if self._subscription.mode is Mode.NONE:
            raise IllegalState(
                "no topic is subscribed and no partition is assigned; call subscribe() or assign() first"
            )

    def _poll_until(self, deadline: float, collect: Callable[[], dict[TopicPartition, Any]]) -> Any:
        while True:
            arrivals, version = self._buffer.arrivals, self._metadata.snapshot.version
            if version != self._matched_as_of:
                self._subscription.match(self._metadata.snapshot)
                self._matched_as_of = version
            for task in self._poll_tasks:
                task.run(max(deadline - self._driver.clock.monotonic(), 0.0))
            found = self._pass(collect)
            if found or found is None:
                return found or {}
            remaining = deadline - self._driver.clock.monotonic()
            if (self.is_woken and self.take_wakeup()) or remaining <= 0:
                return {}
            if self.collector.is_unfinished:
                continue  # one more step into a large batch
            due_in = self._due_in(remaining)
            for task in self._poll_tasks:
                task.on_wait()
            self._wait_for_news(arrivals, version, due_in, self._is_called)

    def _pass(self, collect: Callable[[], dict[TopicPartition, Any]]) -> Any:
        """Collect records once; None after a wakeup()."""
        self._prepare()
        # Before the pass: once positions have moved, little must run until the records are returned.
        if self._driver.clock.monotonic() >= self.stall_detector.due_at:
            self._check_for_stalls()
        if self.is_woken and self.take_wakeup():
            return None
        try:
            self.is_in_pass = True
            found = collect()
        finally:
            self.is_in_pass = False
        if not found and self.collector.is_unfinished:
            self.stall_detector.has_read_in_place = True
        return found

    def _due_in(self, remaining: float) -> float:
        """Return the seconds until a task or a retry is due, at most `remaining`."""
        for task in self._poll_tasks:
            remaining = min(remaining, task.due_in())
        if self._start_positions is not None:
            remaining = min(remaining, self._start_positions.due_in())
        return remaining

    def started(self) -> None:
        """Call the interceptors at the start of a poll()."""
        if self._interceptors is not None:
            self._interceptors.call("on_poll_start")

    # ------------------------------------------------------------------ polling on an event loop

    def begin(self) -> Callable[[], bool]:
        """Start one round of a poll() whose caller waits by itself.

        A round is `begin`, `run_tasks_without_listeners`, `run_tasks` on a thread that can block if that
        returns True, a pass, and a wait for `wait_for` seconds at most, until the returned function is true.
        `returned` ends the poll().
        """
        self._check()
        self.times.begin(self._driver.clock.monotonic())
        arrivals, version = self._buffer.arrivals, self._metadata.snapshot.version
        if version != self._matched_as_of:
            self._subscription.match(self._metadata.snapshot)
            self._matched_as_of = version
        return self._news_since(arrivals, version, self._is_called)

    def run_tasks_without_listeners(self) -> bool:
        """Do the work of the tasks that calls no listener; return whether `run_tasks` has more to do."""
        needs = False
        for task in self._poll_tasks:
            needs = task.run_without_listeners() or needs
        return needs

    def run_tasks(self) -> None:
        """Do the work of the tasks that is due, which can call listeners."""
        for task in self._poll_tasks:
            task.run(0.0)

    def pass_records(
        self,
        limit: int,
        *,
        keep_position: bool = False,
        only: Collection[TopicPartition] | None = None,
    ) -> Records:
        """Return the records that are available now, of all partitions or of some."""
        self.stall_detector.only = only
        records: Records = self._pass(lambda: self.collector.records(limit, keep_position, only)) or {}
        if keep_position and records:
            self.stall_detector.has_read_in_place = True
        if only is not None and not records and self._fetcher.is_full():
            self._drop_others(only)
        return records

    def _drop_others(self, only: Collection[TopicPartition]) -> None:
        """Fetch the buffered records of other partitions again later, so that these can be fetched now."""
        for partition in self._buffer.partitions():
            position = self._subscription.positions.get(partition)
            if partition not in only and position is not None:
                self.position_control.rewind(partition, position)

    def pass_columns(self, limit: int) -> dict[TopicPartition, Columns]:
        """Return the columns that are available now."""
        self.stall_detector.only = None
        return self._pass(lambda: self.collector.columns(limit)) or {}

    def wait_for(self, remaining: float) -> float:
        """Note that the caller waits; return for how many seconds, unless there is news."""
        for task in self._poll_tasks:
            task.on_wait()
        return min(self._due_in(remaining), self._missing_topics.due_in(), self.stall_detector.due_in())

    def returned(self) -> None:
        """End a poll(): the time of the application starts."""
        self.times.ended_at = self._driver.clock.monotonic()
        for task in self._poll_tasks:
            task.on_return()

    def woken(self) -> None:
        """Start the time in which an event loop must continue its poll(), for max_poll_interval_ms."""
        for task in self._poll_tasks:
            task.on_return()

    def take_wakeup(self) -> bool:
        """Consume a pending wakeup(); return whether there was one.

        Also called when records are available, so that a busy consumer can be interrupted.
        """
        is_woken = self.is_woken
        if is_woken:
            self.is_woken = False
        return is_woken

    def _check_for_stalls(self) -> None:
        try:
            stuck = self.stall_detector.check()
        except ConsumerStalled as error:
            if not self.stall_detector.is_reading:
                raise
            logger.warning("%s", error)  # records of other partitions are returned first
            return
        if stuck:
            self._subscription.unsent.update(stuck)
            for partition in stuck:
                self._driver.call_soon(partial(self._reset_brokers_of, partition))
            self.position_control.send_changes()

    def _reset_brokers_of(self, partition: TopicPartition, now: float) -> None:
        self._fetcher.reset_brokers_of(partition)

    def _is_called(self) -> bool:
        """Return whether wakeup() was called or a task has news."""
        tasks = self._poll_tasks
        return self.is_woken or (bool(tasks) and any(task.has_news() for task in tasks))

    def _wait_for_news(
        self, arrivals: int, version: int, timeout: float, is_called: Callable[[], bool] = lambda: False
    ) -> None:
        is_news = self._news_since(arrivals, version, is_called)
        self._driver.wait_until(
            is_news, min(timeout, self._missing_topics.due_in(), self.stall_detector.due_in())
        )

    def _news_since(self, arrivals: int, version: int, is_called: Callable[[], bool]) -> Callable[[], bool]:
        """Return a function that tells whether records, metadata or anything else has arrived. Any thread."""
        buffer, metadata, missing_topics, start_positions = (
            self._buffer,
            self._metadata,
            self._missing_topics,
            self._start_positions,
        )

        def is_news() -> bool:
            if (
                buffer.arrivals != arrivals
                or metadata.snapshot.version != version
                or (metadata.last_error is not None and missing_topics.has_fatal_error())
            ):
                return True
            return is_called() or (start_positions is not None and start_positions.has_news())

        return is_news

    def position(self, partition: TopicPartition, timeout: float) -> int:
        """Return the offset of the next record to return; wait while the position is unknown."""
        deadline = self._driver.clock.monotonic() + timeout
        while True:
            self._subscription.find(partition)
            arrivals, version = self._buffer.arrivals, self._metadata.snapshot.version
            self._prepare()
            position = self._subscription.positions.get(partition)
            if position is not None:
                return position
            self._poll_errors.raise_error_of(partition)
            remaining = deadline - self._driver.clock.monotonic()
            if remaining <= 0:
                reason = self._start_positions is not None and self._start_positions.why_unknown(partition)
                if reason:
                    raise KafkaTimeoutError(f"no position of {partition} within {timeout:g} s: {reason}")
                raise self._missing_topics.error_of_position(partition, timeout)
            self._wait_for_news(arrivals, version, remaining)

    # ------------------------------------------------------------------ before each pass

    def _prepare(self) -> None:
        """Bring subscription and positions up to date; raise errors that a wait cannot resolve."""
        subscription = self._subscription
        if subscription.wanted_topics is not self._wanted or subscription.changes != self._pinned_as_of:
            self._pin_topics()
        version = self._metadata.snapshot.version
        if version != self._assigned_as_of and subscription.reads_all_partitions:
            self._assign_all_partitions()
            self._assigned_as_of = version
        topics = (version, subscription.wanted_topics, subscription.changes)
        if (
            topics != self._checked_topics
            or self._buffer.is_empty
            or self._missing_topics.missing  # its time passes also while the metadata stays the same
            or self._metadata.last_error is not None
        ):
            self._missing_topics.check()
            self._checked_topics = topics
        if self._poll_errors.to_read_again:
            self._poll_errors.read_again()
        if subscription.unsent or subscription.unsent_pauses:
            # a Ctrl-C interrupted the call before it sent its change
            self.position_control.send_changes()
        if self._buffer.resets:
            resets = self._buffer.resets.copy()
            subscription.end_resets(resets)
            self._buffer.drop_resets(resets)
        missing = subscription.without_position()
        # A response is also taken if none of its partitions is assigned any more.
        if missing or (self._start_positions is not None and self._start_positions.response is not None):
            self._find_first_positions(missing)

    def _pin_topics(self) -> None:
        """Keep the metadata of all wanted topics, and of partitions that are still to be revoked.

        Their last commit needs it: a topic without metadata would count as deleted.
        """
        subscription = self._subscription
        wanted, changes = subscription.wanted_topics, subscription.changes
        pinned = wanted.union(partition.topic for partition in subscription.assigned)
        self._assigned_as_of = -1  # a new subscription can have the same topics as the last one
        if pinned != self._pinned:
            self._metadata.pin_topics(pinned)
            self._pinned = pinned
        # Last, so that after a Ctrl-C the next poll does all of it.
        self._wanted, self._pinned_as_of = wanted, changes

    def assign_known(self) -> None:
        """Assign the partitions of the topics whose metadata is known, before the first poll()."""
        self._subscription.match(self._metadata.snapshot)
        self._pin_topics()
        self._assign_all_partitions()

    def _assign_all_partitions(self) -> None:
        """Assign all partitions of the subscribed topics, for a consumer without a group."""
        subscription = self._subscription
        partitions = [partition for partition in subscription.assigned if self._is_in_doubt(partition.topic)]
        for topic in sorted(subscription.topics):
            known = self._metadata.topic(topic)
            if known is not None and known.is_usable:
                partitions += [TopicPartition(topic, number) for number in sorted(known.partitions)]
        subscription.replace(partitions)
        self.position_control.send_changes()

    def _is_in_doubt(self, topic: str) -> bool:
        known = self._metadata.topic(topic)
        return topic in self._subscription.topics and (known is None or not known.is_usable)

    def _find_first_positions(self, partitions: list[TopicPartition]) -> None:
        if self._start_positions is not None:
            partitions = self._start_positions.without_commit(partitions)
            self.position_control.send_changes()
            if not partitions:
                return
        if self._options.auto_offset_reset == NONE:
            raise NoOffsetForPartition(
                f"{named(partitions)}: the position is unknown and auto_offset_reset is 'none'; call seek()"
            )
        self.position_control.reset(partitions, self._options.auto_offset_reset)


class PollTask(Protocol):
    """Work that poll() does for a part of the consumer, such as the membership or the committer."""

    def run(self, remaining: float) -> None:
        """Do the work that is due; can wait up to `remaining` seconds, call user callbacks, and raise."""
        ...

    def run_without_listeners(self) -> bool:
        """Do the part of `run` that calls no listener; return whether the rest has work to do."""
        ...

    def due_in(self) -> float:
        """Return the seconds until the next `run`; inf if none is needed before there is news."""
        ...

    def has_news(self) -> bool:
        """Return whether `run` has work now. The thread that wakes the waiter calls it, without a lock."""
        ...

    def on_wait(self) -> None:
        """Called when poll() has found no records and starts to wait."""
        ...

    def on_return(self) -> None:
        """Called when poll() returns to the application, with or without records, or raises."""
        ...
