"""One transport in a driver's hands: established, read, written and closed by the IO turn.

A channel moves bytes between its transport and its handler and knows nothing of frames; the handler
(cluster/nodes.py with network/connection.py) knows nothing of sockets.  Belongs to the driver's thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from pykafka2.errors import Disconnected, KafkaError
from pykafka2.network.transport import READABLE, WRITABLE, Buffer, Selector, Transport


class ChannelHandler(Protocol):
    """Who owns the bytes.  All calls come on the driver's thread."""

    def on_open(self, now: float) -> None:
        """Connected (and TLS agreed): bytes may flow."""
        ...

    def buffer(self) -> memoryview:
        """Where the next bytes are to be read to; never empty."""
        ...

    def on_received(self, count: int, now: float) -> None:
        """`count` bytes are in the buffer handed out last.  A `KafkaError` raised here closes the channel."""
        ...

    def on_written(self, now: float) -> None:
        """Everything written so far was handed to the transport."""
        ...

    def on_close(self, error: KafkaError, now: float) -> None:
        """The channel ended by itself or by an error; called once, and not after `Channel.close()`."""
        ...


class ChannelState(Enum):
    OPENING = "opening"
    OPEN = "open"
    CLOSED = "closed"


# Gathered writes beyond this many buffers are split over several calls (IOV_MAX is 1024 on Linux).
MAX_GATHERED_BUFFERS = 512


class Channel:
    """A transport, its state and what is still to be written."""

    __slots__ = ("_interest", "_selector", "_transport", "_unsent", "handler", "peer", "state")

    def __init__(self, transport: Transport, selector: Selector, handler: ChannelHandler) -> None:
        self._transport = transport
        self._selector = selector
        self._unsent: deque[memoryview] = deque()
        self._interest = transport.interest()
        self.handler = handler
        self.peer = transport.peer
        self.state = ChannelState.OPENING
        selector.register(transport, self._interest, self)

    @property
    def is_closed(self) -> bool:
        return self.state is ChannelState.CLOSED

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent)

    def write(self, buffers: Sequence[Buffer]) -> None:
        """Queue bytes; they leave at the end of the turn, gathered with what else is queued."""
        if self.state is not ChannelState.CLOSED:
            self._unsent.extend(memoryview(buffer) for buffer in buffers if len(buffer))

    def close(self) -> None:
        """End the channel without telling the handler.  Safe to repeat."""
        if self.state is ChannelState.CLOSED:
            return
        self.state = ChannelState.CLOSED
        self._unsent.clear()
        self._selector.unregister(self._transport)
        self._transport.close()

    def on_ready(self, bits: int, now: float) -> None:
        """The selector reported the transport; called by the driver."""
        try:
            if self.state is ChannelState.OPENING:
                self._establish(now)
            elif self.state is ChannelState.OPEN and bits & READABLE:
                self._read(now)
        except KafkaError as error:
            self._fail(error, now)

    def flush(self, now: float) -> None:
        """Hand what is queued to the transport, as far as it takes it; called at the end of each turn."""
        if self.state is not ChannelState.OPEN:
            return
        try:
            wrote = self._write_unsent()
        except KafkaError as error:
            self._fail(error, now)
            return
        self._update_interest()
        if wrote and not self._unsent:
            self.handler.on_written(now)

    def _establish(self, now: float) -> None:
        if self._transport.establish():
            self.state = ChannelState.OPEN
            self.handler.on_open(now)
        self._update_interest()

    def _read(self, now: float) -> None:
        # One read a turn, but a large one: the handler's buffer decides how large (design section 4).
        count = self._transport.read_into(self.handler.buffer())
        if count is None:
            return
        if count == 0:
            raise Disconnected(f"{self.peer} closed the connection")
        self.handler.on_received(count, now)

    def _write_unsent(self) -> bool:
        unsent = self._unsent
        wrote = False
        while unsent:
            gathered = [unsent[index] for index in range(min(len(unsent), MAX_GATHERED_BUFFERS))]
            taken = self._transport.write(gathered)
            if taken == 0:
                break
            wrote = True
            while taken:
                head = unsent[0]
                if taken >= len(head):
                    taken -= len(head)
                    unsent.popleft()
                else:
                    unsent[0] = head[taken:]
                    taken = 0
        return wrote

    def _update_interest(self) -> None:
        if self.state is ChannelState.CLOSED:
            return
        interest = self._transport.interest()
        if self.state is ChannelState.OPEN and self._unsent:
            interest |= WRITABLE
        if interest != self._interest:
            self._interest = interest
            self._selector.modify(self._transport, interest, self)

    def _fail(self, error: KafkaError, now: float) -> None:
        if self.state is not ChannelState.CLOSED:
            self.close()
            self.handler.on_close(error, now)
