"""Regions of files as parts of an encoded frame: the kernel sends them, so their bytes never enter Python.

A frame in parts is a list of buffers and file regions (framing.py). A region does not copy or read anything
until it is sent, or until `read` is called for a transport that cannot send files.
"""

from __future__ import annotations

from typing import Protocol

from pykafka2.errors import KafkaStorageError


class RegionFile(Protocol):
    """An open file. It stays open while a region refers to it, also if it is deleted meanwhile."""

    def fileno(self) -> int:
        """Returns the descriptor, or -1 if the system has none for it, as for a file in memory."""
        ...

    def read_at(self, position: int, size: int) -> bytes:
        """Reads up to `size` bytes from `position`; fewer only at the end of the file."""
        ...


class FileRegion:
    """`length` bytes of a file from `position`. Immutable."""

    __slots__ = ("_length", "file", "position")

    def __init__(self, file: RegionFile, position: int, length: int) -> None:
        self.file = file
        self.position = position
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return f"FileRegion({self.file!r}, {self.position}, {self._length})"

    def after(self, count: int) -> FileRegion:
        """Returns the rest after the first `count` bytes."""
        return FileRegion(self.file, self.position + count, self._length - count)

    def read(self) -> bytes:
        """Returns the bytes. Raises `KafkaStorageError` if the file is shorter or cannot be read."""
        try:
            data = self.file.read_at(self.position, self._length)
        except OSError as error:
            raise KafkaStorageError(f"{self!r} cannot be read: {error}") from error
        if len(data) < self._length:
            raise KafkaStorageError(
                f"{self.file!r} ends {self._length - len(data)} bytes before the end of the region "
                f"of {self._length} bytes at {self.position}"
            )
        return data
