"""Segments and retention of one log: when segments roll, and which are deleted."""

from __future__ import annotations

import pytest

from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.broker.log.retention import RetentionPolicy, apply_retention
from pykafka2.broker.log.segments import RollLimits
from pykafka2.broker.replication.log_cleaner import CompactionPolicy, compact
from pykafka2.compression.steps import finish
from tests.broker.support.batches import batch, view

SIZE = len(batch([b"0"]))


def log_of(*timestamps: int, limits: RollLimits = RollLimits(max_bytes=2 * SIZE)) -> PartitionLog:  # noqa: B008
    """A log with a batch of one record for each timestamp, two in a segment, all below the high watermark."""
    log = PartitionLog("t", 0, bytes(16))
    log.limit_segments(limits)
    for timestamp in timestamps:
        log.append_as_leader(view(batch([b"0"], timestamp=timestamp)), 0)
    log.advance_high_watermark(log.log_end_offset)
    return log


def bases(log: PartitionLog) -> list[int]:
    return [segment.base_offset for segment in log.segments]


class TestSegments:
    def test_a_segment_is_rolled_by_size(self) -> None:
        assert bases(log_of(1, 2, 3, 4, 5)) == [0, 2, 4]

    def test_a_segment_is_rolled_by_the_time_its_records_span(self) -> None:
        log = log_of(1000, 1500, 2000, 2001, 2500, limits=RollLimits(max_age_ms=1000))
        assert bases(log) == [0, 3]

    def test_a_read_ends_with_its_segment(self) -> None:
        log = log_of(1, 2, 3)
        assert [one.base_offset for one in log.read(0, 3, 1 << 20, min_one=True).batches] == [0, 1]
        assert [one.base_offset for one in log.read(2, 3, 1 << 20, min_one=True).batches] == [2]

    def test_an_empty_segment_is_not_rolled(self) -> None:
        log = log_of(1)
        assert log.roll()
        assert not log.roll()
        assert bases(log) == [0, 1]


class TestRetention:
    AGE = RetentionPolicy(max_age_ms=1000)

    def test_segment_expires_by_its_largest_timestamp(self) -> None:
        log = log_of(5000, 0, 100, 200, 300)
        assert apply_retention(log, self.AGE, 6000) == 0, "5000 is in the first segment"
        assert apply_retention(log, self.AGE, 6001) == 3
        assert (log.log_start_offset, bases(log)) == (5, [5])

    def test_an_old_segment_behind_a_young_one_stays(self) -> None:
        log = log_of(0, 0, 5000, 5000, 0, 0, 0)
        assert apply_retention(log, self.AGE, 5500) == 1
        assert (log.log_start_offset, bases(log)) == (2, [2, 4, 6])

    def test_retention_keeps_records_at_or_above_the_high_watermark(self) -> None:
        log = log_of(0, 0, 0, 0)
        log.append_as_leader(view(batch([b"0"], timestamp=0)), 0)
        assert apply_retention(log, self.AGE, 9999) == 2
        assert (log.log_start_offset, bases(log)) == (4, [4])

    @pytest.mark.parametrize(("time", "expires"), [(1300, False), (1301, True)])
    def test_segment_emptied_by_compaction_expires_with_the_next_one(self, time: int, expires: bool) -> None:
        log = log_of()
        log.limit_segments(RollLimits(max_bytes=3 * SIZE))
        for number in range(7):
            log.append_as_leader(view(batch([b"0"], keys=[b"k"], timestamp=50 * number)), 0)
        log.advance_high_watermark(7)
        log.roll()
        finish(compact(log, CompactionPolicy(min_dirty_ratio=0.0), 0))
        *emptied, last, active = [segment.size_bytes > 0 for segment in log.segments]
        assert (any(emptied), last, active) == (False, True, False)
        before = bases(log)
        apply_retention(log, self.AGE, time)
        assert bases(log) == (before[-1:] if expires else before)

    def test_active_segment_expires_only_after_a_roll(self) -> None:
        log = log_of(0)
        assert apply_retention(log, self.AGE, 9999) == 1
        assert (log.log_start_offset, log.log_end_offset, bases(log)) == (1, 1, [1])
        assert apply_retention(log, self.AGE, 9999) == 0, "an empty one stays"

    def test_retention_by_size_keeps_at_least_the_limit(self) -> None:
        log = log_of(1, 2, 3, 4, 5)
        for limit, start in ((5 * SIZE, 0), (3 * SIZE + 1, 0), (3 * SIZE, 2), (SIZE, 4), (0, 5)):
            apply_retention(log, RetentionPolicy(max_age_ms=-1, max_bytes=limit), 9999)
            assert log.log_start_offset == start

    def test_minus_one_is_no_limit_and_compacted_logs_are_kept(self) -> None:
        log = log_of(0, 0, 0)
        assert apply_retention(log, RetentionPolicy(max_age_ms=-1), 1 << 50) == 0
        assert apply_retention(log, RetentionPolicy(deletes=False, max_age_ms=1, max_bytes=0), 9999) == 0

    def test_producer_state_outlives_deleted_batches(self) -> None:
        log = log_of()
        first = view(batch([b"0"], timestamp=0, producer_id=7, producer_epoch=0, base_sequence=0))
        log.append_as_leader(first, 0)
        log.advance_high_watermark(1)
        apply_retention(log, self.AGE, 9999)
        log.append_as_leader(view(batch([b"x"], timestamp=9999)), 0)
        log.truncate_to(1)  # rebuilds the states of producers from the log and the states before its start
        assert log.append_as_leader(first, 0).is_duplicate

    def test_segments_before_the_start_of_a_compacted_log_are_deleted(self) -> None:
        log = log_of(0, 0, 0, 0, 0)
        log.log_start_offset = 3  # as loaded from the checkpoint of log starts
        assert apply_retention(log, RetentionPolicy(deletes=False), 9999) == 1
        assert bases(log) == [2, 4]
