"""One pass over the fetch buffer, from fetched data to the records that poll() returns.

Used on the caller's thread. It decodes, deserializes, calls the interceptors, and moves all positions in
one step at the end, so an error or a Ctrl-C before that loses no record. Records that a deserializer
rejects go to bad_records.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import attrs

from pykafka2.consumer.bad_records import BadRecords
from pykafka2.consumer.fetch.buffer import FetchBuffer, Item
from pykafka2.consumer.fetch.fetched_data import FetchedData, Problem
from pykafka2.consumer.interceptors import Interceptors
from pykafka2.consumer.options import ConsumerOptions
from pykafka2.consumer.poll.errors import Failure, PollErrors
from pykafka2.consumer.state.iteration_queue import Records
from pykafka2.consumer.state.subscription import Assigned, Subscription
from pykafka2.errors import KafkaError, SerializationError
from pykafka2.records.columns import Columns
from pykafka2.serializers import deserialize_function
from pykafka2.text import brief
from pykafka2.types import BadRecord, ConsumerRecord, TopicPartition

Take = Callable[[FetchedData, int, int, Any], int]


@attrs.define
class _Pass:
    """One look through the buffer: nothing of it counts before `Collector._finish`."""

    as_of: int
    """What `Subscription.changes` was at its beginning."""
    positions: dict[TopicPartition, int] = attrs.Factory(dict)
    generations: dict[TopicPartition, int] = attrs.Factory(dict)
    leader_epochs: dict[TopicPartition, int] = attrs.Factory(dict)
    done: list[Item] = attrs.Factory(list)
    served: list[TopicPartition] = attrs.Factory(list)
    failed: Failure | None = None
    reached: int | None = None
    """Where the partition that failed is read on: what lies before it was taken, or passed over."""
    stays_first: TopicPartition | None = None
    """It has a large batch open, which is read to its end before another partition's is opened."""
    is_unfinished: bool = False
    """A large batch is open in part, or as many bad records as poll() may return were skipped: the next pass
    continues there."""


class Collector:
    """Collects records, or columns."""

    def __init__(
        self,
        options: ConsumerOptions,
        subscription: Subscription,
        buffer: FetchBuffer,
        problems: PollErrors,
        interceptors: Interceptors,
    ) -> None:
        self._options = options
        self._subscription = subscription
        self._buffer = buffer
        self._poll_errors = problems
        self._on_consume = interceptors.on_consume if interceptors else None
        self._deserializing = Deserializing(options, problems.bad_records)
        self._done: list[Item] = []
        """What the pass before has read to its end."""
        self.moved: dict[TopicPartition, tuple[int, int, int | None]] | None = None
        """Where the last pass found records: the positions after and before, and the leader epochs before."""
        self.is_unfinished = False
        """The last pass stopped to let poll() check its timeout, not because there was nothing more."""

    def records(self, limit: int, keep_position: bool = False) -> Records:
        """Records, unless there are none, or interceptors keep all of those that there are."""
        if self._on_consume is None:
            return self._collect_once(limit, keep_position)[0]
        handed_over, is_more = self._collect_once(limit, keep_position)
        if is_more and not handed_over and not keep_position:
            self.moved = None  # the interceptors dropped these records, so they do not come again
            self.is_unfinished = True
        return handed_over

    def _collect_once(self, limit: int, keep_position: bool) -> tuple[Records, bool]:
        """Return the records after the interceptors, and whether there were any before."""
        this = self._begin_pass()
        if this is None:
            return {}, False
        found: Records = {}
        count = 0
        check_crcs, limit_bytes = self._options.check_crcs, self._options.max_decompressed_bytes

        deserializing = self._deserializing
        deserialize = deserializing.run

        def take(item: FetchedData, position: int, wanted: int, into: list[ConsumerRecord[Any, Any]]) -> int:
            before = len(into)
            try:
                return item.take(position, wanted, into, check_crcs, limit_bytes)
            except KafkaError:
                this.reached = into[-1].offset + 1 if len(into) > before else None
                raise
            finally:
                try:
                    deserialize(into, before)
                except SerializationError:
                    this.reached = deserializing.refused_at
                    raise

        for partition, assigned in self._readable(this):
            records: list[ConsumerRecord[Any, Any]] = []
            self._read(this, partition, assigned, limit - count, records, take)
            if this.failed is not None and this.reached is not None:
                this.positions[partition] = this.reached
                this.leader_epochs[partition] = records[-1].leader_epoch if records else -1
            if records:
                found[partition] = records
                count += len(records)
            if this.failed is not None or this.stays_first is not None:
                break
            if count + deserializing.passed_over >= limit:
                break
        if keep_position:
            _keep_positions(this, found)
        handed_over = self._on_consume(found) if found and self._on_consume is not None else found
        self._finish(this, bool(found))
        return handed_over, bool(found)

    def columns(self, limit: int) -> dict[TopicPartition, Columns]:
        this = self._begin_pass()
        if this is None:
            return {}
        found: dict[TopicPartition, Columns] = {}
        count = 0
        check_crcs, limit_bytes = self._options.check_crcs, self._options.max_decompressed_bytes

        def take(item: FetchedData, position: int, wanted: int, into: Columns) -> int:
            return item.take_columns(position, wanted, into, check_crcs, limit_bytes)

        for partition, assigned in self._readable(this):
            columns = Columns()
            self._read(this, partition, assigned, limit - count, columns, take)
            if this.failed is not None and columns:
                this.positions[partition] = max(this.positions.get(partition, 0), columns.last_offset + 1)
                this.leader_epochs[partition] = -1  # columns do not tell it
            if columns:
                found[partition] = columns
                count += len(columns)
            if this.failed is not None or count >= limit or this.stays_first is not None:
                break
        self._finish(this, bool(found))
        return found

    def _begin_pass(self) -> _Pass | None:
        """None where nothing is fetched, as a poll that waits finds first.  Raises what the pass before could
        not say because it had records to hand over."""
        self.is_unfinished = False
        self._deserializing.passed_over = 0
        done, self._done = self._done, []
        if done:
            self._buffer.drop(done)
        if self._poll_errors.noted is not None:
            self._poll_errors.raise_noted()
        return None if self._buffer.is_empty else _Pass(self._subscription.changes)

    def _readable(self, this: _Pass) -> Iterable[tuple[TopicPartition, Assigned]]:
        """Partitions with data that are neither paused nor let go, the one served longest ago first."""
        for partition in self._buffer.partitions():
            assigned = self._subscription.assigned.get(partition)
            if assigned is None:
                self._buffer.discard([partition])
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
                if position is not None and item.offset > position:
                    this.done.append(item)  # asked for before reading began anew here, and come since
                    continue
                if isinstance(item, Problem):
                    if not into:
                        self._poll_errors.meet(item)
                        this.positions.pop(partition, None)  # it is being reset
                    break
                if position is None:
                    break  # its reset has just been put into the buffer: the next look takes it
                # More than once where records were passed over.
                while (item.next_offset > position or item.error is not None) and len(into) < limit:
                    position = this.positions[partition] = take(item, position, limit, into)
                    this.leader_epochs[partition] = item.leader_epoch
                    if item.is_unfinished or self._deserializing.passed_over >= limit:
                        this.is_unfinished = True
                        break
                if position < item.next_offset or item.error is not None:
                    if item.open_bytes * len(self._subscription.assigned) > self._options.queued_max_bytes:
                        this.stays_first = partition
                    break  # there is more to take, or to raise, of what the limit has kept from it
                this.done.append(item)
                if len(into) >= limit or this.is_unfinished:
                    break
        except KafkaError as error:
            this.failed = self._poll_errors.failure(item, position, assigned.generation, error)

    def _finish(self, this: _Pass, has_records: bool) -> None:
        """Make it count: one update moves all positions, and little comes between that and the return."""
        for partition in this.served:
            if partition != this.stays_first:
                self._buffer.serve_last(partition)
        self._poll_errors.noted = this.failed
        if this.as_of != self._subscription.changes:
            self._keep_elsewhere(this)
        positions, epochs = self._subscription.positions, self._subscription.leader_epochs
        if has_records:
            self.moved = moved = {}
            for one in this.positions:
                if one not in positions:
                    continue  # a signal handler has just given it up
                moved[one] = this.positions[one], positions[one], epochs.get(one)
        epochs.update(this.leader_epochs)
        positions.update(this.positions)
        self._done = this.done
        self.is_unfinished = this.is_unfinished
        this.failed = None
        if not has_records:
            self._poll_errors.raise_noted()

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
            self._poll_errors.noted, self._done = None, []


def _keep_positions(this: _Pass, found: Records) -> None:
    """Make the records of this pass come again.

    Partitions without records still move past hidden batches: a buffer full of these would never be emptied.
    """
    for partition in found:
        this.positions.pop(partition, None)
        this.leader_epochs.pop(partition, None)
    this.done = [item for item in this.done if item.partition not in found]
    if this.stays_first in found:
        this.stays_first = None
    if found:
        this.failed = None  # it is met again behind the records, which come again


class Deserializing:
    """Keys and values from bytes to what the application wants."""

    def __init__(self, options: ConsumerOptions, bad_records: BadRecords) -> None:
        self._key_of = deserialize_function(options.key_deserializer, "key_deserializer")
        self._value_of = deserialize_function(options.value_deserializer, "value_deserializer")
        self._bad_records = bad_records
        self.refused_at: int | None = None
        """The offset of the record that was last raised for."""
        self.passed_over = 0
        """Bad records that were skipped since a pass began."""

    def run(self, records: list[ConsumerRecord[Any, Any]], start: int) -> None:
        """Deserialize the records from index `start` on; those that are passed over are taken out.

        Raises:
            SerializationError: a record may not be passed over; those before it stay, the rest is taken out.
        """
        if self._key_of is None and self._value_of is None:
            return
        while (start := self._run_to_failure(records, start)) < len(records):
            del records[start]
            self.passed_over += 1

    def _run_to_failure(self, records: list[ConsumerRecord[Any, Any]], start: int) -> int:
        """The index of the next record that is to be passed over, or how many there are."""
        key_of, value_of = self._key_of, self._value_of
        what, key = "key", None
        for index in range(start, len(records)):
            record = records[index]
            try:
                if key_of is not None and (key := record.key) is not None:
                    what = "key"
                    record.key = key_of(record.topic, record.headers, key)
                if value_of is not None and record.value is not None:
                    what = "value"
                    record.value = value_of(record.topic, record.headers, record.value)
            except Exception as error:
                try:
                    self._pass_over(record, key if key_of is not None else record.key, what, error)
                except SerializationError:
                    self.refused_at = record.offset
                    del records[index:]
                    raise
                return index
        return len(records)

    def _pass_over(
        self, record: ConsumerRecord[Any, Any], key: bytes | None, what: str, error: Exception
    ) -> None:
        where = f"{record.topic}-{record.partition} at offset {record.offset}"
        more = "; to skip the record, seek past it, or give on_bad_record" if self._bad_records.raises else ""
        failure = SerializationError(f"{where}: the {what}_deserializer failed: {brief(error)}{more}")
        failure.__cause__ = error
        self._bad_records.pass_over(
            BadRecord(
                record.topic,
                record.partition,
                record.offset,
                record.offset + 1,
                failure,
                timestamp=record.timestamp,
                key=key,
                value=record.value,
                headers=record.headers,
            )
        )
