"""One client's connection: bytes in, frames out of them, replies in order, bytes out.

Owned by its processor's thread; the channel (channel.py) says when the socket may be read.  A frame's
length is checked before anything is kept for it, and a frame that is no request costs this one connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from pykafka2.broker.server.channel import Channel, Slot
from pykafka2.broker.server.unsent import AllUnsent
from pykafka2.errors import CorruptData, Disconnected, KafkaError
from pykafka2.network.transport import READABLE, WRITABLE, Buffer, Selector, Transport

LENGTH_BYTES = 4
MAX_GATHERED_BUFFERS = 512
# What was read is moved to the front of the buffer once this much of it has been used up.
COMPACT_BYTES = 1 << 20
# So much is read at once, and more only for a frame that needs it: what has been read is kept, whole requests
# included, until its turn comes.
READ_BYTES = 64 << 10
# Nor for any where longer frames than this are refused, as of clients that have not authenticated.
SMALL_FRAMES_BYTES = 1 << 20


class FrameBuffer:
    """Bytes as they come, frames as they are whole and wanted.

    Not network/frames.py's FrameReader, which hands all frames over that one read completes and keeps a
    buffer of 64 KiB or more for each connection: here a muted connection's frames stay until their turn comes
    (channel.py), and hundreds of idle connections of a test share the processor's one buffer.
    """

    __slots__ = ("_buffer", "_max_bytes", "_option", "_start")

    def __init__(self, max_bytes: int) -> None:
        self._buffer = bytearray()
        self._start = 0
        self.limit(max_bytes, "socket.request.max.bytes")

    def limit(self, max_bytes: int, option: str) -> None:
        """The longest frame that is taken from now on, and which option says so."""
        self._max_bytes = max_bytes
        self._option = option

    def feed(self, data: Buffer) -> None:
        self._buffer += data

    @property
    def wanted_bytes(self) -> int:
        """How much to read next.  Never more than the limit: a length beyond it is refused before."""
        buffer, start = self._buffer, self._start
        held = len(buffer) - start
        if held < LENGTH_BYTES or self._max_bytes <= SMALL_FRAMES_BYTES:
            return READ_BYTES
        size = int.from_bytes(buffer[start : start + LENGTH_BYTES], "big", signed=True)
        return max(READ_BYTES, LENGTH_BYTES + size - held)

    def next_frame(self) -> bytes | None:
        """The next whole frame without its length, or None.

        Raises `CorruptData` for a length below 0 or above the limit, as soon as its four bytes are there.
        """
        buffer, start = self._buffer, self._start
        if len(buffer) - start < LENGTH_BYTES:
            return None
        size = int.from_bytes(buffer[start : start + LENGTH_BYTES], "big", signed=True)
        if not 0 <= size <= self._max_bytes:
            raise CorruptData(f"a request of {size} bytes; {self._option} is {self._max_bytes}")
        end = start + LENGTH_BYTES + size
        if len(buffer) < end:
            return None
        # Both views end here: PyPy would keep the slice, and with it the buffer's size, until it collects.
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


class ConnectionOwner(Protocol):
    """Whoever a connection belongs to, and tells what has happened on it; on one thread with it."""

    @property
    def scratch(self) -> memoryview:
        """Where sockets are read to; what was read is taken in before the next read."""
        ...

    def take_frames(self, connection: Connection, now: float, *, are_fresh: bool = False) -> None:
        """More bytes may be taken in: some have come (`are_fresh`), or replies have left."""
        ...

    def established(self, connection: Connection, transport: Transport) -> None:
        """Bytes may flow, and TLS is agreed on; once, before the first read.  May raise what ends it."""
        ...

    def replies_leave(self, connection: Connection, slots: Sequence[Slot]) -> None:
        """These replies are about to be handed to the transport."""
        ...

    def replies_left(self, connection: Connection, slots: Sequence[Slot]) -> None:
        """These replies are with the transport, to their last byte."""
        ...

    def drop(self, connection: Connection, error: KafkaError) -> None:
        """It cannot go on: close it."""
        ...

    def closed(self, connection: Connection) -> None:
        """It has been closed, once."""
        ...


class Connection:
    """One accepted transport with its channel.  States: establishing, open, closed."""

    __slots__ = (
        "_all_unsent",
        "_interest",
        "_owner",
        "_reply_ends",
        "_selector",
        "_sent_bytes",
        "_transport",
        "_unsent",
        "_written_bytes",
        "channel",
        "client_id",
        "frames",
        "idle_since",
        "is_closed",
        "is_ending",
        "is_established",
        "peer",
        "software",
        "unsent_bytes",
        "wants_room",
    )

    def __init__(
        self,
        transport: Transport,
        channel: Channel,
        owner: ConnectionOwner,
        selector: Selector,
        max_bytes: int,
        all_unsent: AllUnsent,
        now: float,
    ) -> None:
        self.channel = channel
        self.frames = FrameBuffer(max_bytes)
        self.peer = transport.peer
        self.client_id: str | None = None  # of its last request
        self.software = ""  # what its ApiVersions said, such as "librdkafka 2.10"
        self.is_closed = False
        self.is_established = False
        self.is_ending = False  # a reply is on its way out with which the connection ends
        self.wants_room = False
        self.idle_since = now  # when it last sent or accepted a byte
        self.unsent_bytes = 0  # of replies, whether or not their turn has come
        self._all_unsent = all_unsent
        self._transport = transport
        self._owner = owner
        self._selector = selector
        self._unsent: deque[memoryview] = deque()
        self._reply_ends: deque[int] = deque()  # where in the bytes written each reply on its way out ends
        self._written_bytes = 0
        self._sent_bytes = 0
        self._interest = transport.interest()
        self._selector.register(transport, self._interest, self)

    def on_ready(self, bits: int, now: float) -> None:
        """The selector reported the socket."""
        if self.is_closed:
            return
        try:
            if not self.is_established:
                if self.establish():
                    # With TLS the first request may have come with the end of the handshake.
                    self._read(now)
            else:
                if bits & WRITABLE:
                    self.flush(now)
                    # Requests that were read already may have waited for room, and no byte may follow them.
                    self._owner.take_frames(self, now)
                if bits & READABLE:
                    self._read(now)
        except KafkaError as error:
            self._owner.drop(self, error)

    def on_failure(self, error: Exception, now: float) -> None:
        """Something of ours raised in `on_ready`: it costs this connection."""
        self._owner.drop(self, Disconnected(f"the broker failed over the connection of {self.peer}"))

    def __repr__(self) -> str:
        return f"the connection of {self.peer}"

    def establish(self) -> bool:
        """Go on with agreeing on TLS; True once bytes may flow."""
        self.is_established = self._transport.establish()
        if self.is_established:
            self._owner.established(self, self._transport)
        self.update_interest()
        return self.is_established

    def _read(self, now: float) -> None:
        if self.is_closed:
            return
        if not self.may_read:
            self.update_interest()  # others have more unsent since: it would be reported again and again
            return
        scratch = self._owner.scratch[: self.frames.wanted_bytes]
        count = self._transport.read_into(scratch)
        if count is None:
            return
        if count == 0:
            raise Disconnected(f"{self.peer} closed the connection")
        self.idle_since = now
        self.frames.feed(scratch[:count])
        self._owner.take_frames(self, now, are_fresh=True)

    @property
    def takes_requests(self) -> bool:
        """Whether its next request may be taken in: those before it allow it, and its replies leave."""
        if self.is_ending:
            return False
        return self.channel.is_readable and not self._all_unsent.is_too_much(self.unsent_bytes)

    @property
    def may_read(self) -> bool:
        return self.takes_requests and not self.wants_room

    def complete(self, slot: Slot, payload: Sequence[Buffer] | None) -> None:
        """The reply to a request is there (None: there is nothing to send); `write_ready` sends it."""
        self.channel.complete(slot, payload)
        if payload:
            self._count_unsent(sum(map(len, payload)))

    def _count_unsent(self, more: int) -> None:
        self.unsent_bytes += more
        self._all_unsent.bytes += more

    def write_ready(self, now: float) -> None:
        """Queue the replies whose turn has come and hand them to the transport."""
        ready = [] if self.is_ending else self.channel.take_ready()
        if not ready:
            return
        for number, slot in enumerate(ready):
            for buffer in slot.payload or ():
                self._unsent.append(memoryview(buffer))
                self._written_bytes += len(buffer)
            self._reply_ends.append(self._written_bytes)
            slot.payload = None
            if slot.is_last:
                self.is_ending = True
                del ready[number + 1 :]
                break
        self._owner.replies_leave(self, ready)
        self.flush(now)

    def flush(self, now: float) -> None:
        """Write as far as the transport takes it; replies that left entirely move the channel."""
        unsent = self._unsent
        while unsent:
            gathered: Sequence[memoryview] = (
                unsent if len(unsent) <= MAX_GATHERED_BUFFERS else list(unsent)[:MAX_GATHERED_BUFFERS]
            )
            taken = self._transport.write(gathered)
            if not taken:
                break
            self.idle_since = now
            self._sent_bytes += taken
            self._count_unsent(-taken)
            self._take_off(taken)
        ends = self._reply_ends
        if ends and ends[0] <= self._sent_bytes:
            left: list[Slot] = []
            while ends and ends[0] <= self._sent_bytes:
                ends.popleft()
                left.append(self.channel.sent())
            self._owner.replies_left(self, left)
        self.update_interest()

    def _take_off(self, taken: int) -> None:
        unsent = self._unsent
        while taken:
            head = unsent[0]
            if taken >= len(head):
                taken -= len(head)
                unsent.popleft()
            else:
                unsent[0] = head[taken:]
                return

    def update_interest(self) -> None:
        """Tell the selector what is waited for now."""
        if self.is_closed:
            return
        if not self.is_established:
            interest = self._transport.interest()
        else:
            interest = self._transport.interest() if self.may_read else 0
            if self._unsent:
                interest |= WRITABLE
        if interest != self._interest:
            self._interest = interest
            self._selector.modify(self._transport, interest, self)

    def close(self, *, reset: bool = False) -> None:
        """End it; what was not sent is dropped.  Safe to repeat."""
        if self.is_closed:
            return
        self.is_closed = True
        self._unsent.clear()
        self._count_unsent(-self.unsent_bytes)
        self._selector.unregister(self._transport)
        self._transport.close(reset=reset)
        self._owner.closed(self)
