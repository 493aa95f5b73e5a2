"""The client of the admin port: one connection, one call at a time, JSON over HTTP.

Blocks the calling thread; thread-safe.  Errors are raised with the class that they had in the broker's
process: pykafka2's own classes, others as `KafkaError`.
"""

from __future__ import annotations

import json
import socket
import threading
from typing import Any

from pykafka2 import errors
from pykafka2.errors import Disconnected, KafkaError

READ_BYTES = 1 << 20
# A call can wait for brokers that are slow on purpose.
TIMEOUT = 120.0
BUILTINS: dict[str, type[Exception]] = {
    "AttributeError": AttributeError,
    "TypeError": TypeError,
    "ValueError": ValueError,
}


class AdminClient:
    """`call("controls/cut_link", source=0, target=1)`.  Connects at the first call."""

    def __init__(self, address: str, token: str) -> None:
        host, _, port = address.rpartition(":")
        self._address = (host, int(port))
        self._token = token
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()

    def call(self, name: str, /, **arguments: Any) -> Any:
        """Execute a call by name; arguments and result are plain data.  Raise the call's error."""
        with self._lock:
            try:
                status, answer = self._exchange(name, json.dumps(arguments).encode())
            except (OSError, ValueError) as error:
                self._close()
                raise Disconnected(
                    f"the cluster's process at {self._address[0]}:{self._address[1]} does not respond: "
                    f"{error}"
                ) from error
        if status == 200:
            return answer["result"]
        raise remote_error(answer["error"]["type"], answer["error"]["message"])

    def close(self) -> None:
        """Close the connection.  Can be repeated."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _exchange(self, name: str, body: bytes) -> tuple[int, dict[str, Any]]:
        if self._socket is None:
            self._socket = socket.create_connection(self._address, TIMEOUT)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        head = (
            f"POST /{name} HTTP/1.1\r\nHost: {self._address[0]}\r\nAuthorization: Bearer {self._token}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self._socket.sendall(head.encode() + body)
        received = b""
        while b"\r\n\r\n" not in received:
            received += self._receive()
        start, _, rest = received.partition(b"\r\n\r\n")
        lines = start.decode("latin-1").split("\r\n")
        length = next(int(line.split(":")[1]) for line in lines if line.lower().startswith("content-length:"))
        parts = [rest]
        missing = length - len(rest)
        while missing > 0:
            parts.append(self._receive())
            missing -= len(parts[-1])
        return int(lines[0].split(" ")[1]), json.loads(b"".join(parts))

    def _receive(self) -> bytes:
        assert self._socket is not None  # noqa: S101  connected by _exchange
        more = self._socket.recv(READ_BYTES)
        if not more:
            raise ConnectionError("it closed the connection")
        return more


def remote_error(kind: str, message: str) -> Exception:
    """Return the error of this class name."""
    cls: Any = getattr(errors, kind, None)
    if kind == "UnknownCall":
        cls = errors.ConfigurationError
    if kind in BUILTINS:
        return BUILTINS[kind](message)
    if isinstance(cls, type) and issubclass(cls, KafkaError):
        return cls(message)
    return KafkaError(f"{kind}: {message}")
