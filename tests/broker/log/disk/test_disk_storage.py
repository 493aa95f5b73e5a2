"""The storage on disk of one broker: several directories, moves, deletions, failures, large indexes."""

from __future__ import annotations

import os
import re
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.log.batch import placed
from pykafka2.broker.log.disk.checkpoints import Intervals
from pykafka2.broker.log.disk.data_directory import Identity, open_directories
from pykafka2.broker.log.disk.disk_storage import DiskStorages
from pykafka2.broker.log.disk.log_directory import on_disk
from pykafka2.broker.log.disk.real_files import RealFile, RealFiles
from pykafka2.broker.log.log_files import DiskSettings
from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.broker.log.segments import RollLimits
from pykafka2.errors import CorruptMessage, KafkaStorageError
from pykafka2.testing.simulation.files import SimFile, SimFiles
from tests.broker.log.disk.on_disk import (
    TOPIC_ID,
    StorageOnDisk,
    abort,
    append,
    append_in_transaction,
    bases,
    held,
)
from tests.broker.support.batches import batch, view


def test_new_logs_go_to_the_directory_with_the_fewest(tmp_path: Path) -> None:
    disk = StorageOnDisk(tmp_path, directories=2)
    for partition in range(4):
        disk.log(partition=partition)
    assert [len(list((tmp_path / name).glob("t-*"))) for name in ("0", "1")] == [2, 2]


def test_log_moves_to_another_directory_and_is_found_there_after_a_restart(tmp_path: Path) -> None:
    disk, log = StorageOnDisk.with_log(tmp_path, directories=2)
    log.limit_segments(RollLimits(max_bytes=300))
    append(log, *(b"%d" % number * 20 for number in range(10)))
    before = held(log)
    assert (tmp_path / "0/t-0").exists()
    disk.move(log, f"{tmp_path}/1")
    assert held(log) == before
    append(log, b"after")
    assert (tmp_path / "1/t-0").exists()
    assert not (tmp_path / "0/t-0").exists()
    disk.run_for_a_minute()
    assert not list(tmp_path.glob("0/t-0*"))
    again = disk.restart()
    assert held(again)[:-1] == before
    assert disk.storage.places.of(TOPIC_ID, 0) == f"{tmp_path}/1"
    assert [one.name for one in tmp_path.glob("0/*-delete")] == []


def test_deleted_log_is_renamed_at_once_and_removed_after_the_delay(
    disk: StorageOnDisk, log: PartitionLog
) -> None:
    append(log, b"x")
    disk.storage.remove(log)
    [renamed] = disk.path.glob("t-0.*-delete")
    assert not (disk.path / "t-0").exists()
    disk.storage.run(1000.0)
    assert renamed.exists()
    disk.storage.run(1061.0)
    assert not renamed.exists()
    assert held(disk.log()) == []


def test_log_of_a_topic_that_is_gone_is_kept_as_stray(disk: StorageOnDisk) -> None:
    append(disk.log(), b"x")
    disk.restart()
    disk.storage.remove_unknown(set())
    [stray] = disk.path.glob("t-0.*-stray")
    assert (stray / "00000000000000000000.log").stat().st_size
    assert disk.restart().log_end_offset == 0
    assert stray.exists()


def test_directory_of_another_topic_with_this_name_is_moved_aside(disk: StorageOnDisk) -> None:
    append(disk.log(), b"of the old topic")
    recreated = disk.log(topic_id=bytes(16))
    assert recreated.log_end_offset == 0
    assert list(disk.path.glob("t-0.*-stray"))
    disk.stop(is_clean=False)


def test_failed_directory_is_offline_and_the_other_one_accepts_records() -> None:
    files = SimFiles(1)
    disk = StorageOnDisk("/data", files=files, directories=2)
    first, second = disk.log(partition=0), disk.log(partition=1)
    append(first, b"kept")
    files.broken.add("/data/0")
    with pytest.raises(KafkaStorageError, match=r"appending to /data/0/t-0/.*/data/0 is offline"):
        append(first, b"lost")
    assert first.log_end_offset == 1
    with pytest.raises(KafkaStorageError, match="is offline"):
        first.read(0, 1, 100, min_one=True)
    append(second, b"goes on")
    assert disk.log(partition=2).files.volume.path == "/data/1"  # type: ignore[attr-defined]
    assert not disk.storage.is_offline
    files.broken.add("/data/1")
    with pytest.raises(KafkaStorageError):
        append(second, b"lost")
    assert disk.storage.is_offline
    disk.stop(is_clean=True)
    files.broken.clear()
    assert not files.exists("/data/0/.kafka_cleanshutdown")
    assert len(held(disk.restart())) == 1


def test_full_index_rolls_the_segment_as_in_kafka(tmp_path: Path) -> None:
    disk, log = StorageOnDisk.with_log(tmp_path, index_interval=1)
    log.files.configure(DiskSettings(index_interval_bytes=1, max_index_bytes=8 * 5))
    append(log, *(b"%d" % number for number in range(50)))
    segments = on_disk(log.segments)
    assert len(segments) == 9
    assert [segment.offsets.count for segment in segments[:-1]] == [5] * 8
    for number in range(50):
        [found] = log.read(number, number + 1, 1000, min_one=True).batches
        assert found.base_offset == number
    assert len(held(disk.restart())) == 50


def test_unfinished_compaction_is_dropped_and_a_swapped_one_is_completed(
    disk: StorageOnDisk, log: PartitionLog
) -> None:
    log.limit_segments(RollLimits(max_bytes=300))
    append(log, *(b"%d" % number * 20 for number in range(12)))
    starts = bases(log)
    before = held(log)
    disk.stop(is_clean=True)
    folder = disk.path / "t-0"
    (folder / f"{starts[0]:020d}.log.cleaned").write_bytes(b"unfinished")
    (folder / f"{starts[1]:020d}.log.swap").write_bytes(b"above an unfinished one")
    (folder / f"{starts[2]:020d}.index.deleted").write_bytes(b"")
    disk.start()
    assert held(disk.log()) == before
    disk.stop(is_clean=True)
    # All are named .swap: the first one has the first batch of two segments.
    (folder / f"{0:020d}.log.swap").write_bytes(before[0] + before[starts[1]])
    disk.start()
    assert held(disk.log()) == [before[0], before[starts[1]], *before[starts[2] :]]
    assert {one.suffix for one in folder.iterdir()} <= {
        "",
        ".log",
        ".index",
        ".timeindex",
        ".metadata",
        ".snapshot",
    }


def test_recreated_topic_survives_a_kill_before_the_next_checkpoint(
    disk: StorageOnDisk, log: PartitionLog
) -> None:
    append(log, b"0", b"1", b"2", b"3", b"4")
    log.advance_high_watermark(5)
    log.advance_log_start(3)
    log.clean_offset = 5
    log.flush()
    disk.run_for_a_minute()
    disk.storage.remove(log)
    again = disk.log(topic_id=bytes(reversed(TOPIC_ID)))
    append(again, b"acknowledged")
    disk.stop(is_clean=False)
    disk.start()
    found = disk.log(topic_id=bytes(reversed(TOPIC_ID)))
    assert (found.log_start_offset, found.log_end_offset, found.high_watermark) == (0, 1, 0)
    assert (found.recovery_point, found.clean_offset) == (0, 0)


def test_log_that_starts_within_a_batch_survives_a_kill(disk: StorageOnDisk, log: PartitionLog) -> None:
    log.truncate_fully_and_start_at(3)  # the leader's log start after DeleteRecords
    log.append_as_follower(batch([b"%d" % number for number in range(5)]))
    log.append_as_follower(placed(view(batch([b"after"])), 5, 0).buffer)
    again = disk.restart(is_clean=False)
    assert (again.log_start_offset, again.log_end_offset) == (3, 6)
    assert len(held(again)) == 2


@pytest.mark.parametrize("is_torn_at", [1, 2])
def test_kill_while_a_log_moves_keeps_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_torn_at: int
) -> None:
    disk, log = StorageOnDisk.with_log(tmp_path, directories=2)
    append(log, b"first", b"second")
    before = held(log)
    renames: list[str] = []
    rename = disk.files.rename

    def killed(path: str, new_path: str) -> None:
        renames.append(path)
        if len(renames) == is_torn_at:
            raise KeyboardInterrupt
        rename(path, new_path)

    with monkeypatch.context() as patch:
        patch.setattr(disk.files, "rename", killed)
        with pytest.raises(KeyboardInterrupt):
            disk.move(log, f"{tmp_path}/1")
    again = disk.restart(is_clean=False)
    assert held(again) == before
    append(again, b"third")
    assert len(held(disk.restart(is_clean=False))) == 3
    assert len([*tmp_path.glob("[01]/t-0")]) == 1
    assert not [*tmp_path.glob("[01]/*-stray")]


def test_log_start_survives_a_kill_after_the_log_has_moved(tmp_path: Path) -> None:
    disk, log = StorageOnDisk.with_log(tmp_path, directories=2)
    append(log, b"0", b"1", b"2", b"3", b"4")
    log.advance_high_watermark(5)
    log.advance_log_start(3)
    disk.move(log, f"{tmp_path}/1")
    assert disk.restart(is_clean=False).log_start_offset == 3


@pytest.mark.parametrize("name", ["my-delete", "t-\u00b2", "-0", "t--1", "orders-0.x-delete"])
def test_foreign_directories_in_a_data_directory_are_left_alone(disk: StorageOnDisk, name: str) -> None:
    append(disk.log(), b"x")
    (disk.path / name).mkdir()
    (disk.path / name / "file").write_bytes(b"foreign")
    assert len(held(disk.restart())) == 1
    assert (disk.path / name / "file").read_bytes() == b"foreign"


@pytest.mark.parametrize("name", [b"caf\xe9-0", "caf\u00e9-0".encode(), b"two words-0"])
def test_directories_without_the_name_of_a_topic_are_left_alone(disk: StorageOnDisk, name: bytes) -> None:
    append(disk.log(), b"x")
    disk.stop(is_clean=True)
    foreign = disk.path / os.fsdecode(name)
    foreign.mkdir()
    (foreign / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAABQ")
    disk.start()
    for now in (0.0, 100.0):
        disk.storage.run(now)
    disk.storage.remove_unknown({TOPIC_ID})
    assert len(held(disk.log())) == 1
    assert os.listdir(foreign) == ["partition.metadata"]


@pytest.mark.parametrize(
    "name",
    [
        "x.log",
        "notes.snapshot",
        "copy.index",
        "README",
        "0.log.bak",
        "7.log",
        "\u00b2.log",
        "x.swap",
        "x.tmp",
    ],
)
@pytest.mark.parametrize("is_clean", [True, False])
def test_foreign_files_in_a_log_are_left_alone(disk: StorageOnDisk, name: str, is_clean: bool) -> None:
    append(disk.log(), b"x")
    (disk.path / "t-0" / name).write_bytes(b"foreign")
    assert len(held(disk.restart(is_clean=is_clean))) == 1
    assert (disk.path / "t-0" / name).read_bytes() == b"foreign"


def test_file_and_symbolic_link_named_like_a_deleted_log_do_not_prevent_a_start(disk: StorageOnDisk) -> None:
    append(disk.log(), b"x")
    elsewhere = disk.path.parent / f"{disk.path.name}-elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").write_bytes(b"")
    (disk.path / f"t-1.{'0' * 32}-delete").write_bytes(b"a file")
    (disk.path / f"t-2.{'0' * 32}-delete").symlink_to(elsewhere)
    assert len(held(disk.restart())) == 1
    assert (elsewhere / "kept").exists()


def test_deleted_log_of_a_long_name_keeps_its_partition_as_in_kafka(disk: StorageOnDisk) -> None:
    disk.storage.remove(disk.log("x" * 249, 12))
    [renamed] = disk.path.glob("x*-delete")
    assert re.fullmatch(r"x+-12\.[0-9a-f]{32}-delete", renamed.name)
    assert len(renamed.name) == 255


def test_power_loss_after_a_truncation_below_the_recovery_point_leaves_no_hole() -> None:
    files, disk, log = StorageOnDisk.simulated()
    log.limit_segments(RollLimits(max_bytes=300))
    append(log, *(b"old %d" % number * 10 for number in range(20)))
    log.flush()
    disk.run_for_a_minute()
    log.truncate_to(4)
    disk.runs_at_once = False  # the flushes of rolled segments do not end before the crash
    append(log, *(b"new %d" % number * 10 for number in range(16)))
    disk.stop(is_clean=False)
    for segment in range(5, 12):  # only some segments reach the disk
        path = f"/data/t-0/{segment:020d}.log"
        if files.exists(path):
            files.content(path).data.clear()
    disk.start()
    offsets = [one.base_offset for one in disk.log().batches()]
    assert offsets == [*range(len(offsets))]
    assert disk.log().log_end_offset == len(offsets) < 12


@pytest.mark.parametrize(
    "name", [".kafka_cleanshutdown", "recovery-point-offset-checkpoint", "replication-offset-checkpoint"]
)
def test_unreadable_file_of_one_directory_takes_only_that_one_offline(tmp_path: Path, name: str) -> None:
    disk = StorageOnDisk(tmp_path, directories=2)
    append(disk.log(), b"in the first one")
    append(disk.log(partition=1), b"in the second one")
    disk.stop(is_clean=True)
    (tmp_path / "1" / name).unlink()
    (tmp_path / "1" / name).mkdir()
    disk.start()
    assert len(held(disk.log())) == 1
    disk.run_for_a_minute()
    assert [volume.failure is None for volume in disk.storage.volumes] == [True, False]


def test_checkpoint_with_an_offset_beyond_64_bits_is_ignored(disk: StorageOnDisk) -> None:
    append(disk.log(), b"x")
    disk.stop(is_clean=True)
    (disk.path / "log-start-offset-checkpoint").write_text(f"0\n1\nt 0 {2**63}\n")
    disk.start()
    assert len(held(disk.log())) == 1


@pytest.mark.gate
def test_process_without_a_free_descriptor_closes_files_instead_of_failing_the_disk(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    disk = StorageOnDisk(tmp_path)
    taken: list[int] = []
    used = len(os.listdir("/dev/fd"))
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + 60, limits[1]))
        for partition in range(40):
            append(disk.log(partition=partition), b"x" * 100)
        with suppress(OSError):
            while True:  # as clients do that connect
                taken.append(os.dup(1))
        for partition in range(40):
            append(disk.log(partition=partition), b"y" * 100)
        new = disk.log(partition=40)
        append(new, b"z")
        new.roll()
        append(new, b"z")
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert disk.storage.volumes[0].failure is None
    assert len(held(disk.log(partition=7))) == 2


def test_log_that_moves_before_the_flush_of_a_rolled_segment_keeps_the_directories_online(
    tmp_path: Path,
) -> None:
    disk, log = StorageOnDisk.with_log(tmp_path, directories=2)
    disk.runs_at_once = False
    append(log, b"x")
    log.roll()
    disk.move(log, f"{tmp_path}/1")
    disk.run_background()
    assert [volume.failure for volume in disk.storage.volumes] == [None, None]


def test_log_that_is_copied_in_several_pieces_moves_as_a_whole_and_leaves_no_file_open(
    tmp_path: Path,
) -> None:
    disk, log = StorageOnDisk.with_log(tmp_path, directories=2)
    append(log, *(b"%d" % number * 20 for number in range(10)))
    before = held(log)
    disk.move(log, f"{tmp_path}/1", step=100)
    assert [file.path for file in open_files(disk) if not os.path.exists(file.path)] == []
    assert held(log) == before
    assert held(disk.restart(is_clean=False)) == before


def open_files(disk: StorageOnDisk) -> list[RealFile]:
    assert isinstance(disk.files, RealFiles)
    return list(disk.files._open)


def test_abandoned_cleaned_segment_leaves_no_file_open(disk: StorageOnDisk, log: PartitionLog) -> None:
    segment = log.files.new_cleaned_segment(0)
    segment.append(view(batch([b"x"])))
    segment.delete()
    assert not list(disk.path.glob("t-0/*.cleaned"))
    assert [file.path for file in open_files(disk) if not os.path.exists(file.path)] == []


def test_nothing_is_written_to_a_failed_directory() -> None:
    files, disk, log = StorageOnDisk.simulated()
    append(log, b"x")
    files.broken.add("/data/t-0")
    with pytest.raises(KafkaStorageError):
        append(log, b"y")
    files.broken.clear()
    before = contents(files)
    log.epochs.assign(5, log.log_end_offset)
    for action in (lambda: append(log, b"z"), log.flush, log.roll, lambda: log.read(0, 1, 9, min_one=True)):
        with pytest.raises(KafkaStorageError, match="is offline"):
            action()
    disk.run_for_a_minute()
    disk.stop(is_clean=True)
    assert contents(files) == before


def contents(files: SimFiles) -> dict[str, bytes]:
    return {name: bytes(one.data) for name, one in files._files.items()}


def test_append_that_fails_in_the_index_leaves_no_bytes_in_the_segment() -> None:
    files, disk, log = StorageOnDisk.simulated(index_interval=1)
    append(log, b"first")
    path = f"/data/t-0/{0:020d}"
    size = files.size(f"{path}.log")
    files.broken.add(f"{path}.timeindex")
    with pytest.raises(KafkaStorageError):
        append(log, b"second")
    files.broken.clear()
    assert (files.size(f"{path}.log"), files.size(f"{path}.index")) == (size, 0)
    assert held(disk.restart(is_clean=False)) == [files.read(f"{path}.log")]


def test_failed_flush_in_the_background_leaves_no_descriptor_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, log = StorageOnDisk.with_log(tmp_path, index_interval=1)
    disk.runs_at_once = False
    append(log, b"0", b"1", b"2")
    before = len(open_files(disk)), len(os.listdir("/dev/fd"))
    log.roll()

    def fail(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        disk.run_background()
    opened = len(open_files(disk)) - before[0]
    assert len(os.listdir("/dev/fd")) - before[1] <= opened + 1  # a spare one for directories
    assert disk.storage.is_offline
    assert log.recovery_point == 0
    disk.stop(is_clean=False)


def test_truncation_cuts_the_indexes_before_the_segment() -> None:
    # After a crash in between, no entry points behind the end of the segment.
    files = CutOrder(1)
    disk = StorageOnDisk("/data", files=files, index_interval=1)
    log = disk.log()
    append(log, b"0", b"1", b"2", b"3", b"4")
    files.cut.clear()
    log.truncate_to(2)
    assert files.cut.index("index") < files.cut.index("log")
    assert files.cut.index("timeindex") < files.cut.index("log")


class CutOrder(SimFiles):
    """Files that remember the order in which they were truncated."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.cut: list[str] = []

    def open(self, path: str, *, creates: bool = False) -> SimFile:
        file = super().open(path, creates=creates)
        cut = self.cut

        class Watched(SimFile):
            def truncate(self, size: int) -> None:
                cut.append(self.path.rpartition(".")[2])
                super().truncate(size)

        return Watched(file.path, self)


def test_time_index_has_each_timestamp_once_at_the_first_batch_with_it(tmp_path: Path) -> None:
    _, log = StorageOnDisk.with_log(tmp_path, index_interval=1)
    for at in (5, 5, 7, 7, 6, 9):
        append(log, b"x", at=at)
    log.roll()
    first = on_disk(log.segments)[0]
    assert [first.times.entry(number) for number in range(first.times.count)] == [(5, 0), (7, 2), (9, 5)]


def test_lost_records_after_delete_records_do_not_count_those_below_the_start(
    disk: StorageOnDisk, log: PartitionLog
) -> None:
    append(log, b"0", b"1", b"2", b"3", b"4")
    log.advance_high_watermark(5)
    log.advance_log_start(3)
    assert disk.storage.lose_unflushed() == 2
    disk.restart(is_clean=False)


def test_checkpoints_are_written_at_their_intervals(disk: StorageOnDisk, log: PartitionLog) -> None:
    disk.storage.run(0.0)
    written: dict[str, list[int]] = {
        "replication-offset-checkpoint": [],
        "recovery-point-offset-checkpoint": [],
    }
    for second in range(1, 122):
        append(log, b"x")
        log.advance_high_watermark(log.log_end_offset)
        log.recovery_point = log.log_end_offset
        before = {name: read(disk.path / name) for name in written}
        disk.storage.run(float(second))
        for name, seconds in written.items():
            if read(disk.path / name) != before[name]:
                seconds.append(second)
    assert written["replication-offset-checkpoint"] == list(range(5, 122, 5))
    assert written["recovery-point-offset-checkpoint"] == [60, 120]


def read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def test_deleted_log_that_a_crash_has_left_is_removed_at_the_start(
    disk: StorageOnDisk, log: PartitionLog
) -> None:
    append(log, b"x")
    disk.storage.remove(log)
    assert list(disk.path.glob("*-delete"))
    disk.restart(is_clean=False)
    assert not list(disk.path.glob("*-delete"))


def test_batch_across_the_limit_of_a_read_is_returned_whole(disk: StorageOnDisk, log: PartitionLog) -> None:
    for _ in range(3):
        log.append_as_leader(view(batch([b"a", b"b", b"c"])), 0)
    for upper, count in ((1, 1), (2, 1), (3, 1), (4, 2), (9, 3)):
        assert len(log.read(0, upper, 1 << 20, min_one=True).batches) == count
        region = log.region(0, upper, 1 << 20, min_one=True)
        assert region is not None
        assert (region.next_offset, region.length) == (3 * count, count * log.size_bytes // 3)


def test_read_of_whole_batches_takes_exactly_max_bytes(disk: StorageOnDisk, log: PartitionLog) -> None:
    append(log, b"x", b"x", b"x")
    size = log.size_bytes // 3
    for max_bytes, count in ((2 * size - 1, 1), (2 * size, 2), (2 * size + 1, 2), (size - 1, 1)):
        assert len(log.read(0, 9, max_bytes, min_one=True).batches) == count
    assert log.read(0, 9, size - 1, min_one=False).batches == []


@pytest.mark.parametrize("size", [80, 200, 5 << 20])
def test_segment_that_has_become_shorter_ends_a_read_with_an_error(
    disk: StorageOnDisk, log: PartitionLog, size: int
) -> None:
    append(log, b"first", b"x" * (6 << 20))
    os.truncate(disk.path / f"t-0/{0:020d}.log", size)
    with pytest.raises(CorruptMessage, match=r"0\.log ends within the batch at position"):
        held(log)
    disk.stop(is_clean=False)


def test_flush_that_fails_at_a_stop_leaves_the_other_directories_clean() -> None:
    files = SimFiles(1)
    disk = StorageOnDisk("/data", files=files, directories=2)
    for partition in range(2):
        append(disk.log(partition=partition), b"x")
    files.broken.add("/data/0/t-0")
    disk.stop(is_clean=True)
    assert not files.exists("/data/0/.kafka_cleanshutdown")
    assert files.exists("/data/1/.kafka_cleanshutdown")


def test_read_after_a_truncation_does_not_use_the_places_of_before(
    disk: StorageOnDisk, log: PartitionLog
) -> None:
    append(log, b"0", b"1", b"2", b"3")
    assert len(log.read(0, 2, 1 << 20, min_one=True).batches) == 2  # the place of offset 2 is remembered
    log.truncate_to(1)
    append(log, b"longer than before", b"2", b"3")
    [found] = log.read(2, 3, 1 << 20, min_one=True).batches
    assert found.base_offset == 2


def test_largest_timestamp_after_a_truncation_is_that_of_the_remaining_batches(
    disk: StorageOnDisk, log: PartitionLog
) -> None:
    for at in (5, 9, 7):
        append(log, b"x", at=at)
    log.truncate_to(1)
    [segment] = on_disk(log.segments)
    assert segment.latest == (5, 0)
    [segment] = on_disk(disk.restart().segments)
    assert segment.latest == (5, 0)


def test_index_entries_after_a_truncation_are_as_far_apart_as_before(tmp_path: Path) -> None:
    _, log = StorageOnDisk.with_log(tmp_path, index_interval=250)
    append(log, *[b"x" * 40] * 4)  # 108 bytes each
    log.truncate_to(2)
    append(log, *[b"x" * 40] * 2)
    [segment] = on_disk(log.segments)
    assert segment.offsets.count == 1


def test_options_of_the_broker_set_the_files_and_the_intervals_of_its_checkpoints(tmp_path: Path) -> None:
    directories = open_directories([str(tmp_path)], RealFiles(), Identity("c", 0), lambda: UUID(int=1))
    runtime: Any = None
    config = BrokerConfig(
        {
            "log.index.interval.bytes": "1",
            "log.index.size.max.bytes": "2000",
            "log.segment.delete.delay.ms": "3000",
            "log.flush.offset.checkpoint.interval.ms": "4000",
            "log.flush.start.offset.checkpoint.interval.ms": "5000",
            "replica.high.watermark.checkpoint.interval.ms": "6000",
        }
    )
    storage = DiskStorages({0: directories}, runtime, nullcontext()).new(0, config)
    assert storage._settings == DiskSettings(1, 2000, 3.0)
    assert storage._checkpoints.intervals == Intervals(4.0, 5.0, 6.0)
    directories[0].close()


def test_only_a_log_start_within_a_segment_is_in_the_checkpoint(disk: StorageOnDisk) -> None:
    for partition in range(3):
        log = disk.log(partition=partition)
        for _ in range(2):
            append(log, b"x")
            log.roll()
        append(log, b"x", b"x")
        log.advance_high_watermark(4)
        log.advance_log_start(partition + 1)
    disk.stop(is_clean=True)
    # As in Kafka: offsets 0, 1 and 2 begin a segment.
    assert (disk.path / "log-start-offset-checkpoint").read_text() == "0\n1\nt 2 3\n"


def test_transaction_index_is_deleted_with_its_segment(disk: StorageOnDisk, log: PartitionLog) -> None:
    append_in_transaction(log)
    abort(log)
    log.roll()
    append(log, b"y")
    log.advance_high_watermark(3)
    log.advance_log_start(2)
    assert f"{0:020d}.txnindex.deleted" in disk.names()
    disk.run_for_a_minute()
    assert [name for name in disk.names() if name.startswith(f"{0:020d}")] == []


def test_recovery_without_the_epoch_checkpoint_reads_each_batch_once(
    disk: StorageOnDisk, log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    for epoch in (0, 0, 3):
        log.append_as_leader(view(batch([b"x" * 10_000])), epoch)
    epochs = [*log.epochs.entries]
    disk.stop(is_clean=False)
    (disk.path / "t-0/leader-epoch-checkpoint").unlink()
    sizes: list[int] = []
    read = RealFile.read

    def counted(file: RealFile, position: int, size: int) -> bytes:
        data = read(file, position, size)
        if file.path.endswith(".log"):
            sizes.append(len(data))
        return data

    monkeypatch.setattr(RealFile, "read", counted)
    disk.start()
    assert disk.log().epochs.entries == epochs
    assert sum(sizes) < 1.5 * disk.log().size_bytes


def test_no_index_entry_points_behind_the_end_of_a_truncated_log(tmp_path: Path) -> None:
    _, log = StorageOnDisk.with_log(tmp_path, index_interval=1)
    for at in range(6):
        append(log, b"x", at=at)
    for end in (5, 3, 1):
        log.truncate_to(end)
        [segment] = on_disk(log.segments)
        entries = [segment.offsets.entry(number) for number in range(segment.offsets.count)]
        assert [offset for offset, _ in entries] == [*range(1, end)]
        assert all(position < segment.size_bytes for _, position in entries)
        times = [segment.times.entry(number) for number in range(segment.times.count)]
        assert times == [(at, at) for at in range(1, end)]


def test_first_failure_of_a_directory_is_the_reason_that_is_reported(disk: StorageOnDisk) -> None:
    [volume] = disk.storage.volumes
    volume.fail(OSError(5, "Input/output error"), "reading a")
    with pytest.raises(KafkaStorageError, match=r"reading a failed .Input/output error."):
        raise volume.fail(OSError(28, "No space left"), "writing b")


def test_time_of_the_next_removal_is_that_of_the_earliest_file(disk: StorageOnDisk) -> None:
    [volume] = disk.storage.volumes
    assert volume.remove_due(1.0) is None
    volume.remove_later(f"{disk.path}/a")
    volume.remove_later(f"{disk.path}/b", 10.0)
    assert [volume.remove_due(now) for now in (1.0, 10.0, 11.0, 61.0)] == [11.0, 11.0, 61.0, None]


def test_size_after_a_truncation_is_that_of_the_files(disk: StorageOnDisk, log: PartitionLog) -> None:
    log.limit_segments(RollLimits(max_bytes=300))
    append(log, *(b"%d" % number * 20 for number in range(12)))
    for end in (11, 7, 3):
        log.truncate_to(end)
        assert log.size_bytes == sum(path.stat().st_size for path in disk.path.glob("t-0/*.log"))


def test_segment_rolls_before_its_offsets_need_more_than_31_bits(tmp_path: Path) -> None:
    disk, log = StorageOnDisk.with_log(tmp_path, index_interval=1)
    for offset in (0, 2**31 - 1, 2**31):  # the leader's compaction has removed the others
        log.append_as_follower(placed(view(batch([b"x"])), offset, 0).buffer)
    assert bases(log) == [0, 2**31]
    assert len(held(disk.restart(is_clean=False))) == 3
