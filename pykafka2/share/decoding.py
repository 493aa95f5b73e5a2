"""The fetched data of a share consumer, from the acquired offsets to the records that poll() returns.

The driver's thread puts data into the buffer; the thread that polls decodes and deserializes it, a batch at a
time. Only acquired offsets are returned, and those without a record are acknowledged as gaps. Records whose
locks have expired meanwhile are dropped, because the brokers deliver them again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from pykafka2.clock import Clock
from pykafka2.consumer.bad_records import BadRecords, undeserialized
from pykafka2.errors import CorruptData, CorruptMessage, KafkaError
from pykafka2.metrics import Metrics
from pykafka2.records.batch import NO_LEADER_EPOCH, RecordBatch
from pykafka2.records.batch_reader import AnyBatch, any_batches, decode_any_columns
from pykafka2.records.columns import GrowingColumns
from pykafka2.records.legacy import LegacyBatch
from pykafka2.records.runs import Run
from pykafka2.serializers import deserialize_function
from pykafka2.share.lock import Lock, Place
from pykafka2.share.locks import Locks
from pykafka2.share.options import ShareConsumerOptions
from pykafka2.share.records import AcknowledgeType, ShareRecord, share_records
from pykafka2.slotted import slot, slotted
from pykafka2.types import BadRecord, TopicPartition

MOST_RECORDS = 10_000
"""Records of one partition that are returned at once beyond max_poll_records, to keep a poll() short."""

Records = dict[TopicPartition, list[ShareRecord[Any, Any]]]


@slotted(eq=False)
class Piece:
    """Records of one batch in a row that were acquired with one delivery count."""

    run: Run
    timestamp_type: int
    leader_epoch: int
    delivery_count: int


@slotted(eq=False)
class AcquiredData:
    """The acquired records of one partition in one response."""

    place: Place
    partition: TopicPartition
    node_id: int
    acquired: list[tuple[int, int, int]]
    """First offset, last offset and delivery count of each range, in order."""
    records: memoryview
    arrived_at: float
    until: float
    """When the locks expire."""
    rest: Iterator[Piece] | None = slot(default=None)
    """The pieces that are not decoded yet."""
    piece: Piece | None = slot(default=None)
    """The records of the current piece that were not returned yet."""
    next_offset: int = -1
    """The first acquired offset that is not accounted for."""
    gaps: list[int] = slot(factory=list)
    """Acquired offsets without a record that are not acknowledged yet."""
    taken: int = 0
    """The number of acquired offsets that do not wait any more."""


class ShareBuffer:
    """Acquired data that no poll() has returned yet. The driver's thread adds, the polling thread takes."""

    def __init__(self) -> None:
        self._data: deque[AcquiredData] = deque()
        self.arrivals = 0

    def put(self, data: AcquiredData) -> None:
        self._data.append(data)
        self.arrivals += 1

    def first(self) -> AcquiredData | None:
        """Return the oldest data."""
        try:
            return self._data[0]
        except IndexError:
            return None

    def done(self, data: AcquiredData) -> None:
        """Remove data that is read to its end."""
        try:
            self._data.remove(data)
        except ValueError:
            pass  # its session has ended meanwhile

    def drop(self, node_id: int) -> None:
        """Remove the data of a broker whose session has ended."""
        for data in [*self._data]:
            if data.node_id == node_id:
                self.done(data)

    def clear(self) -> None:
        self._data.clear()

    def count(self) -> int:
        """Return the number of acquired offsets that wait here. Any thread."""
        return sum(self.partitions().values())

    def partitions(self) -> dict[TopicPartition, int]:
        """Return the number of acquired offsets that wait here, by partition. Any thread."""
        counts: dict[TopicPartition, int] = {}
        for data in [*self._data]:
            count = sum(last - first + 1 for first, last, _ in data.acquired) - data.taken
            if count > 0:
                counts[data.partition] = counts.get(data.partition, 0) + count
        return counts


class ShareCollector:
    """Turns acquired data into records. Used on the thread that polls."""

    def __init__(
        self,
        options: ShareConsumerOptions,
        buffer: ShareBuffer,
        locks: Locks,
        bad_records: BadRecords,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._options = options
        self._buffer = buffer
        self._locks = locks
        self._bad_records = bad_records
        self._clock = clock
        self._key_of = deserialize_function(options.key_deserializer, "key_deserializer")
        self._value_of = deserialize_function(options.value_deserializer, "value_deserializer")
        self._noted: KafkaError | None = None
        self.records = 0
        self.bytes_read = 0
        metrics.counter("records-consumed-total", lambda: self.records)
        metrics.counter("bytes-consumed-total", lambda: self.bytes_read)

    def collect(self, limit: int, *, is_strict: bool) -> tuple[Records, list[Lock]]:
        """Return up to `limit` records and their locks; raise the error of a bad record if no records precede
        it.

        Unless the limit is strict, what brokers have acquired at once is returned as a whole: it is accepted
        as a whole, too, which is much less work for them.
        """
        noted, self._noted = self._noted, None
        if noted is not None:
            raise noted
        found: Records = {}
        locks: list[Lock] = []
        count = 0
        while count < limit and self._noted is None and (data := self._buffer.first()) is not None:
            if self._clock.monotonic() >= data.until:
                self._buffer.done(data)
                continue
            taken: list[ShareRecord[Any, Any]] = []
            delivery = self._delivery_of(data)
            try:
                is_done = self._take(data, delivery, limit - count if is_strict else MOST_RECORDS, taken)
            except KafkaError as error:
                is_done = False
                self._noted = error
            self._locks.deliver(delivery)
            if is_done:
                self._buffer.done(data)
                self.bytes_read += len(data.records)
            if taken:
                count += len(taken)
                locks.append(delivery)
                before = found.get(data.partition)
                found[data.partition] = taken if before is None else before + taken
        self.records += count
        if not found and self._noted is not None:
            noted, self._noted = self._noted, None
            raise noted
        return found, locks

    def _delivery_of(self, data: AcquiredData) -> Lock:
        return self._locks.new(data.place, data.partition, data.node_id, data.arrived_at, data.until)

    def _take(
        self, data: AcquiredData, delivery: Lock, limit: int, into: list[ShareRecord[Any, Any]]
    ) -> bool:
        """Append records, which `delivery` locks; return whether the data is read to its end."""
        if data.rest is None:
            data.rest = self._pieces(data)
        try:
            while len(into) < limit:
                piece = data.piece or next(data.rest, None)
                if piece is None:
                    return True
                data.piece = self._take_of_piece(data, piece, delivery, limit - len(into), into)
            return False
        finally:
            data.taken += len(delivery.offsets) + len(data.gaps)
            if data.gaps:
                gaps = self._delivery_of(data)
                gaps.offsets, data.gaps = data.gaps, []
                self._locks.add_gaps(gaps)

    def _take_of_piece(
        self,
        data: AcquiredData,
        piece: Piece,
        delivery: Lock,
        limit: int,
        into: list[ShareRecord[Any, Any]],
    ) -> Piece | None:
        """Append records of a piece; return what is left of it."""
        size = len(piece.run)
        wanted = piece if size <= limit else _cut(piece, 0, limit)
        batch = wanted.timestamp_type, wanted.leader_epoch, wanted.delivery_count
        records = share_records(wanted.run, *data.partition, *batch, delivery)
        if self._key_of is None and self._value_of is None:
            delivery.offsets += wanted.run.offsets
            into += records
            return None if wanted is piece else _cut(piece, limit, size)
        for number, record in enumerate(records, 1):
            delivery.offsets.append(record.offset)
            try:
                if self._deserialize(record, delivery):
                    into.append(record)
            except KafkaError:
                data.piece = _cut(piece, number, size) if number < size else None
                raise
        return None if wanted is piece else _cut(piece, limit, size)

    def _pieces(self, data: AcquiredData) -> Iterator[Piece]:
        """Yield the records of the acquired offsets, and note offsets without a record as gaps.

        Raises:
            CorruptData, CorruptMessage: a batch is damaged. The records before it were yielded; others are
                decided.
            UnsupportedCompressionType, CodecUnavailable: no codec for a batch; the others are released.
        """
        ranges = iter(data.acquired)
        first, last, count = next(ranges)
        data.next_offset = first
        try:
            for batch in any_batches(data.records, data.partition):
                if isinstance(batch, RecordBatch) and batch.is_control:
                    continue
                columns = GrowingColumns()
                error = self._decode(batch, columns, data)
                kind, epoch = batch.timestamp_type, _leader_epoch_of(batch)
                for run in columns.runs():
                    offsets, start = run.offsets, 0
                    while start < len(offsets):
                        if offsets[start] > last:
                            data.gaps += range(data.next_offset, last + 1)
                            following = next(ranges, None)
                            if following is None:
                                data.next_offset = last + 1
                                return
                            first, last, count = following
                            data.next_offset = first
                        start = bisect_left(offsets, first, start)
                        stop = bisect_right(offsets, last, start)
                        if start < stop:
                            yield Piece(_note_gaps(data, run, start, stop), kind, epoch, count)
                        start = stop
                if error is not None:
                    raise error
        except KafkaError as error:
            self._skip_damage(data, error)
            return
        data.gaps += range(data.next_offset, last + 1)
        for first, last, _ in ranges:
            data.gaps += range(first, last + 1)

    def _decode(self, batch: AnyBatch, columns: GrowingColumns, data: AcquiredData) -> KafkaError | None:
        """Add the records of a batch to columns; return the error of the first unreadable one."""
        options = self._options
        try:
            decode_any_columns(
                batch,
                columns,
                str(data.partition),
                data.acquired[0][0],
                options.check_crcs,
                options.max_decompressed_bytes,
            )
        except KafkaError as error:
            return error
        return None

    def _skip_damage(self, data: AcquiredData, error: KafkaError) -> None:
        """Reject the acquired records that are left, or release them if on_bad_record does not skip them.

        Records that another consumer could read, such as one with their codec, are always released.

        Raise `error`, or the error of on_bad_record, after the release.
        """
        offset = data.next_offset
        left = [each for first, last, _ in data.acquired for each in range(max(first, offset), last + 1)]
        delivery = self._delivery_of(data)
        delivery.offsets += left
        if not isinstance(error, CorruptData | CorruptMessage):
            self._locks.deliver(delivery)
            for each in left:
                self._locks.decide(delivery, each, AcknowledgeType.RELEASE)
            raise error
        next_offset = data.acquired[-1][1] + 1
        batch = bytes(data.records)
        self._decide_bad(delivery, left, BadRecord(*data.partition, offset, next_offset, error, batch=batch))

    def _deserialize(self, record: ShareRecord[Any, Any], delivery: Lock) -> bool:
        """Convert key and value; return False if the record is bad and was rejected.

        Raises:
            SerializationError: the policy on_bad_record does not skip it; it is released.
        """
        part, key, value = "key", record.key, record.value
        try:
            if self._key_of is not None and key is not None:
                record.key = self._key_of(record.topic, record.headers, key)
            part = "value"
            if self._value_of is not None and value is not None:
                record.value = self._value_of(record.topic, record.headers, value)
        except Exception as error:
            self._decide_bad(delivery, [record.offset], undeserialized(record, key, part, error))
            return False
        return True

    def _decide_bad(self, delivery: Lock, offsets: Iterable[int], bad: BadRecord) -> None:
        """Reject records that on_bad_record skips, release others; acknowledge() can still change that."""
        self._locks.deliver(delivery)
        type = AcknowledgeType.RELEASE
        try:
            self._bad_records.skip(bad)
            type = AcknowledgeType.REJECT
        finally:
            self._locks.decide_held(delivery, offsets, type)


def _leader_epoch_of(batch: AnyBatch) -> int:
    return NO_LEADER_EPOCH if isinstance(batch, LegacyBatch) else batch.partition_leader_epoch


def _note_gaps(data: AcquiredData, run: Run, start: int, stop: int) -> Run:
    """Return a part of a run; note acquired offsets before and within it that have no record."""
    part = run if stop - start == len(run) else run.cut(start, stop)
    last = part.offsets[-1]
    if last + 1 - data.next_offset != len(part):
        data.gaps += sorted({*range(data.next_offset, last + 1)}.difference(part.offsets))
    data.next_offset = last + 1
    return part


def _cut(piece: Piece, start: int, stop: int) -> Piece:
    return Piece(piece.run.cut(start, stop), piece.timestamp_type, piece.leader_epoch, piece.delivery_count)
