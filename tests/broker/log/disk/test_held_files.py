"""Regions of segments as parts of responses: descriptors that stay open, and what is read instead."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pykafka2.broker.log import file_system as held_files
from pykafka2.broker.log.disk.real_files import RealFile, RealFiles
from pykafka2.broker.log.file_system import FileRegion, held, part_of
from pykafka2.errors import KafkaStorageError
from pykafka2.protocol.file_part import FilePart

DATA = bytes(range(256)) * 100


@pytest.fixture
def file(tmp_path: Path) -> RealFile:
    file = RealFiles().open(str(tmp_path / "0.log"), creates=True)
    file.write(0, DATA)
    return file


def test_part_has_the_bytes_of_the_region_after_the_file_is_deleted(file: RealFile) -> None:
    part = part_of(FileRegion(file, 10, 9000, 1))
    assert isinstance(part, FilePart)
    file.close()
    os.remove(file.path)
    assert len(held) == 1
    assert part.read() == DATA[10:9010]
    assert part.after(8990).read() == DATA[9000:9010]
    del part
    assert len(held) == 0


def test_small_region_is_read(file: RealFile) -> None:
    assert part_of(FileRegion(file, 10, 100, 1)) == DATA[10:110]
    file.close()


def test_region_is_read_while_too_many_files_are_held(
    file: RealFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_files, "MAX_HELD_FILES", 2)
    region = FileRegion(file, 10, 9000, 1)
    parts = [part_of(region) for _ in range(3)]
    assert [isinstance(part, FilePart) for part in parts] == [True, True, False]
    assert parts[2] == DATA[10:9010]
    del parts
    assert isinstance(part_of(region), FilePart)
    file.close()


class MemoryFile:
    """A file without a descriptor."""

    path = "0.log"
    error: OSError | None = None

    def duplicate(self) -> int:
        raise OSError(9, "a file in memory has no descriptor")

    def read(self, position: int, size: int) -> bytes:
        if self.error is not None:
            raise self.error
        return DATA[position : position + size]


def test_region_of_a_file_in_memory_is_read() -> None:
    assert part_of(FileRegion(MemoryFile(), 10, 9000, 1)) == DATA[10:9010]  # type: ignore[arg-type]


def test_region_that_cannot_be_read_raises_a_storage_error() -> None:
    file = MemoryFile()
    file.error = OSError(5, "Input/output error")
    with pytest.raises(KafkaStorageError, match="Input/output error"):
        part_of(FileRegion(file, 10, 9000, 1))  # type: ignore[arg-type]


def test_descriptor_of_a_part_is_closed_with_the_last_reference(file: RealFile) -> None:
    part = part_of(FileRegion(file, 10, 9000, 1))
    assert isinstance(part, FilePart)
    rest, descriptor = part.after(10), part.file.fileno()
    del part
    os.fstat(descriptor)
    del rest
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    file.close()


def test_part_is_read_whole_if_the_system_reads_a_piece_at_a_time(
    file: RealFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = part_of(FileRegion(file, 10, 9000, 1))
    assert isinstance(part, FilePart)
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda descriptor, size, at: pread(descriptor, min(size, 4000), at))
    assert part.read() == DATA[10:9010]
    assert part.first(20).read() == DATA[10:30]
    assert len(part.first(9001)) == 9000
    file.close()
