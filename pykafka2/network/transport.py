"""The interfaces of the network: transport, listener, selector and network.

`tcp.py`, `tls.py` and `selector.py` implement them on sockets, `testing/simulation/network.py` in memory and
virtual time. All code above uses only these protocols. Only `Selector.select` and `Network.resolve` block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from pykafka2.network.endpoint import Endpoint
from pykafka2.slotted import slotted

if TYPE_CHECKING:
    from pykafka2.protocol.file_part import FilePart

Buffer = bytes | bytearray | memoryview

READABLE = 1
WRITABLE = 2

Ready = tuple[object, int]
"""A report of a selector: the data passed at registration, and the bits that are ready."""


@slotted(frozen=True)
class SocketOptions:
    """Socket buffer sizes; -1 leaves a buffer to the kernel's own tuning, which large fetches need."""

    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1


class Transport(Protocol):
    """A non-blocking byte stream, connecting or accepted. Owned by one thread.

    Failures raise Disconnected or TlsError with the peer's name; after one, only `close` can be called.
    """

    peer: str

    def establish(self) -> bool:
        """Continue to connect (and the TLS handshake); return True once bytes can be sent."""
        ...

    def interest(self) -> int:
        """Return the READABLE and WRITABLE bits that `establish` waits for; READABLE once established."""
        ...

    def read_into(self, buffer: memoryview) -> int | None:
        """Return the number of bytes read into `buffer`; None if none are available, 0 at end of stream."""
        ...

    def write(self, buffers: Sequence[Buffer]) -> int:
        """Write the buffers as far as the transport accepts them; return the number of bytes written."""
        ...

    def close(self, *, reset: bool = False) -> None:
        """Close the stream, with `reset` by a TCP reset. Idempotent."""
        ...


@runtime_checkable
class FileTransport(Transport, Protocol):
    """A transport that the kernel sends parts of files on, without copying them through Python."""

    def write_before_file(self, buffers: Sequence[Buffer]) -> int:
        """Write like `write`. The last bytes can wait for `write_file`, which must follow at once."""
        ...

    def write_file(self, part: FilePart, max_bytes: int) -> int:
        """Write the start of a part as far as the transport accepts it; return the number of bytes.

        Raise Disconnected, or KafkaStorageError if the file cannot be read or ends before the part.
        """
        ...


class SocketTransport(Transport, Protocol):
    """A transport on a socket."""

    def fileno(self) -> int:
        """Return the socket's file number, or -1 once it is closed."""
        ...


class TlsWrapper(Protocol):
    """An object that wraps a transport in TLS: `tls.TlsContext`."""

    def wrap_connecting(self, transport: SocketTransport, server_name: str) -> Transport:
        """Return the client's side over a connecting transport."""
        ...

    def wrap_accepted(self, transport: SocketTransport) -> Transport:
        """Return the server's side over an accepted transport."""
        ...


class Listener(Protocol):
    """A listening address."""

    host: str
    port: int

    def accept(self) -> Transport | None:
        """Return the next connection, or None if none is waiting."""
        ...

    def close(self) -> None: ...


class Selector(Protocol):
    """Waits for transports and listeners. All methods except `wake` belong to one thread."""

    def register(self, source: Transport | Listener, interest: int, data: object) -> None: ...

    def modify(self, source: Transport | Listener, interest: int, data: object) -> None:
        """Change the interest; 0 keeps the registration and waits for nothing."""
        ...

    def unregister(self, source: Transport | Listener) -> None: ...

    def select(self, timeout: float | None) -> list[Ready]:
        """Return the ready sources after at most `timeout` seconds or a wake-up.

        None and FOREVER are no limit; with 0 or a negative number it does not wait.
        """
        ...

    def wake(self) -> None:
        """End the current or next `select`. Any thread or signal handler; takes no lock."""
        ...

    def close(self) -> None: ...


class Network(Protocol):
    """Creates transports, listeners and selectors of one kind."""

    def selector(self) -> Selector: ...

    def resolve(self, host: str, port: int, *, canonical: bool = False) -> list[Endpoint]:
        """Return all addresses of a name, with their canonical names if `canonical` is set.

        Block, so call it through `offload` only. Raise NoBrokersAvailable.
        """
        ...

    def connect(
        self,
        endpoint: Endpoint,
        *,
        options: SocketOptions,
        tls: TlsWrapper | None = None,
        server_name: str | None = None,
    ) -> Transport:
        """Start to connect. `server_name` is the name that the broker's certificate must carry."""
        ...

    def listen(self, host: str, port: int, *, tls: TlsWrapper | None = None) -> Listener:
        """Listen; port 0 picks a free one (see `Listener.port`)."""
        ...
