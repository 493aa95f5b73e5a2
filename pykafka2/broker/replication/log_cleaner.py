"""Compacts the logs of one broker in the background, one log at a time, in short steps. Kafka's LogCleaner.

The active segment, open transactions, records above the high watermark and records younger than
min.compaction.lag.ms are not compacted. Access requires the cluster's lock; the log can change between steps.

Leaders and followers compact their own logs. Called by the broker's timers; requires the cluster's lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Final, cast

import attrs

from pykafka2.broker.base.image import Key
from pykafka2.broker.config.configs import BrokerConfig, TopicConfig
from pykafka2.broker.log.compaction import Cleaned, CleaningRound, LastRecord, clean
from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.broker.log.segment import Segment
from pykafka2.broker.log.segments import timestamp_of
from pykafka2.broker.replication.replica import HostedReplicas
from pykafka2.compression.steps import Steps
from pykafka2.errors import KafkaError, KafkaStorageError, PolicyViolation

OVERDUE: Final = 2.0
"""Above any dirty ratio, so that logs past max.compaction.lag.ms are compacted first."""


@attrs.define(frozen=True)
class CompactionPolicy:
    """The compaction options of a topic; `compacts` is True if cleanup.policy contains compact."""

    compacts: bool = True
    min_dirty_ratio: float = 0.5
    delete_retention_ms: int = 86_400_000
    min_lag_ms: int = 0
    max_lag_ms: int = 2**63 - 1


@attrs.define(frozen=True)
class Cleanable:
    """The segments of a log that can be compacted now, and how many of their bytes are dirty."""

    segments: list[Segment]
    first_dirty_offset: int
    upper_offset: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool
    """Whether a dirty record is older than max.compaction.lag.ms."""

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


def cleanable_part(log: PartitionLog, policy: CompactionPolicy, now_ms: int) -> Cleanable:
    """Return the rolled segments that can be compacted now."""
    segments = list(log.segments)
    first_dirty = max(log.clean_offset, log.log_start_offset)
    stable = log.last_stable_offset
    count = clean_bytes = dirty_bytes = 0
    upper = segments[0].base_offset
    is_overdue = False
    for segment, following in pairwise(segments):
        if following.base_offset > stable:
            break
        is_dirty = following.base_offset > first_dirty
        if is_dirty:
            if policy.min_lag_ms and timestamp_of(segment, now_ms) > now_ms - policy.min_lag_ms:
                break
            dirty_bytes += segment.size_bytes
            if 0 < segment.first_timestamp < now_ms - policy.max_lag_ms:
                is_overdue = True
        else:
            clean_bytes += segment.size_bytes
        count, upper = count + 1, following.base_offset
    return Cleanable(segments[:count], first_dirty, upper, clean_bytes, dirty_bytes, is_overdue)


def dirty_ratio(log: PartitionLog, policy: CompactionPolicy, now_ms: int) -> float | None:
    """Return the dirty ratio of a log that is due for compaction, OVERDUE, or None if it is not due."""
    if not policy.compacts or len(log.segments) < 2:
        return None
    part = cleanable_part(log, policy, now_ms)
    if not part.dirty_bytes:
        return None
    if part.is_overdue:
        return OVERDUE
    return part.dirty_ratio if part.dirty_ratio > policy.min_dirty_ratio else None


def compact(
    log: PartitionLog, policy: CompactionPolicy, now_ms: int, *, from_start: bool = False
) -> Steps[Cleaned | None]:
    """Compact a log in steps.

    `from_start` also compacts clean segments again, which removes tombstones past their delete horizon.
    Return None if no segment could be compacted, or if the log was truncated, moved or deleted meanwhile, or
    has lost segments. Its new segments are deleted then, and after a `KafkaError`.
    """
    part = cleanable_part(log, policy, now_ms)
    first_dirty = log.log_start_offset if from_start else part.first_dirty_offset
    if not part.segments or part.upper_offset <= first_dirty:
        return None
    changes = log.changes
    made: list[Segment] = []

    def new_segment(base_offset: int) -> Segment:
        made.append(log.files.new_cleaned_segment(base_offset))
        return made[-1]

    last_records = {
        state.producer_id: LastRecord(state.batches[-1].last_offset if state.batches else None, state.epoch)
        for state in log.producers
    }
    steps = clean(
        CleaningRound(
            part.segments,
            first_dirty,
            part.upper_offset,
            now_ms,
            policy.delete_retention_ms,
            log.segments.limits.max_bytes,
            last_records,
            log.aborted_transactions(part.segments[0].base_offset, part.upper_offset),
            new_segment,
        )
    )
    try:
        cleaned = yield from _until(lambda: log.changes != changes, steps)
    except KafkaError:
        _delete(made)
        raise
    if cleaned is not None and log.replace_cleaned(cleaned):
        return cleaned
    _delete(made)
    return None


def _until(is_void: Callable[[], bool], steps: Steps[Cleaned]) -> Steps[Cleaned | None]:
    """Run the steps; return None once their result would be void."""
    while not is_void():
        try:
            cost = next(steps)
        except StopIteration as end:
            return cast(Cleaned, end.value)
        yield cost
    return None


def _delete(segments: list[Segment]) -> None:
    for segment in segments:
        segment.delete()


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
