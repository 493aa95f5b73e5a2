"""One partition's batches in the order in which they are to be written.

Shared by callers' threads, which append at the end, and the IO thread, which takes from the front; the lock
is held for that and never while waiting.  Part of the accumulator (accumulator.py).
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from pykafka2.producer.batch import BatchState, ProducerBatch
from pykafka2.producer.delivery import Delivery, OnDelivery


class PartitionQueue:
    """Batches of one partition in order: all but the last are closed, `tail` is the one still open."""

    __slots__ = (
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

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.lock = threading.Lock()
        self.batches: deque[ProducerBatch] = deque()
        self.tail: ProducerBatch | None = None
        self.next_order = 0
        self.closed_bytes = 0
        """What the batches came to that are closed by now, those sent and gone included."""
        self.is_muted = False
        """The IO thread's: nothing more is drained until what is in flight has come back."""
        self.is_closed = False

    def try_append(
        self,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Any,
        on_delivery: OnDelivery | None,
    ) -> Delivery | None:
        """Add to the open batch; None if there is none, or no room in it.  Hot."""
        with self.lock:
            batch = self.tail
            if batch is None:
                return None
            delivery = batch.append(timestamp, key, value, headers, on_delivery)
            if delivery is None:
                self.close_tail()
            return delivery

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
