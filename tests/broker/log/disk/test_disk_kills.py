"""Kills of the process between any two changes of files, and the log at the next start."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, pairwise

import pytest

from pykafka2.broker.log.disk.producer_snapshots import entries_of
from pykafka2.broker.log.partition_log import EndMarker, PartitionLog
from pykafka2.broker.log.producer_state import ProducerStates
from pykafka2.broker.log.segments import RollLimits
from pykafka2.broker.replication.log_cleaner import CompactionPolicy, compact
from pykafka2.compression.steps import finish
from pykafka2.records.batch import TRANSACTIONAL_FLAG, Buffer
from pykafka2.records.decoder import decode_tuples
from pykafka2.testing.simulation.files import SimFile, SimFiles
from tests.broker.log.disk.on_disk import StorageOnDisk
from tests.broker.support.batches import batch, view

LIMITS = RollLimits(max_bytes=1500)
EPOCH = 9


class Killed(BaseException):
    """The process ended here."""


class KillingFiles(SimFiles):
    """Files that end the process after `changes_left` changes; the last write is torn."""

    changes_left: int | None = None

    def is_last_change(self) -> bool:
        if self.changes_left is None:
            return False
        self.changes_left -= 1
        return self.changes_left < 0

    def change(self) -> None:
        if self.is_last_change():
            raise Killed

    def open(self, path: str, *, creates: bool = False) -> SimFile:
        if creates:
            self.change()
        super().open(path, creates=creates)
        return KillingFile(path, self)

    def rename(self, path: str, new_path: str) -> None:
        self.change()
        super().rename(path, new_path)

    def remove(self, path: str) -> None:
        self.change()
        super().remove(path)


class KillingFile(SimFile):
    """A file of `KillingFiles`."""

    __slots__ = ("_killing",)

    def __init__(self, path: str, files: KillingFiles) -> None:
        super().__init__(path, files)
        self._killing = files

    def write(self, position: int, data: Buffer) -> None:
        if self._killing.is_last_change():
            super().write(position, bytes(data)[: len(data) // 2])
            raise Killed
        super().write(position, data)

    def truncate(self, size: int) -> None:
        self._killing.change()
        super().truncate(size)


def append(log: PartitionLog, number: int, records: int = 1) -> None:
    values = [b"%d" % number * 40] * records
    keys = [b"k%d" % (number % 4)] * records
    log.append_as_leader(view(batch(values, keys=keys, timestamp=number * 37 % 100)), EPOCH)


def append_in_transaction(log: PartitionLog, producer: int) -> None:
    data = batch([b"x"] * 2, attributes=TRANSACTIONAL_FLAG, producer_id=producer, producer_epoch=0)
    log.append_as_leader(view(data), EPOCH, from_client=False)


def filled(files: SimFiles) -> tuple[StorageOnDisk, PartitionLog]:
    """A log of several segments with transactions, of which the last one is open."""
    disk = StorageOnDisk("/data", files=files, index_interval=200)
    log = disk.log()
    log.limit_segments(LIMITS)
    for number in range(40):
        if number % 7 == 3:
            append_in_transaction(log, number % 2)
        elif number % 7 == 6:
            log.append_marker(EndMarker(number % 2, 0, number % 3 == 0, number), EPOCH, 1000)
        append(log, number, 1 + number % 3)
    log.advance_high_watermark(log.log_end_offset)
    return disk, log


def compact_all(disk: StorageOnDisk, log: PartitionLog) -> None:
    for producer in (0, 1):
        log.append_marker(EndMarker(producer, 0, True, 99), EPOCH, 1000)
    log.advance_high_watermark(log.log_end_offset)
    log.roll()
    finish(compact(log, CompactionPolicy(min_dirty_ratio=0.0), 10_000))


def append_much(disk: StorageOnDisk, log: PartitionLog) -> None:
    for number in range(12):
        append(log, number, 2)


def truncate(disk: StorageOnDisk, log: PartitionLog) -> None:
    log.truncate_to(log.log_end_offset // 2)


def delete_records(disk: StorageOnDisk, log: PartitionLog) -> None:
    log.advance_log_start(log.log_end_offset // 2)


def start_elsewhere(disk: StorageOnDisk, log: PartitionLog) -> None:
    log.truncate_fully_and_start_at(500)


def stop_and_start(disk: StorageOnDisk, log: PartitionLog) -> None:
    again = disk.restart()
    append_much(disk, again)


def offsets_of(log: PartitionLog) -> list[tuple[int, int]]:
    return [(one.base_offset, one.last_offset) for one in log.batches()]


@pytest.mark.parametrize(
    ("change", "keeps"),
    [
        (append_much, "all"),
        (stop_and_start, "all"),
        (truncate, "start"),
        (delete_records, "end"),
        (start_elsewhere, "any"),
        pytest.param(compact_all, "keys", marks=pytest.mark.gate),
    ],
)
def test_log_is_whole_after_a_kill_between_any_two_changes_of_files(
    change: Callable[[StorageOnDisk, PartitionLog], None], keeps: str
) -> None:
    for changes in count():
        files = KillingFiles(1)
        disk, log = filled(files)
        before, latest = [bytes(one.buffer) for one in log.batches()], latest_of(log)
        files.changes_left = changes
        try:
            change(disk, log)
        except Killed:
            pass
        is_killed = files.changes_left < 0
        files.changes_left = None
        disk.stop(is_clean=False)
        disk.start()
        again = disk.log()
        found = [bytes(one.buffer) for one in again.batches()]
        if keeps == "all":
            assert found[: len(before)] == before
        elif keeps == "start":
            assert found == before[: len(found)]
        elif keeps == "end":
            assert found == before[len(before) - len(found) :]
        elif keeps == "keys":
            assert latest_of(again) == latest
        check(again, is_compacted=keeps == "keys", is_complete=keeps in ("all", "start"))
        append(again, 1)
        assert [bytes(one.buffer) for one in disk.restart().batches()][:-1] == found
        disk.stop(is_clean=True)
        if not is_killed:
            assert changes > 10
            return


def latest_of(log: PartitionLog) -> dict[bytes, tuple[int, bytes | None]]:
    """Return offset and value of the last record of each key."""
    rows = [row for one in log.batches() if not one.is_control for row in decode_tuples(one, "the log")]
    return {row[2]: (row[0], row[3]) for row in rows if row[2] is not None}


def check(log: PartitionLog, *, is_compacted: bool, is_complete: bool) -> None:
    """Check offsets, indexes, producer states and aborted transactions against the batches."""
    offsets = offsets_of(log)
    for (_, last), (base, _) in pairwise(offsets):
        assert base > last if is_compacted else base == last + 1
    for base, last in offsets:
        if base >= log.log_start_offset:
            [found] = log.read(last, log.log_end_offset, 1, min_one=True).batches
            assert found.base_offset == base
    if is_complete:
        states, aborted = ProducerStates(), []
        for one in log.batches():
            completed = states.record(one)
            if completed is not None and not completed.committed:
                aborted.append((completed.first_offset, completed.marker_offset))
        found_aborted = log.aborted_transactions(0, log.log_end_offset)
        assert [(one.first_offset, one.last_offset) for one in found_aborted] == aborted
        fields = [sorted(map(str, entries_of(one))) for one in (states, log.producers)]
        assert fields[0] == fields[1]
