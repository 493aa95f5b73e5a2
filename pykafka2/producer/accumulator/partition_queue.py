"""One partition's batches in the order in which they are to be written.

Shared by callers' threads, which append at the end, and the IO thread, which takes from the front; the lock
is held for what has to be decided, and never while waiting; most records join without it
(partition_queue.py). Part of the accumulator (accumulator.py).  What a signal handler finds here:
partition_queue.py.

Which threads are in the middle of a step that holds one of a producer's locks.

A signal handler and a finalizer (`__del__`) run wherever Python looks for them, on the thread that they
interrupt.  If one calls the producer that its thread was just changing, it would wait for that thread's own
lock for ever, and the IO thread behind it.  So steps that call anything while they hold a lock are run by
this, and what would wait asks it first.  What calls nothing under its lock is never interrupted there.

Shared by the producer's accumulator and its queues; takes no lock itself, as each operation on the dict is
one step in C.

The short way of a plain record: straight into the batch that its topic's plain records join just now.

A plain record has bytes as its value, no key, headers, partition or timestamp of its own.  What would be
decided for it with the answer of the record before is decided once a batch or once a millisecond: route,
partition, whether the producer may send, the timestamp.  `KafkaProducer.send` looks here
first, and goes the whole way where this has no answer; that way notes here what the next record may do.
A record that has a key besides is sent to the open batch of its key's partition, if the topic's route is
current: nothing is noted for it.

Three places append without a lock: two at the head of `send`, and `PartitionQueue.try_append`.  What makes
that safe:

* A record joins by one line without a call, a loop or an object that the garbage collector counts.  CPython
  lets other threads, signal handlers, finalizers and tracers in at none of these places, so that a record's
  room, its fields and its number change together, or not at all.  (A tool that has itself told of each branch
  by `sys.monitoring` is let in there.)
* Whatever else changes a batch shuts it first (`room_bytes` is `SHUT`), under its queue's lock: from then on
  that line does nothing, and what joined before it is counted.
* A Ctrl-C behind that line loses at most the caller's notice.

Without CPython's global lock, and in another Python, nothing of that holds: there no batch has room for a
record that is not looked at (`HAS_GIL`).

What it saves: docs/benchmarks.md.
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
            outcome, fields = batch.outcome, batch.fields
            # The record joins by this line, in which nothing comes between: see partition_queue.py.
            if (room_bytes := batch.room_bytes - size_bytes) >= 0: batch.room_bytes = room_bytes; fields += row; index = batch.count; batch.count = index + 1  # fmt: skip # noqa: E501, E701, E702
            if room_bytes >= 0:
                delivery = Delivery()
                delivery._outcome = outcome  # type: ignore[assignment]
                delivery._index = index
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
