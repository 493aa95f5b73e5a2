"""Segments whose records have no timestamps are as old as their files, as in Apache Kafka."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pykafka2.broker.log.disk.segment_file import LOG
from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.broker.log.retention import RetentionPolicy, apply_retention
from pykafka2.broker.log.segments import RollLimits
from pykafka2.broker.replication.log_cleaner import CompactionPolicy, cleanable_part, compact
from pykafka2.compression.steps import finish
from pykafka2.errors import KafkaStorageError
from pykafka2.testing.simulation.files import SimFiles
from tests.broker.log.disk.on_disk import StorageOnDisk, append, bases

AGE = RetentionPolicy(max_age_ms=1000)
NO_TIMESTAMP = -1


class UntimedLog:
    """A log of three rolled segments without timestamps, and an empty active one.

    Their files were written at 10,000, 20,000 and 30,000 ms.
    """

    def __init__(self, path: Path) -> None:
        self.disk = StorageOnDisk(path)
        self.path = path / "t-0"
        self.log = self.disk.log()
        for number in range(3):
            append(self.log, b"x", key=b"k%d" % number, at=NO_TIMESTAMP)
            append(self.log, b"x", key=b"k", at=NO_TIMESTAMP)
            self.log.roll()
            self.write_at(2 * number, 10_000 * (number + 1))
        self.log.advance_high_watermark(self.log.log_end_offset)

    def write_at(self, base_offset: int, modified_ms: int) -> None:
        """Set the time of the last write to a segment's file."""
        os.utime(self.path / f"{base_offset:020d}{LOG}", ns=(0, modified_ms * 1_000_000))


@pytest.fixture
def untimed(tmp_path: Path) -> UntimedLog:
    return UntimedLog(tmp_path)


def test_segment_without_timestamps_expires_by_the_time_of_its_file(untimed: UntimedLog) -> None:
    assert apply_retention(untimed.log, AGE, 11_000) == 0
    assert apply_retention(untimed.log, AGE, 11_001) == 1
    assert bases(untimed.log) == [2, 4, 6]
    assert apply_retention(untimed.log, AGE, 21_001) == 1
    assert bases(untimed.log) == [4, 6]


def test_file_times_count_after_a_restart_too(untimed: UntimedLog) -> None:
    untimed.log = untimed.disk.restart()
    assert apply_retention(untimed.log, AGE, 11_000) == 0
    assert apply_retention(untimed.log, AGE, 21_001) == 2


def test_segment_with_one_timestamp_expires_by_it_and_not_by_its_file(tmp_path: Path) -> None:
    untimed = UntimedLog(tmp_path)
    append(untimed.log, b"x", at=50_000)
    append(untimed.log, b"x", at=NO_TIMESTAMP)
    untimed.log.roll()
    untimed.log.advance_high_watermark(untimed.log.log_end_offset)
    untimed.write_at(6, 1)
    apply_retention(untimed.log, AGE, 51_000)
    assert bases(untimed.log) == [6, 8]
    apply_retention(untimed.log, AGE, 51_001)
    assert bases(untimed.log) == [8]


def test_min_compaction_lag_of_a_segment_without_timestamps_is_counted_from_its_file(
    untimed: UntimedLog,
) -> None:
    policy = CompactionPolicy(min_dirty_ratio=0.0, min_lag_ms=1000)
    assert cleanable_part(untimed.log, policy, 10_999).segments == []
    assert len(cleanable_part(untimed.log, policy, 11_000).segments) == 1


def test_compacted_segment_has_the_file_time_of_the_last_one_that_it_replaces(untimed: UntimedLog) -> None:
    cleaned = finish(compact(untimed.log, CompactionPolicy(min_dirty_ratio=0.0), 0))
    assert cleaned is not None
    assert bases(untimed.log) == [0, 6]
    assert apply_retention(untimed.log, AGE, 31_000) == 0
    assert apply_retention(untimed.log, AGE, 31_001) == 1


def test_several_compacted_segments_have_the_file_times_of_their_own_ones(untimed: UntimedLog) -> None:
    size = next(iter(untimed.log.segments)).size_bytes
    untimed.log.limit_segments(RollLimits(max_bytes=2 * size))
    finish(compact(untimed.log, CompactionPolicy(min_dirty_ratio=0.0), 0))
    assert bases(untimed.log) == [0, 4, 6]
    assert apply_retention(untimed.log, AGE, 20_999) == 0
    assert apply_retention(untimed.log, AGE, 21_001) == 1
    assert bases(untimed.log) == [4, 6]


def test_unreadable_file_time_takes_the_directory_offline(untimed: UntimedLog) -> None:
    os.remove(untimed.path / f"{0:020d}{LOG}")
    with pytest.raises(KafkaStorageError, match=r"reading .* failed"):
        apply_retention(untimed.log, AGE, 11_001)
    assert untimed.log.is_offline


def test_segment_without_timestamps_in_memory_never_expires() -> None:
    log = PartitionLog("t", 0, bytes(16))
    append(log, b"x", at=NO_TIMESTAMP)
    log.roll()
    log.advance_high_watermark(1)
    assert apply_retention(log, AGE, 1 << 50) == 0


def test_files_of_the_simulation_have_the_time_of_their_last_write() -> None:
    now = [1]
    files = SimFiles(1, lambda: now[0])
    file = files.open("/a", creates=True)
    found = [files.modified_ms("/a")]
    for now[0], change in enumerate((lambda: file.write(0, b"xy"), lambda: file.truncate(1), file.flush), 2):
        change()
        found.append(files.modified_ms("/a"))
    files.rename("/a", "/b")
    assert [*found, files.modified_ms("/b")] == [1, 2, 3, 3, 3]
    files.set_modified_ms("/b", 77)
    assert files.modified_ms("/b") == 77
    with pytest.raises(FileNotFoundError):
        files.modified_ms("/a")
