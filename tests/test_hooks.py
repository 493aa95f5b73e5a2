"""Hooks: which methods of interceptors are called, and what their exceptions do."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pykafka2 import KafkaAdminClient, KafkaConsumer, KafkaProducer, aio
from pykafka2.events import EventSink, RequestAnswered, RequestSent
from pykafka2.hooks import (
    QUIET_SECONDS,
    ClientInfo,
    ClientInterceptor,
    Hooks,
    InterceptorFactory,
    add_interceptor_factory,
    remove_interceptor_factory,
)
from tests.aio.running import run


class Recording:
    def __init__(self, *raised: BaseException) -> None:
        self.raised = [*raised]
        self.calls: list[Any] = []

    def on_request(self, event: RequestSent) -> None:
        self.calls.append(event.api)
        if self.raised:
            raise self.raised.pop(0)


class Started:
    """Hooks of a client whose clock is set by hand."""

    def __init__(self, *chain: Any) -> None:
        self.now = 0.0
        self.exits: list[BaseException] = []
        self.sink = EventSink()
        self.hooks = Hooks(chain)
        info = ClientInfo("admin", "a", (("h", 1),), None, None, lambda: "c", lambda: self.now, list)
        self.hooks.start(info, lambda: self.now, self.exits.append, self.sink)

    def send(self, api: str) -> None:
        self.sink.emit(RequestSent(self.now, "b", api, 1, 2, 3))


def test_methods_of_the_base_class_are_not_called_and_not_subscribed() -> None:
    class OnlyStart(ClientInterceptor):
        def on_start(self, client: ClientInfo) -> None:
            self.client = client

    interceptor = OnlyStart()
    started = Started(interceptor, object())
    assert interceptor.client.kind == "admin"
    assert interceptor.client.cluster_id == "c"
    started.now = 4.0
    assert interceptor.client.monotonic() == 4.0
    assert not started.sink.is_watched
    assert not started.hooks.has("on_request")


def test_failures_of_a_hook_are_logged_once_in_ten_seconds(caplog: pytest.LogCaptureFixture) -> None:
    broken, sound = Recording(*[ValueError("a bug")] * 5), Recording()
    started = Started(broken, sound)
    with caplog.at_level(logging.ERROR):
        for _ in range(4):
            started.send("Fetch")
        assert len(caplog.records) == 1
        started.now += QUIET_SECONDS
        started.send("Fetch")
    assert [record.getMessage() for record in caplog.records] == [
        f"on_request of {broken!r} failed",
        f"on_request of {broken!r} failed (3 times more since the last of these lines)",
    ]
    assert all(record.exc_info for record in caplog.records)
    assert broken.calls == sound.calls == ["Fetch"] * 5


def test_base_exceptions_reach_the_caller_and_not_the_loop() -> None:
    leaving, after = Recording(SystemExit(3)), Recording()
    started = Started(leaving, after)
    started.send("Fetch")
    assert [type(error) for error in started.exits] == [SystemExit]
    assert after.calls == ["Fetch"]


def test_throttled_responses_are_reported_twice() -> None:
    seen: list[tuple[str, int]] = []

    class Throttled:
        def on_response(self, event: RequestAnswered) -> None:
            seen.append(("response", event.throttle_time_ms))

        def on_throttle(self, event: RequestAnswered) -> None:
            seen.append(("throttle", event.throttle_time_ms))

    started = Started(Throttled())
    for throttle_time_ms in (0, 30):
        started.sink.emit(RequestAnswered(0.0, "b", "Fetch", 1, 0.1, None, throttle_time_ms=throttle_time_ms))
    assert seen == [("response", 0), ("response", 30), ("throttle", 30)]


def test_no_hook_is_called_after_close() -> None:
    closing = Recording()
    started = Started(closing)
    started.hooks.close()
    started.send("Fetch")
    started.hooks.close()
    assert closing.calls == []


@contextmanager
def added(*factories: InterceptorFactory) -> Iterator[None]:
    for factory in factories:
        add_interceptor_factory(factory)
    try:
        yield
    finally:
        for factory in factories:
            remove_interceptor_factory(factory)


class Noting(ClientInterceptor):
    def __init__(self) -> None:
        self.clients: list[ClientInfo] = []

    def on_start(self, client: ClientInfo) -> None:
        self.clients.append(client)


@pytest.mark.parametrize(
    ("create", "kind"),
    [
        (KafkaProducer, "producer"),
        (KafkaConsumer, "consumer"),
        (KafkaAdminClient, "admin"),
    ],
)
def test_factories_add_interceptors_to_clients_created_meanwhile(create: Any, kind: str) -> None:
    one, two, own = Noting(), Noting(), Noting()
    calls: list[Any] = []

    def first(kind: str, interceptors: tuple[Any, ...]) -> Noting:
        calls.append((kind, interceptors))
        return one

    with added(first, lambda kind, interceptors: None, lambda kind, interceptors: two):
        create(bootstrap_servers="localhost:1", client_id="a", interceptors=[own]).close()
    create(bootstrap_servers="localhost:1", interceptors=[own]).close()
    assert calls == [(kind, (own,))]
    assert [client.client_id for client in one.clients] == ["a"]
    assert two.clients == one.clients
    assert len(own.clients) == 2
    names = {row.name for row in one.clients[0].metric_rows()}
    assert {"connection-count", "request-rate"} <= names


async def started_by_aio(create: Any) -> list[ClientInfo]:
    one = Noting()
    with added(lambda kind, interceptors: one):
        await create(bootstrap_servers="localhost:1").close()
    return one.clients


@pytest.mark.parametrize("create", [aio.KafkaProducer, aio.KafkaConsumer, aio.KafkaAdminClient])
def test_factories_add_interceptors_to_asyncio_clients(create: Any) -> None:
    [client] = run(started_by_aio(create))
    assert client.kind in create.__name__.lower()


def test_factory_that_raises_is_logged_and_the_client_works(caplog: pytest.LogCaptureFixture) -> None:
    def broken(kind: str, interceptors: tuple[Any, ...]) -> None:
        raise ValueError("a bug")

    one = Noting()
    with added(broken, lambda kind, interceptors: one):
        KafkaProducer(bootstrap_servers="localhost:1").close()
    assert len(one.clients) == 1
    assert f"interceptor factory {broken!r} failed" in caplog.text


def test_factory_that_was_not_added_cannot_be_removed() -> None:
    with pytest.raises(ValueError, match="not in list"):
        remove_interceptor_factory(lambda kind, interceptors: None)


def test_factory_with_a_coroutine_hook_adds_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Awaited:
        async def on_request(self, event: RequestSent) -> None: ...

    one = Noting()
    with added(lambda kind, interceptors: Awaited(), lambda kind, interceptors: one):
        KafkaProducer(bootstrap_servers="localhost:1").close()
    assert len(one.clients) == 1
    assert "on_request" in caplog.text


@pytest.mark.parametrize("create", [KafkaProducer, KafkaConsumer, KafkaAdminClient])
def test_close_hook_can_close_the_client_and_is_called_once(
    create: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Closing:
        closed = 0

        def close(self) -> None:
            self.closed += 1
            client.close()

        def on_request(self, event: RequestSent) -> None: ...

    closing, other = Closing(), Closing()
    client = create(bootstrap_servers="localhost:1", interceptors=[closing, other])
    client.close()
    client.close()
    assert closing.closed == other.closed == 1
    assert not caplog.records


def test_base_exception_of_one_hook_keeps_no_other_from_its_call() -> None:
    first, second = Recording(SystemExit(1)), Recording(SystemExit(2))
    started = Started(first, second)
    started.send("Fetch")
    assert (first.calls, second.calls) == (["Fetch"], ["Fetch"])
    assert [error.code for error in started.exits if isinstance(error, SystemExit)] == [2]


def test_base_exception_of_a_close_hook_is_raised_once() -> None:
    class Leaving:
        def close(self) -> None:
            raise SystemExit(1)

    hooks = Hooks((Leaving(),))
    with pytest.raises(SystemExit):
        hooks.close()
    hooks.close()


def test_failures_of_two_interceptors_are_both_logged(caplog: pytest.LogCaptureFixture) -> None:
    started = Started(Recording(ValueError("a bug")), Recording(ValueError("another")))
    started.send("Fetch")
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["a bug", "another"]


def test_interceptors_of_factories_are_called_after_those_of_the_option() -> None:
    order: list[str] = []

    class Named:
        def __init__(self, name: str) -> None:
            self.name = name

        def on_start(self, client: ClientInfo) -> None:
            order.append(self.name)

    with added(lambda kind, interceptors: Named("first"), lambda kind, interceptors: Named("second")):
        KafkaProducer(bootstrap_servers="localhost:1", interceptors=[Named("own")]).close()
    assert order == ["own", "first", "second"]
