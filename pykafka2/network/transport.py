"""The interfaces of the network: what a transport, a listener, a selector and a network are.

`tcp.py`, `tls.py` and `selector.py` implement them on the machine's sockets; `testing/simulation/network.py`
in memory and virtual time.  Everything above sees only these protocols.  Nothing here blocks, but
`Selector.select` and `Network.resolve`, which their callers know.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import attrs

from pykafka2.network.endpoint import Endpoint

Buffer = bytes | bytearray | memoryview

READABLE = 1
WRITABLE = 2

Ready = tuple[object, int]
"""What a selector reports: the data given at registration, and the bits that are ready."""


@attrs.define(frozen=True)
class SocketOptions:
    """-1 leaves a buffer to the kernel's own tuning, which large fetches need."""

    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1


class Transport(Protocol):
    """A non-blocking byte stream, connecting or accepted.  Owned by one thread.

    Failures raise `Disconnected` or `TlsError`, with words that name the peer; after one, only `close` is
    legal.
    """

    peer: str

    def establish(self) -> bool:
        """Go on with connecting (and with TLS); True once bytes may flow."""
        ...

    def interest(self) -> int:
        """READABLE or WRITABLE (or both): what `establish` waits for; READABLE once established."""
        ...

    def read_into(self, buffer: memoryview) -> int | None:
        """Bytes read into `buffer`; None if none are there yet; 0 if the peer has ended the stream."""
        ...

    def write(self, buffers: Sequence[Buffer]) -> int:
        """Write the buffers gathered, as far as the transport takes them; the number of bytes taken."""
        ...

    def close(self, *, reset: bool = False) -> None:
        """End the stream; with `reset` so that the peer sees a reset.  Safe to repeat."""
        ...


class SocketTransport(Transport, Protocol):
    """A transport on one of the machine's sockets."""

    def fileno(self) -> int:
        """The socket's file number; -1 once it is closed."""
        ...


class TlsWrapper(Protocol):
    """An object that wraps a transport in TLS: `tls.TlsContext`."""

    def wrap_connecting(self, transport: SocketTransport, server_name: str) -> Transport:
        """The client's side, over a transport that is being connected."""
        ...

    def wrap_accepted(self, transport: SocketTransport) -> Transport:
        """The server's side, over an accepted transport."""
        ...


class Listener(Protocol):
    """A listening address."""

    host: str
    port: int

    def accept(self) -> Transport | None:
        """The next connection, or None if none waits."""
        ...

    def close(self) -> None: ...


class Selector(Protocol):
    """Waits for transports and listeners.  All but `wake` belong to one thread."""

    def register(self, source: Transport | Listener, interest: int, data: object) -> None: ...

    def modify(self, source: Transport | Listener, interest: int, data: object) -> None:
        """Change what is waited for; interest 0 keeps the registration and waits for nothing."""
        ...

    def unregister(self, source: Transport | Listener) -> None: ...

    def select(self, timeout: float | None) -> list[Ready]:
        """Return the ready sources after at most `timeout` seconds (None: without limit); a wake-up ends the
        wait."""
        ...

    def wake(self) -> None:
        """End the current or next `select`.  From any thread or signal handler; takes no lock."""
        ...

    def close(self) -> None: ...


class Network(Protocol):
    """Makes transports, listeners and selectors of one kind."""

    def selector(self) -> Selector: ...

    def resolve(self, host: str, port: int, *, canonical: bool = False) -> list[Endpoint]:
        """All addresses of a name, each with its canonical name if that is asked for.

        Blocks: only through `offload`.  Raises `NoBrokersAvailable`.
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
        """Start to connect.  `server_name` is the name that the broker's certificate must carry."""
        ...

    def listen(self, host: str, port: int, *, tls: TlsWrapper | None = None) -> Listener:
        """Listen; port 0 picks a free one (see `Listener.port`)."""
        ...
