"""The parts of a connection's responses that were not sent yet: bytes, and parts of log segments.

Bytes leave by gathered writes, file parts by `FileTransport.write_file`. After a piece of a file other
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
from pykafka2.protocol.gathered_part import GatheredPart
from pykafka2.protocol.primitives import FramePart

MAX_GATHERED_BUFFERS = 512
MAX_FILE_BYTES = 1 << 20
"""Limit of one write from a file, about 0.1 ms. Writes of 2 MiB took 1.2 times the time per byte."""
MAX_SHARED_FILE_BYTES = 256 << 10
"""The same while other clients send requests, which wait for it."""


class UnsentParts:
    """Parts in the order in which they are sent."""

    __slots__ = ("_file_parts", "_parts", "_transport", "sends_files")

    def __init__(self, transport: Transport) -> None:
        self.sends_files = isinstance(transport, FileTransport)
        self._transport = transport
        self._parts: deque[memoryview | FilePart] = deque()
        self._file_parts = 0  # in `_parts`

    def __bool__(self) -> bool:
        return bool(self._parts)

    @property
    def has_files(self) -> bool:
        return self._file_parts > 0

    def add(self, part: FramePart) -> None:
        """Add a part behind the others. Raise `IllegalState` for a file that the transport cannot send."""
        if isinstance(part, FilePart):
            if not self.sends_files:
                raise IllegalState(f"{part!r} must be read for this transport")
            self._file_parts += 1
            self._parts.append(part)
        elif isinstance(part, GatheredPart):
            self._parts.extend(part.buffers)
        else:
            self._parts.append(memoryview(part))

    def write(self, max_file_bytes: int = MAX_FILE_BYTES) -> int:
        """Write as much as the transport accepts, but at most one piece of a file, of up to so many bytes.

        Return the number of bytes. Raise `Disconnected`, or `KafkaStorageError` if a file cannot be read.
        """
        written = 0
        is_from_file = False
        while self._parts and not (is_from_file and self._file_parts):
            is_from_file = isinstance(self._parts[0], FilePart)
            taken = self._write_with_files(max_file_bytes) if self._file_parts else self._write_bytes()
            if not taken:
                break
            self._take_off(taken)
            written += taken
        return written

    def clear(self) -> None:
        self._parts.clear()
        self._file_parts = 0

    def _write_bytes(self) -> int:
        parts = cast("deque[memoryview]", self._parts)
        gathered: Sequence[memoryview] = parts
        if len(parts) > MAX_GATHERED_BUFFERS:
            gathered = [*islice(parts, MAX_GATHERED_BUFFERS)]
        return self._transport.write(gathered)

    def _write_with_files(self, max_file_bytes: int) -> int:
        """Write a piece of the file that is first, or the bytes before the first file."""
        transport = cast(FileTransport, self._transport)
        gathered: list[memoryview] = []
        for part in islice(self._parts, MAX_GATHERED_BUFFERS):
            if isinstance(part, FilePart):
                if gathered:
                    return transport.write_before_file(gathered)
                return transport.write_file(part, max_file_bytes)
            gathered.append(part)
        return transport.write(gathered)

    def _take_off(self, taken: int) -> None:
        parts = self._parts
        # An empty part behind the sent ones goes as well: no write would ever take it off.
        while parts:
            head = parts[0]
            if taken < len(head):
                if taken:
                    parts[0] = head.after(taken) if isinstance(head, FilePart) else head[taken:]
                return
            taken -= len(head)
            parts.popleft()
            self._file_parts -= isinstance(head, FilePart)
