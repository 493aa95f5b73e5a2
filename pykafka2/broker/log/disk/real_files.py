"""The machine's file system, with a limit on open descriptors.

A broker with a thousand partitions has more files than a process can open, so the files that were used
longest ago are closed, and open themselves again. Access requires the cluster's lock, except for the function
that `RealFile.later_flush` returns.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from pykafka2.broker.log.file_system import MAX_SMALL_FILE
from pykafka2.records.batch import Buffer

MAX_OPEN_FILES: Final = 256
MAX_WAITING_FLUSHES: Final = 128
"""Flushes in the background that hold a descriptor; beyond it, files are flushed at once."""
CLOSED: Final = -1
NO_DESCRIPTOR: Final = (errno.EMFILE, errno.ENFILE)
TEMPORARY: Final = ".tmp"

T = TypeVar("T")

_locked: set[str] = set()
"""Locked paths of this process, because its own locks never exclude each other (fcntl)."""


class RealFiles:
    """The machine's file system.

    `max_open` is the number of descriptors that stay open. If the process has no descriptor left, which
    connections can use up, files are closed: this is not a failure of the disk.
    """

    blocks = True

    def __init__(self, max_open: int = MAX_OPEN_FILES) -> None:
        self._max_open = max_open
        self._open: OrderedDict[RealFile, None] = OrderedDict()
        self.waiting_flushes: set[int] = set()
        """Descriptors of the flushes in the background. A set, because other threads close them."""
        self._spare = CLOSED
        """For flushes of directories on a background thread, which cannot close files."""
        self._spare_lock = threading.Lock()

    def open(self, path: str, *, creates: bool = False) -> RealFile:
        file = RealFile(path, self)
        if creates:
            file.create()
        return file

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def names(self, path: str) -> list[str]:
        return sorted(self.with_free_descriptor(lambda: os.listdir(path)))

    def read(self, path: str, max_bytes: int = MAX_SMALL_FILE) -> bytes:
        with self.with_free_descriptor(lambda: open(_open_file(path, os.O_RDONLY), "rb")) as file:
            if os.fstat(file.fileno()).st_size > max_bytes:
                raise OSError(errno.EFBIG, f"it has more than {max_bytes >> 20} MB", path)
            return file.read(max_bytes)

    def size(self, path: str) -> int:
        return os.lstat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.lstat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        times = (modified_ms * 1_000_000, modified_ms * 1_000_000)
        os.utime(path, ns=times, follow_symlinks=False)

    def replace(self, path: str, data: bytes, *, flushes: bool = True) -> None:
        if not flushes and os.path.exists(path) and not os.path.islink(path):
            self._overwrite(path, data)
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with self.with_free_descriptor(lambda: open(_open_file(path + TEMPORARY, flags), "wb")) as file:
            file.write(data)
            if flushes:
                file.flush()
                os.fsync(file.fileno())
        os.replace(path + TEMPORARY, path)
        if flushes:
            self.flush_directory(os.path.dirname(path))

    def _overwrite(self, path: str, data: bytes) -> None:
        """Write a file in place: ext4 flushes a file that replaces another, which takes milliseconds."""
        descriptor = self.with_free_descriptor(lambda: _open_file(path, os.O_WRONLY))
        try:
            _write_all(descriptor, 0, data, path)
            os.ftruncate(descriptor, len(data))
        finally:
            os.close(descriptor)

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, path: str, new_path: str) -> None:
        os.replace(path, new_path)

    def remove(self, path: str) -> None:
        os.remove(path)

    def remove_tree(self, path: str) -> None:
        shutil.rmtree(path)

    def flush_directory(self, path: str) -> None:
        try:
            _flush(path)
        except OSError as error:
            if error.errno not in NO_DESCRIPTOR:
                raise
            self._flush_with_spare(path, error)

    def _flush_with_spare(self, path: str, error: OSError) -> None:
        with self._spare_lock:
            if self._spare == CLOSED:
                raise error
            os.close(self._spare)
            self._spare = CLOSED
            try:
                _flush(path)
            finally:
                self._open_spare()

    def _open_spare(self) -> None:
        """Require the lock of the spare descriptor."""
        if self._spare == CLOSED:
            with suppress(OSError):
                self._spare = os.open(os.devnull, os.O_RDONLY)

    def lock(self, path: str) -> RealLock:
        return RealLock(path)

    # ------------------------------------------------------------------ open files

    def close(self) -> None:
        """Close all files, which open themselves again if they are used."""
        for file in list(self._open):
            file.close()
        with self._spare_lock:
            if self._spare != CLOSED:
                os.close(self._spare)
                self._spare = CLOSED

    def with_free_descriptor(self, opens: Callable[[], T]) -> T:
        """Call a function that needs descriptors; close files and repeat it if there are none."""
        try:
            return opens()
        except OSError as error:
            if error.errno not in NO_DESCRIPTOR or not self._open:
                raise
        for file in list(self._open)[: len(self._open) // 2 + 1]:
            file.close()
        return opens()

    def opened(self, file: RealFile) -> None:
        """Record an opened file, and close the one that was used longest ago if there are too many."""
        self._open[file] = None
        if self._spare == CLOSED:
            with self._spare_lock:
                self._open_spare()
        if len(self._open) > self._max_open:
            next(iter(self._open)).close()

    def used(self, file: RealFile) -> None:
        self._open.move_to_end(file)

    def closed(self, file: RealFile) -> None:
        self._open.pop(file, None)


class RealFile:
    """A file of the machine, opened on use."""

    __slots__ = ("_descriptor", "_files", "path")

    def __init__(self, path: str, files: RealFiles) -> None:
        self.path = path
        self._files = files
        self._descriptor = CLOSED

    def __repr__(self) -> str:
        return f"<file {self.path}>"

    def create(self) -> None:
        self._open(os.O_CREAT | os.O_TRUNC)

    def read(self, position: int, size: int) -> bytes:
        descriptor = self._opened()
        data = os.pread(descriptor, size, position)
        if len(data) == size or not data:
            return data
        pieces = [data]
        size -= len(data)
        while size > 0:  # at the end of the file, or after more than 2 GB
            position += len(data)
            data = os.pread(descriptor, size, position)
            if not data:
                break
            pieces.append(data)
            size -= len(data)
        return b"".join(pieces)

    def write(self, position: int, data: Buffer) -> None:
        _write_all(self._opened(), position, data, self.path)

    def size(self) -> int:
        return os.lstat(self.path).st_size

    def truncate(self, size: int) -> None:
        os.ftruncate(self._opened(), size)

    def flush(self) -> None:
        os.fsync(self._opened())

    def later_flush(self) -> Callable[[], None]:
        waiting = self._files.waiting_flushes
        if len(waiting) >= MAX_WAITING_FLUSHES:
            self.flush()
            return _do_nothing
        return WaitingFlush(self.duplicate(), waiting)

    def duplicate(self) -> int:
        return self._files.with_free_descriptor(lambda: os.dup(self._opened()))

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, CLOSED
        if descriptor != CLOSED:
            self._files.closed(self)
            os.close(descriptor)

    def _opened(self) -> int:
        if self._descriptor == CLOSED:
            self._open(0)
        else:
            self._files.used(self)
        return self._descriptor

    def _open(self, flags: int) -> None:
        self.close()
        path, flags = self.path, flags | os.O_RDWR
        self._descriptor = self._files.with_free_descriptor(lambda: _open_file(path, flags))
        self._files.opened(self)


def _open_file(path: str, flags: int) -> int:
    """Open a regular file. Raise `OSError` for anything else.

    A link in a data directory could lead to any file of the machine, and reading a pipe would never end.
    """
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a symbolic link", path) from None
        raise
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        code = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        raise OSError(code, "it is not a regular file", path)
    return descriptor


def _flush(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, position: int, data: Buffer, path: str) -> None:
    """Write all bytes, also if the disk accepts a part of them first. Raise `OSError`."""
    written = os.pwrite(descriptor, data, position)
    if written == len(data):
        return
    left = memoryview(data)
    while written < len(left):
        count = os.pwrite(descriptor, left[written:], position + written)
        if not count:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        written += count


class WaitingFlush:
    """A flush that can be done on any thread, once; without it, the descriptor is closed."""

    __slots__ = ("_descriptor", "_waiting")

    def __init__(self, descriptor: int, waiting: set[int]) -> None:
        self._descriptor = descriptor
        self._waiting = waiting
        waiting.add(descriptor)

    def __call__(self) -> None:
        try:
            os.fsync(self._descriptor)
        finally:
            self._close()

    def __del__(self) -> None:
        self._close()

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, CLOSED
        if descriptor != CLOSED:
            # In this order: once it is closed, another thread can get the same descriptor.
            self._waiting.discard(descriptor)
            os.close(descriptor)


def _do_nothing() -> None:
    """The flush of a file that was flushed at once."""


class RealLock:
    """The lock that Java's `FileChannel.tryLock` takes, so that Apache Kafka is kept out, too."""

    def __init__(self, path: str) -> None:
        import fcntl  # missing on Windows, where nothing else here is used

        self._name = os.path.realpath(path)
        if self._name in _locked:
            raise BlockingIOError(errno.EAGAIN, "locked by this process", path)
        self._descriptor = _open_file(path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            os.close(self._descriptor)
            raise
        _locked.add(self._name)

    def release(self) -> None:
        _locked.discard(self._name)
        descriptor, self._descriptor = self._descriptor, CLOSED
        if descriptor != CLOSED:
            with suppress(OSError):
                os.close(descriptor)
