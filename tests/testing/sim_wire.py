"""tests/testing/wire.py in the simulation: a plain client in virtual time, that retries and hides nothing."""

from __future__ import annotations

import struct
from typing import Any, TypeVar

from pykafka2.errors import Disconnected
from pykafka2.network.transport import READABLE, WRITABLE, SocketOptions
from pykafka2.protocol.framing import decode_response, encode_request
from pykafka2.protocol.struct import Request, Response
from pykafka2.testing.simulation import Simulation

R = TypeVar("R", bound=Response)

TIMEOUT = 120.0  # virtual seconds


class SimWire:
    """One connection to a broker of a simulated cluster.  Replies are waited for in virtual time."""

    def __init__(self, simulation: Simulation, address: str, client_id: str = "wire") -> None:
        self._simulation = simulation
        self._client_id = client_id
        self._correlation_id = 0
        self._unread = b""
        network = simulation.network
        host, _, port = address.rpartition(":")
        (endpoint,) = network.resolve(host, int(port))
        self.transport = network.connect(endpoint, options=SocketOptions())
        self._selector = network.selector()
        self._selector.register(self.transport, WRITABLE, self)
        while not self.transport.establish():
            assert self._selector.select(TIMEOUT), f"{address} does not answer"
        self._selector.modify(self.transport, READABLE, self)

    def close(self) -> None:
        self.transport.close()
        self._selector.close()

    def send(self, request: Request[Any], version: int) -> int:
        """Send without waiting; the correlation id."""
        self._correlation_id += 1
        data = b"".join(encode_request(request, version, self._correlation_id, self._client_id))
        assert self.transport.write([data]) == len(data)
        return self._correlation_id

    def has_reply(self) -> bool:
        """Whether a reply has come whole; waits for nothing.  Raises once the connection is over."""
        buffer = memoryview(bytearray(65536))
        while not self._has_whole_frame():
            count = self.transport.read_into(buffer)
            if count is None:
                return False
            if count == 0:
                raise ConnectionError("the broker closed the connection")
            self._unread += bytes(buffer[:count])
        return True

    def _has_whole_frame(self) -> bool:
        unread = self._unread
        return len(unread) >= 4 and len(unread) >= 4 + int(struct.unpack(">i", unread[:4])[0])

    def is_open(self) -> bool:
        """False once the broker has closed the connection."""
        try:
            self.has_reply()
        except (ConnectionError, Disconnected):
            return False
        return True

    def receive(self, request: type[Request[R]], version: int, timeout: float = TIMEOUT) -> tuple[int, R]:
        """The next reply, which must be one to such a request; its correlation id and the response."""
        deadline = self._simulation.now + timeout
        while not self.has_reply():
            left = deadline - self._simulation.now
            if left <= 0:
                raise TimeoutError(f"no reply to {request.__name__} within {timeout} virtual seconds")
            self._selector.select(left)
        size = struct.unpack(">i", self._unread[:4])[0]
        frame, self._unread = self._unread[4 : 4 + size], self._unread[4 + size :]
        return decode_response(frame, request, version)

    def call(self, request: Request[R], version: int, timeout: float = TIMEOUT) -> R:
        """Send and wait for the reply."""
        correlation_id = self.send(request, version)
        answered, response = self.receive(type(request), version, timeout)
        assert answered == correlation_id
        return response
