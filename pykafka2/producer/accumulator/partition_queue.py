"""A partition's batches in the order in which they are sent, and the ways to append to the last one.

Callers' threads append at the end, and the IO thread takes from the front. Most records are appended
without the lock (open_batch.py); the rest is decided under it, and no thread waits while it holds it.

A plain record has a bytes value and no key, headers, partition or timestamp. Its route, partition and
timestamp are decided once per batch or per millisecond and kept in the topic's open batch, which
`KafkaProducer.send` tries first. A record with a key goes to the open batch of the key's partition if the
route is current.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from pykafka2.producer.accumulator.batch import BatchState, ProducerBatch
from pykafka2.producer.accumulator.locked_steps import LockedSteps, locked_step
from pykafka2.producer.accumulator.open_batch import OpenBatch, append_unlocked
from pykafka2.producer.delivery.delivery import Delivery
from pykafka2.records.encoder import SHORT, Row


class PartitionQueue:
    """The batches of one partition in order: all but the last are sealed, and `tail` is its open end."""

    __slots__ = (
        "_running",
        "_wake",
        "batches",
        "closed_bytes",
        "is_closed",
        "is_muted",
        "lock",
        "locked_steps",
        "next_order",
        "partition",
        "tail",
        "topic",
    )

    def __init__(
        self, topic: str, partition: int, wake: Callable[[], None], locked_steps: LockedSteps | None = None
    ) -> None:
        self.locked_steps = LockedSteps() if locked_steps is None else locked_steps
        self._running = self.locked_steps.running
        self.topic = topic
        self.partition = partition
        self.lock = threading.Lock()
        self._wake = wake
        self.batches: deque[ProducerBatch] = deque()
        self.tail: OpenBatch | None = None
        self.next_order = 0
        self.closed_bytes = 0
        """Bytes of all batches sealed so far, including those that were sent."""
        self.is_muted = False
        """Used by the IO thread: True while no batch is drained until the batch in flight returns."""
        self.is_closed = False

    @property
    def begun_bytes(self) -> int:
        """Return the bytes of all batches so far. An estimate, as other threads append meanwhile."""
        tail = self.tail
        return self.closed_bytes if tail is None else self.closed_bytes + tail.size_estimate

    def try_append(self, row: Row, size_bytes: int) -> Delivery | None:
        """Append a record to the open batch; None if there is none, or no room in it.

        A batch without room stays open for smaller records of other threads until the next one joins.
        `size_bytes` is the size of the record if all its numbers are short. Hot: called once per record.
        """
        tail = self.tail
        if tail is None:
            return None
        if 0 <= row[2] - tail.base_timestamp < SHORT:
            delivery = append_unlocked(tail, row, size_bytes)
            if delivery is not None:
                return delivery
        if self._running:
            self.locked_steps.check()
        return self._append_locked(row, size_bytes)

    @locked_step
    def _append_locked(self, row: Row, size_bytes: int) -> Delivery | None:
        """`try_append` of a record that can make the batch full, or is not a plain one."""
        with self.lock:
            tail = self.tail
            if tail is None:
                return None
            delivery = tail.append(row, size_bytes)
            # A record that does not fit can have to wait for memory: smaller ones need not wait behind it.
            if delivery is not None and tail.is_full:
                self._wake()
            return delivery

    @locked_step
    def close(self) -> None:
        """Accept no more records; the open batch can be sent."""
        with self.lock:
            self.is_closed = True
            self.seal_tail()

    @locked_step
    def end_tail(self) -> None:
        """Seal the open batch."""
        with self.lock:
            self.seal_tail()

    def seal_tail(self) -> None:
        """Seal the open batch, which is the last one. The lock is held."""
        tail, self.tail = self.tail, None
        if tail is not None and self.batches and self.batches[-1].open is tail:
            self.seal(self.batches[-1])

    def seal(self, batch: ProducerBatch) -> ProducerBatch:
        """Seal a batch of the queue. The lock is held. Safe to repeat, also after an interruption."""
        if self.tail is not None and batch.open is self.tail:
            self.tail = None
        self.closed_bytes += batch.seal()
        return batch

    @locked_step
    def take(self) -> ProducerBatch:
        """Remove the first batch, sealed. Only the IO thread takes."""
        with self.lock:
            return self.seal(self.batches.popleft())

    @locked_step
    def snapshot(self) -> list[ProducerBatch]:
        """Return the batches of now in order.

        Without CPython's global lock, a deque that grows meanwhile cannot be iterated.
        """
        with self.lock:
            return [*self.batches]

    @locked_step
    def put_back(self, batch: ProducerBatch) -> None:
        """Return a batch that has to be resent to its place."""
        with self.lock:
            batch.move_to(BatchState.QUEUED)
            later: list[ProducerBatch] = []
            while self.batches and self.batches[0].order < batch.order:
                later.append(self.batches.popleft())
            self.batches.appendleft(batch)
            self.batches.extendleft(reversed(later))

    @locked_step
    def remove(self, batch: ProducerBatch) -> bool:
        """Remove a batch, sealed, from any place in the queue; False if it is not there."""
        with self.lock:
            if batch not in self.batches:
                return False
            self.batches.remove(self.seal(batch))
            return True

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
