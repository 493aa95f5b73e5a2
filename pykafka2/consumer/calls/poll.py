"""The calls of `KafkaConsumer` that return records: poll, columns, iteration and bounded reads.

Iteration makes no Python call per record: `itertools.chain` runs through slices of the polled records.
Between two slices, which last about a tenth of a second each, the consumer checks commits and the group.
Used on the caller's thread. Neighbors: poll/poller.py, state/iteration_queue.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, Self

from pykafka2.clock import Clock
from pykafka2.cluster.arguments import checked_partition
from pykafka2.consumer.calls.arguments import checked_isolation, checked_limit, checked_range, checked_timeout
from pykafka2.consumer.calls.guards import handing_over
from pykafka2.consumer.calls.seek import PositionCalls
from pykafka2.consumer.fetch.range_reader import RangeReader
from pykafka2.records.columns import Columns
from pykafka2.types import ConsumerRecord, K, TopicPartition, V

if TYPE_CHECKING:
    from pykafka2.cluster.client import ClusterClient
    from pykafka2.consumer.fetch.offset_lookups import OffsetQueries
    from pykafka2.consumer.group.group import Group


class ReadingCalls(PositionCalls, Generic[K, V]):
    """Mixed into the consumer."""

    _cluster: ClusterClient
    _group: Group | None
    _queries: OffsetQueries
    _slice_length: SliceLength

    @handing_over
    def poll(
        self, timeout_ms: float = 0, max_records: int | None = None, update_offsets: bool = True
    ) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
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
        if self._iteration_queue and not self._group_has_news():
            if self._poller.take_wakeup():
                return {}
            return self._iteration_queue.take(limit, keep=not update_offsets)
        return self._poller.poll(timeout, limit, keep_position=not update_offsets)

    @handing_over
    def poll_columns(
        self, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, Columns]:
        """Poll records as columns: keys, values, offsets, timestamps and headers as lists or Arrow arrays.

        `Columns.to_arrow()` makes a pyarrow table.  A list is made when it is first looked at, so columns
        that are not needed cost little.  No deserializer is run.  Batches are handed over whole, so the last
        one may exceed `max_records`; only those of more than 65,536 records come in parts.  Raises as `poll`.
        """
        limit, timeout = self._limit(max_records), checked_timeout(timeout_ms)
        self._handover.rewind(self._subscription.assigned)
        return self._poller.poll_columns(timeout, limit)

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
            OffsetOutOfRange: records of the range are not in the log any more; for what lies behind the
                log's end after five seconds, as its leader may have been replaced without knowing it.
            LogTruncated, which is one: the log was cut below the pieces that were handed over; `offset` says
                where (KIP-320).
            CorruptMessage, CorruptData: as `poll`; pieces before were handed over.
            KafkaTimeoutError, NoBrokersAvailable: no answer, or no records up to `end`, within
                default_api_timeout_ms.
            UnknownTopicOrPartition: there is no such partition, brokers have not known the topic for five
                seconds, or it was made anew.
            TopicAuthorizationFailed: at once.
            ClientClosed: the consumer was closed.
        """
        if self._refusal is not None:
            self._refuse()
        partition = checked_partition(partition)
        level = checked_isolation(self._options.isolation_level if isolation is None else isolation)
        checked_range(start, end, max_bytes)
        reader = RangeReader(
            self._options, self._cluster, self._queries, partition, start, end, level, max_bytes
        )
        return self._pieces_of(reader)

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        """Record after record.  Ends after consumer_timeout_ms without one, or a `wakeup`; raises as `poll`.

        An iterator that has ended or raised is over: iterate the consumer again to go on.
        """
        return chain.from_iterable(Slices(self._next_slice))

    def __next__(self) -> ConsumerRecord[K, V]:
        """The next record alone; as iterating."""
        for record in self._iteration_queue.slice:
            return record  # without a lock: the slice is ended by whoever makes it void
        for record in self._next_slice():
            return record
        raise StopIteration

    @handing_over
    def _next_slice(self) -> Iterator[ConsumerRecord[K, V]]:
        """Some of the records that follow; an application that iterates is handed them one by one."""
        iteration_queue = self._iteration_queue
        if iteration_queue and not self._group_has_news():
            if self._poller.take_wakeup():
                raise StopIteration
            if iteration_queue.is_between_slices:
                iteration_queue.cut(self._slice_length.next())
            return iteration_queue.slice
        self._slice_length.pause()
        iteration_queue.put(self._poller.poll(self._options.consumer_timeout, self._options.max_poll_records))
        if not iteration_queue:
            raise StopIteration
        iteration_queue.cut(self._slice_length.next())
        return iteration_queue.slice

    def wakeup(self) -> None:
        """End the current `poll` or iteration, or the next one, early; records that are there come next time.

        An iteration hands out what it has at hand before: what takes you a tenth of a second.

        Any thread, or a signal handler.
        """
        self._poller.is_woken = True
        self._cluster.driver.notify()

    # ------------------------------------------------------------------ inside

    def _pieces_of(self, reader: RangeReader) -> Iterator[Columns]:
        """Keeps the consumer until the pieces are read: dropped, it would be closed while they come."""
        yield from reader.pieces()

    def _limit(self, max_records: int | None) -> int:
        return self._options.max_poll_records if max_records is None else checked_limit(max_records)

    def _group_has_news(self) -> bool:
        """Between two polls: see to commits.  True if the membership wants a poll, and not records of the
        last one, which are read again then."""
        if self._group is None:
            return False
        if self._group.rebalance.has_news():
            self._handover.rewind(self._subscription.assigned)
            return True
        self._group.rebalance.on_records_asked_for()
        self._group.committer.attend(0.0)
        return False


WANTED_SECONDS = 0.1
MOST_RECORDS = 500


class SliceLength:
    """How many records to hand out before the next look around."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._length = 1
        self._began_at: float | None = None

    def next(self) -> int:
        """Called when a slice is at its end: the length of the next one."""
        now = self._clock.monotonic()
        if self._began_at is not None:
            took = now - self._began_at
            if took < WANTED_SECONDS / 2:
                self._length = min(self._length * 2, MOST_RECORDS)
            elif took > WANTED_SECONDS:
                self._length = max(int(self._length * WANTED_SECONDS / took), 1)
        self._began_at = now
        return self._length

    def pause(self) -> None:
        """Mark the following time as waiting, which does not count for max_poll_interval_ms."""
        self._began_at = None


class Slices:
    """An iterator over slices, for one `for` statement; it ends where `next_slice` raises StopIteration."""

    def __init__(self, next_slice: Callable[[], Iterator[ConsumerRecord[Any, Any]]]) -> None:
        self._next_slice = next_slice

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Iterator[ConsumerRecord[Any, Any]]:
        return self._next_slice()
