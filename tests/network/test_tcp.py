"""TCP on loopback: bytes, ends, and what the errors say."""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pykafka2.errors import ConfigurationError, Disconnected, KafkaError
from pykafka2.network.endpoint import Endpoint
from pykafka2.network.tcp import TcpNetwork
from pykafka2.network.transport import READABLE, WRITABLE, SocketOptions
from tests.network.sockets import End, Link, until

SOMAXCONN = Path("/proc/sys/net/core/somaxconn")


@pytest.fixture
def link() -> Iterator[Link]:
    link = Link()
    yield link
    link.close()


def test_bytes_arrive_gathered_and_in_order(link: Link) -> None:
    near, far = link.establish()
    assert near.transport.write([b"one", bytearray(b"two"), memoryview(b"three")]) == 11
    assert far.read(11) == b"onetwothree"
    far.transport.write([b"back"])
    assert near.read(4) == b"back"


def test_read_without_data_returns_none_and_zero_at_the_end(link: Link) -> None:
    near, far = link.establish()
    buffer = memoryview(bytearray(10))
    assert far.transport.read_into(buffer) is None
    near.transport.close()
    until(lambda: far.transport.read_into(buffer) == 0)


def test_a_connection_waits_for_writability_first(link: Link) -> None:
    transport = link.network.connect(link.endpoint, options=SocketOptions())
    assert transport.interest() == WRITABLE
    link.selector.register(transport, transport.interest(), "near")
    assert link.selector.select(5.0) == [("near", WRITABLE)]
    assert transport.establish()
    assert transport.interest() == READABLE
    link.selector.unregister(transport)
    transport.close()
    transport.close()


def test_a_full_socket_takes_no_more_and_loses_nothing(link: Link) -> None:
    near, far = link.establish()
    chunk = bytes(range(256)) * 4096
    sent = 0
    while taken := near.transport.write([chunk[sent % len(chunk) :]]):
        sent += taken
    assert sent > len(chunk)
    received = far.read(sent)
    assert received == (chunk * (sent // len(chunk) + 1))[:sent]


def test_refused_connection_is_named_in_the_error(link: Link) -> None:
    endpoint = link.endpoint
    link.listener.close()

    def refused() -> KafkaError:
        try:
            end = End(link.network.connect(endpoint, options=SocketOptions(), server_name="broker-1"))
        except Disconnected as error:
            return error
        until(end.establish)
        assert end.error is not None
        return end.error

    error = refused()
    assert isinstance(error, Disconnected)
    assert f"broker-1:{endpoint.port} (127.0.0.1)" in str(error)
    assert "connection refused" in str(error)


def test_reset_connection_is_named_in_the_error(link: Link) -> None:
    near, far = link.establish()
    far.transport.close(reset=True)
    far.transport.close(reset=True)
    buffer = memoryview(bytearray(10))
    with pytest.raises(Disconnected, match=f"127.0.0.1:{link.endpoint.port}.*reset the connection"):
        until(lambda: near.transport.read_into(buffer) is not None)


def test_write_to_a_closed_peer_raises_disconnected(link: Link) -> None:
    near, far = link.establish()
    far.transport.close()

    def write() -> bool:
        near.transport.write([b"x"])
        return False

    with pytest.raises(Disconnected, match=r"closed the connection|reset the connection"):
        until(write)


def test_connection_to_itself_is_rejected() -> None:
    """Connecting to a free local port may meet itself (simultaneous open): there is no broker there."""
    network = TcpNetwork()
    looped = socket.socket()
    looped.bind(("127.0.0.1", 0))
    port = looped.getsockname()[1]
    looped.connect(("127.0.0.1", port))
    assert looped.getpeername() == looped.getsockname()
    from pykafka2.network.tcp import TcpTransport

    transport = TcpTransport(looped, f"127.0.0.1:{port}", established=False)
    with pytest.raises(Disconnected, match="refused"):
        transport.establish()
    transport.close()
    assert network.resolve("127.0.0.1", port) == [Endpoint("127.0.0.1", port)]


def test_socket_options_reach_the_socket_and_minus_1_leaves_it_to_the_kernel(link: Link) -> None:
    transport = link.network.connect(
        link.endpoint, options=SocketOptions(send_buffer_bytes=65536, receive_buffer_bytes=32768)
    )
    raw = socket.socket(fileno=socket.dup(transport.fileno()))  # type: ignore[attr-defined]
    with raw:
        # Linux doubles the requested size, for its own book-keeping.
        assert raw.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 2 * 65536
        assert raw.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 2 * 32768
        assert raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    transport.close()


def test_an_address_that_is_taken_is_a_configuration_error(link: Link) -> None:
    with pytest.raises(ConfigurationError, match=f"cannot listen on 127.0.0.1:{link.endpoint.port}"):
        link.network.listen("127.0.0.1", link.endpoint.port)
    with pytest.raises(ConfigurationError):
        link.network.listen("127.0.0.1", 99999)


def test_accept_returns_none_without_a_pending_connection(link: Link) -> None:
    assert link.listener.accept() is None


@pytest.mark.skipif(not SOMAXCONN.exists(), reason="the system's limit of waiting connections is unknown")
def test_hundreds_of_connections_at_once_wait_to_be_accepted(link: Link) -> None:
    if int(SOMAXCONN.read_text()) < 500:
        pytest.skip("the system allows fewer waiting connections")
    address = link.endpoint.host, link.endpoint.port
    with ExitStack() as clients:
        for _ in range(500):
            # Linux ignores a connection above the backlog; its client would retry after a second.
            clients.enter_context(socket.create_connection(address, timeout=0.9))


def limit_for_free_descriptors(count: int) -> int:
    """The RLIMIT_NOFILE with which exactly `count` more files can be opened, whatever else is open."""
    free = (number for number in itertools.count() if not is_open(number))
    return next(itertools.islice(free, count, None))


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def test_connections_leave_file_descriptors_for_modules_and_logs() -> None:
    resource = pytest.importorskip("resource")
    network, clients, accepted = TcpNetwork(), [], []
    listener = network.listen("127.0.0.1", 0)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        clients += [socket.create_connection((listener.host, listener.port)) for _ in range(40)]
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit_for_free_descriptors(24), limits[1]))
        with pytest.raises(Disconnected, match="too many open files; raise its limit"):
            accepted.extend(iter(listener.accept, None))
        files = [os.dup(listener.fileno()) for _ in range(10)]
        for file in files:
            os.close(file)
        assert len(accepted) >= 5
        clients.pop().close()
        clients.pop().close()
        accepted.append(listener.accept())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for end in (*clients, *filter(None, accepted), listener):
            end.close()


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_ipv6_works_too() -> None:
    try:
        link = Link(host="::1")
    except ConfigurationError:
        pytest.skip("no IPv6 loopback here")
    near, far = link.establish()
    near.transport.write([b"six"])
    assert far.read(3) == b"six"
    assert near.transport.peer == f"[::1]:{link.endpoint.port}"
    link.close()
