"""One partition's batches in the order in which they are to be written.

Shared by callers' threads, which append at the end, and the IO thread, which takes from the front; the lock
is held for what has to be decided, and never while waiting; most records join without it (open_batches.py).
Part of the accumulator (accumulator.py).  What a signal handler finds here: locked_steps.py.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from pykafka2.errors import IllegalState
from pykafka2.producer.batch import BatchState, ProducerBatch
from pykafka2.producer.delivery import Delivery
from pykafka2.producer.locked_steps import LockedSteps
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
            # The record joins by this line, in which nothing comes between: see open_batches.py.
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
