"""The accumulator of records: a queue of batches per partition.

Shared by callers' threads and the IO thread. Each queue (partition_queue.py) has its own lock; the buffer
pool grants memory outside it. `PartitionQueue.try_append` never blocks: it returns None if the record needs
a new batch. The sender (sending/sender.py) decides about nodes and sequences.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING

from pykafka2.compression import codec as find_codec
from pykafka2.driver.wait_queue import WaitQueue
from pykafka2.errors import BufferExhausted, ClientClosed, IllegalState, KafkaError, RecordTooLarge
from pykafka2.metrics import Metrics
from pykafka2.producer.accumulator.allocation import Allocation, MemoryFull
from pykafka2.producer.accumulator.batch import BatchHooks, BatchState, ProducerBatch, raise_here
from pykafka2.producer.accumulator.batch_records import ColumnRecords
from pykafka2.producer.accumulator.batch_sizes import (
    BATCH_OVERHEAD_BYTES,
    LONGER_OVERHEAD_BYTES,
    BatchPlan,
    CompressionRatios,
)
from pykafka2.producer.accumulator.buffer_pool import BufferPool, Permit
from pykafka2.producer.accumulator.locked_steps import LockedSteps, locked_step
from pykafka2.producer.accumulator.partition_queue import PartitionQueue
from pykafka2.producer.delivery.batch_outcome import BatchOutcome, WaitUntil
from pykafka2.producer.delivery.callbacks import Interrupt
from pykafka2.producer.delivery.delivery import Delivery
from pykafka2.producer.options import ProducerOptions
from pykafka2.records.batch import HEADER_BYTES
from pykafka2.records.encoder import Row
from pykafka2.types import TopicPartition

if TYPE_CHECKING:
    from pykafka2.records.column_encoder import EncodedRecords

BATCHES = attrgetter("batches")
FEW_QUEUES = 8
"""Empty queues that a turn of the IO thread can visit; a queue in use is empty every other time."""

ORDER_STEP = 1 << 32
"""Distance between the places of two batches; a batch can be split into as many as it has records."""


class Accumulator:
    """All queues of a producer and the memory they share.

    `admit` raises if the transaction accepts no new batch now; it is None without transactions. It is called
    under the queue's lock: once it raises and `close_tails` has returned, no record joins a batch.
    """

    def __init__(
        self,
        options: ProducerOptions,
        *,
        monotonic: Callable[[], float],
        wait_until: WaitUntil,
        wake: Callable[[], None],
        interrupt: Interrupt = raise_here,
        metrics: Metrics | None = None,
        admit: Callable[[], None] | None = None,
    ) -> None:
        self._options = options
        self._admit = admit
        self._monotonic = monotonic
        self._wake = wake
        self._metrics = Metrics() if metrics is None else metrics
        self.locked_steps = LockedSteps()
        self._wait_until = _outside_steps(self.locked_steps, wait_until)
        self._lock = threading.Lock()
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        # A larger batch could never be sent, or never be granted.
        limit = min(options.batch_size, options.max_request_size, options.buffer_memory)
        self._batch_bytes = max(limit, HEADER_BYTES + 1)
        self._largest_bytes = min(options.max_request_size, options.buffer_memory)
        self._flushing: dict[int, None] = {}
        self._active: dict[PartitionQueue, None] = {}
        self._ratios = CompressionRatios()
        self._plan = BatchPlan(
            find_codec(options.compression_type), options.compression_level, self._batch_bytes
        )
        self.closing = WaitQueue()
        """Wakes the threads that wait for memory when the producer is closed."""
        self.pool = BufferPool(options.buffer_memory, locked_steps=self.locked_steps)
        self._hooks = BatchHooks(self._wait_until, interrupt, self.pool.charge)
        self.incomplete: dict[ProducerBatch, None] = {}
        """Unfinished batches in order of creation. Each operation on it is one step in C, and so is a
        snapshot: `[*it]` of an exact dict is atomic without CPython's global lock, too."""
        # Failures that the next flush raises; bounded, as a program may never flush.
        self._failed: deque[ProducerBatch] = deque(maxlen=10_000)
        self.is_closed = False

    # ------------------------------------------------------------------ callers' threads

    def queue(self, topic: str, partition: int) -> PartitionQueue:
        """Return the partition's queue; create it at first use."""
        key = TopicPartition(topic, partition)
        queue = self._queues.get(key)
        if queue is None:
            self.check_not_interrupted()
            queue = self._create_queue(key)
        return queue

    @locked_step
    def _create_queue(self, key: TopicPartition) -> PartitionQueue:
        with self._lock:
            new = PartitionQueue(key.topic, key.partition, self._wake, self.locked_steps)
            queue = self._queues.setdefault(key, new)
            queue.is_closed = self.is_closed
            return queue

    def check_not_interrupted(self) -> None:
        """Raise IllegalState in a signal handler or finalizer that must not wait (locked_steps.py)."""
        if self.locked_steps.running:
            self.locked_steps.check()

    def append_waiting(
        self,
        queue: PartitionQueue,
        row: Row,
        size_bytes: int,
        timeout: float,
        allocation: Allocation | None = None,
    ) -> Delivery:
        """Append a record, to a new batch if necessary. Wait at most `timeout` seconds for memory.

        With `allocation` it does not wait: it raises `MemoryFull`, and the caller waits for the permit and
        repeats.

        Raises:
            RecordTooLarge: the record does not fit into a request or the buffer.
            BufferExhausted: the memory stayed full.
            ClientClosed: the producer was closed.
            KafkaError: raised by `admit`.
            IllegalState: the call would block the IO thread, or a signal handler interrupted another send of
                the same thread.
        """
        if self.locked_steps.running:
            self.locked_steps.check()
        permit = None if allocation is None else allocation.take()
        is_new = permit is None
        if permit is None:
            needed_bytes = HEADER_BYTES + size_bytes + LONGER_OVERHEAD_BYTES
            if needed_bytes > self._largest_bytes:
                self._refuse_size(queue, needed_bytes)
            permit = Permit(max(needed_bytes, self._batch_bytes), BATCH_OVERHEAD_BYTES)
        batch: ProducerBatch | None = None
        try:
            if is_new:
                self.pool.request(permit)
            if not permit.is_granted:
                if allocation is not None:
                    self._wake()  # memory is short: batches need not linger
                    allocation.keep(permit)
                self._wait_for_memory(queue, permit, timeout)
            batch = self._new_batch(queue, permit)
            delivery, is_new = self._append_with(queue, batch, row, size_bytes)
            if is_new:
                # Only a new batch concerns the IO thread: its linger begins, and the one before it is full.
                self._wake()
            else:
                self.pool.deallocate(permit)
        except MemoryFull:
            raise
        except BaseException:
            self._undo_append(queue, batch, permit)
            raise
        return delivery

    def append_columns(
        self,
        queue: PartitionQueue,
        records: EncodedRecords,
        timeout: float,
        on_joined: Callable[[BatchOutcome], object],
    ) -> None:
        """Append records as a batch of their own; `on_joined` is called with its outcome at once.

        Wait at most `timeout` seconds for memory. Raise as `append_waiting` does, but never RecordTooLarge:
        the caller has checked the sizes.
        """
        self.check_not_interrupted()
        permit = Permit(HEADER_BYTES + len(records.body), BATCH_OVERHEAD_BYTES)
        batch: ProducerBatch | None = None
        try:
            self.pool.request(permit)
            if not permit.is_granted:
                self._wait_for_memory(queue, permit, timeout)
            batch = ProducerBatch(
                queue.topic,
                queue.partition,
                self._plan,
                self._hooks,
                permit=permit,
                created_at=self._monotonic(),
                records=ColumnRecords(records),
            )
            self._add_columns(queue, batch, on_joined)
            self._wake()
        except BaseException:
            self._undo_append(queue, batch, permit)
            raise

    def begin_flush(self, who: object) -> list[ProducerBatch]:
        """Make every batch ready until `end_flush(who)`. Return the batches to wait for."""
        self.check_not_interrupted()
        self._flushing[id(who)] = None
        self._wake()
        return self.open_batches()

    def end_flush(self, who: object) -> None:
        self._flushing.pop(id(who), None)

    def close_tails(self) -> None:
        """Seal all open batches; the next record starts another one if `admit` allows it."""
        for queue in self._all_queues():
            queue.end_tail()

    @locked_step
    def _all_queues(self) -> list[PartitionQueue]:
        with self._lock:
            return [*self._queues.values()]

    def close(self) -> None:
        """Accept no more records. Earlier records are in a batch; later calls raise ClientClosed."""
        self.check_not_interrupted()
        for queue in self._close_to_new_queues():
            queue.close()
        self.closing.wake()
        self._wake()

    @locked_step
    def _close_to_new_queues(self) -> list[PartitionQueue]:
        """Create closed queues from now on. Return the queues created before."""
        with self._lock:
            self.is_closed = True
            return [*self._queues.values()]

    def take_failed(self) -> list[ProducerBatch]:
        """Return the batches with unreported failures since the last call."""
        taken = []
        for _ in range(len(self._failed)):
            try:
                batch = self._failed.popleft()
            except IndexError:  # another thread flushes as well, or the IO thread has taken one out
                break
            if not batch.is_finished:
                self._failed.append(batch)
            elif batch.unreported:
                taken.append(batch)
        return taken

    def unsent_records(self) -> int:
        """Return the number of appended records whose outcome is open."""
        return sum(batch.size for batch in self.open_batches() if not batch.is_done)

    def open_batches(self) -> list[ProducerBatch]:
        """Return a snapshot of the unfinished batches, in order of creation. Any thread."""
        return [*self.incomplete]

    def waiting_queues(self) -> list[PartitionQueue]:
        """Return the queues that hold batches now. Change nothing; any thread."""
        return [queue for queue in [*self._active] if queue.batches]

    # ------------------------------------------------------------------ the IO thread

    @property
    def is_flushing(self) -> bool:
        """True if batches must not linger: a flush or close is running, or memory is short."""
        return bool(self._flushing or self.is_closed or self.pool.waiters)

    def active_queues(self) -> list[PartitionQueue]:
        """Return the queues that hold batches, and forget those that are empty."""
        active = [*self._active]  # other threads add to it
        full = [*filter(BATCHES, active)]
        if len(active) > 2 * len(full) + FEW_QUEUES:
            for queue in active:
                self._forget_if_empty(queue)
        return full

    @locked_step
    def _forget_if_empty(self, queue: PartitionQueue) -> None:
        with queue.lock:
            if not queue.batches:
                self._active.pop(queue, None)

    def ready_at(self, queue: PartitionQueue, now: float, is_flushing: bool) -> float:
        """Return the time at which linger and backoff allow the queue's first batch to be sent."""
        first = queue.batches[0]
        if first.attempts:
            return first.retry_at
        tail = queue.tail
        if is_flushing or tail is None or first.open is not tail or tail.is_full:
            return now
        return first.created_at + self._options.linger

    def update_compression_estimate(self, batch: ProducerBatch) -> None:
        """Update the topic's compression ratio with a batch that was encoded for the first time."""
        if self._options.compression_type != "none":
            encoded_bytes = len(batch.bytes()) - HEADER_BYTES
            self._ratios.observe(batch.topic, batch.sealed.raw_bytes, encoded_bytes)

    def put_back(self, batch: ProducerBatch) -> None:
        """Return a batch to its queue to be resent."""
        queue = self.queue(batch.topic, batch.partition)
        queue.put_back(batch)
        self._active[queue] = None

    def split(self, batch: ProducerBatch) -> list[ProducerBatch]:
        """Replace a batch that came back by two halves.

        It stays in `incomplete` until both are done: a flush can be waiting for it, and they expire when it
        would have.
        """
        queue = self.queue(batch.topic, batch.partition)
        parts = batch.split(self.pool.divide(batch.permit))
        for part in parts:
            queue.put_back(part)
        self._active[queue] = None
        return parts

    def oldest(self) -> ProducerBatch | None:
        """Return the oldest batch whose outcome is open."""
        while True:
            batches = iter(self.incomplete)
            try:
                return next(batches, None)
            except RuntimeError:  # a caller's batch joined since the line before
                continue

    def complete(self, batch: ProducerBatch, base_offset: int, log_append_time: int) -> None:
        """Complete a batch that was written."""
        try:
            batch.complete(base_offset, log_append_time)
        finally:
            self.incomplete.pop(batch, None)
            if batch.whole is not None:
                self._end_split(batch.whole)

    def fail(
        self, batch: ProducerBatch, error: KafkaError, record_errors: Mapping[int, KafkaError] | None = None
    ) -> None:
        """Fail a batch, wherever it is."""
        self.remove(batch)
        # Before its waiters wake, so that their flush sees it.
        self._failed.append(batch)
        try:
            batch.fail(error, record_errors)
        finally:
            self.incomplete.pop(batch, None)
            if batch.whole is not None:
                self._end_split(batch.whole)
        if not batch.unreported:
            try:
                self._failed.remove(batch)
            except ValueError:  # a flush has taken it just now
                pass

    def remove(self, batch: ProducerBatch) -> bool:
        """Remove a batch, sealed, from any place in its queue; False if it is not there."""
        return self.queue(batch.topic, batch.partition).remove(batch)

    # ------------------------------------------------------------------ inside

    def _end_split(self, whole: ProducerBatch | None) -> None:
        """Remove a split batch if all its parts are finished; the same for the batch that it is a part of."""
        while whole is not None and all(part.is_finished for part in whole.parts):
            whole.end_split()
            self.incomplete.pop(whole, None)
            whole = whole.whole

    def _refuse_size(self, queue: PartitionQueue, needed_bytes: int) -> None:
        for name, limit in (
            ("max_request_size", self._options.max_request_size),
            ("buffer_memory", self._options.buffer_memory),
        ):
            if needed_bytes > limit:
                raise RecordTooLarge(
                    f"a record for {queue} takes up to {needed_bytes} bytes with its batch header, more than "
                    f"{name}={limit}; send less, or raise {name}"
                )

    def _wait_for_memory(self, queue: PartitionQueue, permit: Permit, timeout: float) -> None:
        self._wake()  # memory is short: batches need not linger
        queues = [self.closing] if permit.waiters is None else [permit.waiters, self.closing]
        began = self._monotonic()
        try:
            is_over = self._wait_until(lambda: permit.is_granted or self.is_closed, timeout, *queues)
        finally:
            self.count_wait(self._monotonic() - began)
        if not is_over:
            raise self.exhausted(f"a record for {queue}", timeout)
        if self.is_closed:
            raise _closed(queue)

    def exhausted(self, what: str, timeout: float) -> BufferExhausted:
        """Count and return the error of a call that found no memory within `timeout` seconds."""
        self._metrics.count("buffer-exhausted-total")
        beside = f" (with {self.pool.overhead_bytes} bytes of overhead)"
        return BufferExhausted(
            f"no room for {what} within {timeout:g} s: buffer_memory of "
            f"{self.pool.total_bytes} bytes is full{beside}, as the brokers accept less than is sent. "
            "Send slower, or raise buffer_memory"
        )

    def count_wait(self, seconds: float) -> None:
        """Count the time that a call has waited for memory."""
        self._metrics.count_ns("bufferpool-wait-time-ns-total", seconds)

    def _new_batch(self, queue: PartitionQueue, permit: Permit) -> ProducerBatch:
        plan = self._plan
        if plan.codec.id:
            # A batch that came out too large is split only when a broker refuses it.
            smallest = self._batch_bytes / self._options.max_request_size
            plan = plan._replace(ratio=max(self._ratios.ratio(queue.topic), smallest))
        return ProducerBatch(
            queue.topic,
            queue.partition,
            plan,
            self._hooks,
            permit=permit,
            created_at=self._monotonic(),
        )

    @locked_step
    def _append_with(
        self, queue: PartitionQueue, batch: ProducerBatch, row: Row, size_bytes: int
    ) -> tuple[Delivery, bool]:
        """Append to the tail if it has room by now; else to the new batch, which joins the queue."""
        with queue.lock:
            if queue.is_closed:
                raise _closed(queue)
            if queue.tail is not None:
                delivery = queue.tail.append(row, size_bytes)
                if delivery is not None:
                    return delivery, False
                queue.seal_tail()
            if self._admit is not None:
                self._admit()
            delivery = None if batch.open is None else batch.open.append(row, size_bytes)
            if delivery is None:
                raise IllegalState(f"an empty batch for {queue} refused a record")
            self._join(queue, batch)
            queue.tail = batch.open
            return delivery, True

    @locked_step
    def _add_columns(
        self, queue: PartitionQueue, batch: ProducerBatch, on_joined: Callable[[BatchOutcome], object]
    ) -> None:
        """Add a sealed batch of columns to the queue."""
        with queue.lock:
            if queue.is_closed:
                raise _closed(queue)
            if self._admit is not None:
                self._admit()
            queue.seal_tail()
            self._join(queue, batch)
            queue.seal(batch)
            if batch.outcome is not None:
                on_joined(batch.outcome)

    def _join(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Append a new batch to the queue. The queue's lock is held."""
        batch.order = queue.next_order
        queue.next_order += ORDER_STEP
        self.incomplete[batch] = None
        self._active[queue] = None
        queue.batches.append(batch)

    def _undo_append(self, queue: PartitionQueue, batch: ProducerBatch | None, permit: Permit) -> None:
        """Free the memory after an error or a Ctrl-C, unless the batch is in the queue already."""
        if batch is not None:
            if self._has_joined(queue, batch):
                self._wake()
                return
            self.incomplete.pop(batch, None)
            batch.abandon()
        self.pool.deallocate(permit)

    @locked_step
    def _has_joined(self, queue: PartitionQueue, batch: ProducerBatch) -> bool:
        with queue.lock:
            return batch in queue.batches or batch.state is not BatchState.OPEN


def _outside_steps(locked_steps: LockedSteps, wait_until: WaitUntil) -> WaitUntil:
    """Return `wait_until` with a check that the caller did not interrupt a locked step of its thread."""

    def checked(predicate: Callable[[], bool], timeout: float, *queues: WaitQueue) -> bool:
        if locked_steps.running:
            locked_steps.check()
        return wait_until(predicate, timeout, *queues)

    return checked


def _closed(queue: PartitionQueue) -> ClientClosed:
    return ClientClosed(
        f"the producer was closed; the record for {queue} was not appended. Create a new producer"
    )
