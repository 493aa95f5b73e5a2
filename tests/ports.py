"""Ports on 127.0.0.1: free ones for servers, and ones that disappoint a client: closed, silent, HTTP, TLS."""

from __future__ import annotations

import random
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

Answer = Callable[[socket.socket], None]


BELOW_EPHEMERAL = range(20_000, 32_000)
"""Linux takes the ports of outgoing connections from 32768 on, other systems from higher ones."""


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """Return ports, each next to the one before, for servers to listen on.

    A server in another process needs seconds to start.  Meanwhile no connection takes these ports by
    chance, and another test hardly ever.
    """
    while True:
        first = random.SystemRandom().choice(BELOW_EPHEMERAL[:-count])
        with suppress(OSError), ExitStack() as stack:
            for port in range(first, first + count):
                stack.enter_context(socket.create_server((host, port)))
            return list(range(first, first + count))


def closed_port() -> int:
    """Return a port on which nothing listens."""
    (port,) = free_ports(1)
    return port


@contextmanager
def answering_port(answer: Answer) -> Iterator[int]:
    """A port whose connections are passed to `answer`, one after the other, and then closed."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    connection.settimeout(5)
                    try:
                        answer(connection)
                    except OSError:
                        continue  # the client has closed it

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
    thread.join(10)


@contextmanager
def unresponsive_port() -> Iterator[int]:
    """A port that neither accepts nor refuses connections, as behind a firewall: its queue is full."""
    with ExitStack() as stack:
        listening = stack.enter_context(closing(socket.socket()))
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for _ in range(8):
            waiting = stack.enter_context(closing(socket.socket()))
            waiting.setblocking(False)
            waiting.connect_ex(listening.getsockname())
        yield listening.getsockname()[1]


def http(connection: socket.socket) -> None:
    connection.recv(1000)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")


def silence(connection: socket.socket) -> None:
    while connection.recv(1000):
        pass


def tls_with(certificate: Path) -> Answer:
    """Complete TLS handshakes with this certificate, then end the connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def answer(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as stream:
            stream.recv(1)

    return answer
