"""The fetch buffer, the only object that both threads of a consumer modify.

The driver's thread adds fetched data, and the caller's thread removes it. Each method holds the lock for a
few operations; the caller decodes the data outside. A signal can interrupt the caller's thread after any
call, so each change ends in one call or in assignments without a call between them: after a Ctrl-C the
buffer is consistent.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable

from pykafka2.consumer.fetch.fetched_data import FetchedData, Problem
from pykafka2.slotted import slot, slotted
from pykafka2.types import TopicPartition

Item = FetchedData | Problem


@slotted(eq=False)
class _Queue:
    """The fetched data of one partition."""

    items: deque[Item] = slot(factory=deque)
    size_bytes: int = 0


class FetchBuffer:
    """Queues of fetched data by partition, with their bytes counted.

    `on_drained` is called on the caller's thread, under the lock, when data is removed after
    `notify_when_drained`, so it must not take a lock itself.
    """

    def __init__(self, on_drained: Callable[[], None]) -> None:
        self._lock = threading.RLock()
        self._queues: OrderedDict[TopicPartition, _Queue] = OrderedDict()
        self.resets: dict[TopicPartition, tuple[int, int]] = {}
        """Generation and offset of each reset that has ended and was not dropped.  Any thread can copy it."""
        self._on_room = on_drained
        self._notifies_when_drained = False
        self.size_bytes = 0
        self.arrivals = 0
        """Grows with every put; a waiting poll() reads it without the lock."""

    # ------------------------------------------------------------------ the driver's thread

    def put(self, item: Item) -> None:
        with self._lock:
            queue = self._queues.get(item.partition)
            if queue is None:
                queue = self._queues[item.partition] = _Queue()
            queue.items.append(item)
            queue.size_bytes += item.size_bytes
            self.size_bytes += item.size_bytes
            self.arrivals += 1

    def put_reset(self, partition: TopicPartition, generation: int, offset: int) -> None:
        """Add the position that a reset has found."""
        with self._lock:
            self.resets[partition] = (generation, offset)
            self.arrivals += 1

    def bytes_of(self, partition: TopicPartition) -> int:
        queue = self._queues.get(partition)
        return 0 if queue is None else queue.size_bytes

    def remove_for_refetch(self, partition: TopicPartition) -> list[Item]:
        """Remove and return all data of a partition, to be fetched again; the result of a reset stays.

        The caller's thread can be reading it already if it was just resumed; then it later skips the records
        below its position.
        """
        with self._lock:
            queue = self._queues.pop(partition, None)
            if queue is None:
                return []
            self.size_bytes -= queue.size_bytes
            return list(queue.items)

    def notify_when_drained(self) -> None:
        """Call `on_drained` when data is next removed."""
        with self._lock:
            self._notifies_when_drained = True

    # ------------------------------------------------------------------ the caller's thread

    @property
    def is_empty(self) -> bool:
        """Whether there is neither data nor a problem.  Does not take the lock."""
        return not self._queues

    def drop_resets(self, resets: dict[TopicPartition, tuple[int, int]]) -> None:
        """Remove these resets, whose positions the caller has applied."""
        with self._lock:
            for partition, reset in resets.items():
                if self.resets.get(partition) == reset:
                    del self.resets[partition]

    def partitions(self) -> list[TopicPartition]:
        """Return the partitions with data or a problem, the least recently served one first."""
        with self._lock:
            return list(self._queues)

    def items(self, partition: TopicPartition) -> list[Item]:
        with self._lock:
            queue = self._queues.get(partition)
            return [] if queue is None else list(queue.items)

    def move_last(self, partition: TopicPartition) -> None:
        """Move this partition to the end of the order, after its records were taken."""
        with self._lock:
            if partition in self._queues:
                self._queues.move_to_end(partition)  # one call, so a signal handler always sees the queue

    def drop(self, items: Iterable[Item]) -> None:
        """Remove these items, which are at the head of their queues."""
        queues = self._queues
        with self._lock:
            for item in items:
                partition = item.partition
                if partition not in queues:
                    continue
                queue = queues[partition]
                if queue.items and queue.items[0] is item:
                    size_bytes = item.size_bytes
                    self.size_bytes -= size_bytes
                    queue.size_bytes -= size_bytes
                    queue.items.popleft()
                if partition in queues and not queues[partition].items:
                    del queues[partition]
            self._notify_if_drained()

    def discard(self, partitions: Iterable[TopicPartition]) -> None:
        """Remove all data of these partitions, which are read from another position or no longer read."""
        queues, resets = self._queues, self.resets
        with self._lock:
            for partition in partitions:
                if partition in queues:
                    self.size_bytes -= queues[partition].size_bytes
                    del queues[partition]
                if partition in resets:
                    del resets[partition]
            self._notify_if_drained()

    def _notify_if_drained(self) -> None:
        """Call `on_drained` if it is requested; the lock keeps a concurrent request from being lost."""
        if self._notifies_when_drained:
            self._on_room()
            self._notifies_when_drained = False
