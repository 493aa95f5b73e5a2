"""The calls of `KafkaConsumer` that return records: poll, columns, iteration and bounded reads.

Iteration makes no Python call per record: `itertools.chain` runs through slices of the polled records.
Between two slices, which last about a tenth of a second each, the consumer checks commits and the group.
Used on the caller's thread. Neighbors: poll/poller.py, state/iteration_queue.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, Self

from pykafka2 import lifecycle
from pykafka2.cluster.arguments import checked_partition
from pykafka2.consumer.calls.arguments import checked_isolation, checked_limit, checked_range, checked_timeout
from pykafka2.consumer.calls.seek import PositionCalls
from pykafka2.consumer.core import ConsumerCore, handing_over
from pykafka2.consumer.interceptors import ProcessSpan
from pykafka2.consumer.state.iteration_queue import IterationQueue
from pykafka2.types import ConsumerRecord, K, TopicPartition, V

if TYPE_CHECKING:
    from pykafka2.consumer.calls.record_steps import RecordStep
    from pykafka2.consumer.fetch.range_reader import RangeReader
    from pykafka2.records.columns import Columns


class ReadingCalls(PositionCalls, Generic[K, V]):
    """Mixed into the consumer."""

    _iteration_queue: IterationQueue
    """That of the core, for `next(consumer)`; one that stays empty if interceptors have `on_record`."""
    _step: RecordStep | None
    """The step of `next(consumer)`; None without such interceptors."""

    @handing_over
    def poll(
        self, timeout_ms: float = 0, max_records: int | None = None, update_offsets: bool = True
    ) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
        """Return records by partition as soon as there are some, or an empty dict after `timeout_ms`.

        With 0 it returns only records that were already fetched; fetching continues in the background. The
        records of a partition are in order, and the position moves past them; with `update_offsets=False` it
        does not move.

        Unreachable brokers, missing topics and deleted ones are waited for, with a warning once a minute.
        `bootstrap` raises if no broker responds in time.

        Args:
            timeout_ms: milliseconds; inf waits forever.
            max_records: the maximum number of records; max_poll_records by default.
            update_offsets: False returns the same records again with the next call.

        Raises:
            IllegalState: nothing is subscribed to or assigned.
            CorruptMessage, CorruptData, SerializationError: a record cannot be read; the message names topic,
                partition and offset. The records before it were returned, and the position stays at it.
            OffsetOutOfRange, NoOffsetForPartition: the position is outside the log, or is unknown, and
                auto_offset_reset is 'none'.
            TopicAuthorizationFailed, GroupAuthorizationFailed, InvalidTopicException, TlsError: the broker
                rejects the client; raised at once.
            FencedInstanceId: another consumer uses the same group_instance_id.
            ConsumerStalled: a partition has not advanced for two minutes of polling, although the brokers
                respond and have records.
            ConcurrentUse, ClientClosed, ForkedClientError: another thread uses the consumer, it is closed, or
                it belongs to the parent process.
        """
        limit, timeout = (
            checked_limit(max_records, self._core.options.max_poll_records),
            checked_timeout(timeout_ms),
        )
        if self._core.iteration_queue and not self._core.group_has_news():
            if self._core.poller.take_wakeup():
                return {}
            return self._core.iteration_queue.take(limit, keep=not update_offsets)
        return self._core.poller.poll(timeout, limit, keep_position=not update_offsets)

    @handing_over
    def poll_columns(
        self, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, Columns]:
        """Poll records as columns: keys, values, offsets, timestamps and headers as lists or Arrow arrays.

        `Columns.to_arrow()` returns a pyarrow table. A list is created at its first use, so unused columns
        cost little. Deserializers and interceptors' `on_consume` are not called. Batches of up to 65,536
        records are returned whole, so the result can have more than `max_records`. Raise the errors of
        `poll`.
        """
        limit, timeout = (
            checked_limit(max_records, self._core.options.max_poll_records),
            checked_timeout(timeout_ms),
        )
        self._core.handover.put_back(self._core.subscription.assigned)
        return self._core.poller.poll_columns(timeout, limit)

    def read_range(
        self,
        partition: TopicPartition,
        start: int,
        end: int,
        *,
        isolation: str | None = None,
        max_bytes: int = 1 << 20,
        topic_id: bytes | None = None,
    ) -> Iterator[Columns]:
        """Iterate over the records from offset `start` up to, but not including, `end`, in columns.

        It uses no group, assignment or position. Several threads can call it at the same time. Each piece has
        batches of up to `max_bytes`, or one larger batch; `size_bytes` is their size. The next piece is
        fetched in the background. Offsets without a record (compacted, aborted, control batches) are skipped.
        Records that were not written yet are waited for. Deserializers and interceptors' `on_consume` are not
        called. The errors are raised when the result is iterated.

        Args:
            partition: the partition; it need not be assigned.
            start: the first offset.
            end: the offset after the last one.
            isolation: 'read_uncommitted' or 'read_committed'; isolation_level by default.
            max_bytes: the maximum size of one fetch.
            topic_id: the id that the topic must have, 16 bytes (KIP-516); any by default. Brokers before 3.1
                do not compare it.

        Raises:
            OffsetOutOfRange: records of the range are no longer in the log. Beyond the end of the log it is
                raised after five seconds, because the leader can be out of date.
            LogTruncated: the log was truncated below the pieces that were returned; `offset` is the new end
                (KIP-320). It is an OffsetOutOfRange.
            CorruptMessage, CorruptData: a batch cannot be read; the pieces before it were returned.
            KafkaTimeoutError, NoBrokersAvailable: no broker responded, or no records arrived, within
                default_api_timeout_ms.
            UnknownTopicOrPartition: the partition does not exist, the topic was missing for five seconds, or
                it was deleted and created again while it was read, or since it had `topic_id`.
            TopicAuthorizationFailed: the user has no READ access; raised at once.
            ClientClosed: the consumer was closed.
        """
        self._core.check_open()
        partition = checked_partition(partition)
        level = checked_isolation(self._core.options.isolation_level if isolation is None else isolation)
        checked_range(start, end, max_bytes, topic_id)
        with lifecycle.loading:
            from pykafka2.consumer.fetch.range_reader import RangeReader
        reader = RangeReader(
            self._core.options,
            self._core.cluster,
            self._core.queries,
            partition,
            start,
            end,
            level,
            max_bytes,
            topic_id,
        )
        return self._pieces_of(reader, partition)

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        """Iterate over records until consumer_timeout_ms passes without one, or until `wakeup`.

        Raise the errors of `poll`. An iterator that has ended or raised stays ended; iterate over the
        consumer again to continue. Interceptors with `on_record` are called around each record.
        """
        if self._core.interceptors.sees_records:
            return self._record_steps()
        return chain.from_iterable(Slices(self._next_slice))

    def __next__(self) -> ConsumerRecord[K, V]:
        """Return the next record, as iteration does."""
        for record in self._iteration_queue.slice:
            return record  # without a lock: a call that invalidates the slice also ends it
        if self._step is not None:
            return self._next_in_hooks(self._step)
        for record in self._next_slice():
            return record
        raise StopIteration

    @handing_over
    def _next_slice(self) -> Iterator[ConsumerRecord[K, V]]:
        """Return an iterator over the next records; iteration returns them one by one."""
        iteration_queue = self._core.iteration_queue
        if iteration_queue and not self._core.group_has_news():
            if self._core.poller.take_wakeup():
                raise StopIteration
            if iteration_queue.is_between_slices:
                iteration_queue.cut(self._core.slice_length.next())
            return iteration_queue.slice
        self._core.slice_length.pause()
        iteration_queue.put(
            self._core.poller.poll(self._core.options.consumer_timeout, self._core.options.max_poll_records)
        )
        if not iteration_queue:
            raise StopIteration
        iteration_queue.cut(self._core.slice_length.next())
        return iteration_queue.slice

    def process_span(self, record: ConsumerRecord[K, V]) -> AbstractContextManager[ConsumerRecord[K, V]]:
        """Return a context manager for the processing of a record that `poll` has returned.

            for record in records:
                with consumer.process_span(record):
                    handle(record)

        It calls the interceptors' `on_record` at the start of the block, and `on_record_done` at its end,
        with the exception that ended it. Without such interceptors it does nothing. An iteration over the
        consumer calls these hooks itself. Any thread.
        """
        if self._core.interceptors.sees_records:
            return ProcessSpan(self._core.interceptors, record)
        return nullcontext(record)

    def wakeup(self) -> None:
        """End the current `poll` or iteration early, or the next one. Safe in threads and signal handlers.

        Records that are available then are returned by the call after that. An iteration first returns the
        records of its current slice (about 0.1 s of work).
        """
        self._core.poller.is_woken = True
        self._core.cluster.driver.notify()

    # ------------------------------------------------------------------ inside

    def _pieces_of(self, reader: RangeReader, partition: TopicPartition) -> Iterator[Columns]:
        """Keep a reference to the consumer until the pieces are read: garbage collection would close it."""
        for columns in reader.pieces():
            if self._core.interceptors.sees_columns:
                self._core.interceptors.on_columns({partition: columns})
            yield columns

    def _next_in_hooks(self, step: RecordStep) -> ConsumerRecord[K, V]:
        step.end()
        while (record := step.take()) is None:
            self._next_slice()
        return record

    def _record_steps(self) -> Iterator[ConsumerRecord[K, V]]:
        with lifecycle.loading:
            from pykafka2.consumer.calls.record_steps import RecordSteps
        steps = RecordSteps(self._core.iteration_queue, self._core.interceptors, self._next_slice)
        if self._step is not None:
            self._step.others.add(steps)
        return steps


def queue_and_step(core: ConsumerCore) -> tuple[IterationQueue, RecordStep | None]:
    """Return the queue and the step of `next(consumer)`, or of `anext`.

    Without interceptors for records, they are the core's queue and None. With them, the queue stays empty.
    """
    if not core.interceptors.sees_records:
        return core.iteration_queue, None
    with lifecycle.loading:
        from pykafka2.consumer.calls.record_steps import RecordStep
    return IterationQueue(), RecordStep(core.iteration_queue, core.interceptors)


class Slices:
    """An iterator over slices, for one `for` statement; it ends when `next_slice` raises StopIteration."""

    def __init__(self, next_slice: Callable[[], Iterator[ConsumerRecord[Any, Any]]]) -> None:
        self._next_slice = next_slice

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Iterator[ConsumerRecord[Any, Any]]:
        return self._next_slice()
