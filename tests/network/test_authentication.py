"""A connection that authenticates: with work off its thread, again before its session ends, or in vain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka2.errors import (
    Disconnected,
    IllegalState,
    KafkaError,
    SaslAuthenticationFailed,
    TokenProviderTimedOut,
)
from pykafka2.network.connection import ConnectionState
from pykafka2.network.sasl.mechanism import Exchange
from pykafka2.network.script import Lane, Offload
from pykafka2.protocol.messages.api_versions import ApiVersionsRequest
from pykafka2.protocol.messages.group import HeartbeatRequest, HeartbeatResponse
from pykafka2.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from pykafka2.protocol.struct import Request
from tests.network.wire import Asker, Wire, api_versions_response

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


class Slow:
    """A mechanism whose one token takes work to make."""

    name = "SLOW"
    to_check = "check the secret"

    def exchange(self) -> Exchange:
        yield (yield Offload(lambda: b"token"))


class Elsewhere:
    """Work waits here until the test has it done."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], Any], Callable[[Any, BaseException | None, float], None]]] = []

    def __call__(self, step: Offload, on_done: Callable[[Any, BaseException | None, float], None]) -> None:
        self.waiting.append((step.work, on_done))

    def finish(self, now: float, error: BaseException | None = None) -> None:
        ((work, on_done),) = self.waiting
        self.waiting.clear()
        on_done(None if error else work(), error, now)


def answer(wire: Wire, now: float, *, lifetime_ms: int = 0, error_code: int = 0) -> list[type[Request[Any]]]:
    """Answer all requests; returns their types."""
    requests = wire.requests()
    for header, request in requests:
        if isinstance(request, ApiVersionsRequest):
            wire.answer(header, api_versions_response(), now)
        elif isinstance(request, SaslHandshakeRequest):
            wire.answer(header, SaslHandshakeResponse(mechanisms=["SLOW"]), now)
        elif isinstance(request, SaslAuthenticateRequest):
            response = SaslAuthenticateResponse(
                auth_bytes=b"", session_lifetime_ms=lifetime_ms, error_code=error_code
            )
            wire.answer(header, response, now)
        else:
            wire.answer(header, HeartbeatResponse(), now)
    return [type(request) for _, request in requests]


def authenticated(lifetime_ms: int) -> tuple[Wire, Elsewhere]:
    elsewhere = Elsewhere()
    wire = Wire(sasl=Slow(), offload=elsewhere)
    wire.connection.on_open(1.0)
    answer(wire, 1.0)
    answer(wire, 1.0)
    elsewhere.finish(1.0)
    answer(wire, 1.0, lifetime_ms=lifetime_ms)
    assert wire.connection.is_ready
    return wire, elsewhere


LATE = TokenProviderTimedOut("it hangs")


class Hanging:
    """A mechanism whose work has a limit; it goes on without it if it `can`."""

    name = "SLOW"
    to_check = "check the secret"

    def __init__(self, *, can: bool) -> None:
        self.can = can

    def exchange(self) -> Exchange:
        try:
            token = yield Offload(
                lambda: b"late", Lane.TOKENS, 30.0, lambda: TokenProviderTimedOut("it hangs")
            )
        except TokenProviderTimedOut:
            if not self.can:
                raise
            token = b"another"
        yield token


def waiting_for_work(*, can: bool) -> tuple[Wire, Elsewhere]:
    elsewhere = Elsewhere()
    wire = Wire(sasl=Hanging(can=can), offload=elsewhere)
    wire.connection.on_open(1.0)
    answer(wire, 1.0)
    answer(wire, 2.0)
    assert wire.connection.next_deadline() == 32.0, "the limit of the work, not the broker's 10 s"
    wire.connection.poll(31.9)
    assert not wire.owner.closed
    return wire, elsewhere


def test_work_that_hangs_is_named_and_not_the_broker() -> None:
    wire, elsewhere = waiting_for_work(can=False)
    wire.connection.poll(32.0)
    (error,) = wire.owner.closed
    assert isinstance(error, TokenProviderTimedOut)
    assert str(error) == "node 1: sasl_mechanism=SLOW: it hangs"
    elsewhere.finish(33.0)
    assert wire.requests() == [], "what comes too late is ignored"


def test_exchange_may_continue_without_hanging_work() -> None:
    wire, elsewhere = waiting_for_work(can=True)
    wire.connection.poll(32.0)
    elsewhere.finish(33.0)
    ((header, request),) = wire.requests()
    assert isinstance(request, SaslAuthenticateRequest)
    assert bytes(request.auth_bytes) == b"another"
    assert wire.connection.next_deadline() == 40.0, "the broker has what is left of its time"
    wire.answer(header, SaslAuthenticateResponse(auth_bytes=b""), 34.0)
    assert wire.connection.is_ready


def test_system_exit_of_a_provider_closes_its_connection() -> None:
    wire, elsewhere = waiting_for_work(can=False)
    elsewhere.finish(3.0, SystemExit())
    (error,) = wire.owner.closed
    assert isinstance(error, IllegalState)
    assert "SystemExit" in str(error)


def ask(wire: Wire, now: float) -> Asker:
    asker = Asker()
    wire.connection.send(HEARTBEAT, now, on_response=asker.on_response, on_failure=asker.on_failure)
    return asker


def test_exchange_step_runs_on_another_thread_while_the_connection_waits() -> None:
    elsewhere = Elsewhere()
    wire = Wire(sasl=Slow(), offload=elsewhere)
    wire.connection.on_open(1.0)
    assert answer(wire, 1.1) == [ApiVersionsRequest]
    assert answer(wire, 1.2) == [SaslHandshakeRequest]
    assert wire.requests() == []
    elsewhere.finish(1.3)
    assert answer(wire, 1.4) == [SaslAuthenticateRequest]
    assert wire.owner.ready_at == [1.4]


@pytest.mark.parametrize(
    ("error", "expected", "words"),
    [
        (
            SaslAuthenticationFailed("no token"),
            SaslAuthenticationFailed,
            "node 1: sasl_mechanism=SLOW: no token",
        ),
        (ZeroDivisionError("secret"), IllegalState, "the handshake with node 1 failed"),
    ],
)
def test_work_that_fails_ends_the_connection(
    error: Exception, expected: type[KafkaError], words: str
) -> None:
    elsewhere = Elsewhere()
    wire = Wire(sasl=Slow(), offload=elsewhere)
    wire.connection.on_open(1.0)
    answer(wire, 1.0)
    answer(wire, 1.0)
    elsewhere.finish(1.0, error)
    (closed,) = wire.owner.closed
    assert type(closed) is expected
    assert words in str(closed)
    assert "secret" not in repr(closed), "what a stranger's code says may quote one"


def test_endless_authentication_step_fails_with_the_handshake_timeout() -> None:
    elsewhere = Elsewhere()
    wire = Wire(sasl=Slow(), offload=elsewhere)
    wire.connection.on_open(1.0)
    answer(wire, 1.0)
    answer(wire, 1.0)
    wire.connection.poll(wire.connection.next_deadline())
    (closed,) = wire.owner.closed
    assert "did not finish the handshake in time" in str(closed)
    elsewhere.finish(100.0)
    assert wire.requests() == []


def test_session_is_renewed_before_its_end_after_requests_in_flight() -> None:
    """KIP-368: the same connection authenticates again; nothing else is sent meanwhile."""
    wire, elsewhere = authenticated(lifetime_ms=60_000)
    assert wire.connection.next_deadline() == 52.0
    early = ask(wire, 51.9)
    wire.connection.poll(52.0)
    assert wire.connection.state is ConnectionState.REAUTHENTICATING
    assert not wire.connection.is_ready
    assert [type(error) for error in ask(wire, 52.0).failures] == [Disconnected]
    assert answer(wire, 52.1) == [HeartbeatRequest, SaslHandshakeRequest]
    assert len(early.responses) == 1
    elsewhere.finish(52.2)
    assert answer(wire, 52.3, lifetime_ms=100_000) == [SaslAuthenticateRequest]
    assert wire.connection.is_ready
    assert wire.owner.ready_at == [1.0], "for its owner it is the same connection"
    assert wire.connection.next_deadline() == pytest.approx(52.3 + 85.0)
    late = ask(wire, 53.0)
    assert answer(wire, 53.1) == [HeartbeatRequest]
    assert len(late.responses) == 1


def renew(wire: Wire, elsewhere: Elsewhere, now: float, lifetime_ms: int) -> None:
    wire.connection.poll(now)
    assert answer(wire, now) == [SaslHandshakeRequest]
    elsewhere.finish(now)
    assert answer(wire, now, lifetime_ms=lifetime_ms) == [SaslAuthenticateRequest]


@pytest.mark.parametrize("lifetime_ms", [1, 1_000])
def test_short_sessions_are_renewed_once_a_second(lifetime_ms: int) -> None:
    """Brokers take no second renewal within a second; and nothing else is sent while one is under way."""
    wire, elsewhere = authenticated(lifetime_ms)
    now = wire.connection.next_deadline()
    assert now <= 1.85
    for _ in range(3):
        renew(wire, elsewhere, now, lifetime_ms)
        assert wire.connection.is_ready
        assert wire.connection.next_deadline() == pytest.approx(now + 1.0)
        now += 1.0


def test_renewal_waits_as_long_as_earlier_requests() -> None:
    """A member's join may wait for minutes, and brokers answer in order."""
    wire, elsewhere = authenticated(lifetime_ms=60_000)
    join = Asker()
    wire.connection.send(
        HEARTBEAT, 51.0, on_response=join.on_response, on_failure=join.on_failure, timeout=300.0
    )
    wire.connection.poll(52.0)
    for now in (62.1, 82.1, 340.0):
        wire.connection.poll(now)
        assert wire.owner.closed == []
    assert answer(wire, 340.1) == [HeartbeatRequest, SaslHandshakeRequest]
    elsewhere.finish(340.2)
    assert answer(wire, 340.3, lifetime_ms=60_000) == [SaslAuthenticateRequest]
    assert (len(join.responses), wire.connection.is_ready) == (1, True)


def test_waiting_renewal_fails_at_its_deadline() -> None:
    wire, _ = authenticated(lifetime_ms=60_000)
    early = ask(wire, 51.0)
    wire.connection.poll(52.0)
    header, _ = wire.requests()[0]
    wire.answer(header, HeartbeatResponse(), 80.0)
    assert len(early.responses) == 1
    wire.connection.poll(90.9)
    assert wire.owner.closed == []
    wire.connection.poll(91.1)
    assert len(wire.owner.closed) == 1


def test_session_without_a_lifetime_is_not_renewed() -> None:
    wire, _ = authenticated(lifetime_ms=0)
    wire.connection.poll(1e9)
    assert wire.connection.is_ready
    assert wire.requests() == []


def test_revoked_credentials_close_the_connection_and_fail_waiting_requests() -> None:
    wire, elsewhere = authenticated(lifetime_ms=60_000)
    wire.connection.poll(52.0)
    answer(wire, 52.0)
    elsewhere.finish(52.0)
    answer(wire, 52.0, error_code=58)
    (closed,) = wire.owner.closed
    assert isinstance(closed, SaslAuthenticationFailed)
    assert wire.connection.state is ConnectionState.CLOSED


def test_unanswered_renewal_closes_the_connection() -> None:
    wire, _ = authenticated(lifetime_ms=60_000)
    wire.connection.poll(52.0)
    wire.connection.poll(wire.connection.next_deadline())
    (closed,) = wire.owner.closed
    assert "SaslHandshake" in str(closed) or "authenticate again" in str(closed)
