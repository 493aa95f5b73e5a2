"""Flushes of logs: what is forced to the disk, and when, on files that remember what a crash keeps."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pykafka2.broker.log.disk.real_files import RealFiles
from pykafka2.broker.log.segments import RollLimits
from pykafka2.broker.replication.log_cleaner import CompactionPolicy, compact
from pykafka2.compression.steps import finish
from pykafka2.testing.simulation.files import SimFiles
from tests.broker.log.disk.on_disk import StorageOnDisk, abort, append, append_in_transaction
from tests.broker.support.batches import NOW_MS, batch, view

LOG = "/data/t-0"
RECOVERY_POINTS = "/data/recovery-point-offset-checkpoint"
CLEAN_OFFSETS = "/data/cleaner-offset-checkpoint"


class WatchedFiles(SimFiles):
    """Files that remember the flushes of directories, and what was not flushed at each rename."""

    def __init__(self) -> None:
        super().__init__(1)
        self.flushed: list[str] = []
        self.renames: list[str] = []
        self.unflushed_at_rename: list[list[str]] = []
        self.unflushed_at_mark: list[str] | None = None
        self.before_rename: Callable[[], object] = lambda: None

    def flush_directory(self, path: str) -> None:
        super().flush_directory(path)
        self.flushed.append(path)

    def rename(self, path: str, new_path: str) -> None:
        if not path.endswith(".tmp"):
            self.before_rename()
            self.renames.append(new_path)
            directory = path if self.is_directory(path) else path.rpartition("/")[0]
            self.unflushed_at_rename.append(self.unflushed(directory))
        super().rename(path, new_path)

    def replace(self, path: str, data: bytes, *, flushes: bool = True) -> None:
        if path.endswith(".kafka_cleanshutdown"):
            self.unflushed_at_mark = [*self.unflushed(), *self.unflushed(path.rpartition("/")[0])]
        super().replace(path, data, flushes=flushes)

    def read_or_empty(self, path: str) -> bytes:
        return self.read(path) if self.exists(path) else b""

    def unflushed(self, directory: str = LOG) -> list[str]:
        """Return the names of the files whose content a crash can lose."""
        paths = {name: f"{directory}/{name}" for name in self.names(directory)}
        return [
            name
            for name, path in paths.items()
            if not self.is_directory(path) and self.content(path).data != self.content(path).flushed
        ]


class WatchedLog:
    """A log on such files, whose background work waits for `run_background`."""

    def __init__(self, index_interval: int = 4096) -> None:
        self.files = WatchedFiles()
        self.disk = StorageOnDisk("/data", files=self.files, index_interval=index_interval)
        self.log = self.disk.log()
        self.disk.runs_at_once = False

    def append(self, *values: bytes) -> None:
        append(self.log, *values, at=NOW_MS)

    def abort(self) -> None:
        """Append an aborted transaction."""
        append_in_transaction(self.log)
        abort(self.log)

    def limit(self, max_bytes: int) -> None:
        self.log.limit_segments(RollLimits(max_bytes=max_bytes))


def kinds(names: list[str]) -> set[str]:
    return {name.partition(".")[2] for name in names}


def test_roll_flushes_every_file_in_the_background_before_the_recovery_point_advances() -> None:
    watched = WatchedLog(index_interval=1)
    watched.append(b"0", b"1", b"2")
    watched.abort()
    assert kinds(watched.files.unflushed()) >= {"log", "index", "timeindex", "txnindex"}
    watched.log.roll()
    assert watched.log.recovery_point == 0
    watched.files.flushed.clear()
    watched.disk.run_background()
    assert watched.files.unflushed() == []
    assert LOG in watched.files.flushed
    assert watched.log.recovery_point == 5


def test_roll_flushes_the_last_index_entry_after_a_flush_of_the_records() -> None:
    watched = WatchedLog()
    watched.append(b"0")
    watched.log.flush()
    watched.log.roll()
    assert f"{0:020d}.timeindex" in watched.files.unflushed()
    watched.disk.run_background()
    assert watched.files.unflushed() == []


def test_flush_forces_all_segments_and_their_names_and_has_nothing_to_do_the_second_time() -> None:
    watched = WatchedLog()
    watched.limit(150)
    watched.append(*(b"%d" % number * 20 for number in range(6)))
    assert len(watched.log.segments) > 2
    watched.files.flushed.clear()
    watched.log.flush()
    assert [name for name in watched.files.unflushed() if not name.endswith(".snapshot")] == []
    assert LOG in watched.files.flushed
    assert watched.log.recovery_point == 6
    count = watched.files.flushes
    watched.log.flush()
    assert watched.files.flushes == count


def test_records_after_a_truncation_are_flushed_although_the_size_is_as_before() -> None:
    watched = WatchedLog()
    watched.append(b"old 0", b"old 1")
    watched.log.flush()
    watched.log.truncate_to(1)
    watched.append(b"new 1")
    assert f"{0:020d}.log" in watched.files.unflushed()
    watched.log.flush()
    assert watched.files.unflushed() == []
    assert watched.log.recovery_point == 2


def test_flush_that_ends_after_a_truncation_does_not_advance_the_recovery_point() -> None:
    watched = WatchedLog()
    watched.append(b"0", b"1", b"2")
    watched.log.roll()
    watched.log.truncate_to(1)
    watched.append(b"new 1", b"new 2")
    watched.disk.run_background()
    assert watched.log.recovery_point == 0


def test_flush_that_ends_after_the_log_has_started_elsewhere_does_not_advance_the_recovery_point() -> None:
    watched = WatchedLog()
    watched.append(*(b"%d" % number for number in range(9)))
    watched.log.roll()
    watched.log.truncate_fully_and_start_at(2)
    assert watched.log.recovery_point == 2
    watched.disk.run_background()
    assert watched.log.recovery_point == 2


def test_records_that_recovery_has_found_are_flushed_by_the_next_flush() -> None:
    watched = WatchedLog(index_interval=1)
    watched.append(b"0", b"1", b"2")
    watched.abort()
    watched.log = watched.disk.restart(is_clean=False)
    assert watched.log.recovery_point == 0
    assert f"{0:020d}.log" in watched.files.unflushed()
    watched.log.flush()
    assert watched.files.unflushed() == []


def test_clean_stop_leaves_nothing_that_a_crash_of_the_machine_can_lose() -> None:
    watched = WatchedLog(index_interval=1)
    watched.append(b"0", b"1", b"2")
    watched.abort()
    watched.log.advance_high_watermark(5)
    watched.disk.run_for_a_minute()
    watched.disk.stop(is_clean=True)
    assert watched.files.exists(f"{LOG}/{5:020d}.snapshot")
    assert watched.files.unflushed() == []
    assert watched.files.unflushed("/data") == []
    assert watched.files.unflushed_at_mark == []


def test_topic_id_and_the_name_of_a_new_log_are_flushed_in_the_background() -> None:
    watched = WatchedLog()
    watched.files.flushed.clear()
    watched.disk.log(partition=1)
    assert watched.files.unflushed("/data/t-1") == ["partition.metadata"]
    watched.disk.run_background()
    assert watched.files.unflushed("/data/t-1") == []
    assert {"/data/t-1", "/data"} <= {*watched.files.flushed}


def test_meta_properties_of_a_new_directory_are_flushed() -> None:
    assert "meta.properties" not in WatchedLog().files.unflushed("/data")


def test_compaction_is_flushed_before_a_segment_replaces_another_and_the_last_one_is_the_first() -> None:
    watched = WatchedLog()
    watched.limit(200)
    for number in range(8):
        watched.log.append_as_leader(view(batch([b"v" * 50], keys=[b"%d" % number])), 0)
    watched.log.advance_high_watermark(8)
    watched.disk.run_background()
    watched.files.renames.clear()
    watched.files.unflushed_at_rename.clear()
    checkpoints: list[bytes] = []
    watched.files.before_rename = lambda: checkpoints.append(watched.files.read_or_empty(CLEAN_OFFSETS))
    assert finish(compact(watched.log, CompactionPolicy(min_dirty_ratio=0.0), 1_000)) is not None
    assert watched.files.renames[0].endswith(".swap")
    assert [name for name in watched.files.unflushed_at_rename[0] if name.endswith(".cleaned")] == []
    # Recovery must know that offsets can be missing before it finds that some are.
    assert checkpoints[0] == b"0\n1\nt 0 %d\n" % watched.log.clean_offset
    swaps = [name.rpartition("/")[2] for name in watched.files.renames if name.endswith(".log.swap")]
    assert len(swaps) > 1
    assert swaps == sorted(swaps, reverse=True)


def test_copy_of_a_moved_log_is_flushed_before_it_takes_the_place_of_the_log() -> None:
    files = WatchedFiles()
    disk = StorageOnDisk("/data", files=files, directories=2)
    log = disk.log()
    log.append_as_leader(view(batch([b"x"])), 0)
    files.unflushed_at_rename.clear()
    files.flushed.clear()
    disk.move(log, "/data/1")
    assert [path.rpartition("-")[2] for path in files.renames[:2]] == ["delete", "0"]
    assert files.unflushed_at_rename[1] == []
    assert any(path.endswith("-future") for path in files.flushed)


def test_lowered_recovery_point_is_flushed_at_once_and_those_of_other_logs_stay() -> None:
    watched = WatchedLog()
    other = watched.disk.log(partition=1)
    other.append_as_leader(view(batch([b"other"])), 0)
    watched.append(b"0", b"1", b"2")
    for one in (watched.log, other):
        one.flush()
    watched.disk.run_for_a_minute()
    watched.log.truncate_to(1)
    content = watched.files.content(RECOVERY_POINTS)
    assert sorted(content.flushed.splitlines()[2:]) == [b"t 0 1", b"t 1 1"]
    watched.log.flush()
    watched.append(b"1", b"2")
    watched.log.flush()
    watched.disk.storage.run(122.0)
    watched.log.truncate_fully_and_start_at(2)
    assert b"t 0 2" in watched.files.content(RECOVERY_POINTS).flushed.splitlines()


@pytest.mark.skipif(os.name == "nt", reason="inodes")
def test_real_flushes_call_fsync_and_leave_no_descriptor_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[int] = []
    fsync = os.fsync

    def watched(descriptor: int) -> None:
        flushed.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    files, path = RealFiles(), tmp_path / "0.log"
    file = files.open(str(path), creates=True)
    inode = path.stat().st_ino
    file.flush()
    assert flushed == [inode]
    before = len(os.listdir("/dev/fd"))
    flush = file.later_flush()
    assert flushed == [inode]
    flush()
    assert flushed == [inode, inode]
    assert len(os.listdir("/dev/fd")) == before
    files.replace(str(tmp_path / "1.txnindex"), b"data")
    assert flushed[2:] == [(tmp_path / "1.txnindex").stat().st_ino, tmp_path.stat().st_ino]
    files.replace(str(tmp_path / "leader-epoch-checkpoint"), b"data", flushes=False)
    assert len(flushed) == 4
    files.flush_directory(str(path))
    assert flushed[4:] == [inode]
    files.close()
