"""Shortens and rolls the logs of one broker: retention, DeleteRecords, segments.

Retention runs from the broker's timers and on demand, on leaders and followers. DeleteRecords runs on the
leader, and waits until the live replicas have followed. Access requires the cluster's lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from pykafka2.broker.base.image import Key
from pykafka2.broker.config.configs import TopicConfig
from pykafka2.broker.log.partition_log import NEVER
from pykafka2.broker.log.retention import RetentionPolicy, apply_retention
from pykafka2.broker.replication.purgatory import DelayedDeleteRecords, DeleteResult, Purgatory
from pykafka2.broker.replication.replica import HostedReplicas, Replica
from pykafka2.clock import FOREVER
from pykafka2.errors import (
    BrokerError,
    InvalidTopicException,
    KafkaStorageError,
    OffsetOutOfRange,
    PolicyViolation,
)

logger = logging.getLogger(__name__)

HIGH_WATERMARK = -1
SHORTEST_INTERVAL = 0.001
"""Seconds between two flushes of a log with flush.ms=0."""


def retention_of(config: TopicConfig) -> RetentionPolicy:
    return RetentionPolicy(
        "delete" in config.get("cleanup.policy"), config.get("retention.ms"), config.get("retention.bytes")
    )


class LogManager:
    """Shortens and rolls the logs of one broker's replicas.

    `deletes` holds waiting deletions; `on_log_start_moved` is called for each log whose start advances.
    """

    def __init__(
        self, hosted: HostedReplicas, deletes: Purgatory[Key], on_log_start_moved: Callable[[Key], None]
    ) -> None:
        self._hosted = hosted
        self._deletes = deletes
        self._on_log_start_moved = on_log_start_moved
        self._flushed_at: dict[Key, float] = {}
        self.flush_at = FOREVER
        """The time of the next `flush_due`; FOREVER while no topic has flush.ms."""

    def apply_retention(self, now_ms: int, keys: Iterable[Key] | None = None) -> int:
        """Delete expired segments of some replicas or all. Return their number."""
        deleted = 0
        for replica in self._hosted.chosen(keys):
            before = replica.log.log_start_offset
            try:
                deleted += apply_retention(replica.log, retention_of(replica.config), now_ms)
            except KafkaStorageError as error:
                logger.warning("Failed to apply the retention of %s-%d: %s", *replica.key, error)
            if replica.log.log_start_offset != before:
                self._on_log_start_moved(replica.key)
        return deleted

    def roll(self, keys: Iterable[Key] | None = None) -> int:
        """Roll some logs or all, except those with an empty active segment. Return their number."""
        return sum(replica.log.roll() for replica in self._hosted.chosen(keys))

    # ------------------------------------------------------------------ flushing

    def flush(self, keys: Iterable[Key] | None = None) -> None:
        """Force some logs or all to the disk. Raise `KafkaStorageError`."""
        for replica in self._hosted.chosen(keys):
            replica.log.flush()

    def flush_due(self, now: float) -> float:
        """Flush the logs whose last flush is flush.ms ago. Return the time of the next call.

        Unlike Kafka, which looks every log.flush.scheduler.interval.ms (by default never), a log is flushed
        when it is due.
        """
        next_at = FOREVER
        for key, replica in self._hosted.replicas.items():
            interval = replica.config.get("flush.ms")
            if interval >= NEVER:
                continue
            due = self._flushed_at.setdefault(key, now) + interval / 1000
            if due <= now:
                if replica.log.recovery_point < replica.log.log_end_offset:
                    self._flush_logged(replica)
                self._flushed_at[key] = now
                due = now + max(interval / 1000, SHORTEST_INTERVAL)
            next_at = min(next_at, due)
        self.flush_at = next_at
        return next_at

    def _flush_logged(self, replica: Replica) -> None:
        try:
            replica.log.flush()
        except KafkaStorageError as error:
            logger.warning("Failed to flush %s-%d: %s", *replica.key, error)

    # ------------------------------------------------------------------ DeleteRecords

    def delete_records(
        self,
        offsets: Mapping[Key, int],
        deadline: float,
        on_done: Callable[[dict[Key, DeleteResult]], None],
        now: float,
    ) -> DelayedDeleteRecords | None:
        """Advance log starts to these offsets (-1: the high watermark).

        Return the operation if it must wait.

        Results contain errors. `on_done` is called once the live replicas have followed, or at the deadline
        (in seconds of the monotonic clock).
        """
        results = {key: self._delete(key, offset) for key, offset in offsets.items()}
        operation = DelayedDeleteRecords(deadline, self._hosted, results, on_done)
        if not operation.keys:
            operation.force_complete(now)
            return None
        if self._deletes.try_complete_else_watch(operation, operation.keys, now):
            return None
        return operation

    def delete_obsolete(self, key: Key, offset: int) -> None:
        """Delete the records of a coordinator's partition before an offset, up to the high watermark.

        Raise `NotLeaderOrFollower`.
        """
        log = self._hosted.leader_of(key).log
        if log.advance_log_start(min(offset, log.high_watermark)):
            self._on_log_start_moved(key)

    def _delete(self, key: Key, offset: int) -> DeleteResult:
        hosted = self._hosted
        try:
            if hosted.is_internal(key[0]):
                raise InvalidTopicException(f"records of the internal topic {key[0]} cannot be deleted")
            replica = hosted.leader_of(key)
            policy = replica.config.get("cleanup.policy")
            if "compact" in policy and "delete" not in policy:
                raise PolicyViolation(f"{key[0]} is compacted only: its records cannot be deleted")
            log = replica.log
            wanted = log.high_watermark if offset == HIGH_WATERMARK else offset
            if not 0 <= wanted <= log.high_watermark:
                raise OffsetOutOfRange(
                    f"{key[0]}-{key[1]}: offset {wanted} is outside [0, {log.high_watermark}]"
                )
            if log.advance_log_start(wanted):
                self._on_log_start_moved(key)
            low_watermark = replica.low_watermark(hosted.image.is_alive)
            return DeleteResult(required_offset=wanted, low_watermark=low_watermark)
        except BrokerError as error:
            return DeleteResult(error)
