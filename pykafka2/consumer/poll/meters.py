"""Counts what poll() returns by topic, and measures lag, lead and the time between polls.

Written on the caller's thread, once for each partition of a poll. Any thread reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from pykafka2.consumer.fetch.buffer import Item
from pykafka2.consumer.fetch.fetcher import Fetcher
from pykafka2.consumer.state.measures import NEVER, PartitionMeasures, TopicMeasures
from pykafka2.consumer.state.subscription import Assigned, Subscription
from pykafka2.metrics import NOTHING_YET, Meter, Metrics
from pykafka2.types import TopicPartition

MEASURE_EVERY = 0.1
"""Seconds between two measurements of a partition's lag, which would cost too much in each of many polls."""


class PollTimes:
    """Measures how long the application takes between two calls of poll(), and how long it is in poll()."""

    __slots__ = (
        "_first_at",
        "_in_poll",
        "_longest",
        "_longest_gap",
        "_polls",
        "_window",
        "_windows",
        "began_at",
        "ended_at",
    )

    def __init__(self, metrics: Metrics, monotonic: Callable[[], float]) -> None:
        self._windows = metrics.windows
        self._longest = metrics.series("longest-time-between-poll")
        self._longest_gap = 0.0
        """The longest time between two polls in the window with the number `_window`."""
        self._window = 0
        self._polls = 0
        self._in_poll = 0.0
        self._first_at = NEVER
        self.began_at = NEVER
        """The start of the last poll()."""
        self.ended_at: float | None = NEVER
        """The end of the last poll(); None during one."""
        metrics.counter("poll-total", lambda: self._polls)
        metrics.counter("poll-time-total", lambda: self._in_poll)
        metrics.counter(
            "time-between-poll-total", lambda: self.began_at - self._first_at if self._polls else 0
        )
        metrics.gauge(
            "last-poll-seconds-ago", lambda: monotonic() - self.began_at if self.began_at > NEVER else -1.0
        )

    def begin(self, now: float) -> None:
        """Note the start of a poll(), unless one is under way. Its caller sets `ended_at` at its end."""
        before, ended_at = self.began_at, self.ended_at
        if ended_at is None:
            return
        if before == NEVER:
            self._first_at = now
        else:
            gap = now - before
            self._polls += 1
            self._in_poll += ended_at - before
            if gap > self._longest_gap or self._window != self._windows.number:
                self._window, self._longest_gap = self._windows.number, gap
                self._longest.add((gap,))
        self.began_at, self.ended_at = now, None


class Consumption:
    """Counts the returned records, and measures the lag that remains."""

    def __init__(
        self, metrics: Metrics, subscription: Subscription, fetcher: Fetcher, times: PollTimes
    ) -> None:
        self._metrics = metrics
        self._subscription = subscription
        self._topics = fetcher.topics
        self._table = fetcher.table
        self._times = times
        self.last: list[tuple[TopicMeasures, int]] = []
        """Counts of the last pass by topic, for `undo`."""
        metrics.add_meters(self.partition_meters)
        metrics.gauge("records-lag-max", lambda: max(self._current(self.lag), default=0))
        metrics.gauge("records-lead-min", lambda: min(self._current(self.lead), default=NOTHING_YET))

    def returned(
        self,
        partition: TopicPartition,
        assigned: Assigned,
        count: int,
        positions: Mapping[TopicPartition, int],
    ) -> None:
        """Count records of one partition, which a poll() returns; `positions` has the offset after them."""
        measures = assigned.measures or self._measures(partition, assigned)
        measures.topic.records += count
        self.last.append((measures.topic, count))
        if self._times.began_at >= measures.due_at:
            table = self._table
            end, start = table.readable_ends.get(partition), table.log_starts.get(partition)
            position = positions.get(partition)
            if end is not None and start is not None and position is not None:
                measures.lags.add((end - position, position - start))
                measures.due_at = self._times.began_at + MEASURE_EVERY

    def undo(self) -> None:
        """Take back the count of the last pass, whose records an interrupted poll() did not return."""
        while self.last:
            topic, count = self.last.pop()
            topic.records -= count

    def drained(self, items: Iterable[Item], undone: Iterable[Item] = ()) -> None:
        """Count the bytes of fetched data that is read to its end, or not any more."""
        topics = self._topics
        for item in items:
            topics[item.partition.topic].bytes_read += item.size_bytes
        for item in undone:
            topics[item.partition.topic].bytes_read -= item.size_bytes

    def partition_meters(self) -> list[Meter]:
        """Return the meters of the assigned partitions."""
        return [
            self._measures(partition, assigned).meter
            for partition, assigned in [*self._subscription.assigned.items()]
        ]

    def lag(self, partition: TopicPartition) -> float:
        """Return the records between the position and the end of the log; nan while one is unknown."""
        end, position = (
            self._table.readable_ends.get(partition),
            self._subscription.positions.get(partition),
        )
        return NOTHING_YET if end is None or position is None else end - position

    def lead(self, partition: TopicPartition) -> float:
        """Return the records between the start of the log and the position; nan while one is unknown."""
        start, position = (
            self._table.log_starts.get(partition),
            self._subscription.positions.get(partition),
        )
        return NOTHING_YET if start is None or position is None else position - start

    def _current(self, read: Callable[[TopicPartition], float]) -> list[float]:
        values = [read(partition) for partition in [*self._subscription.assigned]]
        return [value for value in values if value == value]  # without nan

    def _measures(self, partition: TopicPartition, assigned: Assigned) -> PartitionMeasures:
        # Without a lock, which a signal handler that reads the metrics would wait for. If two threads create
        # the measures at the same time, one measurement of the lag is lost.
        measures = assigned.measures
        if measures is None:
            measures = PartitionMeasures(self._metrics, partition, self._topics[partition.topic])
            gauges = measures.meter.gauges
            gauges["records-lag"] = lambda: self.lag(partition)
            gauges["records-lead"] = lambda: self.lead(partition)
            gauges["preferred-read-replica"] = lambda: self._replica(partition)
            assigned.measures = measures
        return measures

    def _replica(self, partition: TopicPartition) -> int:
        state = self._table.states.get(partition)
        return -1 if state is None else state.replica
