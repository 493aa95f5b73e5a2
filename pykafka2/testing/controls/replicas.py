"""Controls of partitions and their coordinators: leaders, segments, replication.

A mixin of `Controls` (controls/controls.py).  Any thread except the cluster's own.
"""

from __future__ import annotations

from collections.abc import Iterable

from pykafka2.broker.base.arguments import check_flag, check_topic, partition_key
from pykafka2.testing.running import Running
from pykafka2.testing.views.groups import coordinator_partition
from pykafka2.types import TopicPartition


class ReplicaControls:
    """`controls.move_leader(("orders", 0), to=2)`, `controls.hold_loading()`."""

    _running: Running

    # ------------------------------------------------------------------ partitions

    def move_leader(
        self, partition: TopicPartition | tuple[str, int], to: int, *, unclean: bool = True
    ) -> None:
        """Make another replica the leader, with a new leader epoch; records that it lacks are lost.

        With unclean=False a replica that is not in sync is rejected with `IneligibleReplica`.
        """
        self._running.check()
        check_flag("unclean", unclean)
        topic, number = partition_key(self._running.controllers.image, partition)
        self._running.broker(to)
        self._running.controllers.run(
            f"move the leader of {topic}-{number} to broker {to}",
            lambda active: active.move_leader(topic, number, to, unclean=unclean),
        )

    def roll_segments(self, partition: TopicPartition | tuple[str, int] | None = None) -> int:
        """Begin a new segment in each replica's log, of one partition or all, unless the last one is empty.
        Return the number of rolled logs.
        """
        self._running.check()
        keys = self._keys(partition)
        with self._running.lock:
            return sum(one.replicas.log_manager.roll(keys) for one in self._running.brokers if one.is_running)

    def flush_logs(self, partition: TopicPartition | tuple[str, int] | None = None) -> None:
        """Force the logs of one partition or all to the disk now, on every replica, so that `kill_broker`
        loses none of their records.  Brokers flush by themselves when a segment is rolled, at a clean stop,
        and according to flush.messages and flush.ms.
        """
        self._running.check()
        keys = self._keys(partition)
        with self._running.lock:
            for broker in self._running.brokers:
                if broker.is_running:
                    broker.replicas.log_manager.flush(keys)

    def apply_retention(self, partition: TopicPartition | tuple[str, int] | None = None) -> int:
        """Delete segments according to retention.ms and retention.bytes now, on every replica of one
        partition or all, without waiting for log.retention.check.interval.ms.  Return the number of deleted
        segments.
        """
        self._running.check()
        keys = self._keys(partition)
        with self._running.lock:
            return sum(one.parts.apply_retention(keys) for one in self._running.brokers if one.is_running)

    def compact(self, topic: str | TopicPartition | tuple[str, int], *, roll_segments: bool = True) -> int:
        """Compact a topic, or one partition, now, on every replica.  Return the number of removed records,
        counted on every replica.

        The log cleaner does the same in the background, depending on min.cleanable.dirty.ratio and
        log.cleaner.backoff.ms.  The active segment is never compacted, so it is rolled first, unless
        `roll_segments` is False.  Records of open transactions stay, and those younger than
        min.compaction.lag.ms.  Tombstones stay for delete.retention.ms after their first compaction; if that
        is 0, the next call removes them.  A follower compacts up to its own high watermark, which can be
        behind the leader's.  Raise `PolicyViolation` if cleanup.policy lacks "compact".
        """
        self._running.check()
        check_flag("roll_segments", roll_segments)
        keys = self._keys_of(topic)
        removed = 0
        for broker in self._running.brokers:
            with self._running.lock:
                steps = (
                    broker.replicas.cleaner.compact_now(keys, broker.clock.wall_ms(), roll_segments)
                    if broker.is_running
                    else iter(())
                )
            while True:  # the lock is free between two steps, so that clients are served
                with self._running.lock:
                    try:
                        next(steps)
                    except StopIteration as end:
                        removed += end.value or 0
                        break
        return removed

    def pause_followers(
        self,
        partition: TopicPartition | tuple[str, int] | None = None,
        *,
        brokers: Iterable[int] | None = None,
    ) -> None:
        """Stop replication: of one partition or all, by some brokers or all.  Responses in flight are lost
        and fetched again after `resume_followers`.
        """
        self._running.check()
        keys = self._keys(partition)
        chosen = self._running.brokers if brokers is None else [self._running.broker(one) for one in brokers]
        with self._running.lock:
            for broker in chosen:
                broker.fetchers.pause(keys)

    def resume_followers(self) -> None:
        """Resume replication by all followers."""
        with self._running.lock:
            for broker in self._running.brokers:
                broker.fetchers.resume()

    def _keys_of(self, topic: str | TopicPartition | tuple[str, int]) -> list[tuple[str, int]]:
        """Return all partitions of a topic, or only the given partition."""
        image = self._running.controllers.image
        if isinstance(topic, tuple):
            return [partition_key(image, topic)]
        check_topic(image, topic)
        return [(topic, number) for number in range(len(image.topics[topic].partitions))]

    def _keys(self, partition: TopicPartition | tuple[str, int] | None) -> list[tuple[str, int]] | None:
        image = self._running.controllers.image
        return None if partition is None else [partition_key(image, partition)]

    # ------------------------------------------------------------------ coordinators

    def move_coordinator(self, key: str, to: int, kind: str = "group", *, unclean: bool = True) -> None:
        """Move the coordinator of a group (with kind="transaction" of a transactional id, with kind="share"
        of a share partition), and of all others in its partition of the internal topic.  Waiting clients get
        NOT_COORDINATOR.  The cluster's `coordinator(key)` returns the current coordinator.
        """
        self._running.check()
        with self._running.lock:
            partition = coordinator_partition(self._running, key, kind)
        self.move_leader(partition, to, unclean=unclean)

    def hold_loading(self, broker: int | None = None) -> None:
        """Make newly elected coordinators (on one broker or all) respond COORDINATOR_LOAD_IN_PROGRESS until
        `release_loading`.
        """
        self._running.check()
        with self._running.lock:
            for one in self._running.brokers if broker is None else [self._running.broker(broker)]:
                one.coordinators.hold_loading(True)

    def release_loading(self) -> None:
        """Let coordinators load their logs."""
        self._running.check()
        with self._running.lock:
            for one in self._running.brokers:
                one.coordinators.hold_loading(False)
                one.parts.wake()
