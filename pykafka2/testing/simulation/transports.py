"""The ends of in-memory connections: transports, listeners, and the connection that faults refer to.

Each belongs to one loop or actor; pipe.py carries the bytes, and network.py creates and breaks connections.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from pykafka2.errors import Disconnected
from pykafka2.network.transport import READABLE, WRITABLE, Buffer
from pykafka2.testing.simulation.pipe import Pipe
from pykafka2.testing.simulation.selector import Source

RESET = "the connection was reset by the other side"

# A broker's parts are named after what they do and the broker's id: "processor-2-0", "timers-1".
_BROKER = re.compile(r"(?:broker|acceptor|processor|handler|fetchers|timers)-(\d+)")


def place_of(name: str) -> str:
    """Return the place of a loop or a host by its name: all loops of one broker share a place."""
    found = _BROKER.search(name)
    return f"broker-{found.group(1)}" if found else name


class TransportNetwork(Protocol):
    """The network's interface for transports, connections and listeners (network.py)."""

    buffer_bytes: int
    full_writes: int
    writes: int
    break_at_write: int
    connections: dict[int, SimConnection]

    def slice_of(self, buffer_bytes: int, incoming: Pipe) -> int: ...

    def break_connection(self, connection: SimConnection | None, why: str) -> None: ...

    def forget_listener(self, listener: SimListener) -> None: ...


class SimTransport(Source):
    """One end of a connection.  Made by `SimNetwork`."""

    def __init__(self, network: TransportNetwork, peer: str, *, established: bool) -> None:
        super().__init__()
        self.peer = peer
        self.is_closed = False
        self.connection: SimConnection | None = None
        self._network = network
        self._established = established
        self._error: str | None = None
        self._outgoing: Pipe | None = None
        self._incoming: Pipe | None = None
        self._end_of_stream = False

    def establish(self) -> bool:
        self._raise_error()
        return self._established

    def interest(self) -> int:
        return READABLE if self._established else WRITABLE

    def read_into(self, buffer: memoryview) -> int | None:
        incoming = self._incoming
        if incoming is not None and incoming.unread:
            return incoming.take(buffer, self._network.slice_of(len(buffer), incoming))
        self._raise_error()
        return 0 if self._end_of_stream else None

    def write(self, buffers: Sequence[Buffer]) -> int:
        self._raise_error()
        outgoing = self._outgoing
        if outgoing is None:
            raise Disconnected(f"{self.peer}: not connected")
        room = outgoing.room_bytes
        data = b"".join(buffers)
        if len(data) > room:
            self._network.full_writes += 1
            data = data[: max(room, 0)]
        if not data:
            return 0
        self._network.writes += 1
        if outgoing.lose_next or self._network.writes == self._network.break_at_write:
            outgoing.lose_next = False
            self._network.break_connection(self.connection, "its next bytes were lost")
        else:
            outgoing.put(data)
        return len(data)

    def close(self, *, reset: bool = False) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        if self.selector is not None:
            self.selector.unregister(self)
        if self._incoming is not None:
            self._incoming.size_bytes -= sum(map(len, self._incoming.unread))
            reset = reset or bool(self._incoming.unread)
            self._incoming.unread.clear()
        if self._outgoing is not None:
            self._outgoing.end(RESET if reset else None)
        if self.connection is not None:
            self.connection.forget_if_over()

    # ------------------------------------------------------------------ for the network

    def ready_bits(self) -> int:
        if self._error is not None:
            return READABLE | WRITABLE
        if not self._established or self._outgoing is None or self._incoming is None:
            return 0
        bits = READABLE if self._incoming.unread or self._end_of_stream else 0
        # As in a kernel, a full buffer counts as writable again when a good part of it is free.
        if self._outgoing.room_bytes * 4 >= self._network.buffer_bytes:
            bits |= WRITABLE
        return bits

    def join(self, outgoing: Pipe, incoming: Pipe, connection: SimConnection) -> None:
        self._outgoing, self._incoming, self.connection = outgoing, incoming, connection

    def become_established(self) -> None:
        if not self.is_closed and self._error is None:
            self._established = True
            self.readiness_changed()

    def peer_ended(self, reset: str | None) -> None:
        self._end_of_stream = True
        if reset is not None:
            self.fail(reset)

    def refuse_late_bytes(self) -> None:
        """Handle bytes for this closed end: send a reset."""
        if self._outgoing is not None:
            self._outgoing.has_ended = False
            self._outgoing.end(RESET)

    def fail(self, words: str) -> None:
        """Make every later use raise `Disconnected` with this reason."""
        if self._error is None and not self.is_closed:
            self._error = words
            self.readiness_changed()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise Disconnected(f"{self.peer}: {self._error}")


class SimConnection:
    """Both ends of one connection, for faults and messages."""

    def __init__(
        self, network: TransportNetwork, number: int, client: SimTransport, server: SimTransport
    ) -> None:
        self.number = number
        self.client = client
        self.server = server
        self.client_place = ""
        self.server_place = ""
        self.to_server: Pipe
        self.to_client: Pipe
        self._network = network

    def __str__(self) -> str:
        return f"connection {self.number} ({self.client_place} to {self.server_place})"

    @property
    def is_busy(self) -> bool:
        """Whether bytes are in flight or unread."""
        return self.to_server.size_bytes > 0 or self.to_client.size_bytes > 0

    def forget_if_over(self) -> None:
        if self.client.is_closed and self.server.is_closed:
            self._network.connections.pop(self.number, None)


class SimListener(Source):
    """A listening address of the simulation."""

    def __init__(self, network: TransportNetwork, host: str, port: int) -> None:
        super().__init__()
        self.host = host
        self.port = port
        self.backlog: deque[SimTransport] = deque()
        self.is_refusing = False
        """A fault: connections are refused although the listener exists."""
        self._network = network

    @property
    def place(self) -> str:
        """The broker of the host's name, else the place that listens here."""
        place = place_of(self.host)
        return place if place != self.host or self.selector is None else self.selector.place

    def accept(self) -> SimTransport | None:
        return self.backlog.popleft() if self.backlog else None

    def close(self) -> None:
        if self.selector is not None:
            self.selector.unregister(self)
        self._network.forget_listener(self)
        while self.backlog:
            self.backlog.popleft().close(reset=True)

    def ready_bits(self) -> int:
        return READABLE if self.backlog else 0
