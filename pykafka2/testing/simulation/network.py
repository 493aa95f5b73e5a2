"""The in-memory twin of network/tcp.py: hosts, ports, connections made of two pipes, all in virtual time.

Bytes of one connection arrive in order; everything else (when, in how many pieces, whether at all) is drawn
from the seed or set by faults.  TLS is not simulated: its handshake draws on real randomness.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING

from pykafka2.errors import ConfigurationError, Disconnected, NoBrokersAvailable
from pykafka2.network.transport import READABLE, WRITABLE, Buffer, Endpoint, SocketOptions
from pykafka2.testing.simulation.links import Links
from pykafka2.testing.simulation.pipe import Pipe
from pykafka2.testing.simulation.selector import SimSelector, Source

if TYPE_CHECKING:
    from pykafka2.network.tls import TlsContext
    from pykafka2.testing.simulation.scheduler import Scheduler

REFUSED = "nothing listens there (connection refused); check bootstrap_servers and the port"
RESET = "the connection was reset by the other side"
FIRST_PORT = 41001
BACKLOG = 128
CONNECT_AGAIN_AFTER = 1.0

# A broker's parts are named after what they do and the broker's id: "processor-2-0", "chores-1".
_BROKER = re.compile(r"(?:broker|acceptor|processor|handler|fetchers|chores)-(\d+)")


def place_of(name: str) -> str:
    """The place of a loop or a host by its name: all loops of one broker are in one process, in one place."""
    found = _BROKER.search(name)
    return f"broker-{found.group(1)}" if found else name


class SimTransport(Source):
    """One end of a connection.  Made by `SimNetwork`."""

    def __init__(self, network: SimNetwork, peer: str, *, established: bool) -> None:
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
        if outgoing.lose_next:
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
        """Bytes reached this closed end: a reset goes back."""
        if self._outgoing is not None:
            self._outgoing.has_ended = False
            self._outgoing.end(RESET)

    def fail(self, words: str) -> None:
        """Every use from now on raises `Disconnected` with these words."""
        if self._error is None and not self.is_closed:
            self._error = words
            self.readiness_changed()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise Disconnected(f"{self.peer}: {self._error}")


class SimConnection:
    """Both ends of one connection, for faults and for people."""

    def __init__(self, network: SimNetwork, number: int, client: SimTransport, server: SimTransport) -> None:
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
        """True while bytes are under way or unread."""
        return self.to_server.size_bytes > 0 or self.to_client.size_bytes > 0

    def forget_if_over(self) -> None:
        if self.client.is_closed and self.server.is_closed:
            self._network.connections.pop(self.number, None)


class SimListener(Source):
    """A listening address of the simulation."""

    def __init__(self, network: SimNetwork, host: str, port: int) -> None:
        super().__init__()
        self.host = host
        self.port = port
        self.backlog: deque[SimTransport] = deque()
        self.is_refusing = False
        """A fault: connections are refused although the listener is there."""
        self._network = network

    @property
    def place(self) -> str:
        """The broker that the host's name says, else whoever waits for connections here."""
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


class SimNetwork:
    """`transport.Network` in memory.  `links` says what the ways between places are like."""

    def __init__(self, scheduler: Scheduler, seed: int | str) -> None:
        self.scheduler = scheduler
        self.trace = scheduler.trace
        self.random = Random(f"{seed}/network")
        self.links = Links()
        self.links.on_join(self._retry_all)
        self.buffer_bytes = 256 * 1024
        """Room of one direction of one connection."""
        self.slicing = 0.1
        """How often a read gets only a part of what is there."""
        self.names: dict[str, list[str]] = {}
        """Host names with their addresses; an address stands for itself."""
        self.connections: dict[int, SimConnection] = {}
        self.refusals = 0
        self.slices = 0
        self.full_writes = 0
        """Counts writes that found no room for all of their bytes; like the two before, for faults."""
        self._listeners: dict[tuple[str, int], SimListener] = {}
        self._hosts: dict[str, None] = {"127.0.0.1": None, "localhost": None}
        self._next_port = FIRST_PORT
        self._connections_made = 0

    @property
    def now(self) -> float:
        return self.scheduler.now

    # ------------------------------------------------------------------ transport.Network

    def selector(self) -> SimSelector:
        return SimSelector(self.scheduler, self.random, self.scheduler.current_place())

    def resolve(self, host: str, port: int) -> list[Endpoint]:
        if host in self.names:
            return [Endpoint(address, port) for address in self.names[host]]
        if host in self._hosts:
            return [Endpoint(host, port)]
        raise NoBrokersAvailable(
            f"{host}:{port}: no such host in this simulation; see simulation.network.names"
        )

    def connect(
        self,
        endpoint: Endpoint,
        *,
        options: SocketOptions,
        tls: TlsContext | None = None,
        server_name: str | None = None,
    ) -> SimTransport:
        refuse_tls(tls)
        client = SimTransport(self, str(endpoint), established=False)
        source = place_of(self.scheduler.current_place())
        self.trace.note(self.now, f"{source} connects to {endpoint}")
        self._knock(client, source, endpoint)
        return client

    def listen(self, host: str, port: int, *, tls: TlsContext | None = None) -> SimListener:
        refuse_tls(tls)
        if port == 0:
            port, self._next_port = self._next_port, self._next_port + 1
        if (host, port) in self._listeners:
            raise ConfigurationError(f"cannot listen on {host}:{port}: it is in use; choose another port")
        listener = SimListener(self, host, port)
        self._listeners[host, port] = listener
        self._hosts[host] = None
        return listener

    # ------------------------------------------------------------------ connecting

    def _knock(self, client: SimTransport, source: str, endpoint: Endpoint) -> None:
        """Send the first packet; a cut link swallows it, and it is sent again like TCP's."""
        listener = self.listener(endpoint)
        target = "nowhere" if listener is None else listener.place
        link = self.links.between(source, target)

        def arrive() -> None:
            if client.is_closed:
                return
            if self._holds_up(source, target):
                self.scheduler.call_at(self.now + CONNECT_AGAIN_AFTER, arrive)
            else:
                self._answer_knock(client, source, target, endpoint)

        self.scheduler.call_at(self.now + link.delay(0, self.random), arrive)

    def _answer_knock(self, client: SimTransport, source: str, target: str, endpoint: Endpoint) -> None:
        listener = self.listener(endpoint)
        if listener is None or listener.is_refusing or len(listener.backlog) >= BACKLOG:
            self.refusals += 1
            self._answer(target, source, client, lambda: client.fail(REFUSED))
            return
        self._connections_made += 1
        number = self._connections_made
        server = SimTransport(self, f"{source}:{number}", established=True)
        connection = SimConnection(self, number, client, server)
        connection.client_place, connection.server_place = source, listener.place
        there = Pipe(self, f"{number}>", self.links.between(source, listener.place))
        back = Pipe(self, f"{number}<", self.links.between(listener.place, source))
        there.source, there.target = client, server
        back.source, back.target = server, client
        connection.to_server, connection.to_client = there, back
        client.join(there, back, connection)
        server.join(back, there, connection)
        self.connections[number] = connection
        self.trace.note(self.now, f"{connection} is made")
        listener.backlog.append(server)
        listener.readiness_changed()
        self._answer(listener.place, source, client, client.become_established)

    def _answer(self, source: str, target: str, client: SimTransport, call: Callable[[], None]) -> None:
        def arrive() -> None:
            if client.is_closed:
                return
            if self._holds_up(source, target):
                self.scheduler.call_at(self.now + CONNECT_AGAIN_AFTER, arrive)
            else:
                call()

        self.scheduler.call_at(self.now + self.links.between(source, target).delay(0, self.random), arrive)

    def _holds_up(self, source: str, target: str) -> bool:
        link = self.links.between(source, target)
        opens_at = link.opens_at(self.now)
        if opens_at is not None and opens_at <= self.now:
            return False
        link.blocked += 1
        return True

    # ------------------------------------------------------------------ for faults and tests

    def listener(self, endpoint: Endpoint) -> SimListener | None:
        return self._listeners.get((endpoint.host, endpoint.port))

    def listeners(self) -> Iterator[SimListener]:
        return iter(self._listeners.values())

    def forget_listener(self, listener: SimListener) -> None:
        if self._listeners.get((listener.host, listener.port)) is listener:
            del self._listeners[listener.host, listener.port]

    def live_connections(self, *, busy: bool = False) -> list[SimConnection]:
        """Connections with both ends open, oldest first; with `busy` only those with bytes on their way."""
        return [
            connection
            for connection in self.connections.values()
            if not (connection.client.is_closed or connection.server.is_closed)
            and (connection.is_busy or not busy)
        ]

    def break_connection(self, connection: SimConnection | None, why: str) -> None:
        """Reset both ends at once; what is under way is lost."""
        if connection is None:
            return
        self.trace.note(self.now, f"{connection} breaks: {why}")
        for pipe in (connection.to_server, connection.to_client):
            pipe.drop_under_way()
            pipe.has_ended = True
        connection.client.fail(RESET)
        connection.server.fail(RESET)

    def break_for_client(self, connection: SimConnection, late_by: float) -> None:
        """Reset the client's end; what it had sent still arrives, `late_by` late, and then the reset."""
        self.trace.note(self.now, f"{connection} breaks for the client; its bytes come {late_by:.3f} s late")
        connection.to_client.drop_under_way()
        connection.to_server.delay_under_way(late_by)
        connection.to_server.end(RESET)
        connection.client.fail(RESET)

    def cut(self, source: str, target: str) -> None:
        """Nothing more arrives from one place at another ("*": any); the other direction goes on."""
        for link in self.links.matching(source, target):
            link.is_cut = True
        self.trace.note(self.now, f"cut {source} -> {target}")

    def clog(self, source: str, target: str, seconds: float) -> None:
        """Hold everything from one place to another up for so long."""
        for link in self.links.matching(source, target):
            link.clogged_until = max(link.clogged_until, self.now + seconds)
        self.trace.note(self.now, f"clog {source} -> {target} for {seconds:.3f} s")

    def join(self, source: str, target: str) -> None:
        """Undo `cut` and `clog`."""
        for link in self.links.matching(source, target):
            link.is_cut = False
            link.clogged_until = 0.0
        self.trace.note(self.now, f"join {source} -> {target}")
        self.links.joined()

    def heal(self) -> None:
        """No link is cut, clogged or slowed any more, and nobody refuses."""
        for listener in self._listeners.values():
            listener.is_refusing = False
        self.trace.note(self.now, "heal")
        self.links.heal()

    def slice_of(self, buffer_bytes: int, incoming: Pipe) -> int:
        """How much a read gets: now and then less than there is, as little as one byte."""
        if self.random.random() >= self.slicing:
            return buffer_bytes
        self.slices += 1
        there = min(buffer_bytes, sum(map(len, incoming.unread)))
        # Small pieces are those that split a frame's length or header.
        return self.random.randint(1, min(there, 8) if self.random.random() < 0.5 else there)

    def _retry_all(self) -> None:
        for connection in list(self.connections.values()):
            connection.to_server.retry()
            connection.to_client.retry()


def refuse_tls(tls: TlsContext | None) -> None:
    if tls is not None:
        raise ConfigurationError("the simulation carries no TLS; use security_protocol=PLAINTEXT there")
