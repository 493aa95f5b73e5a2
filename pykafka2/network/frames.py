"""From a stream of bytes to frames: four length bytes, then that many bytes.

Sans-IO: `buffer` says where the next bytes go, `received` answers with the frames that became complete.  Used
by connections of clients and by the broker's channels, each on its own thread.
"""

from __future__ import annotations

import struct

from pykafka2.errors import CorruptData, TlsError

Frame = bytes | memoryview
"""A frame without its length bytes.  Nobody writes to it again, so views of it may live on."""

MIB = 1 << 20
MAX_READ_BYTES = 4 * MIB
SMALL_BUFFER_BYTES = 64 * 1024
SMALL_FRAME_BYTES = 4096
# After so many reads without a large frame a grown buffer is given back.
PATIENCE = 64
DEFAULT_MAX_FRAME_BYTES = 100 * MIB

_LENGTH = struct.Struct(">i")

# What other protocols begin with, where a length is expected: TLS records (handshake, alert) and a few more.
_TLS = (b"\x16\x03", b"\x15\x03")
_FOREIGN = {
    b"HT": "answers in HTTP: this is the port of a web server, not of Kafka",
    b"GE": "asks in HTTP: this port speaks Kafka's protocol",
    b"PO": "asks in HTTP: this port speaks Kafka's protocol",
    b"SS": "speaks SSH: this is not a port of Kafka",
}


class FrameReader:
    """Cuts a stream into frames.

    A read lands in a buffer of 64 KiB, from which small frames are copied out.  The rest of a frame that does
    not fit is read straight into the frame's own buffer, and from then on reads land in buffers a little
    larger than that frame (at most 4 MiB), which a frame that fills half of one simply keeps: a stream of
    large frames costs one read each and no copy, for while an application computes
    the IO thread waits some 5 ms for the interpreter before each read.
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
        """True if no part of a frame is held: the place where a stream may end."""
        return self._large is None and self._start == self._end

    def buffer(self) -> memoryview:
        """The buffer for the next bytes; never empty, at most 4 MiB."""
        if self._large is not None:
            return self._large[self._filled : self._filled + MAX_READ_BYTES]
        return self._buffer[self._end :]

    def received(self, count: int) -> list[Frame]:
        """`count` bytes are in the buffer handed out last: the frames that they complete, in order.

        Raises `CorruptData` where a length is negative or above `max_frame_bytes`, before any byte of that
        frame is provided for; it says so if the other side speaks another protocol.  TLS is a `TlsError`.
        """
        if self._large is not None:
            return self._received_large(self._large, count)
        buffer = self._buffer
        if not self._end and 4 < count < SMALL_FRAME_BYTES and len(buffer) == SMALL_BUFFER_BYTES:
            # One small frame, and nothing else: what the answers to single requests are.
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
                f"{self.peer} speaks TLS here: set security_protocol=SSL, or use the plaintext port"
            )
        foreign = _FOREIGN.get(head[:2])
        if foreign is not None:
            raise CorruptData(f"{self.peer} {foreign}")
        raise CorruptData(
            f"{self.peer} announces a frame of {size} bytes; at most {self.max_frame_bytes} are accepted"
        )

    def _make_room(self, begin: int, size: int) -> None:
        """A frame is incomplete: see that the rest of it has a place."""
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
        """Go on in a fresh buffer that begins with what is not yet consumed."""
        fresh = memoryview(bytearray(capacity))
        held = self._end - self._start
        fresh[:held] = self._buffer[self._start : self._end]
        self._buffer = fresh
        self._start = 0
        self._end = held

    def _grow(self, frame_bytes: int) -> None:
        # A quarter more, for the next frame is seldom of quite the same size.
        capacity = min(frame_bytes + frame_bytes // 4, MAX_READ_BYTES)
        self._idle_reads = 0
        if capacity > len(self._buffer):
            self._buffer = memoryview(bytearray(capacity))

    def _shrink(self, took_large: bool) -> None:
        self._idle_reads = 0 if took_large else self._idle_reads + 1
        if self._idle_reads >= PATIENCE and len(self._buffer) > SMALL_BUFFER_BYTES:
            if self._end - self._start < SMALL_BUFFER_BYTES:
                self._move_to_front(SMALL_BUFFER_BYTES)
            self._idle_reads = 0
