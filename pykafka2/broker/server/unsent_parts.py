"""The parts of a connection's responses that were not sent yet: bytes, and parts of log segments.

Bytes leave by gathered writes, file parts by `FileTransport.write_file`. After a piece of a file part other
connections get their turn: a fast reader would otherwise hold the thread for a whole fetch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import cast

from pykafka2.errors import IllegalState
from pykafka2.network.transport import FileTransport, Transport
from pykafka2.protocol.file_part import FilePart
from pykafka2.protocol.primitives import FramePart

MAX_GATHERED_BUFFERS = 512
MAX_FILE_BYTES = 1 << 21
"""Limit of one write from a file."""


class UnsentParts:
    """Parts in the order in which they are sent."""

    __slots__ = ("_file_parts", "_parts", "_transport", "_write_file", "sends_files")

    def __init__(self, transport: Transport) -> None:
        self.sends_files = isinstance(transport, FileTransport)
        self._transport = transport
        self._write_file = transport.write_file if isinstance(transport, FileTransport) else _cannot_send
        self._parts: deque[memoryview | FilePart] = deque()
        self._file_parts = 0  # in `_parts`

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, part: FramePart) -> None:
        """Adds a part behind the others; a file part only if the transport `sends_files`."""
        if isinstance(part, FilePart):
            self._file_parts += 1
            self._parts.append(part)
        else:
            self._parts.append(memoryview(part))

    def write(self) -> int:
        """Writes as much as the transport accepts, up to and including one piece of a file part.

        Returns the number of bytes. Raises `Disconnected`, also if a file has become shorter.
        """
        written = 0
        while self._parts:
            head = self._parts[0]
            if isinstance(head, FilePart):
                taken = self._write_file(head, MAX_FILE_BYTES)
                self._take_off(taken)
                return written + taken
            taken = self._transport.write(self._gathered())
            if not taken:
                break
            self._take_off(taken)
            written += taken
        return written

    def clear(self) -> None:
        self._parts.clear()
        self._file_parts = 0

    def _gathered(self) -> Sequence[memoryview]:
        """Returns the bytes before the first file part, for one write."""
        parts = self._parts
        if not self._file_parts and len(parts) <= MAX_GATHERED_BUFFERS:
            return cast("deque[memoryview]", parts)
        gathered: list[memoryview] = []
        for part in islice(parts, MAX_GATHERED_BUFFERS):
            if isinstance(part, FilePart):
                break
            gathered.append(part)
        return gathered

    def _take_off(self, taken: int) -> None:
        parts = self._parts
        while taken:
            head = parts[0]
            if taken >= len(head):
                taken -= len(head)
                parts.popleft()
                self._file_parts -= isinstance(head, FilePart)
            else:
                parts[0] = head.after(taken) if isinstance(head, FilePart) else head[taken:]
                return


def _cannot_send(part: FilePart, max_bytes: int) -> int:
    raise IllegalState(f"{part!r} must be read for this transport")
