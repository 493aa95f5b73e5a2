"""Splits a byte stream into frames: four length bytes, then that many bytes.

Sans-IO: `buffer` returns where the next bytes go, `received` returns the frames that are complete. Used by
client connections and by the broker's channels, each on its own thread.
"""

from __future__ import annotations

import struct

from pykafka2.errors import CorruptData, TlsError

Frame = bytes | memoryview
"""A frame without its length bytes. It is never written again, so views of it can be kept."""

MIB = 1 << 20
MAX_READ_BYTES = 4 * MIB
SMALL_BUFFER_BYTES = 64 * 1024
SMALL_FRAME_BYTES = 4096
# Reads without a large frame after which a grown buffer shrinks.
SHRINK_AFTER_READS = 64
DEFAULT_MAX_FRAME_BYTES = 100 * MIB

_LENGTH = struct.Struct(">i")

# First bytes of other protocols in place of a length: TLS records (handshake, alert) and some more.
_TLS = (b"\x16\x03", b"\x15\x03")
_FOREIGN = {
    b"HT": "responds in HTTP: this is the port of a web server, not of Kafka",
    b"GE": "sends HTTP requests: this port speaks Kafka's protocol",
    b"PO": "sends HTTP requests: this port speaks Kafka's protocol",
    b"SS": "speaks SSH: this is not a port of Kafka",
}


def foreign_protocol(peer: str, first_bytes: bytes) -> str | None:
    """Return what the first bytes of another protocol show about the peer; None if they are unknown."""
    foreign = _FOREIGN.get(first_bytes[:2])
    return None if foreign is None else f"{peer} {foreign}"


class FrameReader:
    """Cuts a stream into frames.

    Reads go into a buffer of 64 KiB, from which small frames are copied out. The rest of a frame that does
    not fit is read straight into the frame's own buffer. After that the buffer is a little larger than that
    frame (at most 4 MiB), and a frame that fills half of it keeps it. So a stream of large frames needs one
    read per frame and no copy; each read costs the IO thread about 5 ms while the application computes,
    because it waits for the GIL.
    """

    __slots__ = ("_buffer", "_end", "_filled", "_idle_reads", "_large", "_start", "max_frame_bytes", "peer")

    def __init__(self, peer: str, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        self.peer = peer
        self.max_frame_bytes = max_frame_bytes
        self._buffer = memoryview(bytearray(SMALL_BUFFER_BYTES))
        self._start = 0
        self._end = 0
        self._large: memoryview | None = None
        self._filled = 0
        self._idle_reads = 0

    @property
    def is_between_frames(self) -> bool:
        """True if no partial frame is buffered, so the stream can end here."""
        return self._large is None and self._start == self._end

    def buffer(self) -> memoryview:
        """Return the buffer for the next bytes; never empty, at most 4 MiB."""
        if self._large is not None:
            return self._large[self._filled : self._filled + MAX_READ_BYTES]
        return self._buffer[self._end :]

    def received(self, count: int) -> list[Frame]:
        """Take in `count` bytes of the last buffer; return the frames that are complete, in order.

        Raise CorruptData if a length is negative or above `max_frame_bytes`, before memory is allocated for
        it, or if the peer speaks another protocol; TlsError if it speaks TLS.
        """
        if self._large is not None:
            return self._received_large(self._large, count)
        buffer = self._buffer
        if not self._end and 4 < count < SMALL_FRAME_BYTES and len(buffer) == SMALL_BUFFER_BYTES:
            # Fast path for exactly one small frame, such as the response to a single request.
            size = int.from_bytes(buffer[:4], "big")
            if size + 4 == count and size <= self.max_frame_bytes:
                return [bytes(buffer[4:count])]
        self._end += count
        frames: list[Frame] = []
        took_large = False
        while self._end - self._start >= 4:
            size = self._checked_length()
            begin = self._start + 4
            if begin + size > self._end:
                self._make_room(begin, size)
                break
            if size >= SMALL_BUFFER_BYTES and size >= len(self._buffer) // 2:
                self._hand_over(frames, begin, size)
                took_large = True
            else:
                frames.append(bytes(self._buffer[begin : begin + size]))
                self._start = begin + size
        if self._start == self._end:
            self._start = self._end = 0
        elif self._end == len(self._buffer):
            self._move_to_front(len(self._buffer))
        self._shrink(took_large)
        return frames

    def _received_large(self, large: memoryview, count: int) -> list[Frame]:
        self._filled += count
        if self._filled < len(large):
            return []
        self._large = None
        self._grow(len(large) + 4)
        return [large.toreadonly()]

    def _checked_length(self) -> int:
        (size,) = _LENGTH.unpack_from(self._buffer, self._start)
        if 0 <= size <= self.max_frame_bytes:
            return int(size)
        head = bytes(self._buffer[self._start : self._start + 4])
        if head[:2] in _TLS:
            raise TlsError(
                f"{self.peer} speaks TLS on this port: set security_protocol=SSL, or use the plaintext port"
            )
        foreign = foreign_protocol(self.peer, head)
        if foreign is not None:
            raise CorruptData(foreign)
        raise CorruptData(
            f"{self.peer} announces a frame of {size} bytes; at most {self.max_frame_bytes} are accepted"
        )

    def _make_room(self, begin: int, size: int) -> None:
        """Make room for the rest of an incomplete frame."""
        if 4 + size <= len(self._buffer):
            if self._start + 4 + size > len(self._buffer):
                self._move_to_front(len(self._buffer))
            return
        large = memoryview(bytearray(size))
        self._filled = self._end - begin
        large[: self._filled] = self._buffer[begin : self._end]
        self._large = large
        self._start = self._end = 0

    def _hand_over(self, frames: list[Frame], begin: int, size: int) -> None:
        frames.append(self._buffer[begin : begin + size].toreadonly())
        self._start = begin + size
        self._move_to_front(len(self._buffer))

    def _move_to_front(self, capacity: int) -> None:
        """Switch to a new buffer that begins with the bytes not yet consumed."""
        fresh = memoryview(bytearray(capacity))
        held = self._end - self._start
        fresh[:held] = self._buffer[self._start : self._end]
        self._buffer = fresh
        self._start = 0
        self._end = held

    def _grow(self, frame_bytes: int) -> None:
        # A quarter larger, because the next frame rarely has exactly the same size.
        capacity = min(frame_bytes + frame_bytes // 4, MAX_READ_BYTES)
        self._idle_reads = 0
        if capacity > len(self._buffer):
            self._buffer = memoryview(bytearray(capacity))

    def _shrink(self, took_large: bool) -> None:
        self._idle_reads = 0 if took_large else self._idle_reads + 1
        if self._idle_reads >= SHRINK_AFTER_READS and len(self._buffer) > SMALL_BUFFER_BYTES:
            if self._end - self._start < SMALL_BUFFER_BYTES:
                self._move_to_front(SMALL_BUFFER_BYTES)
            self._idle_reads = 0
