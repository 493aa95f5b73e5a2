"""A log moves to another data directory while it is in use: a copy catches up and takes its place."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pykafka2.broker.log.disk.future_logs import MAX_BATCHES, FutureLog
from pykafka2.broker.log.disk.log_directory import on_disk
from pykafka2.broker.log.segments import RollLimits
from pykafka2.errors import ConfigurationError, InvalidTopicException, KafkaStorageError
from pykafka2.testing.simulation.files import SimFiles
from tests.broker.log.disk.on_disk import (
    TOPIC_ID,
    StorageOnDisk,
    abort,
    append,
    append_in_transaction,
    bases,
    held,
)

FIRST, SECOND = bytes(15) + b"\1", bytes(15) + b"\2"
"""The ids of the data directories."""


class MoveBench:
    """A log of 20 batches in the first of two data directories."""

    def __init__(self, path: Path | str, files: SimFiles | None = None) -> None:
        self.disk = StorageOnDisk(path, directories=2, files=files)
        self.log = self.disk.log()
        self.log.limit_segments(RollLimits(max_bytes=500))
        append(self.log, *(b"%d" % number * 10 for number in range(20)))
        self.target = f"{path}/1"

    def begin(self) -> FutureLog:
        self.disk.storage.move(self.log, self.target)
        [move] = self.disk.storage.moves
        return move

    def copied(self) -> FutureLog:
        """Begin a move, and copy the log."""
        move = self.begin()
        while not move.step(300):
            pass
        return move

    def lose_original(self) -> None:
        """Restart the storage without the log in the first directory."""
        self.disk.stop(is_clean=False)
        (self.disk.path / "0/t-0").rename(self.disk.path / "0/lost")
        self.disk.start()

    def finish(self, move: FutureLog) -> None:
        while not move.step(300):
            pass
        move.finish()


@pytest.fixture
def bench(tmp_path: Path) -> MoveBench:
    return MoveBench(tmp_path)


def test_step_copies_at_most_its_bytes_and_one_batch(bench: MoveBench) -> None:
    move = bench.begin()
    assert move.lag == 20
    size = on_disk(bench.log.segments)[0].size_bytes // 5
    assert not move.step(2 * size)
    assert 1 <= move.copy.log_end_offset <= 3
    assert not move.step(1)
    assert move.lag >= 16


def test_step_copies_a_limited_number_of_small_batches(tmp_path: Path) -> None:
    disk, log = StorageOnDisk.with_log(tmp_path, directories=2)
    append(log, *[b"x"] * (MAX_BATCHES + 100))
    disk.storage.move(log, f"{tmp_path}/1")
    [move] = disk.storage.moves
    assert not move.step(1 << 20)
    assert move.lag == 100
    assert move.step(1 << 20)


def test_records_that_are_appended_meanwhile_are_in_the_moved_log(bench: MoveBench) -> None:
    move = bench.begin()
    for number in range(20, 40):
        move.step(200)
        append(bench.log, b"%d" % number * 10)
    before = held(bench.log)
    assert bench.disk.names("0/t-0")
    before_move = bases(bench.log)
    bench.finish(move)
    assert held(bench.log) == before
    assert bases(bench.log) == before_move
    append(bench.log, b"after", epoch=3)
    assert bench.disk.storage.moves == []
    assert not list(bench.disk.path.glob("0/t-0"))
    assert not list(bench.disk.path.glob("1/*-future"))
    assert bench.disk.storage.places.of(TOPIC_ID, 0) == bench.target
    again = bench.disk.restart(is_clean=False)
    assert held(again)[:-1] == before
    assert [entry.epoch for entry in again.epochs.entries] == [0, 3]


def test_batches_that_the_log_has_truncated_are_not_in_the_moved_one(bench: MoveBench) -> None:
    move = bench.copied()
    bench.log.truncate_to(12)
    append(bench.log, *(b"other %d" % number for number in range(15)), epoch=1)
    assert not move.step(1)
    before = held(bench.log)
    bench.finish(move)
    assert held(bench.log) == before
    assert held(bench.disk.restart(is_clean=False)) == before


@pytest.mark.parametrize("start", [4, 18])
def test_log_start_that_advances_meanwhile_is_that_of_the_moved_log(bench: MoveBench, start: int) -> None:
    move = bench.begin()
    move.step(500)
    bench.log.advance_high_watermark(20)
    bench.log.advance_log_start(start)
    bench.finish(move)
    assert (bench.log.log_start_offset, bench.log.log_end_offset) == (start, 20)
    again = bench.disk.restart(is_clean=False)
    assert (again.log_start_offset, again.log_end_offset) == (start, 20)


def test_open_and_aborted_transactions_move_with_their_log(bench: MoveBench) -> None:
    append_in_transaction(bench.log, 7)
    abort(bench.log, 7)
    append_in_transaction(bench.log, 8)
    bench.finish(bench.begin())
    bench.log.advance_high_watermark(bench.log.log_end_offset)
    for log in (bench.log, bench.disk.restart(is_clean=False)):
        log.advance_high_watermark(log.log_end_offset)
        assert log.last_stable_offset == 22
        assert [one.producer_id for one in log.aborted_transactions(0, 30)] == [7]


def test_move_back_ends_the_move_and_deletes_the_copy(bench: MoveBench) -> None:
    move = bench.begin()
    move.step(500)
    bench.disk.storage.move(bench.log, f"{bench.disk.path}/0")
    assert bench.disk.storage.moves == []
    assert not list(bench.disk.path.glob("1/*-future"))
    assert len(held(bench.log)) == 20


def test_deleted_topic_deletes_its_copy(bench: MoveBench) -> None:
    bench.begin().step(500)
    bench.disk.storage.remove(bench.log)
    assert bench.disk.storage.moves == []
    assert not list(bench.disk.path.glob("*/*-future"))
    bench.disk.stop()
    assert not list(bench.disk.path.glob("*/t-0*"))


@pytest.mark.parametrize("is_clean", [False, True])
def test_copy_that_a_kill_has_left_is_continued_at_the_next_start(bench: MoveBench, is_clean: bool) -> None:
    bench.begin().step(700)
    before = held(bench.log)
    bench.log = bench.disk.restart(is_clean=is_clean)
    [move] = bench.disk.storage.moves
    assert 0 < move.lag < 20
    bench.finish(move)
    assert held(bench.log) == before
    assert held(bench.disk.restart(is_clean=False)) == before


def test_copy_without_a_topic_id_is_removed_and_the_log_stays(bench: MoveBench) -> None:
    bench.begin().step(700)
    before = held(bench.log)
    bench.disk.stop(is_clean=False)
    [copy] = bench.disk.path.glob("1/*-future")
    (copy / "partition.metadata").write_bytes(b"")
    bench.disk.start()
    assert held(bench.disk.log()) == before
    assert not copy.exists()


def test_copy_of_a_topic_that_is_gone_is_kept_as_stray(bench: MoveBench) -> None:
    bench.begin().step(700)
    bench.disk.restart()
    bench.disk.storage.remove_unknown(set())
    assert bench.disk.storage.moves == []
    assert len(list(bench.disk.path.glob("1/t-0.*-stray"))) == 1


def test_copy_in_the_directory_of_the_metadata_is_completed_after_a_kill(bench: MoveBench) -> None:
    bench.copied()
    before = held(bench.log)
    bench.disk.stop(is_clean=False)
    [old] = bench.disk.path.glob("0/t-0")
    old.rename(old.with_name(f"t-0.{'0' * 32}-delete"))  # the kill came before the second rename
    bench.disk.start()
    log = bench.disk.storage.open("t", TOPIC_ID, 0, SECOND)
    assert held(log) == before
    assert list(bench.disk.path.glob("1/t-0"))


def test_incomplete_copy_does_not_become_the_log_in_another_directory(bench: MoveBench) -> None:
    bench.begin().step(300)
    bench.lose_original()
    log = bench.disk.storage.open("t", TOPIC_ID, 0, FIRST)
    assert held(log) == []
    assert bench.disk.storage.places.of(TOPIC_ID, 0) == f"{bench.disk.path}/0"


@pytest.mark.parametrize("failed", ["/data/0", "/data/1"])
def test_failed_directory_stops_the_move_and_a_start_without_failure_continues_it(failed: str) -> None:
    files = SimFiles(1)
    bench = MoveBench("/data", files)
    move = bench.begin()
    move.step(700)
    before = held(bench.log)
    files.broken.add(failed)
    with pytest.raises(KafkaStorageError):
        bench.finish(move)
    assert move.is_offline
    bench.disk.storage.abandon(move)
    if failed == "/data/1":
        append(bench.log, b"goes on")
        before = held(bench.log)
        with pytest.raises(KafkaStorageError):
            bench.disk.storage.move(bench.log, bench.target)
    files.broken.clear()
    bench.log = bench.disk.restart(is_clean=False)
    [move] = bench.disk.storage.moves
    bench.finish(move)
    assert held(bench.log) == before


def test_log_stays_where_it_is_if_the_target_fails_at_the_end() -> None:
    files = SimFiles(2)
    bench = MoveBench("/data", files)
    move = bench.copied()
    before = held(bench.log)
    files.read_only.add("/data/1/t-0")
    rename = files.rename

    def broken(path: str, new_path: str) -> None:
        if new_path == "/data/1/t-0":
            raise OSError(5, "Input/output error")
        rename(path, new_path)

    files.rename = broken  # type: ignore[method-assign]
    with pytest.raises(KafkaStorageError):
        move.finish()
    assert held(bench.log) == before
    append(bench.log, b"goes on")
    assert not bench.log.is_offline


def test_topic_name_that_is_too_long_for_a_copy_is_rejected(tmp_path: Path) -> None:
    disk = StorageOnDisk(tmp_path, directories=2)
    log = disk.log("t" * 240)
    with pytest.raises(InvalidTopicException):
        disk.storage.move(log, f"{tmp_path}/1")


def test_log_in_two_directories_is_refused_with_both_paths(bench: MoveBench) -> None:
    bench.disk.stop()
    source, other = bench.disk.path / "0/t-0", bench.disk.path / "1/t-0"
    other.mkdir()
    for file in source.iterdir():
        (other / file.name).write_bytes(file.read_bytes())
    with pytest.raises(ConfigurationError, match=rf"{other} is also in {source}\. Delete one of both"):
        bench.disk.start()
    assert sorted(path.name for path in other.iterdir()) == sorted(path.name for path in source.iterdir())


def test_segments_of_the_moved_log_begin_where_those_of_the_log_do(bench: MoveBench) -> None:
    bench.log.limit_segments(RollLimits(max_bytes=1 << 20))
    append(bench.log, b"20")
    bench.log.roll()
    append(bench.log, b"21")
    before_move = bases(bench.log)
    assert before_move[-1] == 21
    bench.finish(bench.begin())
    assert bases(bench.log) == before_move


def test_move_while_another_directory_has_failed_is_rejected() -> None:
    # As in Kafka: a copy could exist in the failed one.
    files = SimFiles(1)
    disk = StorageOnDisk("/data", directories=3, files=files)
    logs = [disk.log(partition=partition) for partition in range(3)]
    files.broken.add("/data/1")
    with pytest.raises(KafkaStorageError):
        append(logs[1], b"x")
    with pytest.raises(KafkaStorageError, match="/data/1 is offline"):
        disk.storage.move(logs[0], "/data/2")
    assert not disk.storage.moves


def test_copy_without_its_log_is_kept_as_stray_if_the_topic_is_gone(bench: MoveBench) -> None:
    bench.begin().step(700)
    bench.lose_original()
    bench.disk.storage.remove_unknown(set())
    assert len(list(bench.disk.path.glob("1/t-0.*-stray"))) == 1
    assert not list(bench.disk.path.glob("1/*-future"))


def test_second_copy_of_a_log_is_deleted_at_the_start(bench: MoveBench) -> None:
    bench.begin().step(700)
    bench.disk.stop(is_clean=False)
    [copy] = bench.disk.path.glob("1/*-future")
    shutil.copytree(copy, copy.with_name(f"t-0.{'0' * 32}-future"))
    bench.disk.start()
    assert len(list(bench.disk.path.glob("1/*-future"))) == 1
    [move] = bench.disk.storage.moves
    bench.log = bench.disk.log()
    before = held(bench.log)
    bench.finish(move)
    assert held(bench.log) == before
