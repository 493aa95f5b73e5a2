"""Descriptors of segment files that stay open until the responses with parts of them are sent.

A segment can be deleted, replaced by a cleaned one, or closed by the limit of open files meanwhile. Each part
has a duplicate of the descriptor, which is closed with the last reference. Beyond a limit the bytes are read
instead, so that slow readers cannot use up the descriptors of the process.
"""

from __future__ import annotations

import os
from typing import Final

from pykafka2.broker.log.disk.file_system import FileRegion
from pykafka2.errors import KafkaStorageError
from pykafka2.protocol.file_part import FilePart
from pykafka2.protocol.primitives import MIN_UNCOPIED_BYTES, Buffer

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
