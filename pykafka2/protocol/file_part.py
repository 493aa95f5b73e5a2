"""Parts of encoded frames that are in a file: the kernel sends them, so their bytes never enter Python.

A frame is a list of parts: buffers, and file parts for the records of a fetch (framing.py). Nothing is read
from the file until the part is sent, or until `read` is called for a transport that cannot send files.
"""

from __future__ import annotations

from typing import Protocol

from pykafka2.errors import KafkaStorageError


class PartFile(Protocol):
    """An open file. It stays open while a part refers to it, also if it is deleted meanwhile."""

    def fileno(self) -> int:
        """Return the descriptor."""
        ...

    def read(self, position: int, size: int) -> bytes:
        """Read up to `size` bytes from `position`; fewer only at the end of the file."""
        ...


class FilePart:
    """`len` bytes of a file from `position`. Immutable."""

    __slots__ = ("_length", "file", "position")

    def __init__(self, file: PartFile, position: int, length: int) -> None:
        self.file = file
        self.position = position
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return f"{self._length} bytes at {self.position} of {self.file!r}"

    def first(self, most: int) -> FilePart:
        """Return up to `most` bytes from the start."""
        return FilePart(self.file, self.position, min(self._length, most))

    def after(self, count: int) -> FilePart:
        """Return the rest after the first `count` bytes."""
        return FilePart(self.file, self.position + count, self._length - count)

    def read(self) -> bytes:
        """Return the bytes. Raise `KafkaStorageError` if the file is shorter or cannot be read."""
        try:
            data = self.file.read(self.position, self._length)
        except OSError as error:
            raise KafkaStorageError(f"{self!r} cannot be read: {error}") from error
        if len(data) < self._length:
            raise KafkaStorageError(f"{self!r} cannot be read: only {len(data)} of them are left")
        return data
