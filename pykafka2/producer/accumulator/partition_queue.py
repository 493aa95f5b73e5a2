"""A partition's batches in the order in which they are sent, and the ways to append to the last one.

Callers' threads append at the end, and the IO thread takes from the front. Most records are appended
without the lock; the rest is decided under it, and no thread waits while it holds it.

A signal handler or a finalizer runs on the thread that it interrupts. If it called the producer that this
thread was changing, it would wait for a lock of its own thread forever. So each step that makes calls under
a lock is recorded in `LockedSteps`, and a blocking call checks that first.

A plain record has a bytes value and no key, headers, partition or timestamp. Its route, partition and
timestamp are decided once per batch or per millisecond and kept in the topic's open batch, which
`KafkaProducer.send` tries first. A record with a key goes to the open batch of the key's partition if the
route is current.

`append_unlocked` appends without the lock. It is safe for these reasons:

* A record is appended by one line without a call, a loop or an allocation that the garbage collector
  counts. CPython runs no other thread, signal handler, finalizer or tracer within it, so the room, fields
  and number of a record change together or not at all. (A tool with branch events of `sys.monitoring` is
  the exception.)
* Any other change closes the batch first (`room_bytes` is `SHUT`), under the lock: from then on the line
  does nothing, and what it appended before is counted.
* A Ctrl-C after the line loses at most the caller's delivery.

None of this holds without CPython's global lock or in another Python: there no batch has room for such an
append (`HAS_GIL`). docs/benchmarks.md has what it saves.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from threading import get_ident
from typing import TypeVar

from pykafka2.errors import IllegalState
from pykafka2.producer.accumulator.batch import BatchState, ProducerBatch
from pykafka2.producer.delivery.delivery import Delivery
from pykafka2.records.encoder import SHORT, Row


class PartitionQueue:
    """Batches of one partition in order: all but the last are closed, `tail` is the one still open."""

    __slots__ = (
        "_locked_steps",
        "_running",
        "_wake",
        "batches",
        "closed_bytes",
        "is_closed",
        "is_muted",
        "lock",
        "next_order",
        "partition",
        "tail",
        "topic",
    )

    def __init__(
        self, topic: str, partition: int, wake: Callable[[], None], locked_steps: LockedSteps | None = None
    ) -> None:
        self._locked_steps = LockedSteps() if locked_steps is None else locked_steps
        self._running = self._locked_steps.running
        self.topic = topic
        self.partition = partition
        self.lock = threading.Lock()
        self._wake = wake
        self.batches: deque[ProducerBatch] = deque()
        self.tail: ProducerBatch | None = None
        self.next_order = 0
        self.closed_bytes = 0
        """What the batches came to that are closed by now, those sent and gone included."""
        self.is_muted = False
        """The IO thread's: nothing more is drained until what is in flight has come back."""
        self.is_closed = False

    def try_append(self, row: Row, size_bytes: int) -> Delivery | None:
        """Add a record to the open batch; None if there is none, or no room in it.

        `size_bytes` is what the record takes at most if all its numbers are short ones.  Hot: once a record.
        """
        batch = self.tail
        if batch is None:
            return None
        if 0 <= row[2] - batch.base_timestamp < SHORT:
            delivery = append_unlocked(batch, row, size_bytes)
            if delivery is not None:
                return delivery
        if self._running:
            self._locked_steps.check()
        return self._locked_steps.run(self._append_looked_at, row, size_bytes)

    def _append_looked_at(self, row: Row, size_bytes: int) -> Delivery | None:
        """`try_append` of a record that may make the batch full, or is not a plain one."""
        with self.lock:
            batch = self.tail
            if batch is None:
                return None
            index = batch.append(row, size_bytes)
            if index is None:
                self.close_tail()
                return None
            if batch.is_full:
                self._wake()
            return delivery_of(batch, index)

    def close(self) -> None:
        """Take no more records; the open batch may be sent."""
        with self.lock:
            self.is_closed = True
            self.close_tail()

    def end_tail(self) -> None:
        """No more records into the open batch."""
        with self.lock:
            self.close_tail()

    def close_tail(self) -> None:
        """No more records into the open batch.  The lock is held."""
        if self.tail is not None:
            self._closed(self.tail)

    def _closed(self, batch: ProducerBatch) -> ProducerBatch:
        # Every step may be the last before a Ctrl-C: a batch may be open and not the tail, or closed and the
        # tail still.  So nothing is concluded from one about the other.
        if batch is self.tail:
            self.tail = None
        if batch.state is BatchState.OPEN:
            self.closed_bytes += batch.size_estimate
        batch.close()
        return batch

    def take(self) -> ProducerBatch:
        """Remove the first batch, closed.  Only the IO thread takes."""
        return self._locked_steps.run(self._take)

    def _take(self) -> ProducerBatch:
        with self.lock:
            return self._closed(self.batches.popleft())

    def snapshot(self) -> list[ProducerBatch]:
        """Return the batches of now in order. A deque that grows meanwhile cannot be iterated without
        CPython's global lock."""
        return self._locked_steps.run(self._snapshot)

    def _snapshot(self) -> list[ProducerBatch]:
        with self.lock:
            return [*self.batches]

    def put_back(self, batch: ProducerBatch) -> None:
        """Return a batch that has to be sent again to its place."""
        with self.lock:
            batch.move_to(BatchState.QUEUED)
            later: list[ProducerBatch] = []
            while self.batches and self.batches[0].order < batch.order:
                later.append(self.batches.popleft())
            self.batches.appendleft(batch)
            self.batches.extendleft(reversed(later))

    def remove(self, batch: ProducerBatch) -> bool:
        """Take it out of the queue, wherever it stands; False if it is not there."""
        with self.lock:
            if batch not in self.batches:
                return False
            self.batches.remove(self._closed(batch))
            return True

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def append_unlocked(batch: ProducerBatch, row: Row, size_bytes: int) -> Delivery | None:
    """Append a record to a batch without the queue's lock; None if the batch is closed or has no room.

    The row's timestamp fits the batch, and `size_bytes` is as for `PartitionQueue.try_append`. The module's
    docstring explains why no lock is needed. Hot: called once per record.
    """
    outcome, fields = batch.outcome, batch.fields
    # One line, so that no other thread, signal handler or finalizer runs between its parts.
    if (room_bytes := batch.room_bytes - size_bytes) >= 0: batch.room_bytes = room_bytes; fields += row; index = batch.count; batch.count = index + 1  # fmt: skip # noqa: E501, E701, E702
    if room_bytes < 0:
        return None
    delivery = Delivery()
    delivery._outcome = outcome  # type: ignore[assignment]
    delivery._index = index
    return delivery


def delivery_of(batch: ProducerBatch, index: int) -> Delivery:
    """For a record that has just joined an open batch.  Its queue's lock is held."""
    if batch.outcome is None:
        raise IllegalState(f"{batch} is done")
    delivery = Delivery()
    delivery._outcome, delivery._index = batch.outcome, index
    return delivery


T = TypeVar("T")


class LockedSteps:
    """`running` has the threads; empty nearly always, so that the hot path looks no further."""

    __slots__ = ("running",)

    def __init__(self) -> None:
        self.running: dict[int, None] = {}

    def run(self, step: Callable[..., T], *arguments: object) -> T:
        """The value of a step that holds a lock; a step runs no other one."""
        me = get_ident()
        try:
            self.running[me] = None
            return step(*arguments)
        finally:
            self.running.pop(me, None)

    def check(self) -> None:
        """Raises IllegalState if this thread was interrupted in such a step."""
        if get_ident() in self.running:
            raise IllegalState(
                "a signal handler or a finalizer (__del__) called the producer in the middle of a send of "
                "the same thread, which cannot go on before it returns: have a handler set a flag, or start "
                "a thread that makes the call"
            )


NS_PER_MS = 1_000_000


def note_open(open_batches: dict[str, ProducerBatch], queue: PartitionQueue, timestamp: int) -> None:
    """A plain record of this time went to this queue: others of its millisecond may join its batch.

    `open_batches` is by topic.  A batch that is there may be shut, or done, by now: whoever finds it looks at
    its room.
    """
    batch = queue.tail
    if batch is None or not 0 <= timestamp - batch.base_timestamp < SHORT:
        return
    # In this order: who reads between two of them finds no time that has this timestamp wrongly.
    batch.until_ns = 0
    batch.timestamp = timestamp
    batch.since_ns = timestamp * NS_PER_MS
    batch.until_ns = batch.since_ns + NS_PER_MS
    open_batches[queue.topic] = batch
