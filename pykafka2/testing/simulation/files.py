"""Files in memory for the simulation, with the faults of disks: the log on disk runs on them unchanged.

Each file has its content and what was flushed of it. `crash` loses unflushed pages at random: a page is new,
old, or zeros, and the end of the file can be anywhere in between (a torn write). Names are durable at once.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from random import Random
from typing import Final

import attrs

from pykafka2.broker.log.file_system import MAX_SMALL_FILE, FileLock
from pykafka2.records.batch import Buffer

PAGE_BYTES: Final = 4096
TEMPORARY: Final = ".tmp"


@attrs.define(eq=False)
class Content:
    """The content of a file, and what a crash keeps of it for certain."""

    data: bytearray = attrs.field(factory=bytearray)
    flushed: bytes = b""
    modified_ms: int = 0

    def flush(self) -> None:
        self.flushed = bytes(self.data)


class SimFiles:
    """A file system in memory. The seed decides what a crash loses; `now_ms` returns the time of writes.

    Files below the paths in `full` cannot grow: a part of a write can still be in the file. Reads and writes
    below those in `broken` fail with EIO, writes below those in `read_only` with EROFS.
    `flush_delay` is the time in seconds that a flush in the background takes.
    """

    blocks = False

    def __init__(self, seed: int | str, now_ms: Callable[[], int] = lambda: 0) -> None:
        self.full: set[str] = set()
        self.broken: set[str] = set()
        self.read_only: set[str] = set()
        self.flush_delay = 0.0
        self.flushes = 0
        self.now_ms = now_ms
        self._random = Random(f"{seed}/files")
        self._files: dict[str, Content] = {}
        self._directories: set[str] = {"", "/"}
        self._locked: set[str] = set()

    # ------------------------------------------------------------------ faults

    def crash(self, path: str, *, keeps_metadata: bool = True) -> int:
        """Lose unflushed pages of the files below `path`. Return how many files have changed.

        With `keeps_metadata`, those of `__cluster_metadata-0` are kept.
        """
        changed = 0
        for name, content in self._below(path):
            if keeps_metadata and "/__cluster_metadata-0/" in name:
                continue
            after = self._after_crash(content)
            changed += after != content.data
            content.data[:] = after
            content.flush()
        return changed

    def _after_crash(self, content: Content) -> bytes:
        old, new = content.flushed, bytes(content.data)
        if old == new:
            return new
        kind = self._random.random()
        if kind < 0.25:
            return new
        if kind < 0.5:
            return old
        low, high = sorted((len(old), len(new)))
        size = self._random.randint(low, high)
        pages = []
        for start in range(0, size, PAGE_BYTES):
            source = new if self._random.random() < 0.7 else old
            pages.append(source[start : start + PAGE_BYTES].ljust(min(PAGE_BYTES, size - start), b"\0"))
        return b"".join(pages)[:size]

    def lose_unflushed(self, path: str) -> None:
        """Leave of the files below `path` exactly what was flushed."""
        for _, content in self._below(path):
            content.data[:] = content.flushed

    def damage(self, path: str, position: int) -> None:
        """Change one byte of a file, flushed or not."""
        self._files[path].data[position] ^= 0x55

    def _below(self, path: str) -> Iterator[tuple[str, Content]]:
        return iter(sorted((name, one) for name, one in self._files.items() if name.startswith(path + "/")))

    def check(self, path: str, *, writes: bool = False) -> None:
        """Raise the `OSError` that faults cause on this path."""
        if any(path.startswith(broken) for broken in self.broken):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        if writes and any(path.startswith(one) for one in self.read_only):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    def room_for(self, path: str, size: int) -> int:
        """Return how many of `size` more bytes the disk has room for."""
        if size and any(path.startswith(full) for full in self.full):
            return self._random.randrange(size)
        return size

    # ------------------------------------------------------------------ FileSystem

    def open(self, path: str, *, creates: bool = False) -> SimFile:
        if creates:
            self.check(path, writes=True)
            self._files[path] = Content(modified_ms=self.now_ms())
        return SimFile(path, self)

    def content(self, path: str) -> Content:
        """Return the content of a file. Raise `OSError`."""
        self.check(path)
        if path not in self._files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return self._files[path]

    def exists(self, path: str) -> bool:
        return path in self._files or path in self._directories

    def is_directory(self, path: str) -> bool:
        return path in self._directories

    def names(self, path: str) -> list[str]:
        self.check(path)
        if path not in self._directories:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        start = path + "/"
        every = [*self._files, *self._directories]
        return sorted({one[len(start) :].partition("/")[0] for one in every if one.startswith(start)} - {""})

    def read(self, path: str, max_bytes: int = MAX_SMALL_FILE) -> bytes:
        return bytes(self.content(path).data)

    def size(self, path: str) -> int:
        return len(self.content(path).data)

    def modified_ms(self, path: str) -> int:
        return self.content(path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self.check(path, writes=True)
        self.content(path).modified_ms = modified_ms

    def replace(self, path: str, data: bytes, *, flushes: bool = True) -> None:
        file = self.open(path + TEMPORARY, creates=True)
        file.write(0, data)
        if flushes:
            file.flush()
        self.rename(path + TEMPORARY, path)

    def make_directory(self, path: str) -> None:
        self.check(path, writes=True)
        parts = path.split("/")
        self._directories |= {"/".join(parts[:count]) for count in range(1, len(parts) + 1)}

    def rename(self, path: str, new_path: str) -> None:
        self.check(path, writes=True)
        if path in self._files:
            self._files[new_path] = self._files.pop(path)
            return
        if path not in self._directories:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        for known in [one for one in self._files if one.startswith(path + "/")]:
            self._files[new_path + known[len(path) :]] = self._files.pop(known)
        self._directories.remove(path)
        self._directories.add(new_path)

    def remove(self, path: str) -> None:
        self.check(path, writes=True)
        if self._files.pop(path, None) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    def remove_tree(self, path: str) -> None:
        self.check(path, writes=True)
        for name in [one for one in self._files if one.startswith(path + "/")]:
            del self._files[name]
        self._directories = {
            one for one in self._directories if one != path and not one.startswith(path + "/")
        }

    def flush_directory(self, path: str) -> None:
        self.check(path, writes=True)
        if path in self._files:
            self._files[path].flush()
        elif path not in self._directories:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    def close(self) -> None:
        """Nothing is open."""

    def lock(self, path: str) -> FileLock:
        self.check(path, writes=True)
        if path in self._locked:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), path)
        self._locked.add(path)
        self._files.setdefault(path, Content())
        return SimLock(self._locked, path)


class SimFile:
    """A file in memory."""

    __slots__ = ("_files", "path")

    def __init__(self, path: str, files: SimFiles) -> None:
        self.path = path
        self._files = files

    def __repr__(self) -> str:
        return f"<file {self.path}>"

    def read(self, position: int, size: int) -> bytes:
        return bytes(self._files.content(self.path).data[position : position + size])

    def write(self, position: int, data: Buffer) -> None:
        file = self._files.content(self.path)
        self._files.check(self.path, writes=True)
        file.modified_ms, content = self._files.now_ms(), file.data
        grows = max(0, position + len(data) - len(content))
        room = self._files.room_for(self.path, grows)
        written = len(data) - grows + room
        if position > len(content):
            content.extend(bytes(position - len(content)))
        content[position : position + written] = data[:written]
        if room < grows:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)

    def size(self) -> int:
        return len(self._files.content(self.path).data)

    def truncate(self, size: int) -> None:
        self._files.check(self.path, writes=True)
        file = self._files.content(self.path)
        file.modified_ms, content = self._files.now_ms(), file.data
        del content[size:]
        content.extend(bytes(size - len(content)))

    def flush(self) -> None:
        self._files.check(self.path, writes=True)
        self._files.flushes += 1
        self._files.content(self.path).flush()

    def later_flush(self) -> Callable[[], None]:
        content, path = self._files.content(self.path), self.path

        def flush() -> None:
            self._files.check(path, writes=True)
            self._files.flushes += 1
            content.flush()

        return flush

    def duplicate(self) -> int:
        raise OSError(errno.ENOTSUP, "a file in memory has no descriptor", self.path)

    def close(self) -> None:
        """Nothing is open."""


class SimLock:
    """A lock in memory."""

    def __init__(self, locked: set[str], path: str) -> None:
        self._locked = locked
        self._path = path

    def release(self) -> None:
        self._locked.discard(self._path)
