"""The in-memory counterpart of network/tcp.py: hosts, ports, connections of two pipes, in virtual time.

Bytes of one connection arrive in order; all else (when, in how many pieces, whether at all) is drawn from the
seed or set by faults.  TLS is not simulated: its handshake uses real randomness.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from pykafka2.errors import ConfigurationError, NoBrokersAvailable
from pykafka2.network.endpoint import Endpoint
from pykafka2.network.transport import SocketOptions, TlsWrapper
from pykafka2.testing.simulation.links import Links
from pykafka2.testing.simulation.pipe import Pipe
from pykafka2.testing.simulation.scheduler import Scheduler
from pykafka2.testing.simulation.selector import SimSelector
from pykafka2.testing.simulation.transports import (
    RESET,
    SimConnection,
    SimListener,
    SimTransport,
    place_of,
)

REFUSED = "nothing listens there (connection refused); check bootstrap_servers and the port"
FIRST_PORT = 41001
BACKLOG = 128
CONNECT_AGAIN_AFTER = 1.0


class SimNetwork:
    """`transport.Network` in memory.  `links` holds the state between places."""

    def __init__(self, scheduler: Scheduler, seed: int | str) -> None:
        self.scheduler = scheduler
        self.trace = scheduler.trace
        self.random = Random(f"{seed}/network")
        self.links = Links()
        self.links.on_join(self._retry_all)
        self.buffer_bytes = 256 * 1024
        """Buffer size of each direction of a connection."""
        self.slicing = 0.1
        """Probability that a read returns only a part of the available bytes."""
        self.names: dict[str, list[str]] = {}
        """Host names with their addresses; an address resolves to itself."""
        self.connections: dict[int, SimConnection] = {}
        self.refusals = 0
        self.slices = 0
        self.full_writes = 0
        """Counts writes without room for all of their bytes; for faults, like the two before."""
        self.writes = 0
        """Counts writes of all ends of connections."""
        self.break_at_write = 0
        """The write with this number (from 1) loses its bytes and its connection; a test tries each
        number.
        """
        self.on_connection: Callable[[SimConnection], None] = lambda connection: None
        """Called with each connection before its first byte, so that a test can intercept it."""
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

    def resolve(self, host: str, port: int, *, canonical: bool = False) -> list[Endpoint]:
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
        tls: TlsWrapper | None = None,
        server_name: str | None = None,
    ) -> SimTransport:
        refuse_tls(tls)
        client = SimTransport(self, str(endpoint), established=False)
        source = place_of(self.scheduler.current_place())
        self.trace.note(self.now, f"{source} connects to {endpoint}")
        self._knock(client, source, endpoint)
        return client

    def listen(self, host: str, port: int, *, tls: TlsWrapper | None = None) -> SimListener:
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
        """Send the first packet; a cut link drops it, and it is retransmitted like TCP's."""
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
        self.on_connection(connection)
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
        """Return connections with both ends open, oldest first; with `busy` only those with bytes in
        flight.
        """
        return [
            connection
            for connection in self.connections.values()
            if not (connection.client.is_closed or connection.server.is_closed)
            and (connection.is_busy or not busy)
        ]

    def break_connection(self, connection: SimConnection | None, why: str) -> None:
        """Reset both ends at once; bytes in flight are lost."""
        if connection is None:
            return
        self.trace.note(self.now, f"{connection} breaks: {why}")
        for pipe in (connection.to_server, connection.to_client):
            pipe.drop_under_way()
            pipe.has_ended = True
        connection.client.fail(RESET)
        connection.server.fail(RESET)

    def break_for_client(self, connection: SimConnection, late_by: float) -> None:
        """Reset the client's end; its sent bytes still arrive, `late_by` late, and then the reset."""
        self.trace.note(self.now, f"{connection} breaks for the client; its bytes come {late_by:.3f} s late")
        connection.to_client.drop_under_way()
        connection.to_server.delay_under_way(late_by)
        connection.to_server.end(RESET)
        connection.client.fail(RESET)

    def cut(self, source: str, target: str) -> None:
        """Cut one direction from one place to another ("*": any)."""
        for link in self.links.matching(source, target):
            link.is_cut = True
        self.trace.note(self.now, f"cut {source} -> {target}")

    def clog(self, source: str, target: str, seconds: float) -> None:
        """Hold all traffic from one place to another for this time."""
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
        """End all cuts, clogs, delays and refusals."""
        for listener in self._listeners.values():
            listener.is_refusing = False
        self.trace.note(self.now, "heal")
        self.links.heal()

    def slice_of(self, buffer_bytes: int, incoming: Pipe) -> int:
        """Return the size of a read: sometimes less than available, as little as one byte."""
        if self.random.random() >= self.slicing:
            return buffer_bytes
        self.slices += 1
        there = min(buffer_bytes, sum(map(len, incoming.unread)))
        # Small pieces split a frame's length or header.
        return self.random.randint(1, min(there, 8) if self.random.random() < 0.5 else there)

    def _retry_all(self) -> None:
        for connection in list(self.connections.values()):
            connection.to_server.retry()
            connection.to_client.retry()


def refuse_tls(tls: TlsWrapper | None) -> None:
    if tls is not None:
        raise ConfigurationError("the simulation carries no TLS; use security_protocol=PLAINTEXT there")
