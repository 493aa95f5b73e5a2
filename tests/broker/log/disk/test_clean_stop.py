"""A clean stop flushes all logs with several threads (num.recovery.threads.per.data.dir)."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from pykafka2.broker.broker import FLUSH_TIMEOUT
from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.log.disk.log_directory import DiskLogFiles
from pykafka2.broker.log.disk.real_files import RealFiles
from pykafka2.driver.thread_driver import MAX_OFFLOAD_THREADS
from pykafka2.network.script import Lane
from pykafka2.testing import KafkaCluster, Topic
from tests.broker.log.disk.on_disk import StorageOnDisk
from tests.broker.support.batches import batch, view
from tests.broker.support.data_requests import produce
from tests.broker.support.raw_client import RawClient


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
    remaining: list[int] = []
    disk.storage.begin_flush(lambda: remaining.append(disk.storage.logs_to_flush))
    assert len(disk.waiting) == expected
    rounds = 0
    while disk.waiting:
        assert disk.storage.logs_to_flush == 6 - len(remaining)
        disk.run_background()
        rounds += 1
    assert rounds == -(-6 // expected)
    assert remaining == [5, 4, 3, 2, 1, 0]
    assert all(log.recovery_point == 1 for log in (disk.log(partition=partition) for partition in range(6)))


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
    disk.stop(is_clean=True)
    assert not [path for path in flushed if "/t-" in path]
    again = disk.restart(is_clean=False)
    assert again.log_end_offset == 1
    disk.stop(is_clean=False)


def test_failed_flush_takes_its_directory_offline_and_the_others_are_marked_as_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = filled(tmp_path, 6, directories=2)
    fsync = os.fsync

    def failing(descriptor: int) -> None:
        if os.readlink(f"/proc/self/fd/{descriptor}").startswith(f"{tmp_path}/1/t-"):
            raise OSError(5, "Input/output error")
        fsync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        disk.storage.begin_flush(lambda: None)
    assert disk.storage.logs_to_flush == 0
    disk.stop(is_clean=True)
    marks = [(tmp_path / name / ".kafka_cleanshutdown").exists() for name in ("0", "1")]
    assert marks == [True, False]


def test_cluster_stops_by_flushing_several_logs_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed_by: dict[int, list[str]] = {}
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if path.endswith(".log"):
            flushed_by.setdefault(threading.get_ident(), []).append(path)
            time.sleep(0.005)
        fsync(descriptor)

    with KafkaCluster(1, {"t": Topic(12)}, data_dir=tmp_path) as cluster:
        with RawClient(cluster.bootstrap_servers) as wire:
            for partition in range(12):
                assert produce(wire, "t", partition, batch()).error_code == 0
        monkeypatch.setattr(os, "fsync", noted)
    assert len(flushed_by) > 1
    assert threading.get_ident() not in flushed_by, "the stop waits for the helpers as long as they flush"
    assert sum("/t-" in path for paths in flushed_by.values() for path in paths) == 12
    with KafkaCluster(1, data_dir=tmp_path) as cluster:
        assert [len(cluster.log("t", partition).values()) for partition in range(12)] == [1] * 12


@pytest.mark.gate
@pytest.mark.slow
def test_stop_flushes_with_its_own_thread_if_no_helper_flushes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Helper threads that hang, as on a disk that does not respond, delay it by FLUSH_TIMEOUT at most."""
    assert FLUSH_TIMEOUT <= 10.0
    monkeypatch.setattr("pykafka2.broker.broker.FLUSH_TIMEOUT", 0.2)
    is_released = threading.Event()
    with KafkaCluster(2, {"t": Topic(4)}, data_dir=tmp_path) as cluster:
        with RawClient(cluster.brokers[0].address) as wire:
            for partition in range(4):
                if cluster.partition("t", partition).leader == 0:
                    assert produce(wire, "t", partition, batch()).error_code == 0
        for _ in range(MAX_OFFLOAD_THREADS):
            cluster.runtime.offload(lambda: is_released.wait(60.0), lambda outcome: None, Lane.DISK)
        began = time.monotonic()
    took = time.monotonic() - began
    is_released.set()
    assert took < 40.0
    assert len(list(tmp_path.rglob(".kafka_cleanshutdown"))) == 2
