"""Producer snapshots in the directory of a log: one for each segment, and what a restart makes of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykafka2.broker.log.disk.index_files import ProducerEntry
from pykafka2.broker.log.disk.producer_snapshots import ProducerSnapshots, entries_of, states_of
from pykafka2.broker.log.disk.real_files import RealFiles
from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.broker.log.producer_state import ProducerStates
from pykafka2.broker.log.segments import RollLimits
from pykafka2.broker.replication.log_cleaner import CompactionPolicy, compact
from pykafka2.compression.steps import finish
from tests.broker.log.disk.on_disk import StorageOnDisk, bases
from tests.broker.support.batches import batch, view


def snapshots(disk: StorageOnDisk) -> list[int]:
    return [int(name[:20]) for name in disk.names() if name.endswith(".snapshot")]


def filled(tmp_path: Path) -> tuple[StorageOnDisk, PartitionLog]:
    """A log of six segments with two batches each, of one producer."""
    disk, log = StorageOnDisk.with_log(tmp_path)
    log.limit_segments(RollLimits(max_bytes=250))
    for number in range(12):
        data = batch(
            [b"x" * 40], keys=[b"%d" % number], producer_id=7, producer_epoch=0, base_sequence=number
        )
        log.append_as_leader(view(data), 0)
    log.advance_high_watermark(12)
    return disk, log


def test_each_rolled_segment_begins_with_a_snapshot(tmp_path: Path) -> None:
    disk, log = filled(tmp_path)
    assert bases(log) == [0, 2, 4, 6, 8, 10]
    assert snapshots(disk) == [2, 4, 6, 8, 10]
    states, offset = log.files.producers_at(log, 5)
    assert offset == 4
    assert [one.last_sequence for one in states] == [3]
    states, offset = log.files.producers_at(log, 4)
    assert offset == 4


def test_snapshots_of_deleted_segments_are_removed(tmp_path: Path) -> None:
    disk, log = filled(tmp_path)
    log.advance_log_start(7)
    assert snapshots(disk) == bases(log) == [6, 8, 10]


def test_snapshots_after_a_truncation_are_removed_and_taken_again(tmp_path: Path) -> None:
    disk, log = filled(tmp_path)
    log.truncate_to(5)
    assert snapshots(disk) == [2, 4]
    assert [one.last_sequence for one in log.producers] == [4]
    log.roll()
    assert snapshots(disk) == [2, 4, 5]


def test_log_that_starts_elsewhere_has_no_snapshot_of_before(tmp_path: Path) -> None:
    disk, log = filled(tmp_path)
    log.truncate_fully_and_start_at(3)
    assert snapshots(disk) == []
    assert list(log.producers) == []


def test_compaction_removes_the_snapshots_of_merged_segments(tmp_path: Path) -> None:
    disk, log = filled(tmp_path)
    log.limit_segments(RollLimits(max_bytes=550))
    assert finish(compact(log, CompactionPolicy(min_dirty_ratio=0.0), 1_000)) is not None
    assert len(log.segments) < 6
    assert snapshots(disk) == bases(log)[1:]


def test_corrupt_snapshot_is_removed_and_the_one_before_it_is_read(tmp_path: Path) -> None:
    files = RealFiles()
    kept = ProducerSnapshots(files, str(tmp_path))
    states = ProducerStates()
    for number in range(3):
        data = batch([b"x"], producer_id=7, producer_epoch=0, base_sequence=number)
        states.record(view(data))
        assert kept.take(states, 10 * (number + 1))
    assert not kept.take(states, 30)
    assert not kept.take(states, 29)
    (tmp_path / f"{30:020d}.snapshot").write_bytes(b"?" * 60)
    found, offset = kept.latest(40)
    assert offset == 20
    assert [one.last_sequence for one in found] == [1]
    assert kept.offsets == [10, 20]
    assert not (tmp_path / f"{30:020d}.snapshot").exists()


def test_states_of_a_snapshot_are_those_before_it() -> None:
    last = 2**31 - 1
    entries = [
        # id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, first offset
        ProducerEntry(1, 3, 1, 50, 3, 1_000, 4, 48),
        ProducerEntry(2, 0, -1, -1, 0, 2_000, 5, -1),
        ProducerEntry(3, 0, 9, 44, 2, 3_000, -1, 42),
    ]
    states = states_of(entries)
    assert entries_of(states) == entries
    [first] = next(one for one in states if one.producer_id == 1).batches
    assert (first.first_sequence, first.base_offset, first.timestamp) == (last - 1, 47, 1_000)
    # The earliest open transaction limits what read_committed consumers read.
    assert states.transactions.first_unstable_offset(100) == 42


@pytest.mark.parametrize("is_clean", [True, False])
def test_producers_of_deleted_records_survive_a_restart(tmp_path: Path, is_clean: bool) -> None:
    disk, log = filled(tmp_path)
    last = view(batch([b"x" * 40], keys=[b"11"], producer_id=7, producer_epoch=0, base_sequence=11))
    log.advance_log_start(12)
    log = disk.restart(is_clean=is_clean)
    assert log.append_as_leader(last, 0).is_duplicate
