"""Transports on TCP sockets, and `TcpNetwork`, the network of `ThreadRuntime`.

Everything is non-blocking; a transport belongs to the thread that runs its loop. tls.py adds TLS.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pykafka2.errors import ClientNotStarted, ConfigurationError, Disconnected, KafkaStorageError
from pykafka2.network.endpoint import Endpoint
from pykafka2.network.resolver import resolve
from pykafka2.network.selector import SocketSelector
from pykafka2.network.transport import (
    READABLE,
    WRITABLE,
    Buffer,
    Listener,
    SocketOptions,
    TlsWrapper,
    Transport,
)

if TYPE_CHECKING:
    from pykafka2.protocol.file_part import FilePart

try:
    from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit

    HAS_LIMITS = True
except ImportError:
    HAS_LIMITS = False  # on Windows

LISTEN_BACKLOG = 1024
"""Connections that wait to be accepted. Linux ignores further ones, whose clients retry after a second."""
KEPT_DESCRIPTORS = 16
"""Descriptors that connections leave free: modules are loaded at their first use, and logs open segments."""
IS_WINDOWS = os.name == "nt"
# struct linger has two shorts on Windows, two ints elsewhere.
RESET_ON_CLOSE = struct.pack("hh" if IS_WINDOWS else "ii", 1, 0)
CONNECTING = (0, errno.EINPROGRESS, errno.EINTR, getattr(errno, "WSAEWOULDBLOCK", errno.EINPROGRESS))
"""Results of a connect that has begun; the last one is Windows'."""
# With SO_REUSEADDR a second server could take the same port on Windows; elsewhere it allows a quick restart.
LISTEN_OPTION: int = getattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_REUSEADDR)
HAS_SENDMSG = hasattr(socket.socket, "sendmsg")  # not on Windows
NO_SENDFILE = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
"""Errors of sendfile for a file system without it, such as some network file systems."""
JOINED_BYTES = 1 << 18
"""Without sendmsg: buffers are copied together up to this size, and larger ones are sent as they are."""

_MESSAGES = {
    errno.ECONNREFUSED: "nothing listens there (connection refused); check bootstrap_servers and the port",
    errno.ECONNRESET: "the peer reset the connection",
    errno.EPIPE: "the peer closed the connection",
    errno.ETIMEDOUT: "the connection attempt timed out; check the address and the firewall",
    errno.EHOSTUNREACH: "no route to the host",
    errno.ENETUNREACH: "the network is unreachable",
    errno.EADDRNOTAVAIL: "no local address or port is available",
    errno.EMFILE: "this process has too many open files; raise its limit (ulimit -n)",
    errno.ENFILE: "this machine has too many open files",
}


def disconnected(peer: str, error: OSError) -> Disconnected:
    """Return the error for an operating system's error, with the peer's name."""
    return Disconnected(f"{peer}: {_message(error)}")


def _message(error: OSError) -> str:
    return _MESSAGES.get(error.errno or 0) or error.strerror or str(error)


def first_bytes(buffers: Sequence[Buffer]) -> Buffer:
    """Return the start of the buffers for one call of `send`: several small ones, or a large one."""
    first: list[Buffer] = []
    size = 0
    for buffer in buffers:
        first.append(buffer)
        size += len(buffer)
        if size >= JOINED_BYTES:
            break
    return first[0] if len(first) == 1 else b"".join(first)


class TcpTransport:
    """A non-blocking TCP connection, connecting (by `TcpNetwork.connect`) or accepted."""

    __slots__ = ("_established", "_socket", "peer")

    def __init__(self, connection: socket.socket, peer: str, *, established: bool) -> None:
        self._socket = connection
        self._established = established
        self.peer = peer

    def fileno(self) -> int:
        return self._socket.fileno()

    def establish(self) -> bool:
        """Return True once connected; raise Disconnected if the attempt failed."""
        if self._established:
            return True
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise disconnected(self.peer, OSError(code, ""))
        try:
            remote = self._socket.getpeername()
        except OSError as error:
            if error.errno == errno.ENOTCONN:
                return False
            raise disconnected(self.peer, error) from error
        # A connect to a free local port can connect to itself (simultaneous open): nothing listens there.
        if remote == self._socket.getsockname():
            raise disconnected(self.peer, OSError(errno.ECONNREFUSED, ""))
        self._established = True
        return True

    def interest(self) -> int:
        return READABLE if self._established else WRITABLE

    def read_into(self, buffer: memoryview) -> int | None:
        """Return the number of bytes read into `buffer`; None if none are available, 0 at end of stream."""
        try:
            return self._socket.recv_into(buffer)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError as error:
            raise disconnected(self.peer, error) from error

    def write(self, buffers: Sequence[Buffer]) -> int:
        """Write the buffers as far as the kernel accepts them; return the number of bytes written."""
        try:
            if len(buffers) == 1:
                return self._socket.send(buffers[0])  # cheaper than sendmsg
            if HAS_SENDMSG:
                return self._socket.sendmsg(buffers)
            return self._socket.send(first_bytes(buffers))
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            raise disconnected(self.peer, error) from error

    def close(self, *, reset: bool = False) -> None:
        """Close the stream, with `reset` by a TCP reset. Idempotent."""
        if reset and self._socket.fileno() >= 0:
            try:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            except OSError:
                pass  # already closed by the peer
        self._socket.close()


class SendfileTransport(TcpTransport):
    """An accepted TCP connection that sends parts of files by `sendfile` (see `FileTransport`)."""

    __slots__ = ()

    def write_before_file(self, buffers: Sequence[Buffer]) -> int:
        """Write the buffers as far as the kernel accepts them, in one packet with the file that follows."""
        try:
            return self._socket.sendmsg(buffers, (), socket.MSG_MORE)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            raise disconnected(self.peer, error) from error

    def write_file(self, part: FilePart, max_bytes: int) -> int:
        """Write the start of a part as far as the kernel accepts it; return the number of bytes."""
        count = min(len(part), max_bytes)
        try:
            taken = os.sendfile(self._socket.fileno(), part.file.fileno(), part.position, count)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            if error.errno in NO_SENDFILE:
                return self.write([part.first(JOINED_BYTES).read()])
            if error.errno == errno.EIO:
                raise KafkaStorageError(f"{part!r} cannot be read: {error}") from error
            raise disconnected(self.peer, error) from error
        if not taken:
            raise KafkaStorageError(f"{part!r} cannot be sent: the file has become shorter")
        return taken


class TcpListener:
    """A listening TCP socket; with a `TlsWrapper` its connections speak TLS as the server."""

    def __init__(self, listening: socket.socket, tls: TlsWrapper | None) -> None:
        self._socket = listening
        self._tls = tls
        self.host, self.port = listening.getsockname()[:2]

    def fileno(self) -> int:
        return self._socket.fileno()

    def accept(self) -> Transport | None:
        """Return the next connection, or None if none is waiting."""
        try:
            check_descriptors(self._socket)
            connection, address = self._socket.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return None
        except OSError as error:
            raise disconnected(f"{self.host}:{self.port}", error) from error
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer = str(Endpoint(address[0], address[1], connection.family == socket.AF_INET6))
        transport = ACCEPTED(connection, peer, established=True)
        return transport if self._tls is None else self._tls.wrap_accepted(transport)

    def close(self) -> None:
        self._socket.close()


def check_descriptors(listening: socket.socket) -> None:
    """Raise OSError (EMFILE) if connections would leave fewer file descriptors than KEPT_DESCRIPTORS."""
    if not HAS_LIMITS:
        return
    limit = getrlimit(RLIMIT_NOFILE)[0]
    lowest = os.dup(listening.fileno())  # the lowest number that is free
    os.close(lowest)
    if limit != RLIM_INFINITY and lowest >= limit - min(KEPT_DESCRIPTORS, limit // 4):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


ACCEPTED = SendfileTransport if sys.platform == "linux" else TcpTransport
"""Elsewhere `sendfile` is missing, or reports partial writes and errors in other ways."""


class TcpNetwork:
    """`transport.Network` on the system's sockets. Stateless; any thread can use it."""

    def selector(self) -> SocketSelector:
        """Return a selector. Raise ClientNotStarted if the system has no file descriptor left."""
        try:
            return SocketSelector()
        except OSError as error:
            raise ClientNotStarted(f"the network selector cannot be created: {_message(error)}") from error

    def resolve(self, host: str, port: int, *, canonical: bool = False) -> list[Endpoint]:
        """Resolve as `resolver.resolve` does. Block, so call it through `offload` only."""
        return resolve(host, port, canonical=canonical)

    def connect(
        self,
        endpoint: Endpoint,
        *,
        options: SocketOptions,
        tls: TlsWrapper | None = None,
        server_name: str | None = None,
    ) -> Transport:
        """Start to connect. Raise Disconnected if the attempt fails at once.

        `server_name` is the name that the broker's certificate must carry; it also names the peer in errors.
        """
        peer = str(endpoint)
        if server_name is not None and server_name != endpoint.host:
            peer = f"{server_name}:{endpoint.port} ({endpoint.host})"
        try:
            connection = socket.socket(socket.AF_INET6 if endpoint.is_ipv6 else socket.AF_INET)
        except OSError as error:
            raise disconnected(peer, error) from error
        try:
            _prepare(connection, options)
            code = connection.connect_ex((endpoint.host, endpoint.port))
            if code not in CONNECTING:
                raise OSError(code, errno.errorcode.get(code, str(code)))
        except OSError as error:
            connection.close()
            raise disconnected(peer, error) from error
        transport = TcpTransport(connection, peer, established=False)
        if tls is None:
            return transport
        return tls.wrap_connecting(transport, server_name or endpoint.host)

    def listen(self, host: str, port: int, *, tls: TlsWrapper | None = None) -> Listener:
        """Listen; port 0 picks a free one. Raise ConfigurationError if the address is not available."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.socket(family)
        try:
            listening.setblocking(False)
            listening.setsockopt(socket.SOL_SOCKET, LISTEN_OPTION, 1)
            listening.bind((host, port))
            listening.listen(LISTEN_BACKLOG)
        except (OSError, OverflowError) as error:
            listening.close()
            raise ConfigurationError(
                f"cannot listen on {host}:{port}: {error}; choose another port"
            ) from error
        return TcpListener(listening, tls)


def _prepare(connection: socket.socket, options: SocketOptions) -> None:
    connection.setblocking(False)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if options.send_buffer_bytes >= 0:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, options.send_buffer_bytes)
    if options.receive_buffer_bytes >= 0:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.receive_buffer_bytes)
