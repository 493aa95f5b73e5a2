"""One pass over the fetch buffer, from fetched data to the records that poll() returns.

Used on the caller's thread. It decodes, deserializes, calls the interceptors, and moves all positions in
one step at the end, so an error or a Ctrl-C before that loses no record. Records that a deserializer
rejects go to bad_records.py.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Any

from pykafka2.consumer.bad_records import BadRecords, undeserialized
from pykafka2.consumer.fetch.buffer import FetchBuffer, Item
from pykafka2.consumer.fetch.fetched_data import FetchedData, Problem
from pykafka2.consumer.interceptors import Interceptors
from pykafka2.consumer.options import ConsumerOptions
from pykafka2.consumer.poll.errors import Failure, PollErrors
from pykafka2.consumer.poll.meters import Consumption
from pykafka2.consumer.state.iteration_queue import Records
from pykafka2.consumer.state.subscription import Assigned, Subscription
from pykafka2.errors import KafkaError, SerializationError
from pykafka2.records.columns import Columns, GrowingColumns
from pykafka2.serializers import deserialize_function
from pykafka2.slotted import slot, slotted
from pykafka2.types import ConsumerRecord, TopicPartition

Take = Callable[[FetchedData, int, int, Any], int]


@slotted
class _Pass:
    """One pass over the buffer: nothing of it takes effect before `Collector._finish`."""

    as_of: int
    """`Subscription.changes` at the start of the pass."""
    positions: dict[TopicPartition, int] = slot(factory=dict)
    generations: dict[TopicPartition, int] = slot(factory=dict)
    leader_epochs: dict[TopicPartition, int] = slot(factory=dict)
    done: list[Item] = slot(factory=list)
    served: list[TopicPartition] = slot(factory=list)
    failed: Failure | None = None
    next_position: int | None = None
    """The position in the failed partition: the records before it were taken or skipped."""
    stays_first: TopicPartition | None = None
    """The partition with an open large batch, which is read to its end before another one is opened."""
    is_unfinished: bool = False
    """Whether the next pass continues: a large batch is partly read, or the limit of records was skipped."""
    only: Container[TopicPartition] | None = None
    """The partitions to read; all if None."""


class Collector:
    """Collects records or columns from the fetch buffer."""

    def __init__(
        self,
        options: ConsumerOptions,
        subscription: Subscription,
        buffer: FetchBuffer,
        poll_errors: PollErrors,
        interceptors: Interceptors,
        consumption: Consumption,
    ) -> None:
        self._options = options
        self._subscription = subscription
        self._buffer = buffer
        self._poll_errors = poll_errors
        self._on_consume = interceptors.on_consume if interceptors.consumes else None
        self._on_columns = interceptors.on_columns if interceptors.sees_columns else None
        self._deserializers = Deserializers(options, poll_errors.bad_records)
        self._consumption = consumption
        self._done: list[Item] = []
        """Items that the last pass has read to their end; the next pass drops them from the buffer."""
        self.moved: dict[TopicPartition, tuple[int, int, int | None]] | None = None
        """For partitions with records in the last pass: positions after and before, leader epochs before."""
        self.is_unfinished = False
        """Whether the last pass ended early so that poll() can check its timeout."""

    def records(
        self, limit: int, keep_position: bool = False, only: Container[TopicPartition] | None = None
    ) -> Records:
        """Return records; empty if there are none, or if the interceptors drop all of them.

        With `only` the records of other partitions stay in the buffer.
        """
        if self._on_consume is None:
            return self._collect_once(limit, keep_position, only)[0]
        returned, is_more = self._collect_once(limit, keep_position, only)
        if is_more and not returned and not keep_position:
            self.moved = None  # the interceptors dropped these records, so they are not returned again
            self.is_unfinished = True
        return returned

    def _collect_once(
        self, limit: int, keep_position: bool, only: Container[TopicPartition] | None
    ) -> tuple[Records, bool]:
        """Return the records after the interceptors, and whether there were any before them."""
        current = self._begin_pass()
        if current is None:
            return {}, False
        current.only = only
        check_crcs, limit_bytes = self._options.check_crcs, self._options.max_decompressed_bytes

        deserializers = self._deserializers
        deserialize = deserializers.run if deserializers.has_any else None

        def take(item: FetchedData, position: int, wanted: int, into: list[ConsumerRecord[Any, Any]]) -> int:
            before = len(into)
            try:
                return item.take(position, wanted, into, check_crcs, limit_bytes)
            except KafkaError:
                current.next_position = into[-1].offset + 1 if len(into) > before else None
                raise
            finally:
                if deserialize is not None:
                    try:
                        deserialize(into, before)
                    except SerializationError:
                        current.next_position = deserializers.failed_at
                        raise

        found = self._collect(current, limit, lambda _: [], take)
        if keep_position:
            _keep_positions(current, found)
        returned = self._on_consume(found) if found and self._on_consume is not None else found
        self._finish(current, bool(found))
        return returned, bool(found)

    def columns(self, limit: int) -> dict[TopicPartition, Columns]:
        current = self._begin_pass()
        if current is None:
            return {}
        check_crcs, limit_bytes = self._options.check_crcs, self._options.max_decompressed_bytes

        def take(item: FetchedData, position: int, wanted: int, into: GrowingColumns) -> int:
            try:
                return item.take_columns(position, wanted, into, check_crcs, limit_bytes)
            except KafkaError:
                current.next_position = max(position, into.last_offset + 1) if into else None
                raise

        found = self._collect(current, limit, GrowingColumns, take)
        if found and self._on_columns is not None:
            self._on_columns(found)
        self._finish(current, bool(found))
        return found

    def _collect(
        self, current: _Pass, limit: int, new: Callable[[TopicPartition], Any], take: Take
    ) -> dict[TopicPartition, Any]:
        """Return up to `limit` records of all readable partitions, in what `new` returns for each."""
        found: dict[TopicPartition, Any] = {}
        count = 0
        for partition, assigned in self._readable(current):
            taken = new(partition)
            self._read(current, partition, assigned, limit - count, taken, take)
            if current.failed is not None and current.next_position is not None:
                current.positions[partition] = current.next_position
                current.leader_epochs[partition] = _leader_epoch(taken)
            if taken:
                found[partition] = taken
                count += len(taken)
                self._consumption.returned(partition, assigned, len(taken), current.positions)
            if current.failed is not None or current.stays_first is not None:
                break
            if count + self._deserializers.skipped >= limit:
                break
        return found

    def _begin_pass(self) -> _Pass | None:
        """Start a pass; return None if nothing is fetched.

        Raise the error of the last pass if that returned records instead.
        """
        self.is_unfinished = False
        self.moved, self._consumption.last = {}, []
        self._deserializers.skipped = 0
        if self._done:
            self._buffer.drop(self._done)
            self._done = []  # last: after a Ctrl-C in the drop the next pass repeats it
        if self._poll_errors.noted is not None:
            self._poll_errors.raise_noted()
        return None if self._buffer.is_empty else _Pass(self._subscription.changes)

    def _readable(self, current: _Pass) -> Iterable[tuple[TopicPartition, Assigned]]:
        """Iterate over the readable partitions with data, the least recently served first."""
        for partition in self._buffer.partitions():
            assigned = self._subscription.assigned.get(partition)
            if assigned is None:
                self._buffer.discard([partition])
            elif assigned.is_readable and (current.only is None or partition in current.only):
                current.served.append(partition)
                yield partition, assigned

    def _read(
        self,
        current: _Pass,
        partition: TopicPartition,
        assigned: Assigned,
        limit: int,
        into: Any,
        take: Take,
    ) -> None:
        """Take up to `limit` records of one partition; an error is noted in the pass."""
        position = self._subscription.positions.get(partition)
        current.generations[partition] = assigned.generation
        try:
            for item in self._buffer.items(partition):
                if item.generation != assigned.generation:
                    current.done.append(item)
                    continue
                if position is not None and item.offset > position:
                    current.done.append(item)  # fetched for a later position, before a change
                    continue
                if isinstance(item, Problem):
                    if not into:
                        self._poll_errors.handle(item)
                        current.positions.pop(partition, None)  # it is being reset
                    break
                if position is None:
                    break  # its reset has just arrived in the buffer; the next pass applies it
                # Repeats if records were skipped.
                while (item.next_offset > position or item.error is not None) and len(into) < limit:
                    position = current.positions[partition] = take(item, position, limit, into)
                    current.leader_epochs[partition] = item.leader_epoch
                    if item.is_unfinished or self._deserializers.skipped >= limit:
                        current.is_unfinished = True
                        break
                if position < item.next_offset or item.error is not None:
                    if item.open_bytes * len(self._subscription.assigned) > self._options.queued_max_bytes:
                        current.stays_first = partition
                    break  # the limit left records or an error in this item
                current.done.append(item)
                if len(into) >= limit or current.is_unfinished:
                    break
        except KafkaError as error:
            current.failed = self._poll_errors.failure(item, position, assigned.generation, error)

    def _finish(self, current: _Pass, has_records: bool) -> None:
        """Apply the pass: one update moves all positions, and little runs between that and the return."""
        for partition in current.served:
            if partition != current.stays_first:
                self._buffer.move_last(partition)
        self._poll_errors.noted = current.failed
        if current.as_of != self._subscription.changes:
            self._keep_other_moves(current)
        positions, epochs = self._subscription.positions, self._subscription.leader_epochs
        if has_records:
            self.moved = moved = {}
            for partition in current.positions:
                if partition not in positions:
                    continue  # a signal handler has just unassigned it
                moved[partition] = current.positions[partition], positions[partition], epochs.get(partition)
        epochs.update(current.leader_epochs)
        positions.update(current.positions)
        self._set_done(current.done)
        self.is_unfinished = current.is_unfinished
        current.failed = None
        if not has_records:
            self._poll_errors.raise_noted()

    def _keep_other_moves(self, current: _Pass) -> None:
        """Keep positions that a deserializer or an interceptor has moved during the pass, as with seek()."""
        for partition, generation in current.generations.items():
            assigned = self._subscription.assigned.get(partition)
            if assigned is None or assigned.generation != generation:
                current.positions.pop(partition, None)
                current.leader_epochs.pop(partition, None)

    def undo_last_pass(self) -> None:
        """Undo the last pass, because an exception kept its records from the application."""
        moved, self.moved = self.moved, None
        if moved is not None:
            self._consumption.undo()
        positions, epochs = self._subscription.positions, self._subscription.leader_epochs
        for partition, (after, before, epoch) in (moved or {}).items():
            if positions.get(partition) == after:  # otherwise it has not moved yet
                positions[partition] = before
                if epoch is None:
                    epochs.pop(partition, None)
                else:
                    epochs[partition] = epoch
        if moved:
            self._poll_errors.noted = None
            self._set_done([])

    def put_back(self, partition: TopicPartition, offset: int) -> bool:
        """Move the position back to a record whose data is still in the buffer; False if it is not.

        Records of the last pass are, until the next one.
        """
        subscription, assigned = self._subscription, self._subscription.assigned[partition]
        if not any(
            isinstance(item, FetchedData)
            and item.generation == assigned.generation
            and item.offset <= offset < item.next_offset
            for item in self._buffer.items(partition)
        ):
            return False
        subscription.leader_epochs.pop(partition, None)
        subscription.positions[partition] = offset
        noted = self._poll_errors.noted
        if noted is not None and noted.partition == partition:
            self._poll_errors.noted = None  # it occurs again after the records
        self._set_done(
            [
                item
                for item in self._done
                if item.partition != partition or isinstance(item, Problem) or item.next_offset <= offset
            ]
        )
        return True

    def _set_done(self, done: list[Item]) -> None:
        before, self._done = self._done, done
        if done or before:
            self._consumption.drained(done, before)


def _leader_epoch(taken: list[ConsumerRecord[Any, Any]] | Columns) -> int:
    """Return the leader epoch of the last record; -1 for columns, which do not contain it."""
    return taken[-1].leader_epoch if taken and isinstance(taken, list) else -1


def _keep_positions(current: _Pass, found: Records) -> None:
    """Keep the positions of partitions with records, so that the records are returned again.

    Partitions without records still move past hidden batches; otherwise these could fill the buffer.
    """
    for partition in found:
        current.positions.pop(partition, None)
        current.leader_epochs.pop(partition, None)
    current.done = [item for item in current.done if item.partition not in found]
    if current.stays_first in found:
        current.stays_first = None
    if found:
        current.failed = None  # it occurs again after the records, which are returned again


class Deserializers:
    """Converts keys and values with the application's deserializers."""

    def __init__(self, options: ConsumerOptions, bad_records: BadRecords) -> None:
        self._key_of = deserialize_function(options.key_deserializer, "key_deserializer")
        self._value_of = deserialize_function(options.value_deserializer, "value_deserializer")
        self._bad_records = bad_records
        self.has_any = self._key_of is not None or self._value_of is not None
        self.failed_at: int | None = None
        """The offset of the record whose error was raised last."""
        self.skipped = 0
        """Bad records that were skipped since a pass began."""

    def run(self, records: list[ConsumerRecord[Any, Any]], start: int) -> None:
        """Deserialize the records from index `start` on, and remove those that are skipped.

        Raises:
            SerializationError: a record must not be skipped; it and the records after it are removed.
        """
        while (start := self._run_to_failure(records, start)) < len(records):
            del records[start]
            self.skipped += 1

    def _run_to_failure(self, records: list[ConsumerRecord[Any, Any]], start: int) -> int:
        """Return the index of the next record to skip, or the number of records."""
        key_of, value_of = self._key_of, self._value_of
        part, key = "key", None
        for index in range(start, len(records)):
            record = records[index]
            try:
                if key_of is not None and (key := record.key) is not None:
                    part = "key"
                    record.key = key_of(record.topic, record.headers, key)
                if value_of is not None and record.value is not None:
                    part = "value"
                    record.value = value_of(record.topic, record.headers, record.value)
            except Exception as error:
                try:
                    self._skip(record, key if key_of is not None else record.key, part, error)
                except SerializationError:
                    self.failed_at = record.offset
                    del records[index:]
                    raise
                return index
        return len(records)

    def _skip(self, record: ConsumerRecord[Any, Any], key: bytes | None, part: str, error: Exception) -> None:
        more = "; to skip the record, seek past it, or set on_bad_record" if self._bad_records.raises else ""
        self._bad_records.skip(undeserialized(record, key, part, error, more))
