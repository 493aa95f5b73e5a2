"""The heart of poll(): from what is fetched to what is handed over.

Caller's thread only.  Decodes out of the fetch buffer, runs the deserializers, and moves the positions in one
step when everything of a poll is ready, so that an error or a Ctrl-C before that loses nothing.  Neighbours:
subscription.py (state), fetch_buffer.py (data), fetcher.py (to which it speaks by commands).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from functools import partial
from typing import Any

import attrs

from pykafka2.cluster.client import ClusterClient
from pykafka2.consumer.bad_records import BadRecords
from pykafka2.consumer.committed import Resume
from pykafka2.consumer.deserializing import Deserializing
from pykafka2.consumer.fetch_buffer import FetchBuffer, Item
from pykafka2.consumer.fetched import FetchedData, Problem, without_frames
from pykafka2.consumer.fetcher import Fetcher
from pykafka2.consumer.interceptors import Interceptors
from pykafka2.consumer.options import ConsumerOptions
from pykafka2.consumer.poll_tasks import PollTask
from pykafka2.consumer.positions import OffsetLookups
from pykafka2.consumer.progress import Progress
from pykafka2.consumer.reset_policy import NONE, reset_timestamp
from pykafka2.consumer.subscription import Assigned, Subscription
from pykafka2.consumer.topic_watch import TopicWatch
from pykafka2.errors import (
    ConsumerStalled,
    CorruptData,
    CorruptMessage,
    IllegalState,
    KafkaError,
    KafkaTimeoutError,
    LogTruncated,
    NoOffsetForPartition,
    OffsetOutOfRange,
    SerializationError,
)
from pykafka2.records.columns import Columns
from pykafka2.types import BadRecord, ConsumerRecord, TopicPartition

logger = logging.getLogger(__name__)

Records = dict[TopicPartition, list[ConsumerRecord]]
Take = Callable[[FetchedData, int, int, Any], int]


@attrs.frozen
class _Failure:
    """Why no more of a partition can be handed over."""

    partition: TopicPartition
    generation: int
    error: KafkaError
    is_unreadable: bool = False
    """The data itself cannot be read: it is fetched again before it is complained of again."""
    bad: BadRecord | None = None
    """What may be passed over then, if that is asked for and it is known how far the damage goes."""


@attrs.define
class _Pass:
    """One look through the buffer: nothing of it counts before `Reader._finish`."""

    as_of: int
    """What `Subscription.changes` was at its beginning."""
    positions: dict[TopicPartition, int] = attrs.Factory(dict)
    generations: dict[TopicPartition, int] = attrs.Factory(dict)
    leader_epochs: dict[TopicPartition, int] = attrs.Factory(dict)
    done: list[Item] = attrs.Factory(list)
    served: list[TopicPartition] = attrs.Factory(list)
    failed: _Failure | None = None


class Reader:
    """Hands over records, column by column or as objects."""

    def __init__(
        self,
        options: ConsumerOptions,
        cluster: ClusterClient,
        subscription: Subscription,
        buffer: FetchBuffer,
        fetcher: Fetcher,
        lookups: OffsetLookups,
        interceptors: Interceptors,
        *,
        resume: Resume | None = None,
        poll_tasks: Sequence[PollTask] = (),
    ) -> None:
        self._options = options
        self._cluster = cluster
        self._metadata = cluster.metadata
        self._driver = cluster.driver
        self._subscription = subscription
        self._buffer = buffer
        self._fetcher = fetcher
        self._resume = resume
        self._poll_tasks = poll_tasks
        self._watch = TopicWatch(cluster, subscription)
        self.progress = Progress(options, cluster, subscription, buffer, fetcher, lookups)
        self._interceptors = interceptors
        self.bad_records = BadRecords(options.on_bad_record)
        self._deserializing = Deserializing(options, self.bad_records)
        self._failed: _Failure | None = None
        self._to_read_again: dict[TopicPartition, int] = {}
        """Partitions whose data was unreadable, with the generation at that time."""
        self._done: list[Item] = []
        """What the pass before has read to its end."""
        self._pinned: frozenset[str] = frozenset()
        self._assigned_as_of = self._matched_as_of = -1
        self.moved: dict[TopicPartition, tuple[int, int, int | None]] | None = None
        """Where the last pass found records: the positions after and before, and the leader epochs before."""
        self._is_in_pass = False
        """The application's deserializers, interceptors or on_bad_record may be running."""
        self.is_woken = False

    # ------------------------------------------------------------------ polling

    def poll(self, timeout: float, limit: int, *, keep_position: bool = False) -> Records:
        """Records as soon as there are any; an empty dict after `timeout` seconds, or after a wake-up."""
        records: Records = self._poll(timeout, lambda: self._collect(limit, keep_position))
        return records

    def poll_columns(self, timeout: float, limit: int) -> dict[TopicPartition, Columns]:
        """As `poll`, in columns; `limit` may be exceeded by the last batch."""
        columns: dict[TopicPartition, Columns] = self._poll(timeout, lambda: self._collect_columns(limit))
        return columns

    def _poll(self, timeout: float, collect: Callable[[], dict[TopicPartition, Any]]) -> Any:
        if self._is_in_pass:
            raise IllegalState(
                "poll() inside a deserializer, an interceptor or on_bad_record would read the same records "
                "again; return first"
            )
        try:
            return self._poll_until(self._driver.clock.monotonic() + timeout, collect)
        finally:
            for task in self._poll_tasks:
                task.on_return()

    def _poll_until(self, deadline: float, collect: Callable[[], dict[TopicPartition, Any]]) -> Any:
        while True:
            arrivals, version = self._buffer.arrivals, self._metadata.version
            if version != self._matched_as_of:
                self._subscription.match(self._metadata.snapshot)
                self._matched_as_of = version
            for task in self._poll_tasks:
                task.attend(max(deadline - self._driver.clock.monotonic(), 0.0))
            self._prepare()
            # Before records are found: once positions have moved, little may happen until they are returned.
            self._watch_progress()
            try:
                self._is_in_pass = True
                found = collect()
            finally:
                self._is_in_pass = False
            if found:
                return found
            remaining = deadline - self._driver.clock.monotonic()
            if self.is_woken or remaining <= 0:
                self.is_woken = False
                return {}
            due_in = min((task.due_in() for task in self._poll_tasks), default=remaining)
            if self._resume is not None:
                due_in = min(due_in, self._resume.due_in())
            self._wait_for_news(arrivals, version, min(remaining, due_in), self._is_called)

    def _watch_progress(self) -> None:
        try:
            stuck = self.progress.look()
        except ConsumerStalled as error:
            if not self.progress.is_reading:
                raise
            logger.warning("%s", error)  # the others' records come first
            return
        if stuck:
            self._subscription.unsent.update(stuck)
            for partition in stuck:
                self._driver.call_soon(lambda now, one=partition: self._fetcher.rediscover(one))  # type: ignore[misc]
            self.send_changes()

    def _is_called(self) -> bool:
        """Woken, or a task is to be attended to."""
        return self.is_woken or any(task.has_news() for task in self._poll_tasks)

    def _wait_for_news(
        self, arrivals: int, version: int, timeout: float, or_else: Callable[[], bool] = lambda: False
    ) -> None:
        buffer, metadata, watch, resume = self._buffer, self._metadata, self._watch, self._resume

        def is_news() -> bool:
            if buffer.arrivals != arrivals or metadata.version != version or watch.is_hopeless():
                return True
            return or_else() or (resume is not None and resume.has_news())

        self._driver.wait_until(is_news, min(timeout, watch.patience(), self.progress.patience()))

    def position(self, partition: TopicPartition, timeout: float) -> int:
        """The next offset to be handed over; waits while a reset is under way."""
        deadline = self._driver.clock.monotonic() + timeout
        while True:
            self._subscription.find(partition)
            arrivals, version = self._buffer.arrivals, self._metadata.version
            self._prepare()
            position = self._subscription.positions.get(partition)
            if position is not None:
                return position
            self._raise_problem_of(partition)
            remaining = deadline - self._driver.clock.monotonic()
            if remaining <= 0:
                asked = self._resume is not None and self._resume.why_unknown(partition)
                if asked:
                    raise KafkaTimeoutError(f"no position of {partition} within {timeout:g} s: {asked}")
                raise self._watch.failure_of(partition, timeout)
            self._wait_for_news(arrivals, version, remaining)

    # ------------------------------------------------------------------ moving positions

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._subscription.seek(partition, offset)
        self.send_changes()

    def rewind(self, partition: TopicPartition, offset: int) -> None:
        """Read again what was not handed out."""
        self._subscription.rewind(partition, offset)
        self.send_changes()

    def reset(self, partitions: Iterable[TopicPartition], policy: str) -> None:
        """Go where the policy says, as soon as it is known where that is in each of these partitions."""
        timestamp = reset_timestamp(policy, self._driver.clock.wall_ms())
        for partition in partitions:
            self._subscription.begin_reset(partition, timestamp)
        self.send_changes()

    def pause(self, partitions: Iterable[TopicPartition], is_paused: bool) -> None:
        for partition in partitions:
            self._subscription.pause(partition, is_paused)
        self.send_changes()

    def send_changes(self) -> None:
        """Have the driver's thread follow what has changed; what it fetched of such partitions is void."""
        subscription, buffer, fetcher = self._subscription, self._buffer, self._fetcher
        unsent, unsent_pauses = sorted(subscription.unsent), sorted(subscription.unsent_pauses)
        commands: list[Callable[[], None]] = []
        for partition in unsent:
            buffer.discard(partition)
            assigned = subscription.assigned.get(partition)
            position = subscription.positions.get(partition)
            if assigned is None:
                commands.append(partial(fetcher.end, (partition,)))
            elif assigned.resetting_to is not None:
                commands.append(partial(fetcher.reset, partition, assigned.generation, assigned.resetting_to))
            elif position is not None:
                epoch = subscription.leader_epochs.get(partition, -1)
                commands.append(partial(fetcher.begin, partition, assigned.generation, position, epoch))
        paused = subscription.paused()
        for partition in unsent_pauses:
            act = fetcher.pause if partition in paused else fetcher.resume
            commands.append(partial(act, (partition,)))

        def obey(now: float) -> None:
            for command in commands:
                command()

        if commands:
            self._driver.call_soon(obey)
        subscription.unsent.difference_update(unsent)
        subscription.unsent_pauses.difference_update(unsent_pauses)

    # ------------------------------------------------------------------ before each look

    def _prepare(self) -> None:
        """Bring subscription and positions up to date; raises what stands in the way for good."""
        subscription = self._subscription
        if subscription.wanted_topics != self._pinned:
            self._assigned_as_of = -1
            self._metadata.pin_topics(subscription.wanted_topics)
            self._pinned = subscription.wanted_topics
        version = self._metadata.version
        if subscription.reads_all_partitions and version != self._assigned_as_of:
            self._assign_all_partitions()
            self._assigned_as_of = version
        self._watch.check()
        if self._to_read_again:
            self._read_again()
        if subscription.unsent or subscription.unsent_pauses:
            self.send_changes()  # a Ctrl-C kept the call that made the change from sending it
        resets = self._buffer.resets()
        if resets:
            subscription.end_resets(resets)
            self._buffer.drop_resets(resets)
        missing = subscription.without_position()
        # An answer is taken also where what was asked for is not this consumer's any more.
        if missing or (self._resume is not None and self._resume.has_news()):
            self._find_first_positions(missing)

    def _read_again(self) -> None:
        """What could not be read may have been damaged on its way, or be whole on the broker by now."""
        for partition, generation in self._to_read_again.items():
            assigned = self._subscription.assigned.get(partition)
            if assigned is not None and assigned.generation == generation:
                self._subscription.unsent.add(partition)
        self._to_read_again.clear()

    def _assign_all_partitions(self) -> None:
        """Without a group, a subscription means every partition of its topics."""
        subscription = self._subscription
        partitions = [partition for partition in subscription.assigned if self._is_in_doubt(partition.topic)]
        for topic in sorted(subscription.topics):
            known = self._metadata.topic(topic)
            if known is not None and known.is_usable:
                partitions += [TopicPartition(topic, number) for number in sorted(known.partitions)]
        subscription.replace(partitions)
        self.send_changes()

    def _is_in_doubt(self, topic: str) -> bool:
        known = self._metadata.topic(topic)
        return topic in self._subscription.topics and (known is None or not known.is_usable)

    def _find_first_positions(self, partitions: list[TopicPartition]) -> None:
        if self._resume is not None:
            partitions = self._resume.without_commit(partitions)
            self.send_changes()
            if not partitions:
                return
        if self._options.auto_offset_reset == NONE:
            raise NoOffsetForPartition(
                f"{', '.join(map(str, partitions))}: no position is known, and auto_offset_reset is 'none'; "
                "call seek()"
            )
        self.reset(partitions, self._options.auto_offset_reset)

    # ------------------------------------------------------------------ one look through the buffer

    def _collect(self, limit: int, keep_position: bool = False) -> Records:
        """Records, unless there are none, or interceptors keep all of those that there are."""
        if not self._interceptors:
            return self._collect_once(limit, keep_position)[0]
        handed_over, is_more = self._collect_once(limit, keep_position)
        while is_more and not handed_over and not keep_position:
            handed_over, is_more = self._collect_once(limit, keep_position)
        return handed_over

    def _collect_once(self, limit: int, keep_position: bool) -> tuple[Records, bool]:
        """What is left of the records found, and whether there were some."""
        found: Records = {}
        count = 0
        this = self._begin_pass()
        check_crcs, limit_bytes = self._options.check_crcs, self._options.max_decompressed_bytes

        deserialize = self._deserializing.run

        def take(item: FetchedData, position: int, wanted: int, into: list[ConsumerRecord]) -> int:
            before = len(into)
            try:
                return item.take(position, wanted, into, check_crcs, limit_bytes)
            finally:
                deserialize(into, before)

        for partition, assigned in self._readable(this):
            records: list[ConsumerRecord] = []
            self._read(this, partition, assigned, limit - count, records, take)
            if this.failed is not None and records:
                this.positions[partition] = records[-1].offset + 1
                this.leader_epochs[partition] = records[-1].leader_epoch
            if records:
                found[partition] = records
                count += len(records)
            if this.failed is not None or count >= limit:
                break
        if keep_position:
            this.positions.clear()
            this.leader_epochs.clear()
            this.done.clear()
            if found:
                this.failed = None  # it is met again behind the records, which come again
        handed_over = self._interceptors.on_consume(found) if found else found
        self._finish(this, bool(found))
        return handed_over, bool(found)

    def _collect_columns(self, limit: int) -> dict[TopicPartition, Columns]:
        found: dict[TopicPartition, Columns] = {}
        count = 0
        this = self._begin_pass()
        check_crcs, limit_bytes = self._options.check_crcs, self._options.max_decompressed_bytes

        def take(item: FetchedData, position: int, wanted: int, into: Columns) -> int:
            return item.take_columns(position, wanted, into, check_crcs, limit_bytes)

        for partition, assigned in self._readable(this):
            columns = Columns()
            self._read(this, partition, assigned, limit - count, columns, take)
            if this.failed is not None and columns:
                this.positions[partition] = columns.last_offset + 1
                this.leader_epochs[partition] = -1  # columns do not tell it
            if columns:
                found[partition] = columns
                count += len(columns)
            if this.failed is not None or count >= limit:
                break
        self._finish(this, bool(found))
        return found

    def _begin_pass(self) -> _Pass:
        """Raises what the pass before could not say because it had records to hand over."""
        done, self._done = self._done, []
        if done:
            self._buffer.drop(done)
        self._raise_failed()
        return _Pass(self._subscription.changes)

    def _raise_failed(self) -> None:
        """Raise what was noted, unless the application reads from elsewhere by now.

        Nothing may lead from a frame in the traceback back to the error: such a circle keeps all that was
        being decoded until the garbage collector comes by.
        """
        failed, self._failed = self._failed, None
        if failed is None:
            return
        assigned = self._subscription.assigned.get(failed.partition)
        if assigned is None or assigned.generation != failed.generation:
            return
        if failed.bad is not None and self._pass_over(failed.bad, failed.generation):
            return
        if failed.is_unreadable:
            self._to_read_again[failed.partition] = failed.generation
        error = failed.error
        del failed
        try:
            raise error
        finally:
            del error

    def _readable(self, this: _Pass) -> Iterable[tuple[TopicPartition, Assigned]]:
        """Partitions with data that are neither paused nor let go, the one served longest ago first."""
        for partition in self._buffer.partitions():
            assigned = self._subscription.assigned.get(partition)
            if assigned is None:
                self._buffer.discard(partition)
            elif assigned.is_readable:
                this.served.append(partition)
                yield partition, assigned

    def _read(
        self,
        this: _Pass,
        partition: TopicPartition,
        assigned: Assigned,
        limit: int,
        into: Any,
        take: Take,
    ) -> None:
        """Take up to `limit` records of one partition; what goes wrong is noted in the pass."""
        position = self._subscription.positions.get(partition)
        this.generations[partition] = assigned.generation
        try:
            for item in self._buffer.items(partition):
                if item.generation != assigned.generation:
                    this.done.append(item)
                    continue
                if isinstance(item, Problem):
                    if not into:
                        self._on_problem(item)
                        this.positions.pop(partition, None)  # it is being reset
                    break
                if position is None:
                    break  # its reset has just been put into the buffer: the next look takes it
                # More than once where records were passed over.
                while (item.next_offset > position or item.error is not None) and len(into) < limit:
                    position = this.positions[partition] = take(item, position, limit, into)
                    this.leader_epochs[partition] = item.leader_epoch
                if position < item.next_offset:
                    break
                this.done.append(item)
                if len(into) >= limit:
                    break
        except KafkaError as error:
            is_unreadable = isinstance(item, FetchedData) and not isinstance(error, SerializationError)
            bad = self._bad(item, position, error) if is_unreadable else None
            this.failed = _Failure(partition, assigned.generation, without_frames(error), is_unreadable, bad)

    def _finish(self, this: _Pass, has_records: bool) -> None:
        """Make it count: one update moves all positions, and little comes between that and the return."""
        for partition in this.served:
            self._buffer.serve_last(partition)
        self._failed = this.failed
        if this.as_of != self._subscription.changes:
            self._keep_elsewhere(this)
        positions, epochs = self._subscription.positions, self._subscription.leader_epochs
        if has_records:
            self.moved = moved = {}
            for one in this.positions:
                moved[one] = this.positions[one], positions[one], epochs.get(one)
        epochs.update(this.leader_epochs)
        positions.update(this.positions)
        self._done = this.done
        this.failed = None
        if not has_records:
            self._raise_failed()

    def _keep_elsewhere(self, this: _Pass) -> None:
        """A deserializer or an interceptor has called seek(), say: that counts, and not what was read."""
        for partition, generation in this.generations.items():
            assigned = self._subscription.assigned.get(partition)
            if assigned is None or assigned.generation != generation:
                this.positions.pop(partition, None)
                this.leader_epochs.pop(partition, None)

    def take_back(self) -> None:
        """An exception has kept the records of the last pass from the application: they come again."""
        moved, self.moved = self.moved, None
        positions, epochs = self._subscription.positions, self._subscription.leader_epochs
        for partition, (after, before, epoch) in (moved or {}).items():
            if positions.get(partition) == after:  # else they had not moved yet
                positions[partition] = before
                if epoch is None:
                    epochs.pop(partition, None)
                else:
                    epochs[partition] = epoch
        if moved:
            self._failed, self._done = None, []

    # ------------------------------------------------------------------ what can go wrong

    def _bad(self, item: Item, position: int | None, error: KafkaError) -> BadRecord | None:
        """What may be passed over instead of raising; None where that is not asked for, or would not help."""
        if self.bad_records.raises or position is None or not isinstance(item, FetchedData):
            return None
        if not isinstance(error, CorruptData | CorruptMessage):
            return None  # a codec that is not installed, say
        damage = item.damage(position, self._fetcher.high_watermarks.get(item.partition))
        if damage is None:
            return None
        batch = bytes(damage.view) if self.bad_records.wants_batch else None
        return BadRecord(*item.partition, damage.offset, damage.next_offset, error, batch=batch)

    def _pass_over(self, bad: BadRecord, generation: int) -> bool:
        """Read a damaged batch once more, then go on behind it, unless its policy raises."""
        partition = bad.topic_partition
        if not self.bad_records.is_met_again(bad, generation):
            self._subscription.unsent.add(partition)
            self.send_changes()
            return True
        self.bad_records.pass_over(bad)
        self._subscription.pass_over(partition, bad.next_offset)
        self.send_changes()
        return True

    def _raise_problem_of(self, partition: TopicPartition) -> None:
        assigned = self._subscription.find(partition)
        for item in self._buffer.items(partition):
            if isinstance(item, Problem) and item.generation == assigned.generation:
                try:
                    self._on_problem(item)
                except KafkaError as error:
                    self._failed = _Failure(partition, assigned.generation, without_frames(error))
        self._raise_failed()

    def _on_problem(self, problem: Problem) -> None:
        """Reset the position, if that is the policy; else raise, and go on trying."""
        partition, policy = problem.partition, self._options.auto_offset_reset
        if problem.is_new_topic:
            if policy == NONE:
                raise NoOffsetForPartition(f"{problem.error}, and auto_offset_reset is 'none'; call seek()")
            logger.warning("%s; going to %s", problem.error, policy)
            self.reset([partition], policy)
            return
        if isinstance(problem.error, LogTruncated):
            if policy == NONE:
                raise copy(problem.error)
            logger.warning("%s; going there", problem.error)
            self._subscription.seek(partition, problem.error.offset, problem.error.leader_epoch)
            self.send_changes()
            return
        if isinstance(problem.error, OffsetOutOfRange):
            if policy == NONE:
                raise OffsetOutOfRange(
                    f"{partition}: offset {problem.offset} is not in the log (any more), and "
                    "auto_offset_reset is 'none'; seek, for example to beginning_offsets()"
                )
            logger.info("%s: offset %d is out of range, going to %s", partition, problem.offset, policy)
            self.reset([partition], policy)
            return
        assigned = self._subscription.find(partition)
        if assigned.is_resetting:
            assigned.resetting_to = None  # the next look begins another reset
        else:
            self._subscription.unsent.add(partition)
        self._buffer.drop([problem])
        self.send_changes()
        raise problem.error
