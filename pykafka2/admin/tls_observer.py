"""Observes a connection with TLS for `check_cluster`: when TCP is connected, and the peer's certificate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pykafka2.errors import CorruptData
from pykafka2.network.certificate import Certificate, read_certificate

if TYPE_CHECKING:
    from pykafka2.network.tls import ReloadingTlsContext, TlsContext
    from pykafka2.network.transport import Buffer, SocketTransport, Transport


class _Observed:
    """A TCP transport that notes when it is connected."""

    def __init__(self, transport: SocketTransport, on_connected: Callable[[], None]) -> None:
        self._transport = transport
        self._on_connected: Callable[[], None] | None = on_connected
        self.peer = transport.peer

    def fileno(self) -> int:
        return self._transport.fileno()

    def establish(self) -> bool:
        is_connected = self._transport.establish()
        if is_connected and self._on_connected is not None:
            self._on_connected()
            self._on_connected = None
        return is_connected

    def interest(self) -> int:
        return self._transport.interest()

    def read_into(self, buffer: memoryview) -> int | None:
        return self._transport.read_into(buffer)

    def write(self, buffers: Sequence[Buffer]) -> int:
        return self._transport.write(buffers)

    def close(self, *, reset: bool = False) -> None:
        self._transport.close(reset=reset)


class Observer:
    """A `TlsWrapper` that notes when TCP is connected, and keeps the TLS stream."""

    def __init__(self, tls: ReloadingTlsContext | TlsContext) -> None:
        self._tls = tls
        self.stream: Any = None
        self.is_connected = False

    def wrap_connecting(self, transport: SocketTransport, server_name: str) -> Transport:
        self.stream = self._tls.wrap_connecting(_Observed(transport, self._connected), server_name)
        stream: Transport = self.stream
        return stream

    def wrap_accepted(self, transport: SocketTransport) -> Transport:
        return transport

    def certificate(self) -> Certificate | None:
        """Return the peer's certificate, if one was received and can be read."""
        der = None if self.stream is None else self.stream.peer_certificate()
        try:
            return None if der is None else read_certificate(der)
        except CorruptData:
            return None

    def _connected(self) -> None:
        self.is_connected = True
