"""A log that is loaded from a directory: checkpoints that disagree with it, damaged indexes, leftovers."""

from __future__ import annotations

from pathlib import Path
from struct import pack

import pytest

from pykafka2.broker.log.batch import placed
from pykafka2.broker.log.disk.log_directory import on_disk
from pykafka2.broker.log.leader_epochs import EpochEntry
from pykafka2.broker.log.partition_log import EndMarker, PartitionLog
from pykafka2.broker.log.segments import RollLimits
from pykafka2.broker.replication.log_cleaner import CompactionPolicy, compact
from pykafka2.compression.steps import finish
from tests.broker.log.disk.on_disk import StorageOnDisk, abort, append, append_in_transaction, bases
from tests.broker.support.batches import batch, view

TWO_BATCHES = RollLimits(max_bytes=250)


def values_of(log: PartitionLog) -> list[int]:
    return [one.base_offset for one in log.batches()]


def write_checkpoint(folder: Path, name: str, offset: int) -> None:
    (folder / name).write_text(f"0\n1\nt 0 {offset}\n")


def crashed(tmp_path: Path) -> None:
    """Remove the mark of a clean stop."""
    (tmp_path / ".kafka_cleanshutdown").unlink()


def damage(path: Path) -> None:
    """Change the last byte of a file."""
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def stopped(tmp_path: Path, count: int = 6, *, size: int = 40, interval: int = 4096) -> StorageOnDisk:
    """A storage that was stopped; its log has two batches in a segment."""
    disk, log = StorageOnDisk.with_log(tmp_path, index_interval=interval)
    log.limit_segments(TWO_BATCHES)
    append(log, *(b"%d" % (number % 10) * size for number in range(count)))
    disk.stop(is_clean=True)
    return disk


def started(disk: StorageOnDisk) -> PartitionLog:
    disk.start()
    return disk.log()


@pytest.mark.parametrize(("high_watermark", "start", "found"), [(99, 0, 6), (1, 3, 3), (4, 1, 4)])
def test_high_watermark_of_the_checkpoint_is_used_within_the_log(
    tmp_path: Path, high_watermark: int, start: int, found: int
) -> None:
    disk = stopped(tmp_path)
    write_checkpoint(tmp_path, "replication-offset-checkpoint", high_watermark)
    write_checkpoint(tmp_path, "log-start-offset-checkpoint", start)
    log = started(disk)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (start, found, 6)


def test_clean_offset_beyond_the_log_is_its_end(tmp_path: Path) -> None:
    disk = stopped(tmp_path)
    write_checkpoint(tmp_path, "cleaner-offset-checkpoint", 99)
    assert started(disk).clean_offset == 6


def test_log_that_ends_before_its_start_is_empty_there_and_has_no_producer(
    disk: StorageOnDisk, log: PartitionLog
) -> None:
    for number in range(4):
        data = batch([b"x"], producer_id=7, producer_epoch=0, base_sequence=number)
        log.append_as_leader(view(data), 0)
    log.roll()
    disk.stop(is_clean=True)
    write_checkpoint(disk.path, "log-start-offset-checkpoint", 9)
    log = started(disk)
    assert (log.log_start_offset, log.log_end_offset) == (9, 9)
    assert list(log.producers) == []
    assert [name for name in disk.names() if name.endswith(".snapshot")] == []
    assert [name for name in disk.names() if name.endswith(".log")] == [f"{9:020d}.log"]


def test_log_without_a_segment_begins_at_its_start(tmp_path: Path) -> None:
    disk = stopped(tmp_path)
    for path in (tmp_path / "t-0").glob("*.log"):
        path.unlink()
    write_checkpoint(tmp_path, "log-start-offset-checkpoint", 4)
    log = started(disk)
    assert (log.log_start_offset, log.log_end_offset) == (4, 4)


def test_recovery_begins_with_the_segment_of_the_recovery_point(tmp_path: Path) -> None:
    disk = stopped(tmp_path)
    crashed(tmp_path)
    write_checkpoint(tmp_path, "recovery-point-offset-checkpoint", 5)
    last = tmp_path / f"t-0/{4:020d}.log"
    size = last.stat().st_size
    damage(last)  # in the last batch, after the recovery point
    log = started(disk)
    assert (log.log_end_offset, log.recovery_point) == (5, 5)
    assert last.stat().st_size == size // 2


def test_recovery_does_not_read_flushed_segments(tmp_path: Path) -> None:
    disk = stopped(tmp_path)
    crashed(tmp_path)
    write_checkpoint(tmp_path, "recovery-point-offset-checkpoint", 4)
    damage(tmp_path / f"t-0/{0:020d}.log")  # as Kafka: the consumer finds it by the checksum
    log = started(disk)
    assert (log.log_end_offset, log.recovery_point) == (6, 4)


def test_segments_behind_a_cut_are_removed_with_all_their_files(tmp_path: Path) -> None:
    disk = stopped(tmp_path, 8)
    crashed(tmp_path)
    (tmp_path / "recovery-point-offset-checkpoint").unlink()
    path = tmp_path / f"t-0/{2:020d}.log"
    path.write_bytes(path.read_bytes()[:-3])
    log = started(disk)
    assert (log.log_end_offset, values_of(log)) == (3, [0, 1, 2])
    assert {name[:20] for name in disk.names() if name[:1].isdigit()} == {f"{one:020d}" for one in (0, 2)}
    append(log, b"again")
    assert disk.restart(is_clean=False).log_end_offset == 4


def test_producers_before_the_recovery_point_are_restored_after_a_crash(
    disk: StorageOnDisk, log: PartitionLog
) -> None:
    first = view(batch([b"x"], producer_id=7, producer_epoch=0, base_sequence=0))
    log.append_as_leader(first, 0)
    log.roll()
    append(log, b"y")
    disk.run_for_a_minute()
    for is_without_snapshot in (False, True):
        disk.stop(is_clean=False)
        if is_without_snapshot:
            for path in (disk.path / "t-0").glob("*.snapshot"):
                path.unlink()
        log = started(disk)
        assert log.recovery_point == 1
        assert [(one.producer_id, one.last_sequence, len(one.batches)) for one in log.producers] == [
            (7, 0, 1)
        ]
        assert log.append_as_leader(first, 0).is_duplicate


@pytest.mark.parametrize("is_clean", [True, False])
def test_snapshots_that_no_segment_needs_are_removed(tmp_path: Path, is_clean: bool) -> None:
    disk = stopped(tmp_path)
    folder = tmp_path / "t-0"
    content = (folder / f"{6:020d}.snapshot").read_bytes()
    for offset in (3, 99):  # within a segment, and after the log's end
        (folder / f"{offset:020d}.snapshot").write_bytes(content)
    if not is_clean:
        crashed(tmp_path)
    started(disk)
    found = [int(name[:20]) for name in disk.names() if name.endswith(".snapshot")]
    assert found == [2, 4, 6]


def test_segment_that_compaction_has_shortened_is_not_taken_for_a_damaged_one(
    disk: StorageOnDisk, log: PartitionLog
) -> None:
    log.limit_segments(TWO_BATCHES)
    for key in (b"a", b"b", b"b", b"c", b"d"):
        log.append_as_leader(view(batch([b"v" * 40], keys=[key])), 0)
    log.advance_high_watermark(5)
    assert finish(compact(log, CompactionPolicy(min_dirty_ratio=0.0), 1_000)) is not None
    assert bases(log) == [0, 2, 4]
    assert values_of(log) == [0, 2, 3, 4]
    log = disk.restart(is_clean=False)
    assert log.recovery_point == 0
    assert values_of(log) == [0, 2, 3, 4]


def test_segment_that_begins_with_a_gap_of_a_compacted_leader_is_not_behind_a_cut(
    disk: StorageOnDisk, log: PartitionLog
) -> None:
    log.limit_segments(TWO_BATCHES)
    for offset in (0, 1, 5, 6):  # the leader's compaction has removed 2 to 4
        log.append_as_follower(placed(view(batch([b"v" * 40])), offset, 0).buffer)
    assert bases(log) == [0, 2]
    assert values_of(disk.restart(is_clean=False)) == [0, 1, 5, 6]


# ---------------------------------------------------------------------- leader epochs


def epochs_of(tmp_path: Path) -> tuple[StorageOnDisk, list[EpochEntry]]:
    """A stopped storage whose log has three leader epochs in three segments."""
    disk, log = StorageOnDisk.with_log(tmp_path)
    log.limit_segments(TWO_BATCHES)
    for epoch in (0, 3, 4):
        append(log, b"a" * 40, b"b" * 40, epoch=epoch)
    entries = log.epochs.entries
    disk.stop(is_clean=True)
    return disk, entries


@pytest.mark.parametrize("text", [None, "0\n9\n0 0\n", "damaged"])
@pytest.mark.parametrize("is_clean", [True, False])
def test_missing_or_damaged_epochs_are_found_in_the_batches(
    tmp_path: Path, text: str | None, is_clean: bool
) -> None:
    disk, entries = epochs_of(tmp_path)
    path = tmp_path / "t-0/leader-epoch-checkpoint"
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    if not is_clean:
        crashed(tmp_path)
    assert started(disk).epochs.entries == entries == [(0, 0), (3, 2), (4, 4)]


def test_epochs_after_the_end_or_before_the_start_of_the_log_are_dropped(tmp_path: Path) -> None:
    disk, _ = epochs_of(tmp_path)
    (tmp_path / "t-0/leader-epoch-checkpoint").write_text("0\n4\n0 0\n3 2\n4 4\n5 6\n")
    write_checkpoint(tmp_path, "log-start-offset-checkpoint", 3)
    assert started(disk).epochs.entries == [(3, 3), (4, 4)]


def test_truncated_epochs_are_written(tmp_path: Path) -> None:
    disk, _ = epochs_of(tmp_path)
    log = started(disk)
    path = tmp_path / "t-0/leader-epoch-checkpoint"
    log.truncate_to(4)
    assert path.read_text() == "0\n2\n0 0\n3 2\n"
    log.advance_high_watermark(4)
    log.advance_log_start(3)
    assert path.read_text() == "0\n1\n3 3\n"
    log.truncate_fully_and_start_at(9)
    assert path.read_text() == "0\n0\n"


def test_epochs_that_recovery_has_found_are_written(tmp_path: Path) -> None:
    disk, _ = epochs_of(tmp_path)
    path = tmp_path / "t-0/leader-epoch-checkpoint"
    before = path.read_text()
    path.unlink()
    crashed(tmp_path)
    started(disk)
    assert path.read_text() == before


# ---------------------------------------------------------------------- damaged indexes


ENTRY = 8
TIME_ENTRY = 12


def indexed(tmp_path: Path) -> tuple[StorageOnDisk, Path]:
    """A stopped storage whose log has one segment with an entry for almost every batch."""
    disk, log = StorageOnDisk.with_log(tmp_path, index_interval=1)
    for number in range(20):
        append(log, b"%d" % number, at=1_000 + number)
    disk.stop(is_clean=True)
    return disk, tmp_path / f"t-0/{0:020d}.log"


def check_indexes(log: PartitionLog, count: int = 20) -> None:
    [segment] = on_disk(log.segments)
    positions, position = {}, 0
    for one in segment.iterate():
        positions[one.last_offset] = position
        position += one.size_bytes
    entries = [segment.offsets.entry(number) for number in range(segment.offsets.count)]
    assert entries == [(offset, at) for offset, at in positions.items() if offset]
    times = [segment.times.entry(number) for number in range(segment.times.count)]
    assert times == [(1_000 + offset, offset) for offset in range(1, count)]
    assert segment.latest == (1_000 + count - 1, count - 1)


def replace(path: Path, data: bytes | None) -> None:
    """Replace the content of a file, or remove it."""
    if data is None:
        path.unlink()
    else:
        path.write_bytes(data)


INDEXES = {
    "missing": lambda data: None,
    "empty": lambda data: b"",
    "a partial entry": lambda data: data + b"\x00\x00\x01",
    "padding": lambda data: data + bytes(len(data)),
    "an entry of another batch": lambda data: data[:-8] + pack(">ii", 18, 3),
    "an entry with the offset of the batch before": lambda data: data[:-16] + pack(">i", 18) + data[-4:],
    "an entry within a batch": lambda data: data[:-4] + pack(">i", 77),
    "an entry past the end": lambda data: data + pack(">ii", 50, 1 << 20),
    "noise": lambda data: b"\x7f" * len(data),
}


@pytest.mark.parametrize("kind", [one for one in INDEXES if one != "empty"])
def test_damaged_offset_index_of_a_clean_log_is_rebuilt(tmp_path: Path, kind: str) -> None:
    disk, path = indexed(tmp_path)
    index = path.with_suffix(".index")
    replace(index, INDEXES[kind](index.read_bytes()))
    log = started(disk)
    append(log, b"20", at=1_020)
    for offset in range(21):
        [found] = log.read(offset, offset + 1, 1000, min_one=True).batches
        assert found.base_offset == offset
    disk.stop(is_clean=True)
    assert index.stat().st_size == 20 * ENTRY
    check_indexes(started(disk), 21)


TIMES = {
    "missing": lambda data: None,
    "a partial entry": lambda data: data + b"\x00\x00\x01",
    "padding": lambda data: data + bytes(len(data)),
    "an offset past the end": lambda data: data + pack(">qi", 9_999, 50),
    "noise": lambda data: b"\xff" * len(data),
}


@pytest.mark.parametrize("kind", [*TIMES])
def test_damaged_time_index_of_a_clean_log_is_rebuilt(tmp_path: Path, kind: str) -> None:
    disk, path = indexed(tmp_path)
    index = path.with_suffix(".timeindex")
    replace(index, TIMES[kind](index.read_bytes()))
    check_indexes(started(disk))
    disk.stop(is_clean=True)
    assert index.stat().st_size // TIME_ENTRY == 19


def test_bytes_without_a_batch_behind_a_clean_segment_are_cut_off(tmp_path: Path) -> None:
    disk, path = indexed(tmp_path)
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(b"garbage")
    log = started(disk)
    assert log.size_bytes == path.stat().st_size == size
    append(log, b"20", at=1_020)
    assert len(values_of(disk.restart(is_clean=False))) == 21


def test_index_entries_after_a_restart_are_as_far_apart_as_before(tmp_path: Path) -> None:
    disk, log = StorageOnDisk.with_log(tmp_path, index_interval=250)  # three batches
    for number in range(3):
        append(log, b"x" * 40)
        log = disk.restart(is_clean=bool(number % 2))
    append(log, b"x" * 40, b"x" * 40)
    [segment] = on_disk(log.segments)
    assert segment.offsets.count == 1


@pytest.mark.parametrize(
    "damage",
    [b"?", bytes(34), bytes([0, 1]) + bytes(32)],
    ids=["a part of an entry", "an offset that does not rise", "another version"],
)
def test_damaged_transaction_index_is_rebuilt_with_the_producers_before_it(
    disk: StorageOnDisk, log: PartitionLog, damage: bytes
) -> None:
    append_in_transaction(log, 1)
    log.roll()
    abort(log, 1)
    before = log.aborted_transactions(0, 2)
    assert len(before) == 1
    log.roll()
    append(log, b"after")
    states = [(one.producer_id, one.coordinator_epoch, len(one.batches)) for one in log.producers]
    disk.stop(is_clean=True)
    path = disk.path / f"t-0/{1:020d}.txnindex"
    path.write_bytes(path.read_bytes() + damage)
    log = started(disk)
    assert log.aborted_transactions(0, 2) == before
    assert [(one.producer_id, one.coordinator_epoch, len(one.batches)) for one in log.producers] == states
    assert log.last_stable_offset == log.high_watermark


def test_aborted_and_open_transactions_survive_restarts_and_crashes(
    disk: StorageOnDisk, log: PartitionLog
) -> None:
    for producer_id in (1, 2, 3, 4):
        append_in_transaction(log, producer_id)
    for producer_id, is_committed in ((2, False), (1, True), (3, False)):
        log.append_marker(EndMarker(producer_id, 0, is_committed, 1), 0, 1_000)
    before = log.aborted_transactions(0, 7)
    assert [one.producer_id for one in before] == [2, 3]
    for is_clean in (True, False, True):
        log = disk.restart(is_clean=is_clean)
        log.advance_high_watermark(7)
        assert log.aborted_transactions(0, 7) == before
        assert log.last_stable_offset == 3


@pytest.mark.parametrize("kept", [0, 1])
def test_aborted_transaction_that_was_truncated_does_not_return_with_a_restart(
    disk: StorageOnDisk, log: PartitionLog, kept: int
) -> None:
    for producer_id in range(kept + 1):
        append_in_transaction(log, producer_id)
        abort(log, producer_id)
    log.truncate_to(log.log_end_offset - 1)
    for is_clean in (True, False):
        log = disk.restart(is_clean=is_clean)
        assert [one.producer_id for one in log.aborted_transactions(0, 9)] == [*range(kept)]


@pytest.mark.parametrize("is_clean", [True, False])
def test_aborted_transactions_of_compacted_segments_survive_a_restart(
    disk: StorageOnDisk, log: PartitionLog, is_clean: bool
) -> None:
    log.limit_segments(RollLimits(max_age_ms=2**62))
    for producer_id in (1, 2):
        append_in_transaction(log, producer_id)
        abort(log, producer_id)
        log.append_as_leader(view(batch([b"v" * 100], keys=[b"%d" % producer_id])), 0)
        log.roll()
    log.advance_high_watermark(6)
    log.limit_segments(RollLimits(max_bytes=300, max_age_ms=2**62))
    assert finish(compact(log, CompactionPolicy(min_dirty_ratio=0.0), 2_000)) is not None
    assert len(log.segments) == 3
    before = log.aborted_transactions(0, 6)
    assert [one.producer_id for one in before] == [1, 2]
    for segment in on_disk(log.segments):
        bases = [segment.base_offset, segment.next_offset]
        assert all(bases[0] <= one.last_offset < bases[1] for one in segment.transactions.read())
    assert disk.restart(is_clean=is_clean).aborted_transactions(0, 6) == before


# ---------------------------------------------------------------------- what a crash leaves


LEFT = [
    f"{0:020d}.snapshot.tmp",
    f"{0:020d}.txnindex.tmp",
    "leader-epoch-checkpoint.tmp",
    "partition.metadata.tmp",
    f"{0:020d}.log.deleted",
    f"{1:020d}.txnindex",
    f"{0:020d}.timeindex.cleaned",
]


@pytest.mark.parametrize("name", LEFT)
def test_files_that_a_crash_has_left_are_removed(tmp_path: Path, name: str) -> None:
    disk = stopped(tmp_path)
    (tmp_path / "t-0" / name).write_bytes(b"left")
    assert values_of(started(disk)) == [*range(6)]
    assert name not in disk.names()


def test_completed_compaction_brings_all_files_of_its_segment(tmp_path: Path) -> None:
    disk, log = StorageOnDisk.with_log(tmp_path, index_interval=1)
    log.limit_segments(RollLimits(max_age_ms=2**62))
    append(log, *(b"%d" % number for number in range(3)))
    append_in_transaction(log, 1)
    abort(log, 1)
    log.roll()
    append(log, b"next")
    before, aborted = values_of(log), log.aborted_transactions(0, 9)
    disk.stop(is_clean=True)
    folder = tmp_path / "t-0"
    first = f"{0:020d}"
    names = sorted(path.name for path in folder.glob(f"{first}.*"))
    assert f"{first}.txnindex" in names
    files = {name: (folder / name).read_bytes() for name in names}
    for name in names:
        (folder / name).rename(folder / f"{name}.swap")
    log = started(disk)
    assert (values_of(log), log.aborted_transactions(0, 9)) == (before, aborted)
    assert {name: (folder / name).read_bytes() for name in names} == files
    assert not list(folder.glob("*.swap"))


@pytest.mark.parametrize("is_clean", [True, False])
def test_new_segment_has_no_aborted_transaction_of_a_file_that_was_left(
    disk: StorageOnDisk, log: PartitionLog, is_clean: bool
) -> None:
    append(log, b"x")
    (disk.path / f"t-0/{1:020d}.txnindex").write_bytes(pack(">hqqqq", 0, 1, 0, 1, 1))
    log.roll()
    append(log, b"y")
    assert disk.restart(is_clean=is_clean).aborted_transactions(0, 9) == []


def test_large_batches_are_iterated_and_recovered(disk: StorageOnDisk, log: PartitionLog) -> None:
    append(log, b"small", b"x" * (5 << 20), b"small")
    assert values_of(log) == [0, 1, 2]
    assert values_of(disk.restart(is_clean=False)) == [0, 1, 2]


@pytest.mark.parametrize("is_clean", [True, False])
def test_segment_rolls_by_time_after_a_restart_as_before(disk: StorageOnDisk, is_clean: bool) -> None:
    append(disk.log(), b"first", at=1_000)
    log = disk.restart(is_clean=is_clean)
    log.limit_segments(RollLimits(max_age_ms=500))
    append(log, b"second", at=1_500)
    assert len(log.segments) == 1
    append(log, b"third", at=1_501)
    assert len(log.segments) == 2


def test_largest_timestamp_of_a_recovered_segment_is_known_after_a_clean_restart(
    disk: StorageOnDisk, log: PartitionLog
) -> None:
    log.limit_segments(TWO_BATCHES)
    for at in (5, 7, 9, 11):
        append(log, b"v" * 40, at=at)
    disk.restart(is_clean=False)
    log = disk.restart()
    assert [segment.latest for segment in on_disk(log.segments)] == [(7, 1), (11, 3)]


def test_recovery_cuts_batches_that_end_before_their_segment_begins(tmp_path: Path) -> None:
    disk = stopped(tmp_path, 2)
    folder = tmp_path / "t-0"
    (folder / f"{0:020d}.log").rename(folder / f"{5:020d}.log")
    for path in folder.glob("*index"):
        path.unlink()
    crashed(tmp_path)
    log = started(disk)
    assert (values_of(log), log.log_end_offset) == ([], 5)


def test_recovery_adds_the_epochs_that_an_old_checkpoint_lacks(
    disk: StorageOnDisk, log: PartitionLog
) -> None:
    for epoch in (0, 1, 2):
        append(log, b"a", b"b", epoch=epoch)
    disk.stop(is_clean=False)
    (disk.path / "t-0/leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    assert started(disk).epochs.entries == [(0, 0), (1, 2), (2, 4)]


def test_recovery_cuts_a_batch_with_more_records_than_offsets(disk: StorageOnDisk) -> None:
    append(disk.log(), b"kept")
    disk.stop(is_clean=False)
    path = disk.path / f"t-0/{0:020d}.log"
    damaged = placed(view(batch([b"x"], count=5)), 1, 0).buffer
    path.write_bytes(path.read_bytes() + bytes(damaged))
    assert values_of(started(disk)) == [0]
