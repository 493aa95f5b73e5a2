"""Compacts the logs of one broker in the background, one log at a time, in short steps. Kafka's LogCleaner.

Leaders and followers compact their own logs. Called by the broker's timers; requires the cluster's lock.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from pykafka2.broker.base.image import Key
from pykafka2.broker.config.configs import BrokerConfig, TopicConfig
from pykafka2.broker.log.compaction import Cleaned
from pykafka2.broker.log.log_cleaner import CompactionPolicy, compact, dirty_ratio
from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.broker.replication.hosted import HostedReplicas
from pykafka2.compression.steps import Steps
from pykafka2.errors import KafkaError, KafkaStorageError, PolicyViolation

logger = logging.getLogger(__name__)

PAUSE = 0.001
"""Seconds between two steps, so that the broker handles requests in between."""


def compaction_of(config: TopicConfig) -> CompactionPolicy:
    """Return the compaction options of a topic."""
    return CompactionPolicy(
        config.is_compacted,
        config.get("min.cleanable.dirty.ratio"),
        config.get("delete.retention.ms"),
        config.get("min.compaction.lag.ms"),
        config.get("max.compaction.lag.ms"),
    )


class LogCleaner:
    """Compacts the dirtiest log step by step; waits for log.cleaner.backoff.ms when no log is due."""

    def __init__(self, hosted: HostedReplicas, config: BrokerConfig) -> None:
        self._hosted = hosted
        self._config = config
        self._running: Steps[Cleaned | None] | None = None
        self._log: PartitionLog | None = None
        self._uncleanable: set[tuple[bytes, int]] = set()

    def run(self, now: float, now_ms: int) -> float:
        """Run one step. Return the time of the next one, in seconds of the monotonic clock."""
        rest = now + self._config.seconds("log.cleaner.backoff.ms")
        if self._running is None and not self._choose(now_ms):
            return rest
        log, running = self._log, self._running
        if log is None or running is None:
            return rest
        try:
            next(running)
            return now + PAUSE
        except StopIteration:
            pass
        except KafkaError as error:
            # As in Kafka, a log that cannot be read is skipped from now on, and the others are compacted.
            self._uncleanable.add((log.topic_id, log.partition))
            logger.warning(
                "Failed to compact a log, which is skipped from now on: %s-%d: %s",
                log.topic,
                log.partition,
                error,
            )
        self._running = self._log = None
        return now + PAUSE if self._choose(now_ms) else rest

    def _choose(self, now_ms: int) -> bool:
        """Start to compact the dirtiest log. Return False if no log is due."""
        if not self._config.get("log.cleaner.enable"):
            return False
        most = -1.0
        for replica in self._hosted.replicas.values():
            if (replica.log.topic_id, replica.log.partition) in self._uncleanable:
                continue
            policy = compaction_of(replica.config)
            try:
                ratio = dirty_ratio(replica.log, policy, now_ms)
            except KafkaStorageError:
                continue  # the volume has logged it, and is offline
            if ratio is not None and ratio > most:
                most, self._log = ratio, replica.log
                self._running = compact(replica.log, policy, now_ms)
        return self._running is not None

    def compact_now(self, keys: Iterable[Key], now_ms: int, rolls: bool) -> Steps[int]:
        """Compact these logs at any dirty ratio, in steps. Return the number of removed records.

        `rolls` rolls the active segments first. Raise `PolicyViolation` if cleanup.policy lacks "compact".
        """
        removed = 0
        for replica in self._hosted.chosen(keys):
            policy = compaction_of(replica.config)
            if not policy.compacts:
                topic, configured = replica.key[0], replica.config.text("cleanup.policy")
                raise PolicyViolation(
                    f"Topic {topic!r} has cleanup.policy={configured}, so it cannot be compacted. "
                    f"Set it to 'compact' or 'compact,delete'."
                )
            if rolls:
                replica.log.roll()
            cleaned = yield from compact(replica.log, policy, now_ms, from_start=True)
            if cleaned is not None:
                removed += cleaned.records_read - cleaned.records_kept
        return removed
