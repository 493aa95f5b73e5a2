"""Races of a log on disk: deletion, moves, crashes and failing disks during slow work."""

from __future__ import annotations

import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pykafka2.broker.config.configs import BrokerConfig, TopicConfig
from pykafka2.broker.log.disk.real_files import RealFiles
from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.broker.log.segments import RollLimits
from pykafka2.broker.replication.log_cleaner import CompactionPolicy, LogCleaner, compact
from pykafka2.compression.steps import finish
from pykafka2.errors import KafkaStorageError
from pykafka2.testing.simulation.files import SimFiles
from tests.broker.log.disk.on_disk import StorageOnDisk, append, held
from tests.broker.support.batches import batch, view

POLICY = CompactionPolicy(min_dirty_ratio=0.0)


def filled(disk: StorageOnDisk) -> PartitionLog:
    """Return a log of two segments, whose compaction takes several steps."""
    log = disk.log()
    for _ in range(10):
        keys = [b"%d" % (number % 100) for number in range(1000)]
        log.append_as_leader(view(batch([b"x"] * 1000, keys=keys)), 0)
    log.advance_high_watermark(log.log_end_offset)
    log.roll()
    return log


def names_below(path: Path, ending: str) -> list[str]:
    return sorted(one.name for one in path.rglob(f"*{ending}"))


@pytest.mark.parametrize("ending", [".log", ".log.cleaned"])  # before and after the first new segment
def test_deletion_of_a_topic_ends_its_compaction_and_keeps_the_directory_online(
    disk: StorageOnDisk, ending: str
) -> None:
    log = filled(disk)
    running = compact(log, POLICY, 0)
    next(running)
    while not names_below(disk.path, ending):
        next(running)
    disk.storage.remove(log)
    disk.run_for_a_minute()
    disk.files.close()  # as the limit of open files does
    assert finish(running) is None
    assert disk.storage.volumes[0].failure is None


@pytest.mark.gate
def test_move_of_a_log_ends_its_compaction_and_leaves_no_unfinished_segment(tmp_path: Path) -> None:
    disk = StorageOnDisk(tmp_path, directories=2)
    log = filled(disk)
    running = compact(log, POLICY, 0)
    while not names_below(tmp_path, ".log.cleaned"):
        next(running)
    disk.move(log, f"{tmp_path}/1")
    assert finish(running) is None
    assert [volume.failure for volume in disk.storage.volumes] == [None, None]
    assert sum(one.count for one in log.batches()) == 10_000
    cleaned = finish(compact(log, POLICY, 0))
    assert cleaned is not None
    assert sum(one.count for one in log.batches()) == 100


@pytest.mark.gate
def test_records_that_a_compaction_removes_during_a_move_are_removed_after_it(tmp_path: Path) -> None:
    disk = StorageOnDisk(tmp_path, directories=2)
    log = filled(disk)
    disk.storage.move(log, f"{tmp_path}/1")
    [move] = disk.storage.moves
    while not move.step(1000):
        pass
    assert finish(compact(log, POLICY, 0)) is not None
    assert sum(one.count for one in log.batches()) == 100
    move.step(1000)
    move.finish()
    assert finish(compact(log, POLICY, 0)) is not None
    assert sum(one.count for one in log.batches()) == 100
    clean_offset = log.clean_offset
    disk.move(log, f"{tmp_path}/0")  # without a compaction meanwhile, nothing is compacted again
    assert log.clean_offset == clean_offset


def test_topic_deleted_before_the_flush_of_a_rolled_segment_keeps_the_directory_online(
    disk: StorageOnDisk,
    log: PartitionLog,
) -> None:
    append(log, b"x")
    disk.runs_at_once = False
    log.roll()
    disk.storage.remove(log)
    disk.run_background()
    assert disk.storage.volumes[0].failure is None


@pytest.mark.gate
@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors in /proc")
@pytest.mark.parametrize("restarts", [False, True])
def test_deleted_segment_has_no_open_descriptor_after_its_removal(
    disk: StorageOnDisk, log: PartitionLog, restarts: bool
) -> None:
    log.limit_segments(RollLimits(max_bytes=300))
    append(log, *[b"x" * 100] * 40)
    if restarts:
        log = disk.restart()
    log.advance_high_watermark(log.log_end_offset)
    log.advance_log_start(30)
    disk.run_for_a_minute()
    targets = [os.readlink(f"/proc/self/fd/{name}") for name in _descriptors()]
    assert [one for one in targets if "(deleted)" in one and str(disk.path) in one] == []


def _descriptors() -> list[str]:
    return [name for name in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{name}")]


def test_reader_of_a_removed_segment_fails_and_the_directory_stays_online(
    disk: StorageOnDisk, log: PartitionLog
) -> None:
    log.limit_segments(RollLimits(max_bytes=300))
    append(log, *[b"x" * 100] * 40)
    log.advance_high_watermark(log.log_end_offset)
    first = next(iter(log.segments))
    log.advance_log_start(30)
    disk.run_for_a_minute()
    with pytest.raises(KafkaStorageError, match="was deleted"):
        list(first.iterate())
    assert disk.storage.volumes[0].failure is None


@pytest.mark.gate
def test_many_rolls_at_once_use_a_limited_number_of_descriptors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    files = RealFiles(max_open=10)
    disk = StorageOnDisk(tmp_path, files=files)
    disk.runs_at_once = False
    before = len(os.listdir("/dev/fd"))
    log = disk.log()
    for _ in range(300):
        append(log, b"x")
        log.roll()
    assert len(os.listdir("/dev/fd")) < before + 200
    disk.run_background()
    assert log.recovery_point == 300
    disk.stop(is_clean=True)
    assert len(os.listdir("/dev/fd")) <= before


@pytest.mark.parametrize("is_lost", [False, True])
def test_leader_epochs_before_the_recovery_point_survive_a_crash_of_the_machine(is_lost: bool) -> None:
    files, disk, log = StorageOnDisk.simulated()
    for epoch in (1, 3, 5):
        log.epochs.assign(epoch, log.log_end_offset)
        log.append_as_leader(view(batch([b"x"] * 4)), epoch)
    log.roll()
    assert log.recovery_point == log.log_end_offset
    disk.run_for_a_minute()
    files.content("/data/recovery-point-offset-checkpoint").flush()
    disk.stop(is_clean=False)
    files.lose_unflushed("/data")
    if is_lost:  # by an earlier release, which did not flush it
        files.content("/data/t-0/leader-epoch-checkpoint").data.clear()
    disk.start()
    assert disk.log().epochs.entries == [(1, 0), (3, 4), (5, 8)]


def test_flushed_log_keeps_its_topic_id_after_a_crash_of_the_machine() -> None:
    files = SimFiles(1)
    disk = StorageOnDisk("/data", files=files)
    disk.runs_at_once = False  # the flush of the new directory does not end before the crash
    log = disk.log()
    append(log, b"x")
    log.flush()
    disk.stop(is_clean=False)
    files.lose_unflushed("/data")
    disk.start()
    assert len(list(disk.log().batches())) == 1


def test_cleaner_skips_a_log_with_an_unreadable_segment_and_compacts_the_others() -> None:
    files = SimFiles(1)
    disk = StorageOnDisk("/data", files=files, directories=2)
    logs = []
    for partition in (0, 1):
        log = disk.log(partition=partition)
        append(log, b"x", b"x", b"x", key=b"k")
        log.roll()
    disk.restart()
    for partition in (0, 1):
        log = disk.log(partition=partition)
        append(log, b"x", key=b"k")
        log.advance_high_watermark(log.log_end_offset)
        logs.append(log)
    files.broken.add("/data/0")
    config = BrokerConfig({"log.cleaner.min.cleanable.ratio": 0.0})
    options = TopicConfig({"cleanup.policy": "compact"}, config)
    replicas = {log.partition: SimpleNamespace(log=log, config=options) for log in logs}
    cleaner = LogCleaner(cast(Any, SimpleNamespace(replicas=replicas)), config)
    for now in range(20):
        cleaner.run(float(now), 1_000_000_000)
    assert [volume.failure is None for volume in disk.storage.volumes] == [False, True]
    assert len(list(logs[1].batches())) == 2


def test_move_from_an_unreadable_directory_takes_only_that_one_offline() -> None:
    files, disk, log = StorageOnDisk.simulated(directories=2)
    append(log, b"x")
    files.broken.add("/data/0/t-0/00000000000000000000.log")
    with pytest.raises(KafkaStorageError, match="reading /data/0/t-0"):
        disk.move(log, "/data/1")
    assert [volume.failure is None for volume in disk.storage.volumes] == [False, True]


def test_names_of_a_moved_log_are_forced_to_the_disk_the_old_one_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, log = StorageOnDisk.with_log(tmp_path, directories=2)
    append(log, b"x")
    names: list[tuple[str, list[str]]] = []
    flush = RealFiles.flush_directory

    def noted(self: RealFiles, path: str) -> None:
        flush(self, path)
        logs = sorted(f"{one.parent.name}/{one.name}" for one in tmp_path.glob("*/t-0*"))
        names.append((path, [re.sub(r"\.[0-9a-f]{32}", "", name) for name in logs]))

    monkeypatch.setattr(RealFiles, "flush_directory", noted)
    disk.move(log, f"{tmp_path}/1")
    # Otherwise a crash of the machine could leave the log in both, and the next start would refuse it.
    old = names.index((f"{tmp_path}/0", ["0/t-0-delete", "1/t-0-future"]))
    assert names.index((f"{tmp_path}/1", ["0/t-0-delete", "1/t-0"])) > old


def test_crash_of_the_machine_after_a_truncation_does_not_restore_flushed_records() -> None:
    files, disk, log = StorageOnDisk.simulated()
    append(log, *(b"old %d" % number for number in range(8)))
    log.roll()  # flushes the segment
    disk.runs_at_once = False
    log.truncate_to(5)
    log.roll()  # is not flushed before the crash
    append(log, *(b"new %d" % number for number in range(3)))
    files.content("/data/t-0/00000000000000000005.log").flush()
    kept = held(log)
    disk.stop(is_clean=False)
    files.lose_unflushed("/data")
    disk.start()
    assert held(disk.log()) == kept


def test_truncation_forces_the_names_of_dropped_segments_to_the_disk(
    disk: StorageOnDisk, log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.limit_segments(RollLimits(max_bytes=300))
    append(log, *[b"x" * 100] * 20)
    names: list[list[str]] = []
    flush = RealFiles.flush_directory

    def noted(self: RealFiles, path: str) -> None:
        flush(self, path)
        if path == f"{disk.path}/t-0":
            names.append(sorted(one.name for one in Path(path).glob("*.log")))

    monkeypatch.setattr(RealFiles, "flush_directory", noted)
    log.truncate_to(1)
    assert names == [["00000000000000000000.log"]]


def test_damaged_checkpoint_of_clean_offsets_loses_no_record_of_a_compacted_log(
    disk: StorageOnDisk, log: PartitionLog
) -> None:
    log.limit_segments(RollLimits(max_bytes=300))
    for number in range(20):
        append(log, b"x" * 20, key=b"%d" % (0 if number in (1, 2, 3) else number))
    append(log, b"x", key=b"0")
    log.advance_high_watermark(log.log_end_offset)
    log.roll()
    finish(compact(log, POLICY, 0))
    kept = held(log)
    disk.stop(is_clean=False)
    (disk.path / "cleaner-offset-checkpoint").write_text("damaged")
    disk.start()
    assert held(disk.log()) == kept
