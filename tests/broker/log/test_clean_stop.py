"""A clean stop flushes all logs with several threads (num.recovery.threads.per.data.dir)."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.log.disk.log_directory import DiskLogFiles
from pykafka2.broker.log.disk.real_files import RealFiles
from pykafka2.testing import KafkaCluster, Topic
from tests.broker.log.on_disk import StorageOnDisk
from tests.testing.wire import Wire, batch, produce, view


def filled(path: Path, count: int, **options: int) -> StorageOnDisk:
    disk = StorageOnDisk(path, **options)
    for partition in range(count):
        disk.log(partition=partition).append_as_leader(view(batch([b"x"])), 0)
    return disk


@pytest.mark.parametrize(("directories", "threads", "expected"), [(1, 2, 2), (2, 2, 4), (1, 3, 3), (1, 9, 6)])
def test_each_thread_flushes_one_log_at_a_time(
    tmp_path: Path, directories: int, threads: int, expected: int
) -> None:
    disk = filled(tmp_path, 6, directories=directories)
    disk.storage.configure(BrokerConfig({"num.recovery.threads.per.data.dir": threads}))
    disk.runs_at_once = False
    ends: list[bool] = []
    disk.storage.begin_flush(lambda: ends.append(disk.storage.is_flushing))
    assert len(disk.waiting) == expected
    rounds = 0
    while disk.waiting:
        assert disk.storage.is_flushing
        assert not ends
        disk.run_background()
        rounds += 1
    assert rounds == -(-6 // expected)
    assert ends == [False]
    assert all(log.recovery_point == 1 for log in (disk.log(partition=partition) for partition in range(6)))
    disk.storage.stop(is_clean=True, broker_epoch=1)


def test_stop_has_nothing_left_to_flush(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = filled(tmp_path, 3)
    disk.storage.begin_flush(lambda: None)
    flushed: list[str] = []
    flush = RealFiles.flush_directory

    def noted(self: RealFiles, path: str) -> None:
        flushed.append(path)
        flush(self, path)

    monkeypatch.setattr(RealFiles, "flush_directory", noted)
    monkeypatch.setattr(DiskLogFiles, "_flush_later", None)
    disk.storage.stop(is_clean=True, broker_epoch=1)
    assert not [path for path in flushed if "/t-" in path]
    again = disk.restart(is_clean=False)
    assert again.log_end_offset == 1
    disk.storage.stop(is_clean=False, broker_epoch=1)


def test_failed_flush_takes_its_directory_offline_and_the_others_are_marked_as_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = filled(tmp_path, 6, directories=2)
    fsync = os.fsync

    def failing(descriptor: int) -> None:
        if os.readlink(f"/proc/self/fd/{descriptor}").startswith(f"{tmp_path}/1/t-"):
            raise OSError(5, "Input/output error")
        fsync(descriptor)

    ends: list[bool] = []
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        disk.storage.begin_flush(lambda: ends.append(True))
    assert ends == [True]
    disk.storage.stop(is_clean=True, broker_epoch=1)
    marks = [(tmp_path / name / ".kafka_cleanshutdown").exists() for name in ("0", "1")]
    assert marks == [True, False]


def test_cluster_stops_by_flushing_several_logs_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[int] = set()
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        threads.add(threading.get_ident())
        time.sleep(0.005)
        fsync(descriptor)

    with KafkaCluster(1, {"t": Topic(12)}, data_dir=tmp_path) as cluster:
        with Wire(cluster.bootstrap_servers) as wire:
            for partition in range(12):
                assert produce(wire, "t", partition, batch()).error_code == 0
        monkeypatch.setattr(os, "fsync", noted)
    assert len(threads - {threading.get_ident()}) > 1
    with KafkaCluster(1, data_dir=tmp_path) as cluster:
        assert [len(cluster.log("t", partition).values()) for partition in range(12)] == [1] * 12
