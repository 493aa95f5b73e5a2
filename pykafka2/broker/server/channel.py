"""One connection's requests and responses, as in KafkaChannel: mute state, receive buffer, pending send.

There are two modes. `serial` is Apache's: the socket is not read from the receipt of a request until its
response is sent. `pipelined` accepts the next request once the previous one is processed locally, for example
once an acks=all produce is appended on the leader. Responses are cached and still sent in request order, and
requests are still processed one at a time and in order. docs/guides/pipelined-acks.md has both state tables.

Pure state without sockets and clocks; belongs to its processor's thread. A frame's length is checked before
memory is used for it.

A connection above its limit is not read until some of its responses are sent. If all connections of a
processor together are above theirs, connections with responses to send are not read. A response itself is
never rejected: a single one can be larger than both limits.

Bytes leave by gathered writes, file parts by `FileTransport.write_file`. After a piece of a file other
connections get their turn: a fast reader would otherwise hold the thread for a whole fetch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import Enum
from itertools import islice
from typing import cast

import attrs

from pykafka2.errors import CorruptData, IllegalState, IllegalTransition
from pykafka2.network.transport import Buffer, FileTransport, Transport
from pykafka2.protocol.file_part import FilePart
from pykafka2.protocol.gathered_part import GatheredPart
from pykafka2.protocol.primitives import FramePart


class ChannelState(Enum):
    """The state of a channel; a muted channel does not read its socket."""

    NOT_MUTED = "not muted"
    MUTED = "muted"
    MUTED_AND_RESPONSE_PENDING = "muted, response pending"
    MUTED_AND_THROTTLED = "muted, throttled"
    MUTED_AND_THROTTLED_AND_RESPONSE_PENDING = "muted, throttled, response pending"
    REQCACHED_AND_RESPONSE_PENDING = "requests cached, response pending"
    REQPROCESSING_AND_REQCACHED_AND_RESPONSE_PENDING = "request processing, requests cached, response pending"
    MUTED_AND_THROTTLED_AND_REQCACHED = "muted, throttled, requests cached"
    MUTED_AND_THROTTLED_AND_REQPROCESSING = "muted, throttled, request processing, requests cached"

    __hash__ = object.__hash__  # members are singletons; Enum's own __hash__ is a Python call


class ChannelEvent(Enum):
    """Events of a channel. A complete request mutes it; a response is the last one if no other is cached."""

    REQUEST_RECEIVED = "request received"
    REQUEST_LOCAL_PROCESSED = "request processed locally"
    RESPONSE_SENT = "response sent, others cached"
    LAST_RESPONSE_SENT = "response sent, last one"
    THROTTLE_STARTED = "throttle started"
    THROTTLE_ENDED = "throttle ended"
    MUTED = "muted"
    UNMUTED = "unmuted"

    __hash__ = object.__hash__  # members are singletons; Enum's own __hash__ is a Python call


_S = ChannelState
_E = ChannelEvent
_CACHED = _S.REQCACHED_AND_RESPONSE_PENDING
_PROCESSING = _S.REQPROCESSING_AND_REQCACHED_AND_RESPONSE_PENDING
_THROTTLED_PENDING = _S.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING
_THROTTLED_CACHED = _S.MUTED_AND_THROTTLED_AND_REQCACHED
_THROTTLED_PROCESSING = _S.MUTED_AND_THROTTLED_AND_REQPROCESSING

Table = dict[tuple[ChannelState, ChannelEvent], ChannelState]

SERIAL_MOVES: Table = {
    # As in KafkaChannel, a complete frame mutes, and the request is received from a muted channel.
    (_S.NOT_MUTED, _E.MUTED): _S.MUTED,
    (_S.MUTED, _E.REQUEST_RECEIVED): _S.MUTED_AND_RESPONSE_PENDING,
    (_S.MUTED_AND_RESPONSE_PENDING, _E.LAST_RESPONSE_SENT): _S.MUTED,
    (_S.MUTED, _E.UNMUTED): _S.NOT_MUTED,
    (_S.MUTED_AND_RESPONSE_PENDING, _E.THROTTLE_STARTED): _THROTTLED_PENDING,
    (_THROTTLED_PENDING, _E.LAST_RESPONSE_SENT): _S.MUTED_AND_THROTTLED,
    (_THROTTLED_PENDING, _E.THROTTLE_ENDED): _S.MUTED_AND_RESPONSE_PENDING,
    (_S.MUTED_AND_THROTTLED, _E.THROTTLE_ENDED): _S.MUTED,
}

PIPELINED_MOVES: Table = {
    **SERIAL_MOVES,
    (_S.MUTED_AND_RESPONSE_PENDING, _E.REQUEST_LOCAL_PROCESSED): _CACHED,
    (_CACHED, _E.REQUEST_RECEIVED): _PROCESSING,
    (_CACHED, _E.RESPONSE_SENT): _CACHED,
    (_CACHED, _E.LAST_RESPONSE_SENT): _S.MUTED,
    (_PROCESSING, _E.REQUEST_LOCAL_PROCESSED): _CACHED,
    (_PROCESSING, _E.RESPONSE_SENT): _PROCESSING,
    (_PROCESSING, _E.LAST_RESPONSE_SENT): _S.MUTED_AND_RESPONSE_PENDING,
    # The same, throttled.
    (_CACHED, _E.THROTTLE_STARTED): _THROTTLED_CACHED,
    (_PROCESSING, _E.THROTTLE_STARTED): _THROTTLED_PROCESSING,
    (_THROTTLED_PENDING, _E.REQUEST_LOCAL_PROCESSED): _THROTTLED_CACHED,
    (_THROTTLED_CACHED, _E.RESPONSE_SENT): _THROTTLED_CACHED,
    (_THROTTLED_CACHED, _E.LAST_RESPONSE_SENT): _S.MUTED_AND_THROTTLED,
    (_THROTTLED_CACHED, _E.THROTTLE_ENDED): _CACHED,
    (_THROTTLED_PROCESSING, _E.REQUEST_LOCAL_PROCESSED): _THROTTLED_CACHED,
    (_THROTTLED_PROCESSING, _E.RESPONSE_SENT): _THROTTLED_PROCESSING,
    (_THROTTLED_PROCESSING, _E.LAST_RESPONSE_SENT): _THROTTLED_PENDING,
    (_THROTTLED_PROCESSING, _E.THROTTLE_ENDED): _PROCESSING,
}

READABLE_STATES = frozenset({_S.NOT_MUTED, _CACHED})


@attrs.define(eq=False)
class Slot:
    """One request in the order of responses.

    `payload` None with `is_complete`: no bytes (acks=0). `is_last`: the connection closes after this
    response.
    """

    size_bytes: int
    is_complete: bool = False
    payload: Sequence[FramePart] | None = None
    is_last: bool = False


class Channel:
    """The requests and responses of one connection.

    `receive` a request, possibly `local_processed`, `complete` it with its response. `take_ready` returns the
    responses that can be sent, and `sent` records that the oldest of these was sent.
    """

    __slots__ = (
        "_max_bytes",
        "_max_requests",
        "_moves",
        "_processing",
        "_waiting",
        "_writing",
        "bytes",
        "state",
    )

    def __init__(self, *, pipelined: bool, max_requests: int = 256, max_bytes: int = 128 << 20) -> None:
        self.state = ChannelState.NOT_MUTED
        self.bytes = 0
        self._moves = PIPELINED_MOVES if pipelined else SERIAL_MOVES
        self._max_requests = max_requests
        self._max_bytes = max_bytes
        self._processing: Slot | None = None
        self._waiting: deque[Slot] = deque()  # not written yet, oldest first
        self._writing: deque[Slot] = deque()  # being written

    @property
    def is_pipelined(self) -> bool:
        return self._moves is PIPELINED_MOVES

    @property
    def is_readable(self) -> bool:
        """Whether the next request can be read."""
        return (
            self.state in READABLE_STATES
            and len(self._waiting) + len(self._writing) < self._max_requests
            and self.bytes < self._max_bytes
        )

    @property
    def in_flight(self) -> int:
        """The number of requests whose responses were not sent yet."""
        return len(self._waiting) + len(self._writing)

    @property
    def processing(self) -> Slot | None:
        return self._processing

    def move(self, event: ChannelEvent) -> None:
        """Change the state by the table. Any other event raises `IllegalTransition` and changes nothing."""
        after = self._moves.get((self.state, event))
        if after is None:
            raise IllegalTransition(self.state, event)
        self.state = after

    def receive(self, size_bytes: int) -> Slot:
        """Add a request, which is now being processed."""
        if self.state is ChannelState.NOT_MUTED:
            self.move(ChannelEvent.MUTED)
        self.move(ChannelEvent.REQUEST_RECEIVED)
        slot = Slot(size_bytes)
        self.bytes += size_bytes
        self._processing = slot
        self._waiting.append(slot)
        return slot

    def local_processed(self, slot: Slot) -> None:
        """Allow the next request once this one is processed locally. No effect in serial mode."""
        if slot is self._processing and self.is_pipelined and not slot.is_complete:
            self.move(ChannelEvent.REQUEST_LOCAL_PROCESSED)
            self._processing = None

    def complete(self, slot: Slot, payload: Sequence[FramePart] | None) -> None:
        """Set the response (None: nothing to send); it is sent after those of earlier requests."""
        if slot.is_complete:
            raise IllegalState("a request has one response")
        slot.is_complete = True
        slot.payload = payload
        if slot is self._processing:
            # A response behind others must wait; a single one is sent at once, as in serial mode.
            if len(self._waiting) + len(self._writing) > 1:
                self.move(ChannelEvent.REQUEST_LOCAL_PROCESSED)
            self._processing = None

    def take_ready(self) -> list[Slot]:
        """Return the responses that can be sent; the caller calls `sent` for each."""
        taken: list[Slot] = []
        while self._waiting and self._waiting[0].is_complete:
            slot = self._waiting.popleft()
            self._writing.append(slot)
            taken.append(slot)
        return taken

    def sent(self) -> Slot:
        """Record that the oldest of these responses was sent; unmute the channel if it was the last one."""
        slot = self._writing.popleft()
        self.bytes -= slot.size_bytes
        cached = len(self._waiting) + len(self._writing) - (self._processing is not None)
        self.move(ChannelEvent.RESPONSE_SENT if cached else ChannelEvent.LAST_RESPONSE_SENT)
        if self.state is ChannelState.MUTED:
            self.move(ChannelEvent.UNMUTED)
        return slot

    def throttle(self) -> None:
        """Stop reading until `end_throttle`; responses are still sent."""
        self.move(ChannelEvent.THROTTLE_STARTED)

    def end_throttle(self) -> None:
        self.move(ChannelEvent.THROTTLE_ENDED)
        if self.state is ChannelState.MUTED:
            self.move(ChannelEvent.UNMUTED)


LENGTH_BYTES = 4
# Consumed bytes are removed from the buffer once there are this many.
COMPACT_BYTES = 1 << 20
# Bytes read at once, unless a frame needs more: data that was read is kept, whole requests included, until it
# is processed.
READ_BYTES = 64 << 10
# Larger reads are not used if frames are limited to this size, as before authentication.
SMALL_FRAMES_BYTES = 1 << 20
# A frame of this size takes over the buffer that it was read into; copying a smaller one is cheaper.
MIN_UNCOPIED_FRAME_BYTES = 64 << 10


class ReceiveBuffer:
    """Buffers received bytes and returns complete frames on request.

    Unlike FrameReader in network/frames.py, which returns all frames of a read and keeps a buffer of 64 KiB
    or more for each connection. Here the frames of a muted connection stay until they are processed,
    and hundreds of idle connections in a test share the processor's buffer.
    """

    __slots__ = ("_buffer", "_max_bytes", "_option", "_start", "_whole")

    def __init__(self, max_bytes: int) -> None:
        self._buffer = bytearray()
        self._start = 0
        self._whole: bytes | None = None  # a frame that arrived alone, not in the buffer
        self.limit(max_bytes, "socket.request.max.bytes")

    def limit(self, max_bytes: int, option: str) -> None:
        """Set the maximum frame size and the option that determines it."""
        self._max_bytes = max_bytes
        self._option = option

    def feed(self, data: Buffer) -> None:
        size = len(data) - LENGTH_BYTES
        if (
            size < MIN_UNCOPIED_FRAME_BYTES
            and self._whole is None
            and len(self._buffer) == self._start
            and int.from_bytes(data[:LENGTH_BYTES], "big") == size <= self._max_bytes
        ):
            self._whole = bytes(data[LENGTH_BYTES:])
            return
        if self._whole is not None:
            self._buffer += len(self._whole).to_bytes(LENGTH_BYTES, "big") + self._whole
            self._whole = None
        self._buffer += data

    @property
    def wanted_bytes(self) -> int:
        """The number of bytes to read next. Larger lengths than the limit are rejected before."""
        buffer, start = self._buffer, self._start
        held = len(buffer) - start
        if held < LENGTH_BYTES or self._max_bytes <= SMALL_FRAMES_BYTES:
            return READ_BYTES
        size = int.from_bytes(buffer[start : start + LENGTH_BYTES], "big", signed=True)
        return max(READ_BYTES, LENGTH_BYTES + size - held)

    @property
    def has_bytes(self) -> bool:
        """Whether any byte of the next frame is buffered."""
        return len(self._buffer) > self._start or self._whole is not None

    @property
    def has_frame(self) -> bool:
        """Whether `next_frame` returns a frame, or raises."""
        if self._whole is not None:
            return True
        buffer, start = self._buffer, self._start
        held = len(buffer) - start
        if held < LENGTH_BYTES:
            return False
        size = int.from_bytes(buffer[start : start + LENGTH_BYTES], "big", signed=True)
        return LENGTH_BYTES + size <= held or size > self._max_bytes  # a negative size, too

    def next_frame(self) -> bytes | memoryview | None:
        """Return the next complete frame without its length, or None.

        A large frame takes over the buffer, and a new one replaces it. Raise `CorruptData` for a negative
        length or one above the limit, as soon as its four bytes have arrived.
        """
        whole = self._whole
        if whole is not None:
            self._whole = None
            return whole
        buffer, start = self._buffer, self._start
        if len(buffer) - start < LENGTH_BYTES:
            return None
        size = int.from_bytes(buffer[start : start + LENGTH_BYTES], "big", signed=True)
        if not 0 <= size <= self._max_bytes:
            raise CorruptData(f"a request of {size} bytes; {self._option} is {self._max_bytes}")
        end = start + LENGTH_BYTES + size
        if len(buffer) < end:
            return None
        # Behind many consumed bytes a copy needs less memory: the request can wait, and the history keeps it.
        if size >= MIN_UNCOPIED_FRAME_BYTES and start <= size:
            self._buffer, self._start = buffer[end:], 0  # at most READ_BYTES
            return memoryview(buffer)[start + LENGTH_BYTES : end].toreadonly()
        # Release both views here: on PyPy the slice would pin the buffer's size until a collection.
        with memoryview(buffer) as view, view[start + LENGTH_BYTES : end] as part:
            frame = bytes(part)
        if end == len(buffer):
            buffer.clear()
            self._start = 0
        elif end > COMPACT_BYTES:
            del buffer[:end]
            self._start = 0
        else:
            self._start = end
        return frame


MAX_PENDING_BYTES = 1 << 20
"""Limit of one connection."""

MAX_ALL_PENDING_BYTES = 64 << 20
"""Limit of all connections of a processor."""


@attrs.define
class SendLimit:
    """The bytes to send of all connections of one processor; belongs to its thread."""

    bytes: int = 0

    def is_too_much(self, of_connection: int) -> bool:
        """Return whether a connection with this many bytes to send must send some before it is read."""
        if of_connection >= MAX_PENDING_BYTES:
            return True
        return of_connection > 0 and self.bytes >= MAX_ALL_PENDING_BYTES


MAX_GATHERED_BUFFERS = 512
MAX_FILE_BYTES = 1 << 20
"""Limit of one write from a file, about 0.1 ms. Writes of 2 MiB took 1.2 times the time per byte."""
MAX_SHARED_FILE_BYTES = 256 << 10
"""The same while other clients send requests, which wait for it."""


class PendingSend:
    """Parts in the order in which they are sent."""

    __slots__ = ("_transport", "file_parts", "parts", "sends_files")

    def __init__(self, transport: Transport) -> None:
        self.sends_files = isinstance(transport, FileTransport)
        self._transport = transport
        self.parts: deque[memoryview | FilePart] = deque()
        self.file_parts = 0
        """The number of file parts in `parts`."""

    def add(self, part: FramePart) -> None:
        """Add a part behind the others. Raise `IllegalState` for a file that the transport cannot send."""
        if isinstance(part, FilePart):
            if not self.sends_files:
                raise IllegalState(f"{part!r} must be read for this transport")
            self.file_parts += 1
            self.parts.append(part)
        elif isinstance(part, GatheredPart):
            self.parts.extend(part.buffers)
        else:
            self.parts.append(memoryview(part))

    def write(self, max_file_bytes: int = MAX_FILE_BYTES) -> int:
        """Write as much as the transport accepts, but at most one piece of a file, of up to so many bytes.

        Return the number of bytes. Raise `Disconnected`, or `KafkaStorageError` if a file cannot be read.
        """
        written = 0
        is_from_file = False
        while self.parts and not (is_from_file and self.file_parts):
            is_from_file = isinstance(self.parts[0], FilePart)
            taken = self._write_with_files(max_file_bytes) if self.file_parts else self._write_bytes()
            if not taken:
                break
            self._take_off(taken)
            written += taken
        return written

    def clear(self) -> None:
        self.parts.clear()
        self.file_parts = 0

    def _write_bytes(self) -> int:
        parts = cast("deque[memoryview]", self.parts)
        gathered: Sequence[memoryview] = parts
        if len(parts) > MAX_GATHERED_BUFFERS:
            gathered = [*islice(parts, MAX_GATHERED_BUFFERS)]
        return self._transport.write(gathered)

    def _write_with_files(self, max_file_bytes: int) -> int:
        """Write a piece of the file that is first, or the bytes before the first file."""
        transport = cast(FileTransport, self._transport)
        gathered: list[memoryview] = []
        for part in islice(self.parts, MAX_GATHERED_BUFFERS):
            if isinstance(part, FilePart):
                if gathered:
                    return transport.write_before_file(gathered)
                return transport.write_file(part, max_file_bytes)
            gathered.append(part)
        return transport.write(gathered)

    def _take_off(self, taken: int) -> None:
        parts = self.parts
        # An empty part behind the sent ones goes as well: no write would ever take it off.
        while parts:
            head = parts[0]
            if taken < len(head):
                if taken:
                    parts[0] = head.after(taken) if isinstance(head, FilePart) else head[taken:]
                return
            taken -= len(head)
            parts.popleft()
            self.file_parts -= isinstance(head, FilePart)
