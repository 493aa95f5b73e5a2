"""One client's connection: reads frames, writes responses in order, and keeps the pending requests.

Belongs to its processor's thread; the channel (channel.py) decides when the socket is read. An invalid frame
closes this connection only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from pykafka2.broker.server.channel import Channel, PendingSend, ReceiveBuffer, SendLimit, Slot
from pykafka2.errors import Disconnected, KafkaError
from pykafka2.network.transport import READABLE, WRITABLE, Selector, Transport
from pykafka2.protocol.primitives import FramePart


class ConnectionOwner(Protocol):
    """The owner of a connection, which is called on the connection's thread."""

    scratch: memoryview
    """The buffer for socket reads; its data is consumed before the next read."""

    def max_file_bytes(self, connection: Connection, now: float) -> int:
        """Return the limit of one write from a file."""
        ...

    def take_frames(self, connection: Connection, now: float, *, are_fresh: bool = False) -> None:
        """Called if requests can be decoded: bytes have arrived (`are_fresh`), or responses were sent."""
        ...

    def established(self, connection: Connection, transport: Transport) -> None:
        """Called once before the first read, after the TLS handshake. An exception closes the connection."""
        ...

    def responses_leaving(self, connection: Connection, slots: Sequence[Slot]) -> None:
        """Called before these responses are passed to the transport."""
        ...

    def responses_sent(self, connection: Connection, slots: Sequence[Slot]) -> None:
        """Called when these responses were passed to the transport completely."""
        ...

    def drop(self, connection: Connection, error: KafkaError) -> None:
        """Close a connection after an error."""
        ...

    def closed(self, connection: Connection) -> None:
        """Called once when the connection is closed."""
        ...


class Connection:
    """One accepted transport with its channel. States: establishing, open, closed."""

    __slots__ = (
        "_interest",
        "_owner",
        "_response_ends",
        "_selector",
        "_send",
        "_send_limit",
        "_sent_bytes",
        "_transport",
        "_written_bytes",
        "channel",
        "client_id",
        "frames",
        "idle_since",
        "is_closed",
        "is_ending",
        "is_established",
        "peer",
        "pending_bytes",
        "sends_files",
        "software",
        "wants_room",
    )

    def __init__(
        self,
        transport: Transport,
        channel: Channel,
        owner: ConnectionOwner,
        selector: Selector,
        max_bytes: int,
        send_limit: SendLimit,
        now: float,
    ) -> None:
        self.channel = channel
        self.frames = ReceiveBuffer(max_bytes)
        self.peer = transport.peer
        self.client_id: str | None = None  # of its last request
        self.software = ""  # from ApiVersions, such as "librdkafka 2.10"
        self.is_closed = False
        self.is_established = False
        self.is_ending = False  # a response is being sent after which the connection closes
        self.wants_room = False
        self.idle_since = now  # last time a byte was sent or received
        self.pending_bytes = 0  # of responses, including those that must wait
        self._send_limit = send_limit
        self._transport = transport
        self._owner = owner
        self._selector = selector
        self._send = PendingSend(transport)
        self.sends_files = self._send.sends_files
        """Whether responses can have file parts. From any thread."""
        self._response_ends: deque[int] = deque()  # end position of each response that is being written
        self._written_bytes = 0
        self._sent_bytes = 0
        self._interest = transport.interest()
        self._selector.register(transport, self._interest, self)

    def on_ready(self, bits: int, now: float) -> None:
        """Handle a socket event."""
        if self.is_closed:
            return
        try:
            if not self.is_established:
                if self.establish():
                    # With TLS the first request can arrive with the end of the handshake.
                    self._read(now)
            else:
                if bits & WRITABLE:
                    self.flush(now)
                    # Buffered requests can have waited for room without any further byte arriving.
                    self._owner.take_frames(self, now)
                if bits & READABLE:
                    self._read(now)
        except KafkaError as error:
            self._owner.drop(self, error)

    def on_failure(self, error: Exception, now: float) -> None:
        """Close the connection after an unexpected exception in `on_ready`."""
        self._owner.drop(self, Disconnected(f"internal broker error on the connection of {self.peer}"))

    def __repr__(self) -> str:
        return f"the connection of {self.peer}"

    def establish(self) -> bool:
        """Continue the TLS handshake. Return True once it is complete."""
        self.is_established = self._transport.establish()
        if self.is_established:
            self._owner.established(self, self._transport)
        self.update_interest()
        return self.is_established

    def _read(self, now: float) -> None:
        if self.is_closed:
            return
        if self.wants_room or not self.takes_requests:
            # An earlier request is in progress, or other connections have more to send. Without this
            # the socket would be reported repeatedly.
            self._set_interest(WRITABLE if self._send.parts else 0)
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
        """Whether the next request can be decoded.

        Earlier requests must allow it, and responses must be sent.
        """
        return (
            not self.is_ending
            and self.channel.is_readable
            and not (self.pending_bytes and self._send_limit.is_too_much(self.pending_bytes))
        )

    @property
    def may_read(self) -> bool:
        return self.takes_requests and not self.wants_room

    def complete(self, slot: Slot, payload: Sequence[FramePart] | None, size_bytes: int) -> None:
        """Set the response of a request (None: nothing to send); `write_ready` sends it."""
        self.channel.complete(slot, payload)
        self._count_pending(size_bytes)

    def _count_pending(self, more: int) -> None:
        self.pending_bytes += more
        self._send_limit.bytes += more

    def write_ready(self, now: float) -> None:
        """Pass the responses that can be sent to the transport."""
        ready = [] if self.is_ending else self.channel.take_ready()
        if not ready:
            self.update_interest()  # behind a response that waits, the next request can be read
            return
        for number, slot in enumerate(ready):
            for part in slot.payload or ():
                self._send.add(part)
                self._written_bytes += len(part)
            self._response_ends.append(self._written_bytes)
            slot.payload = None
            if slot.is_last:
                self.is_ending = True
                del ready[number + 1 :]
                break
        self._owner.responses_leaving(self, ready)
        self.flush(now)

    def flush(self, now: float) -> None:
        """Write as much as the transport accepts; completely sent responses change the channel's state."""
        send = self._send
        taken = send.write(self._owner.max_file_bytes(self, now)) if send.file_parts else send.write()
        if taken:
            self.idle_since = now
            self._sent_bytes += taken
            self._count_pending(-taken)
        ends = self._response_ends
        if ends and ends[0] <= self._sent_bytes:
            left: list[Slot] = []
            while ends and ends[0] <= self._sent_bytes:
                ends.popleft()
                left.append(self.channel.sent())
            self._owner.responses_sent(self, left)
        self.update_interest()

    def update_interest(self) -> None:
        """Register the current interest with the selector.

        While a request is in progress the socket stays registered until it is reported (`_read`): usually the
        response is sent first, and two system calls are saved.
        """
        if self.is_closed:
            return
        if not self.is_established:
            interest = self._transport.interest()
        else:
            interest = READABLE
            if not (self._interest & READABLE or self.may_read):
                interest = 0
            if self._send.parts:
                interest |= WRITABLE
        if interest != self._interest:
            self._set_interest(interest)

    def _set_interest(self, interest: int) -> None:
        if interest != self._interest:
            self._interest = interest
            self._selector.modify(self._transport, interest, self)

    def close(self, *, reset: bool = False) -> None:
        """Close the connection and drop what was not sent. Can be called repeatedly."""
        if self.is_closed:
            return
        self.is_closed = True
        self._send.clear()
        self._count_pending(-self.pending_bytes)
        self._selector.unregister(self._transport)
        self._transport.close(reset=reset)
        self._owner.closed(self)
