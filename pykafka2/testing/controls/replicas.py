"""Controls of partitions and their coordinators: leaders, segments, replication.

Part of `Controls` (controls/controls.py), which documents them.  Any thread except the cluster's own.
"""

from __future__ import annotations

from collections.abc import Iterable

from pykafka2.broker.base.arguments import check_topic, partition_key
from pykafka2.testing.running import Running
from pykafka2.testing.views.groups import coordinator_partition
from pykafka2.types import TopicPartition

AnyPartition = TopicPartition | tuple[str, int]


class ReplicaControls:
    """`controls.move_leader(("orders", 0), to=2)`, `controls.hold_loading()`."""

    def __init__(self, running: Running) -> None:
        self._running = running

    # ------------------------------------------------------------------ partitions

    def move_leader(self, partition: AnyPartition, to: int, *, unclean: bool = True) -> None:
        self._running.check()
        topic, number = partition_key(self._running.controllers.image, partition)
        self._running.broker(to)
        self._running.controllers.run(
            f"move the leader of {topic}-{number} to broker {to}",
            lambda active: active.move_leader(topic, number, to, unclean=unclean),
        )

    def roll_segments(self, partition: AnyPartition | None = None) -> int:
        self._running.check()
        keys = self._keys(partition)
        with self._running.lock:
            return sum(one.replicas.log_manager.roll(keys) for one in self._running.brokers if one.is_running)

    def flush_logs(self, partition: AnyPartition | None = None) -> None:
        self._running.check()
        keys = self._keys(partition)
        with self._running.lock:
            for broker in self._running.brokers:
                if broker.is_running:
                    broker.replicas.log_manager.flush(keys)

    def apply_retention(self, partition: AnyPartition | None = None) -> int:
        self._running.check()
        keys = self._keys(partition)
        with self._running.lock:
            return sum(one.apply_retention(keys) for one in self._running.brokers if one.is_running)

    def compact(self, topic: str | AnyPartition, *, roll_segments: bool = True) -> int:
        self._running.check()
        keys = self._keys_of(topic)
        removed = 0
        for broker in self._running.brokers:
            with self._running.lock:
                steps = broker.compaction(keys, roll_segments) if broker.is_running else iter(())
            while True:  # the lock is free between two steps, so that clients are served
                with self._running.lock:
                    try:
                        next(steps)
                    except StopIteration as end:
                        removed += end.value or 0
                        break
        return removed

    def pause_followers(
        self, partition: AnyPartition | None = None, *, brokers: Iterable[int] | None = None
    ) -> None:
        self._running.check()
        keys = self._keys(partition)
        chosen = self._running.brokers if brokers is None else [self._running.broker(one) for one in brokers]
        with self._running.lock:
            for broker in chosen:
                broker.fetchers.pause(keys)

    def resume_followers(self) -> None:
        with self._running.lock:
            for broker in self._running.brokers:
                broker.fetchers.resume()

    def _keys_of(self, topic: str | AnyPartition) -> list[tuple[str, int]]:
        """Return all partitions of a topic, or only the given partition."""
        image = self._running.controllers.image
        if isinstance(topic, tuple):
            return [partition_key(image, topic)]
        check_topic(image, topic)
        return [(topic, number) for number in range(len(image.topics[topic].partitions))]

    def _keys(self, partition: AnyPartition | None) -> list[tuple[str, int]] | None:
        image = self._running.controllers.image
        return None if partition is None else [partition_key(image, partition)]

    # ------------------------------------------------------------------ coordinators

    def move_coordinator(self, key: str, to: int, kind: str = "group", *, unclean: bool = True) -> None:
        self._running.check()
        with self._running.lock:
            partition = coordinator_partition(self._running, key, kind)
        self.move_leader(partition, to, unclean=unclean)

    def hold_loading(self, broker: int | None = None) -> None:
        self._running.check()
        with self._running.lock:
            for one in self._running.brokers if broker is None else [self._running.broker(broker)]:
                one.coordinators.is_loading_held = True

    def release_loading(self) -> None:
        self._running.check()
        with self._running.lock:
            for one in self._running.brokers:
                one.coordinators.is_loading_held = False
                one.wake()
