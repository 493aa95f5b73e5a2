"""One transport of a driver: connected, read, written and closed in the IO turn.

A channel moves bytes between its transport and its handler (cluster/nodes.py with network/connection.py). It
parses no frames, and the handler uses no sockets. Belongs to the driver's thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import Enum
from itertools import islice
from typing import Protocol

from pykafka2.errors import Disconnected, KafkaError
from pykafka2.network.transport import READABLE, WRITABLE, Buffer, Selector, Transport


class ChannelHandler(Protocol):
    """Produces and consumes the bytes of a channel. All calls run on the driver's thread."""

    def on_open(self, now: float) -> None:
        """Called when the transport is connected and its TLS handshake is done."""
        ...

    def buffer(self) -> memoryview:
        """Return the buffer for the next bytes; never empty."""
        ...

    def on_received(self, count: int, now: float) -> None:
        """Handle `count` bytes in the last returned buffer. A `KafkaError` raised here closes the channel."""
        ...

    def on_written(self, now: float) -> bool:
        """Mark everything written so far as handed to the transport.  Return whether this changed any
        request.
        """
        ...

    def on_close(self, error: KafkaError, now: float) -> None:
        """Called once when the channel has closed by itself or with an error; not after `Channel.close()`."""
        ...


class ChannelState(Enum):
    OPENING = "opening"
    OPEN = "open"
    CLOSED = "closed"


# Gathered writes beyond this many buffers are split over several calls (IOV_MAX is 1024 on Linux).
MAX_GATHERED_BUFFERS = 512


class Channel:
    """A transport, its state and its unsent bytes.

    Without a transport (the network failed at once) it waits for `fail`, so that its handler gets this
    failure like any other: later, through `on_close`.  It adds itself to `unsettled` when it has bytes to
    write or is closed: the driver processes these channels at the end of a turn.
    """

    __slots__ = (
        "_interest",
        "_is_blocked",
        "_selector",
        "_transport",
        "_unsent",
        "_unsettled",
        "handler",
        "peer",
        "state",
    )

    def __init__(
        self,
        transport: Transport | None,
        selector: Selector,
        handler: ChannelHandler,
        peer: str = "",
        unsettled: dict[Channel, None] | None = None,
    ) -> None:
        self._transport = transport
        self._selector = selector
        self._unsent: deque[Buffer] = deque()
        self._unsettled: dict[Channel, None] = {} if unsettled is None else unsettled
        self._interest = 0
        self._is_blocked = False
        self.handler = handler
        self.peer = peer
        self.state = ChannelState.OPENING
        if transport is not None:
            self.peer = transport.peer
            self._interest = transport.interest()
            selector.register(transport, self._interest, self)

    @property
    def is_closed(self) -> bool:
        return self.state is ChannelState.CLOSED

    @property
    def wants_flush(self) -> bool:
        """True if there is something to write and the transport is not known to be full."""
        return bool(self._unsent) and not self._is_blocked

    def write(self, buffers: Sequence[Buffer]) -> None:
        """Queue bytes; they leave at the end of the turn, gathered with what else is queued."""
        if self.state is not ChannelState.CLOSED:
            self._unsent += buffers
            self._unsettled[self] = None

    def close(self) -> None:
        """Close the channel without notifying the handler.  Can be repeated."""
        if self.state is ChannelState.CLOSED:
            return
        self.state = ChannelState.CLOSED
        self._unsent.clear()
        self._unsettled[self] = None
        if self._transport is not None:
            self._selector.unregister(self._transport)
            self._transport.close()

    def fail(self, error: KafkaError, now: float) -> None:
        """Close the channel with an error, which is passed to the handler.  Do nothing if already
        closed.
        """
        if self.state is not ChannelState.CLOSED:
            self.close()
            self.handler.on_close(error, now)

    def on_ready(self, bits: int, now: float) -> None:
        """The selector reported the transport; called by the driver."""
        transport = self._transport
        if transport is None or self.state is ChannelState.CLOSED:
            return  # closed earlier in this turn
        if bits & WRITABLE:
            self._is_blocked = False
            self._unsettled[self] = None
        try:
            if self.state is ChannelState.OPENING:
                self._establish(transport, now)
            elif bits & READABLE:
                # One read a turn, but a large one: the handler's buffer decides how large.
                count = transport.read_into(self.handler.buffer())
                if count:
                    self.handler.on_received(count, now)
                elif count is not None:
                    raise Disconnected(f"{self.peer} closed the connection")
        except KafkaError as error:
            self.fail(error, now)

    def flush(self, now: float) -> bool:
        """Write queued bytes to the transport, as far as it accepts them; called at the end of each turn.

        Return whether this changed any request, so that managers must be polled again.
        """
        transport, unsent = self._transport, self._unsent
        if self.state is not ChannelState.OPEN or transport is None or not unsent or self._is_blocked:
            return False
        try:
            while unsent:
                gathered = list(islice(unsent, MAX_GATHERED_BUFFERS))
                taken = transport.write(gathered)
                if taken == 0 and any(map(len, gathered)):
                    break
                for head in gathered:
                    if taken < len(head):
                        unsent[0] = memoryview(head)[taken:]
                        break
                    taken -= len(head)
                    unsent.popleft()
        except KafkaError as error:
            self.fail(error, now)
            return True
        if unsent or transport.interest() != self._interest:
            self._update_interest(transport)
        self._is_blocked = bool(unsent)
        return False if unsent else self.handler.on_written(now)

    def _establish(self, transport: Transport, now: float) -> None:
        if transport.establish():
            self.state = ChannelState.OPEN
            self._unsettled[self] = None
            self.handler.on_open(now)
        self._update_interest(transport)

    def _update_interest(self, transport: Transport) -> None:
        if self.state is ChannelState.CLOSED:
            return
        interest = transport.interest()
        if self.state is ChannelState.OPEN and self._unsent:
            interest |= WRITABLE
        if interest != self._interest:
            self._interest = interest
            self._selector.modify(transport, interest, self)
