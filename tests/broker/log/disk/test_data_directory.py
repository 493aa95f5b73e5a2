"""Data directories: lock, meta.properties, the mark of a clean shutdown, and what is refused."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

import pytest

from pykafka2.broker.log.disk.data_directory import DataDirectory, Identity, open_directories, read_identity
from pykafka2.broker.log.disk.real_files import RealFiles
from pykafka2.errors import ConfigurationError

OURS = Identity("c1", 3)
ID = UUID(int=7)


def opened(path: Path, identity: Identity = OURS) -> DataDirectory:
    [directory] = open_directories([str(path)], RealFiles(), identity, lambda: ID)
    return directory


def test_new_directory_is_formatted_and_opens_again_with_the_same_ids(tmp_path: Path) -> None:
    assert read_identity(str(tmp_path / "d"), RealFiles()) is None
    first = opened(tmp_path / "d")
    assert not first.begin()
    first.mark_clean(broker_epoch=5)
    first.close()
    assert json.loads((tmp_path / "d/.kafka_cleanshutdown").read_text()) == {"version": 0, "brokerEpoch": 5}
    [again] = open_directories([str(tmp_path / "d")], RealFiles(), OURS, lambda: UUID(int=8))
    assert (again.directory_id, again.begin()) == (ID, True)
    assert not (tmp_path / "d/.kafka_cleanshutdown").exists()
    again.close(is_clean=True)  # while the logs are in use
    assert not opened(tmp_path / "d").begin()
    assert read_identity(str(tmp_path / "d"), RealFiles()) == OURS


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("version=1\ncluster.id=other\nnode.id=3\n", "belongs to cluster other, and this is cluster c1"),
        ("version=1\ncluster.id=c1\nnode.id=4\n", "belongs to node 4, and this is node 3"),
        ("version=2\ncluster.id=c1\nnode.id=3\n", "version 2 is not 1"),
        ("version=1\nnode.id=3\n", "has no cluster.id and node.id"),
        ("version=1\ncluster.id=c1\nnode.id=3\ndirectory.id=x\n", "not an id of 16 bytes"),
    ],
)
def test_other_meta_properties_are_refused_with_path_and_reason_and_nothing_changes(
    tmp_path: Path, text: str, reason: str
) -> None:
    (tmp_path / "meta.properties").write_text(text)
    (tmp_path / ".kafka_cleanshutdown").write_text("")
    with pytest.raises(ConfigurationError, match=reason) as caught:
        opened(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert (tmp_path / "meta.properties").read_text() == text
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_directory_with_logs_but_without_meta_properties_is_refused(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    with pytest.raises(
        ConfigurationError, match=r"it has 1 logs, such as .*orders-0, but no meta.properties"
    ):
        opened(tmp_path)


def test_missing_directory_beside_a_formatted_one_is_refused_and_the_other_stays_clean(
    tmp_path: Path,
) -> None:
    paths = [str(tmp_path / name) for name in "ab"]
    for directory in open_directories(paths, RealFiles(), OURS, lambda: ID):
        directory.close(is_clean=True)
    (tmp_path / "b").rename(tmp_path / "elsewhere")
    with pytest.raises(ConfigurationError, match=r"b cannot be used: it does not exist, but .*a has data"):
        open_directories(paths, RealFiles(), OURS, lambda: ID)
    (tmp_path / "elsewhere").rename(tmp_path / "b")
    assert all(one.was_clean for one in open_directories(paths, RealFiles(), OURS, lambda: ID))


def test_directory_locked_by_this_or_another_process_is_refused(tmp_path: Path) -> None:
    held = opened(tmp_path)
    with pytest.raises(ConfigurationError, match="another broker has locked"):
        opened(tmp_path)
    held.close(is_clean=True)
    program = (
        "import fcntl, sys\n"
        "file = open(sys.argv[1], 'w')\n"
        "fcntl.lockf(file, fcntl.LOCK_EX)\n"
        "print(flush=True)\n"
        "input()"
    )
    command = [sys.executable, "-c", program, str(tmp_path / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(ConfigurationError, match="another broker has locked"):
            opened(tmp_path)
        other.stdin.close()
    opened(tmp_path).close(is_clean=True)


def test_read_only_directory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, *_: object) -> int:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(ConfigurationError, match=r"it is read-only .Permission denied.* Make it writable"):
        opened(tmp_path)


def test_least_recently_used_files_are_closed_and_open_themselves_again(tmp_path: Path) -> None:
    files = RealFiles(max_open=3)
    many = [files.open(str(tmp_path / str(number)), creates=True) for number in range(20)]
    for number, file in enumerate(many):
        file.write(0, str(number).encode())
    before = len(os.listdir("/proc/self/fd"))
    assert [file.read(0, 10) for file in many] == [str(number).encode() for number in range(20)]
    assert len(os.listdir("/proc/self/fd")) == before
    for file in many:
        file.close()
    assert len(os.listdir("/proc/self/fd")) == before - 3


@pytest.mark.parametrize("flushes", [False, True])
def test_replaced_file_has_the_new_content_alone(tmp_path: Path, flushes: bool) -> None:
    files, path = RealFiles(), str(tmp_path / "leader-epoch-checkpoint")
    for data in (b"long content", b"short", b"longer content again", b""):
        files.replace(path, data, flushes=flushes)
        assert files.read(path) == data
    assert os.listdir(tmp_path) == ["leader-epoch-checkpoint"]


def test_unflushed_replacement_keeps_the_file_and_writes_in_place(tmp_path: Path) -> None:
    # Renaming a file over another costs a flush on ext4: two milliseconds for each leader of a partition.
    files, path = RealFiles(), tmp_path / "leader-epoch-checkpoint"
    files.replace(str(path), b"before", flushes=False)
    inode = path.stat().st_ino
    files.replace(str(path), b"after", flushes=False)
    assert path.stat().st_ino == inode


def test_directory_that_was_not_clean_stays_so_if_its_logs_are_not_used(tmp_path: Path) -> None:
    crashed = opened(tmp_path)
    crashed.begin()
    (tmp_path / "orders-0").mkdir()
    crashed.close()
    opened(tmp_path).close(is_clean=True)  # as after a start that another broker has prevented
    assert not opened(tmp_path).begin()


def test_removal_of_the_mark_of_a_clean_shutdown_is_forced_to_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = opened(tmp_path)
    first.mark_clean()
    first.close()
    again = opened(tmp_path)
    flushed: list[bool] = []
    monkeypatch.setattr(
        RealFiles,
        "flush_directory",
        lambda self, path: flushed.append((tmp_path / ".kafka_cleanshutdown").exists()),
    )
    assert again.begin()
    assert flushed == [False]
    again.close()


def test_unflushed_replacement_is_complete_if_the_disk_accepts_it_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, path = RealFiles(), str(tmp_path / "checkpoint")
    files.replace(path, b"old", flushes=False)
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda descriptor, data, at: pwrite(descriptor, bytes(data)[:4], at))
    files.replace(path, b"0\n1\nt 0 12345\n", flushes=False)
    assert (tmp_path / "checkpoint").read_bytes() == b"0\n1\nt 0 12345\n"


def test_file_that_was_used_last_is_the_last_to_be_closed(tmp_path: Path) -> None:
    files = RealFiles(max_open=2)
    first, second, third = (files.open(str(tmp_path / name), creates=True) for name in "abc")
    first.read(0, 1)
    second.read(0, 1)
    first.read(0, 1)
    third.read(0, 1)
    assert list(files._open) == [first, third]
    files.close()


def test_file_is_written_and_read_whole_if_the_system_takes_a_part_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Linux moves at most 2 GB in one call.
    files = RealFiles()
    file = files.open(str(tmp_path / "0.log"), creates=True)
    pwrite, pread = os.pwrite, os.pread
    monkeypatch.setattr(os, "pwrite", lambda descriptor, data, at: pwrite(descriptor, data[:3], at))
    monkeypatch.setattr(os, "pread", lambda descriptor, size, at: pread(descriptor, min(size, 3), at))
    file.write(2, b"0123456789")
    assert (tmp_path / "0.log").read_bytes() == b"\0\x000123456789"
    assert file.read(3, 6) == b"123456"
    assert file.read(3, 100) == b"123456789"
    monkeypatch.setattr(os, "pwrite", lambda descriptor, data, at: 0)
    with pytest.raises(OSError, match="No space left"):
        file.write(0, b"full")
    files.close()


def test_refused_lock_leaves_no_descriptor_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fcntl = pytest.importorskip("fcntl")

    def refuse(*_: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "locked by another process")

    before = len(os.listdir("/dev/fd"))
    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "lockf", refuse)
        with pytest.raises(ConfigurationError, match="another broker has locked"):
            opened(tmp_path)
    assert len(os.listdir("/dev/fd")) == before
    opened(tmp_path).close()


def test_other_properties_of_a_directory_without_an_id_are_kept(tmp_path: Path) -> None:
    text = "version=1\ncluster.id=c1\nnode.id=3\nother=kept\n"
    (tmp_path / "meta.properties").write_text(text)
    opened(tmp_path).close()
    assert (tmp_path / "meta.properties").read_text().startswith(text)


def test_descriptors_are_not_inherited(tmp_path: Path) -> None:
    files = RealFiles()
    file = files.open(str(tmp_path / "0.log"), creates=True)
    assert not os.get_inheritable(file._descriptor)
    files.close()


def test_directories_are_flushed_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2)
    monkeypatch.setattr(os, "fsync", lambda descriptor: both.wait(60))
    files = RealFiles()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(files.flush_directory, [str(tmp_path)] * 2))


def test_flush_after_the_end_leaves_no_descriptor(tmp_path: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    files = RealFiles()
    files.open(str(tmp_path / "a"), creates=True)
    files.close()
    files.flush_directory(str(tmp_path))  # in the background
    assert len(os.listdir("/dev/fd")) == before
