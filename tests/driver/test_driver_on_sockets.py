"""Driver, channel, connection and transport together, on loopback and real threads."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from pykafka2.clock import FOREVER
from pykafka2.driver.driver import Driver
from pykafka2.driver.pollable import PollResult
from pykafka2.driver.thread_driver import ThreadRuntime
from pykafka2.errors import Disconnected, KafkaError, RequestTimeout, TlsError
from pykafka2.network.connection import Connection, ConnectionOptions
from pykafka2.network.endpoint import Endpoint
from pykafka2.network.tls import TlsContext
from pykafka2.network.transport import SocketOptions
from pykafka2.protocol.messages.group import HeartbeatRequest, HeartbeatResponse
from tests.driver.broker import OnePageBroker
from tests.network.wire import Asker

WAIT = 30.0


class OneConnection:
    """A manager with one connection: what cluster/link.py is in earnest."""

    def __init__(self, driver: Driver, *, request_timeout: float = 5.0, setup_timeout: float = 5.0) -> None:
        self.driver = driver
        self.options = ConnectionOptions(
            client_id="tester", request_timeout=request_timeout, setup_timeout=setup_timeout
        )
        self.connection: Connection | None = None
        self.is_ready = False
        self.error: KafkaError | None = None

    def open(self, endpoint: Endpoint, tls: TlsContext | None = None, server_name: str | None = None) -> None:
        def start(now: float) -> None:
            self.connection = Connection(
                "node 1", now, self.options, on_ready=self._on_ready, on_closed=self._on_closed
            )
            self.connection.pipe = self.driver.open(
                endpoint, self.connection, options=SocketOptions(), tls=tls, server_name=server_name
            )
            self.driver.add(self)

        self.driver.call_soon(start)
        assert self.driver.wait_until(lambda: self.is_ready or self.error is not None, WAIT)

    def poll(self, now: float) -> PollResult:
        if self.connection is None:
            return PollResult.idle()
        self.connection.poll(now)
        return PollResult.idle_until(self.connection.next_deadline())

    def ask(self, *, group_id: str = "g", timeout: float | None = None) -> Asker:
        asker = Asker()
        request = HeartbeatRequest(group_id=group_id, generation_id=1, member_id="m")

        def send(now: float) -> None:
            assert self.connection is not None
            callbacks = {"on_response": asker.on_response, "on_failure": asker.on_failure}
            self.connection.send(request, now, timeout=timeout, **callbacks)

        self.driver.call_soon(send)
        return asker

    def answer_to(self, asker: Asker) -> HeartbeatResponse | KafkaError:
        assert self.driver.wait_until(lambda: bool(asker.responses or asker.failures), WAIT)
        found = [*asker.responses, *asker.failures]
        assert len(found) == 1
        answer: HeartbeatResponse | KafkaError = found[0]
        return answer

    def _on_ready(self, now: float) -> None:
        self.is_ready = True

    def _on_closed(self, error: KafkaError, now: float) -> None:
        self.error = error


@pytest.fixture
def runtime() -> Iterator[ThreadRuntime]:
    runtime = ThreadRuntime()
    yield runtime
    runtime.close()


@pytest.fixture
def driver(runtime: ThreadRuntime) -> Iterator[Driver]:
    driver = Driver(runtime, "pykafka2-test")
    yield driver
    assert driver.close(5.0)


@pytest.fixture
def make_broker(runtime: ThreadRuntime) -> Iterator[Callable[..., OnePageBroker]]:
    brokers: list[OnePageBroker] = []

    def make(**options: Any) -> OnePageBroker:
        brokers.append(OnePageBroker(runtime, **options))
        return brokers[-1]

    yield make
    for broker in brokers:
        broker.close()


@pytest.fixture
def broker(make_broker: Callable[..., OnePageBroker]) -> OnePageBroker:
    return make_broker()


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[TlsContext, TlsContext]:
    """The broker's context and the client's."""
    folder: Path = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    issued = authority.issue_cert("localhost").private_key_and_cert_chain_pem
    issued.write_to_path(str(folder / "broker.pem"))
    server = TlsContext(cert_file=str(folder / "broker.pem"), verify=False, server_side=True)
    return server, TlsContext(ca_file=str(folder / "ca.pem"))


@pytest.mark.parametrize("over_tls", [False, True])
def test_a_request_is_answered(
    driver: Driver,
    make_broker: Callable[..., OnePageBroker],
    tls: tuple[TlsContext, TlsContext],
    over_tls: bool,
) -> None:
    broker = make_broker(tls=tls[0] if over_tls else None)
    one = OneConnection(driver)
    one.open(broker.endpoint, tls[1] if over_tls else None, "localhost")
    assert one.error is None
    askers = [one.ask() for _ in range(20)]
    assert [one.answer_to(asker) for asker in askers] == [HeartbeatResponse()] * 20


@pytest.mark.parametrize("over_tls", [False, True])
def test_answers_in_slices_of_a_few_bytes_are_put_together(
    driver: Driver,
    make_broker: Callable[..., OnePageBroker],
    tls: tuple[TlsContext, TlsContext],
    over_tls: bool,
) -> None:
    broker = make_broker(tls=tls[0] if over_tls else None)
    broker.slice_bytes = 7
    one = OneConnection(driver)
    one.open(broker.endpoint, tls[1] if over_tls else None, "localhost")
    assert one.answer_to(one.ask()) == HeartbeatResponse()


@pytest.mark.gate
@pytest.mark.parametrize("over_tls", [False, True])
def test_large_requests_pass_a_full_socket(
    driver: Driver,
    make_broker: Callable[..., OnePageBroker],
    tls: tuple[TlsContext, TlsContext],
    over_tls: bool,
) -> None:
    broker = make_broker(tls=tls[0] if over_tls else None)
    one = OneConnection(driver)
    one.open(broker.endpoint, tls[1] if over_tls else None, "localhost")
    askers = [one.ask(group_id="g" * 32_000) for _ in range(400)]
    assert all(one.answer_to(asker) == HeartbeatResponse() for asker in askers)
    assert broker.requests.count("HeartbeatRequest") == 400


def test_refused_connection_is_reported_as_the_end_of_the_connection(driver: Driver) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        one = OneConnection(driver)
        one.open(Endpoint("127.0.0.1", port))
    assert isinstance(one.error, Disconnected)
    assert f"127.0.0.1:{port}" in str(one.error)
    assert "refused" in str(one.error)


def test_an_address_that_the_system_refuses_at_once_comes_as_the_end_too(driver: Driver) -> None:
    one = OneConnection(driver)
    one.open(Endpoint("255.255.255.255", 9092))
    assert isinstance(one.error, Disconnected)


def test_reset_fails_requests_in_flight(driver: Driver, broker: OnePageBroker) -> None:
    one = OneConnection(driver)
    one.open(broker.endpoint)
    broker.reset_on_heartbeat = True
    asker = one.ask()
    answer = one.answer_to(asker)
    assert isinstance(answer, Disconnected)
    assert one.driver.wait_until(lambda: one.error is not None, WAIT)
    assert isinstance(one.answer_to(one.ask()), Disconnected)


def test_a_broker_that_does_not_answer_times_out(driver: Driver, broker: OnePageBroker) -> None:
    one = OneConnection(driver)
    one.open(broker.endpoint)
    broker.mute = True
    answer = one.answer_to(one.ask(timeout=0.05))
    assert isinstance(answer, RequestTimeout)
    assert "Heartbeat within 0.05 s" in str(answer)


def test_a_broker_that_does_not_shake_hands_times_out(driver: Driver, broker: OnePageBroker) -> None:
    broker.mute = True
    one = OneConnection(driver, setup_timeout=0.05)
    one.open(broker.endpoint)
    assert isinstance(one.error, Disconnected)
    assert "security_protocol" in str(one.error)


def test_tls_to_a_plaintext_port_is_a_typed_error_within_its_timeout(
    driver: Driver, broker: OnePageBroker, tls: tuple[TlsContext, TlsContext]
) -> None:
    one = OneConnection(driver)
    one.open(broker.endpoint, tls[1], "localhost")
    assert isinstance(one.error, TlsError)
    assert "security_protocol=PLAINTEXT" in str(one.error)
    (seen,) = broker.errors
    assert "speaks TLS on this port" in str(seen)


def test_tls_to_a_silent_plaintext_port_is_a_typed_error_within_its_timeout(
    driver: Driver, runtime: ThreadRuntime, tls: tuple[TlsContext, TlsContext]
) -> None:
    listener = runtime.network.listen("127.0.0.1", 0)
    one = OneConnection(driver, setup_timeout=0.05)
    one.open(Endpoint("127.0.0.1", listener.port), tls[1], "localhost")
    assert isinstance(one.error, Disconnected)
    assert "security_protocol" in str(one.error)
    listener.close()


def test_plaintext_to_a_tls_port_is_a_typed_error_within_its_timeout(
    driver: Driver, make_broker: Callable[..., OnePageBroker], tls: tuple[TlsContext, TlsContext]
) -> None:
    broker = make_broker(tls=tls[0])
    one = OneConnection(driver)
    one.open(broker.endpoint)
    assert isinstance(one.error, TlsError)
    assert "security_protocol=SSL" in str(one.error)


def test_a_wrong_host_name_is_a_tls_error(
    driver: Driver, make_broker: Callable[..., OnePageBroker], tls: tuple[TlsContext, TlsContext]
) -> None:
    broker = make_broker(tls=tls[0])
    one = OneConnection(driver)
    one.open(broker.endpoint, tls[1], "kafka.example.org")
    assert isinstance(one.error, TlsError)
    assert "another host name" in str(one.error)


def test_an_idle_driver_sleeps(driver: Driver, broker: OnePageBroker) -> None:
    one = OneConnection(driver, request_timeout=FOREVER)
    one.open(broker.endpoint)
    assert one.answer_to(one.ask()) == HeartbeatResponse()
    turns = 0
    poll = one.poll

    def counted(now: float) -> PollResult:
        nonlocal turns
        turns += 1
        return poll(now)

    one.poll = counted  # type: ignore[method-assign]
    driver.runtime.wait_until(lambda: False, 0.05)
    assert turns <= 2
