"""Two ends of a real connection on loopback, turned by hand with deadlines."""

from __future__ import annotations

import time
from collections.abc import Callable

import attrs

from pykafka2.errors import KafkaError
from pykafka2.network.endpoint import Endpoint
from pykafka2.network.selector import SocketSelector
from pykafka2.network.tcp import TcpNetwork
from pykafka2.network.tls import TlsContext
from pykafka2.network.transport import Listener, SocketOptions, Transport

DEADLINE = 10.0


def until(condition: Callable[[], bool]) -> None:
    """Poll until it holds; a real socket needs a moment."""
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, "nothing happened in time"
        time.sleep(0.0005)


@attrs.define
class End:
    """One end: a transport, and how far it came."""

    transport: Transport
    is_open: bool = False
    error: KafkaError | None = None

    def establish(self) -> bool:
        """True once open or failed."""
        if not self.is_open and self.error is None:
            try:
                self.is_open = self.transport.establish()
            except KafkaError as error:
                self.error = error
                self.transport.close()
        return self.is_open or self.error is not None

    def read(self, count: int) -> bytes:
        """Exactly so many bytes."""
        found = bytearray(count)
        view = memoryview(found)

        def is_complete() -> bool:
            nonlocal view
            taken = self.transport.read_into(view)
            assert taken != 0, "the stream has ended"
            view = view[taken or 0 :]
            return not view

        until(is_complete)
        return bytes(found)


class Link:
    """A listener and connections to it; closes all it opened."""

    def __init__(self, *, server: TlsContext | None = None, host: str = "127.0.0.1") -> None:
        self.network = TcpNetwork()
        self.listener: Listener = self.network.listen(host, 0, tls=server)
        self.selector = SocketSelector()
        self._opened: list[Transport] = []

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.listener.host, self.listener.port, ":" in self.listener.host)

    def connect(self, *, client: TlsContext | None = None, server_name: str | None = None) -> tuple[End, End]:
        """Both ends, not yet established."""
        near = self.network.connect(
            self.endpoint, options=SocketOptions(), tls=client, server_name=server_name
        )
        self._opened.append(near)
        accepted: list[Transport] = []

        def is_accepted() -> bool:
            far = self.listener.accept()
            if far is not None:
                accepted.append(far)
            return bool(accepted)

        until(is_accepted)
        self._opened += accepted
        return End(near), End(accepted[0])

    def establish(
        self, *, client: TlsContext | None = None, server_name: str | None = None
    ) -> tuple[End, End]:
        """Both ends, open or failed."""
        near, far = self.connect(client=client, server_name=server_name)
        until(lambda: near.establish() & far.establish())
        return near, far

    def close(self) -> None:
        for transport in self._opened:
            transport.close()
        self.listener.close()
        self.selector.close()
