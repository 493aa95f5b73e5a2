"""The file system under the log on disk, and the descriptors that stay open until parts of files are sent.

`RealFiles` (real_files.py) is the machine's file system; the simulation has one in memory that injects torn
writes, lost pages, a full disk, EIO and slow flushes. Paths are strings with "/". Errors are `OSError`.

A segment can be deleted, replaced by a cleaned one, or closed by the limit of open files meanwhile. Each part
has a duplicate of the descriptor, which is closed with the last reference. Beyond a limit the bytes are read
instead, so that slow readers cannot use up the descriptors of the process.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final, Protocol

import attrs

from pykafka2.errors import KafkaStorageError
from pykafka2.protocol.file_part import FilePart
from pykafka2.protocol.primitives import MIN_UNCOPIED_BYTES, Buffer

MAX_SMALL_FILE: Final = 64 << 20
"""More than a checkpoint of 200,000 partitions has."""


class File(Protocol):
    """One file, read and written at positions. It may be closed meanwhile, and opens itself on use."""

    path: str

    def read(self, position: int, size: int) -> bytes:
        """Read up to `size` bytes; fewer at the end of the file."""
        ...

    def write(self, position: int, data: Buffer) -> None:
        """Write all bytes. After an `OSError` a part of them may be in the file."""
        ...

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def flush(self) -> None:
        """Force the file to the disk (fsync)."""
        ...

    def later_flush(self) -> Callable[[], None]:
        """Return a function that flushes this file, once, from any thread, even if it is closed here."""
        ...

    def duplicate(self) -> int:
        """Return a new descriptor of the open file, which the caller must close.

        It stays valid if the file is closed, renamed or deleted. Raise `OSError` in memory.
        """
        ...

    def close(self) -> None:
        """Close the descriptor. The next use opens the file again."""
        ...


class FileLock(Protocol):
    """A lock on a file, held until `release`."""

    def release(self) -> None: ...


class FileSystem(Protocol):
    """Files and directories."""

    blocks: bool
    """Whether flushes block the caller, so that several threads are faster than one."""

    def open(self, path: str, *, creates: bool = False) -> File:
        """Return a file; with `creates` it is made now, and empty."""
        ...

    def exists(self, path: str) -> bool: ...

    def is_directory(self, path: str) -> bool: ...

    def names(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""
        ...

    def read(self, path: str, max_bytes: int = MAX_SMALL_FILE) -> bytes:
        """Read a whole file. Raise `OSError` (EFBIG) if it is larger."""
        ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int:
        """Return the time of the last write to a file, in milliseconds since 1970."""
        ...

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Change the time of the last write to a file."""
        ...

    def replace(self, path: str, data: bytes, *, flushes: bool = True) -> None:
        """Write a whole file so that after a crash it has either its old content or the new one.

        Without `flushes` it can be empty or damaged after a crash of the machine.
        """
        ...

    def make_directory(self, path: str) -> None:
        """Make a directory and its parents if they do not exist."""
        ...

    def rename(self, path: str, new_path: str) -> None:
        """Rename a file or directory; replace a file of the new name."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file."""
        ...

    def remove_tree(self, path: str) -> None:
        """Remove a directory with its content."""
        ...

    def flush_directory(self, path: str) -> None:
        """Force the names in a directory, or the content of a file, to the disk, from any thread."""
        ...

    def close(self) -> None:
        """Close all files, which open themselves again if they are used."""
        ...

    def lock(self, path: str) -> FileLock:
        """Lock a file, and create it if necessary. Raise `BlockingIOError` if it is locked."""
        ...


@attrs.frozen
class FileRegion:
    """Whole batches in a file: `length` bytes from `position`, up to `next_offset`.

    For `os.sendfile`: `file.duplicate()` returns a descriptor that survives the segment's deletion. The bytes
    of a log never change, except that truncation of a follower cuts the file, so a send can end early.
    """

    file: File
    position: int
    length: int
    next_offset: int

    def read(self) -> bytes:
        """Read the bytes."""
        return self.file.read(self.position, self.length)


MAX_HELD_FILES: Final = 256

held: Final[set[int]] = set()
"""The descriptors that are open now. A set, because network threads close them without the cluster's lock."""


class HeldFile:
    """A duplicated descriptor of a segment's file; see `protocol.file_part.PartFile`."""

    __slots__ = ("_descriptor", "_path")

    def __init__(self, descriptor: int, path: str) -> None:
        self._descriptor = descriptor
        self._path = path
        held.add(descriptor)

    def __del__(self) -> None:
        # In this order: once it is closed, another thread can get the same descriptor.
        held.discard(self._descriptor)
        os.close(self._descriptor)

    def __repr__(self) -> str:
        return f"<file {self._path}>"

    def fileno(self) -> int:
        return self._descriptor

    def read(self, position: int, size: int) -> bytes:
        pieces: list[bytes] = []
        while size > 0:
            piece = os.pread(self._descriptor, size, position)
            if not piece:
                break
            pieces.append(piece)
            position += len(piece)
            size -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def part_of(region: FileRegion) -> FilePart | Buffer:
    """Return a region as a part of a response.

    Its bytes if it is small, if the file is in memory, or if too many files are held. Raise
    `KafkaStorageError` if these cannot be read.
    """
    if region.length >= MIN_UNCOPIED_BYTES and len(held) < MAX_HELD_FILES:
        try:
            descriptor = region.file.duplicate()
        except OSError:
            pass  # in memory, or the process has no descriptor left
        else:
            return FilePart(HeldFile(descriptor, region.file.path), region.position, region.length)
    try:
        return region.read()
    except OSError as error:
        raise KafkaStorageError(f"{region.file!r} cannot be read: {error}") from error
