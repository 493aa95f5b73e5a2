"""A raw Kafka client: requests in any version over one connection, without retries or checks of responses.

`RawClient` has two transports: a blocking socket, and a connection of the simulation in virtual time.
"""

from __future__ import annotations

import select
import socket
import ssl
import struct
from typing import Any, Protocol, Self, TypeVar

from pykafka2.errors import Disconnected
from pykafka2.network.transport import READABLE, WRITABLE, SocketOptions
from pykafka2.protocol.framing import decode_response, encode_request
from pykafka2.protocol.struct import Request, Response
from pykafka2.testing.simulation import Simulation

R = TypeVar("R", bound=Response)

TIMEOUT = 30.0
VIRTUAL_TIMEOUT = 120.0


class Transport(Protocol):
    """A connection that transfers bytes; after its end `read` and `has` raise ConnectionError."""

    def write(self, data: bytes) -> None: ...

    def read(self, count: int, timeout: float | None) -> bytes:
        """Return exactly this many bytes."""

    def has_response(self) -> bool: ...

    def close(self) -> None: ...


class SocketTransport:
    """A blocking socket."""

    def __init__(
        self, address: str, *, tls: ssl.SSLContext | None = None, host_name: str = "", source: str = ""
    ) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), TIMEOUT, (source, 0) if source else None)
        if tls is not None:
            try:
                self.socket = tls.wrap_socket(self.socket, server_hostname=host_name or host)
            except BaseException:
                self.socket.close()
                raise
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def write(self, data: bytes) -> None:
        self.socket.sendall(data)

    def read(self, count: int, timeout: float | None) -> bytes:
        if timeout is not None:
            self.socket.settimeout(timeout)
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            if not more:
                raise ConnectionError("the broker closed the connection")
            data += more
        return data

    def has_response(self) -> bool:
        if not select.select([self.socket], [], [], 0)[0]:
            return False
        if not self.socket.recv(1, socket.MSG_PEEK):  # not with TLS
            raise ConnectionError("the broker closed the connection")
        return True

    def close(self) -> None:
        self.socket.close()


class SimulatedTransport:
    """A connection of the simulation. Waits pass in virtual time."""

    def __init__(self, address: str, simulation: Simulation) -> None:
        self._simulation = simulation
        self._unread = b""
        network = simulation.network
        host, _, port = address.rpartition(":")
        (endpoint,) = network.resolve(host, int(port))
        self._transport = network.connect(endpoint, options=SocketOptions())
        self._selector = network.selector()
        self._selector.register(self._transport, WRITABLE, self)
        while not self._transport.establish():
            assert self._selector.select(VIRTUAL_TIMEOUT), f"{address} does not respond"
        self._selector.modify(self._transport, READABLE, self)

    def write(self, data: bytes) -> None:
        assert self._transport.write([data]) == len(data)

    def read(self, count: int, timeout: float | None) -> bytes:
        timeout = VIRTUAL_TIMEOUT if timeout is None else timeout
        deadline = self._simulation.now + timeout
        while not self._has(count):
            left = deadline - self._simulation.now
            if left <= 0:
                raise TimeoutError(f"no response within {timeout} virtual seconds")
            self._selector.select(left)
        data, self._unread = self._unread[:count], self._unread[count:]
        return data

    def has_response(self) -> bool:
        return self._has(4) and self._has(4 + int(struct.unpack_from(">i", self._unread)[0]))

    def _has(self, count: int) -> bool:
        buffer = memoryview(bytearray(65536))
        while len(self._unread) < count:
            size = self._transport.read_into(buffer)
            if size is None:
                return False
            if size == 0:
                raise ConnectionError("the broker closed the connection")
            self._unread += bytes(buffer[:size])
        return True

    def close(self) -> None:
        self._transport.close()
        self._selector.close()


class RawClient:
    """One connection to a broker: a socket, or with `simulation` one of its connections.

    `options` are those of `SocketTransport`; `source` is a local address such as 127.0.0.2.
    """

    def __init__(
        self, address: str, client_id: str = "wire", *, simulation: Simulation | None = None, **options: Any
    ) -> None:
        self.transport: Transport
        if simulation is None:
            self.transport = SocketTransport(address, **options)
        else:
            self.transport = SimulatedTransport(address, simulation)
        self._address = address
        self._client_id = client_id
        self._correlation_id = 0

    @property
    def socket(self) -> socket.socket:
        assert isinstance(self.transport, SocketTransport)
        return self.transport.socket

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.transport.close()

    def reopen(self) -> None:
        """Replace the socket by a new one, without TLS."""
        self.close()
        self.transport = SocketTransport(self._address)

    def send(self, request: Request[Any], version: int) -> int:
        """Send without waiting. Return the correlation id."""
        self._correlation_id += 1
        parts = encode_request(request, version, self._correlation_id, self._client_id)
        self.transport.write(b"".join(parts))
        return self._correlation_id

    def receive_frame(self, timeout: float | None = None) -> bytes:
        (size,) = struct.unpack(">i", self.transport.read(4, timeout))
        return self.transport.read(size, timeout)

    def receive(self, request: type[Request[R]], version: int, timeout: float | None = None) -> tuple[int, R]:
        """Return the correlation id and the message of the next response, to a request of this class."""
        return decode_response(self.receive_frame(timeout), request, version)

    def call(self, request: Request[R], version: int, timeout: float | None = None) -> R:
        """Send a request and wait for its response."""
        correlation_id = self.send(request, version)
        received, response = self.receive(type(request), version, timeout)
        assert received == correlation_id
        return response

    def has_response(self) -> bool:
        """Whether a response has arrived. Does not wait."""
        return self.transport.has_response()

    def is_open(self) -> bool:
        """Whether the broker has not closed the connection. Does not wait."""
        try:
            self.has_response()
        except (ConnectionError, Disconnected):
            return False
        return True

    def is_closed_by_broker(self) -> bool:
        """Wait until the broker closes the connection; False if it sends something or the time is over."""
        try:
            self.transport.read(1, None)
        except ConnectionError:
            return True
        except TimeoutError:
            return False
        return False
