"""Files of the simulation: what a crash keeps, and the errors of full, broken and read-only disks."""

from __future__ import annotations

import errno

import pytest

from pykafka2.testing.simulation.files import PAGE_BYTES, SimFiles

PATH = "/data/broker-0/t-0/0.log"
OLD = b"o" * (2 * PAGE_BYTES + 100)
NEW = b"n" * (3 * PAGE_BYTES + 200)


def files_with(flushed: bytes, written: bytes, seed: int = 1) -> SimFiles:
    """Files with one that has `written` now, after a flush of `flushed`."""
    files = SimFiles(seed)
    file = files.open(PATH, creates=True)
    file.write(0, flushed)
    file.flush()
    file.truncate(0)
    file.write(0, written)
    return files


def test_crash_leaves_old_new_or_torn_pages_and_the_seed_decides() -> None:
    kinds: set[str] = set()
    for seed in range(60):
        files = files_with(OLD, NEW, seed)
        files.crash("/data")
        found = files.read(PATH)
        again = files_with(OLD, NEW, seed)
        again.crash("/data")
        assert again.read(PATH) == found
        assert len(OLD) <= len(found) <= len(NEW)
        for start in range(0, len(found), PAGE_BYTES):
            assert set(found[start : start + PAGE_BYTES]) in ({*b"o"}, {*b"n"}, {0}, {*b"o\0"})
        kinds.add("old" if found == OLD else "new" if found == NEW else "torn")
        if b"\0" in found:
            kinds.add("zeros")
    assert kinds == {"old", "new", "torn", "zeros"}


def test_crash_keeps_flushed_content() -> None:
    for seed in range(20):
        files = files_with(OLD, NEW, seed)
        files.open(PATH).later_flush()()
        files.replace("/data/checkpoint", b"replaced")
        files.replace("/data/other", b"other", flushes=False)
        files.flush_directory("/data/other")
        assert files.crash("/data") == 0
        assert files.read(PATH) == NEW
        assert (files.read("/data/checkpoint"), files.read("/data/other")) == (b"replaced", b"other")


def test_replaced_file_without_a_flush_can_be_empty_after_a_crash() -> None:
    found = set()
    for seed in range(20):
        files = SimFiles(seed)
        files.replace(PATH, b"data", flushes=False)
        files.crash("/data")
        found.add(files.read(PATH))
    assert {b"", b"data"} <= found


def test_crash_keeps_the_metadata_log_unless_it_is_named() -> None:
    path = "/data/broker-0/__cluster_metadata-0/0.log"
    files = SimFiles(1)
    files.open(path, creates=True).write(0, NEW)
    assert files.crash("/data") == 0
    assert files.read(path) == NEW
    files.lose_unflushed("/data")
    assert files.read(path) == b""


def test_lost_files_are_exactly_those_below_the_path() -> None:
    files = files_with(OLD, NEW)
    files.open("/data/broker-1/0.log", creates=True).write(0, NEW)
    files.lose_unflushed("/data/broker-0")
    assert files.read(PATH) == OLD
    assert files.read("/data/broker-1/0.log") == NEW


def test_full_disk_takes_a_part_of_a_write_and_accepts_writes_within_the_file() -> None:
    files = SimFiles(1)
    file = files.open(PATH, creates=True)
    file.write(0, b"0123456789")
    files.full.add("/data/broker-0")
    file.write(2, b"ab")
    sizes = set()
    for _ in range(20):
        with pytest.raises(OSError, match="No space left") as caught:
            file.write(10, b"x" * 10)
        assert caught.value.errno == errno.ENOSPC
        sizes.add(file.size())
        file.truncate(10)
    assert file.read(0, 100) == b"01ab456789"
    assert min(sizes) >= 10
    assert len(sizes) > 1
    assert max(sizes) < 20
    files.open("/data/broker-1/0.log", creates=True).write(0, b"has room")


def test_broken_disk_fails_reads_and_writes() -> None:
    files = files_with(OLD, NEW)
    file = files.open(PATH)
    files.broken.add("/data/broker-0/t-0")
    flush = files.open("/data/x", creates=True).later_flush
    for action in (
        lambda: file.read(0, 1),
        lambda: file.write(0, b"x"),
        lambda: file.truncate(0),
        file.size,
        file.flush,
        file.later_flush,
        lambda: files.read(PATH),
        lambda: files.names("/data/broker-0/t-0"),
        lambda: files.open(PATH, creates=True),
        lambda: files.rename(PATH, "/data/x"),
        lambda: files.remove(PATH),
        lambda: files.lock("/data/broker-0/t-0/.lock"),
        lambda: files.make_directory("/data/broker-0/t-0/x"),
        lambda: files.flush_directory("/data/broker-0/t-0"),
    ):
        with pytest.raises(OSError, match="Input/output error") as caught:
            action()
        assert caught.value.errno == errno.EIO
    flush()()
    files.broken.clear()
    assert file.read(0, len(NEW)) == NEW


def test_read_only_disk_can_be_read() -> None:
    files = files_with(OLD, NEW)
    file = files.open(PATH)
    files.read_only.add("/data/broker-0")
    assert file.read(0, len(NEW)) == NEW
    with pytest.raises(OSError, match="Read-only") as caught:
        file.write(0, b"x")
    assert caught.value.errno == errno.EROFS


def test_damage_changes_one_byte_that_was_flushed() -> None:
    files = files_with(OLD, OLD)
    files.damage(PATH, 5)
    found = files.read(PATH)
    assert [at for at, byte in enumerate(found) if byte != ord("o")] == [5]
