"""Deletes segments by age and size: retention.ms and retention.bytes.

Whole segments are deleted from the front, never past the high watermark; the active one only after a roll. A
log that is only compacted is deleted only up to its start. Kafka's UnifiedLog.deleteOldSegments.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.broker.log.segment import Segment
from pykafka2.broker.log.segments import timestamp_of

NO_LIMIT = -1

IsDeletable = Callable[[Segment], bool]


@attrs.define(frozen=True)
class RetentionPolicy:
    """`deletes` is whether cleanup.policy contains delete; -1 means no limit."""

    deletes: bool = True
    max_age_ms: int = 604_800_000
    max_bytes: int = NO_LIMIT


def apply_retention(log: PartitionLog, policy: RetentionPolicy, now_ms: int) -> int:
    """Delete segments by the policy and advance the log's start. Return the number of deleted segments."""
    deleted = log.drop_before_start()
    if not policy.deletes:
        return deleted
    if policy.max_bytes >= 0:
        deleted += _delete(log, _too_many(log, policy.max_bytes))
    if policy.max_age_ms >= 0:
        deleted += _delete(log, _too_old(log, now_ms - policy.max_age_ms, now_ms))
    return deleted


def _too_old(log: PartitionLog, oldest_ms: int, now_ms: int) -> IsDeletable:
    """Return a predicate: whether all records of the segment are older than `oldest_ms`.

    An empty segment, which compaction leaves, is as old as the next one.
    """
    deletable: set[Segment] = set()
    timestamp = now_ms
    for segment in reversed([*log.segments]):
        if segment.size_bytes:
            timestamp = timestamp_of(segment, now_ms)
        if timestamp < oldest_ms:
            deletable.add(segment)
    return deletable.__contains__


def _too_many(log: PartitionLog, max_bytes: int) -> IsDeletable:
    """Return a predicate: whether the log without the segment is still at least `max_bytes`."""
    surplus = log.size_bytes - max_bytes

    def is_deletable(segment: Segment) -> bool:
        nonlocal surplus
        if surplus < segment.size_bytes:
            return False
        surplus -= segment.size_bytes
        return True

    return is_deletable


def _delete(log: PartitionLog, is_deletable: IsDeletable) -> int:
    """Delete from the front while the predicate holds and the high watermark is past the segment."""
    segments = list(log.segments)
    count = 0
    for number, segment in enumerate(segments):
        is_active = number + 1 == len(segments)
        end = log.log_end_offset if is_active else segments[number + 1].base_offset
        if log.high_watermark < end or (is_active and not segment.size_bytes) or not is_deletable(segment):
            break
        count += 1
    if count and count == len(segments):
        log.roll()  # a log always has an active segment
    if count:
        end = log.log_end_offset if count == len(segments) else segments[count].base_offset
        log.advance_log_start(end)
    return count
