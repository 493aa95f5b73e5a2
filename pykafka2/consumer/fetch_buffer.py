"""Where fetched data waits for the application: the one object that both threads of a consumer touch.

The driver's thread puts, the caller's thread looks and takes away; every method takes the object's own lock
for a few operations and nothing else.  Data is decoded outside, by the caller.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable

from pykafka2.consumer.fetched import FetchedData, Problem
from pykafka2.types import TopicPartition

Item = FetchedData | Problem


class FetchBuffer:
    """Queues of fetched data by partition, with their bytes counted.

    `on_room` is called, on the caller's thread, when data was taken away after `ask_for_room`.
    """

    def __init__(self, on_room: Callable[[], None]) -> None:
        self._lock = threading.Lock()
        self._queues: dict[TopicPartition, deque[Item]] = {}
        self._bytes: dict[TopicPartition, int] = {}
        self._resets: dict[TopicPartition, tuple[int, int]] = {}
        self._on_room = on_room
        self._room_wanted = False
        self.size_bytes = 0
        self.taken_bytes = 0
        """Bytes that the application has read, ever."""
        self.arrivals = 0
        """Grows with every put: what a waiting poll() looks at, without the lock."""

    # ------------------------------------------------------------------ the driver's thread

    def put(self, item: Item) -> None:
        with self._lock:
            self._queues.setdefault(item.partition, deque()).append(item)
            self._bytes[item.partition] = self._bytes.get(item.partition, 0) + item.size_bytes
            self.size_bytes += item.size_bytes
            self.arrivals += 1

    def put_reset(self, partition: TopicPartition, generation: int, offset: int) -> None:
        """The position that a reset has found."""
        with self._lock:
            self._resets[partition] = (generation, offset)
            self.arrivals += 1

    def bytes_of(self, partition: TopicPartition) -> int:
        return self._bytes.get(partition, 0)

    def put_back(self, partition: TopicPartition) -> list[Item]:
        """Take away all of a paused partition, to be fetched again; a reset that was found stays.

        The caller's thread may be reading it already, resumed a moment ago: then it meets these records a
        second time behind its position, and passes over them.
        """
        with self._lock:
            items = list(self._queues.pop(partition, ()))
            for item in items:
                self._release(item)
        return items

    def ask_for_room(self) -> None:
        """Have `on_room` called when data is next taken away."""
        with self._lock:
            self._room_wanted = True

    # ------------------------------------------------------------------ the caller's thread

    def resets(self) -> dict[TopicPartition, tuple[int, int]]:
        """Generation and offset of each reset that has ended and was not dropped."""
        if not self._resets:
            return {}
        with self._lock:
            return dict(self._resets)

    def drop_resets(self, resets: dict[TopicPartition, tuple[int, int]]) -> None:
        """These are taken over."""
        with self._lock:
            for partition, reset in resets.items():
                if self._resets.get(partition) == reset:
                    del self._resets[partition]

    def partitions(self) -> list[TopicPartition]:
        """Partitions with something waiting, the one served longest ago first."""
        with self._lock:
            return list(self._queues)

    def items(self, partition: TopicPartition) -> list[Item]:
        with self._lock:
            return list(self._queues.get(partition, ()))

    def serve_last(self, partition: TopicPartition) -> None:
        """It was this partition's turn: the others come first next time."""
        with self._lock:
            queue = self._queues.pop(partition, None)
            if queue is not None:
                self._queues[partition] = queue

    def drop(self, items: Iterable[Item]) -> None:
        """Take these away, which stand at the head of their queues."""
        with self._lock:
            for item in items:
                queue = self._queues.get(item.partition)
                if queue and queue[0] is item:
                    queue.popleft()
                    self._release(item)
                    self.taken_bytes += item.size_bytes
                    if not queue:
                        del self._queues[item.partition]
            is_wanted, self._room_wanted = self._room_wanted, False
        if is_wanted:
            self._on_room()

    def discard(self, partition: TopicPartition) -> None:
        """Take away all of a partition: it is read from elsewhere, or by nobody, from now on."""
        with self._lock:
            for item in self._queues.pop(partition, ()):
                self._release(item)
            self._resets.pop(partition, None)
            is_wanted, self._room_wanted = self._room_wanted, False
        if is_wanted:
            self._on_room()

    def _release(self, item: Item) -> None:
        self.size_bytes -= item.size_bytes
        left = self._bytes.pop(item.partition, 0) - item.size_bytes
        if left > 0:
            self._bytes[item.partition] = left
