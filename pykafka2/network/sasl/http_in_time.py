"""HTTP with the standard library and one deadline for the whole exchange.

The library's own timeout applies to each read, so a server that sends single bytes could block the caller
without limit. Used by client_credentials.py, off the IO thread.
"""

from __future__ import annotations

import http.client
import io
import urllib.request
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    import ssl


@attrs.define(frozen=True)
class Deadline:
    """A point in time on a clock in seconds."""

    clock: Callable[[], float]
    ends_at: float

    def left(self) -> float:
        """Return the seconds left, more than 0. Raise TimeoutError."""
        left = self.ends_at - self.clock()
        if left <= 0:
            raise TimeoutError("timed out")
        return left


def handlers(deadline: Deadline, tls: ssl.SSLContext | None) -> list[urllib.request.BaseHandler]:
    """Return urllib handlers whose connections obey the deadline. `tls` is for https URLs."""
    return [_Http(deadline)] if tls is None else [_Https(deadline, tls)]


class _Reads(io.RawIOBase):
    """The receiving side of a socket, with waits limited by the time left."""

    def __init__(self, sock: Any, deadline: Deadline) -> None:
        self._socket = sock
        self._raw = sock.makefile("rb", buffering=0)
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._socket.settimeout(self._deadline.left())
        count: int | None = self._raw.readinto(buffer)
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Socket:
    """A socket as http.client uses it."""

    def __init__(self, sock: Any, deadline: Deadline) -> None:
        self._socket = sock
        self._deadline = deadline

    def makefile(self, mode: str) -> io.BufferedReader:
        """Return the reader of the received bytes."""
        return io.BufferedReader(_Reads(self._socket, self._deadline))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)


def _in_time(kind: type[http.client.HTTPConnection], deadline: Deadline) -> Any:
    """Return a subclass of a connection class that obeys the deadline."""

    class InTime(kind):  # type: ignore[misc, valid-type]
        sock: Any

        def connect(self) -> None:
            self.timeout = deadline.left()
            super().connect()
            self.sock = _Socket(self.sock, deadline)

    return InTime


class _Http(urllib.request.HTTPHandler):
    def __init__(self, deadline: Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_in_time(http.client.HTTPConnection, self._deadline), request)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, deadline: Deadline, tls: ssl.SSLContext) -> None:
        super().__init__(context=tls)
        self._tls = tls
        self._deadline = deadline

    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_in_time(http.client.HTTPSConnection, self._deadline), request, context=self._tls)
