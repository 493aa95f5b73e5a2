"""Hooks: the methods of a user's interceptors that a client calls while it works.

Interceptors are objects with some of these methods, given to a client by the option `interceptors`. Producers
and consumers add their own hooks (producer/interceptors.py, consumer/interceptors.py). A hook never breaks a
call: its exception is logged, at most once in `QUIET_SECONDS` for each method of an interceptor. A
BaseException such as SystemExit is raised on the caller's thread; from the IO thread it reaches a later
call. Methods that an interceptor does not have, or inherits from a base class here, cost nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from pykafka2.clock import FOREVER
from pykafka2.events import ConnectionClosed, ConnectionOpened, Event, EventSink, RequestAnswered, RequestSent
from pykafka2.option_fields import NOT_AWAITED, is_async
from pykafka2.slotted import slotted
from pykafka2.types import Metric

logger = logging.getLogger(__name__)

QUIET_SECONDS = 10.0
"""Further failures of a hook are counted instead of logged for this time."""

CLIENT_HOOKS: Final = (
    "on_start",
    "on_connect",
    "on_disconnect",
    "on_request",
    "on_response",
    "on_throttle",
    "close",
)
"""The hooks of every client."""

PRODUCER_HOOKS: Final = (
    "on_send",
    "on_acknowledgement",
    "on_send_many",
    "on_acknowledgement_many",
    *CLIENT_HOOKS,
)
CONSUMER_HOOKS: Final = (
    "on_poll_start",
    "on_consume",
    "on_columns",
    "on_record",
    "on_record_done",
    "on_commit",
    "on_bad_record",
    "on_assigned",
    "on_revoked",
    "on_lost",
    *CLIENT_HOOKS,
)

SHARE_CONSUMER_HOOKS: Final = (
    "on_poll_start",
    "on_consume",
    "on_record",
    "on_record_done",
    "on_acknowledgement_commit",
    "on_bad_record",
    *CLIENT_HOOKS,
)

HOOKS_BY_KIND: Final = {
    "producer": PRODUCER_HOOKS,
    "consumer": CONSUMER_HOOKS,
    "share_consumer": SHARE_CONSUMER_HOOKS,
    "admin": CLIENT_HOOKS,
}

_HOOK_OF_EVENT: Final[dict[type[Event], str]] = {
    ConnectionOpened: "on_connect",
    ConnectionClosed: "on_disconnect",
    RequestSent: "on_request",
    RequestAnswered: "on_response",
}


@slotted(frozen=True, eq=False)
class ClientInfo:
    """The client that an interceptor belongs to, for `on_start`. Any thread can read it at any time.

    Attributes:
        kind: 'producer', 'consumer', 'share_consumer' or 'admin'.
        client_id: the option client_id.
        bootstrap_servers: the option bootstrap_servers, as (host, port).
        group_id: the option group_id; None for other clients and without a group.
        transactional_id: the option transactional_id; None for other clients and without one.
    """

    kind: str
    client_id: str | None
    bootstrap_servers: tuple[tuple[str, int], ...]
    group_id: str | None
    transactional_id: str | None
    _cluster_id: Callable[[], str | None]
    _monotonic: Callable[[], float]
    _metric_rows: Callable[[], list[Metric]]

    @property
    def cluster_id(self) -> str | None:
        """The id of the cluster; None until a broker has responded with it."""
        return self._cluster_id()

    def monotonic(self) -> float:
        """Return the client's clock in seconds, for durations; in the simulation it is virtual time."""
        return self._monotonic()

    def metric_rows(self) -> list[Metric]:
        """Return the metrics of the client, as its `metric_rows()`. Any thread, also after a close."""
        return self._metric_rows()


InterceptorFactory = Callable[[str, tuple[Any, ...]], Any]
"""Called with the kind of a client, as in `ClientInfo`, and the interceptors of its options."""

_factories: list[InterceptorFactory] = []


def add_interceptor_factory(factory: InterceptorFactory) -> None:
    """Call `factory(kind, interceptors)` for each client that is created from now on, sync or asyncio.

    `kind` is that of `ClientInfo`, and `interceptors` those of the option. The interceptor that the factory
    returns is added at their end; None adds none. If it raises, or returns one with a coroutine function as a
    hook, that is logged, and it adds none. Any thread.
    """
    _factories.append(factory)


def remove_interceptor_factory(factory: InterceptorFactory) -> None:
    """Call this factory for no further clients. Clients keep the interceptors they have. Any thread.

    Raises:
        ValueError: the factory was not added.
    """
    _factories.remove(factory)


def with_added(kind: str, interceptors: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the interceptors of a new client: those of its options, then those of the factories."""
    chain = list(interceptors)
    for factory in tuple(_factories):
        try:
            added = factory(kind, interceptors)
            for name in HOOKS_BY_KIND[kind]:
                if is_async(getattr(added, name, None)):
                    raise TypeError(f"{name} of {added!r}: {NOT_AWAITED}")
        except Exception:
            logger.exception("interceptor factory %r failed; the %s is not intercepted by it", factory, kind)
            continue
        if added is not None:
            chain.append(added)
    return tuple(chain)


class ClientInterceptor:
    """Base class for interceptors of any client; deriving from it is optional.

    Give objects with some of these methods to `interceptors` of a producer, consumer or admin client. All
    methods except `on_start` and `close` run on the IO thread: they must not block, and must not call the
    client. One object can belong to several clients, whose threads then call it at the same time.
    """

    def on_start(self, client: ClientInfo) -> None:
        """Called when a client with this interceptor was created, before it connects."""

    def on_connect(self, event: ConnectionOpened) -> None:
        """Called when a connection is ready for requests: connected, versions negotiated, authenticated."""

    def on_disconnect(self, event: ConnectionClosed) -> None:
        """Called when a connection has closed, or an attempt to connect has failed."""

    def on_request(self, event: RequestSent) -> None:
        """Called when a request was encoded and passed to its connection; also in the handshake."""

    def on_response(self, event: RequestAnswered) -> None:
        """Called when the response to a request was read, or the request has failed (`event.error`).

        A Produce request with acks=0 has no response.
        """

    def on_throttle(self, event: RequestAnswered) -> None:
        """Called after `on_response` if the broker throttles this client (`throttle_time_ms` above 0)."""

    def close(self) -> None:
        """Called when the client was closed. Later hooks are not called."""


class Hooks:
    """Calls the hooks of one client's interceptors, in the order of the option. Thread-safe."""

    def __init__(self, chain: tuple[Any, ...], base: type = ClientInterceptor) -> None:
        self.chain = chain
        self._base = base
        self._methods: dict[str, tuple[tuple[Any, Callable[..., Any]], ...]] = {}
        self._monotonic: Callable[[], float] = lambda: FOREVER  # logs every failure until `start`
        self._interrupt: Callable[[BaseException], None] = _raise
        self._quiet: dict[tuple[int, str], tuple[float, int]] = {}
        """By interceptor and method: until when it is not logged again, and how often it has failed since."""
        self._is_closing = self._is_closed = False

    def start(
        self,
        client: ClientInfo,
        monotonic: Callable[[], float],
        interrupt: Callable[[BaseException], None],
        event_sink: EventSink,
    ) -> None:
        """Call `on_start`, and the hooks of requests and connections from now on."""
        self._monotonic = monotonic
        self._interrupt = interrupt
        if any(self.has(name) for name in (*_HOOK_OF_EVENT.values(), "on_throttle")):
            event_sink.subscribe(self._on_event)
        self.call("on_start", client)

    def method(self, interceptor: Any, name: str) -> Callable[..., Any] | None:
        """Return this method of an interceptor; None if it has none, or only that of the base class."""
        method: Callable[..., Any] | None = getattr(interceptor, name, None)
        inherited = getattr(self._base, name, None)
        if not callable(method) or getattr(method, "__func__", method) is inherited:
            return None
        return method

    def having(self, name: str) -> tuple[tuple[Any, Callable[..., Any]], ...]:
        """Return the interceptors that have this hook, each with its method."""
        found = self._methods.get(name)
        if found is None:
            pairs = ((one, self.method(one, name)) for one in self.chain)
            found = self._methods[name] = tuple((one, method) for one, method in pairs if method is not None)
        return found

    def has(self, name: str) -> bool:
        """Return whether any interceptor has this hook."""
        return bool(self.having(name))

    def call(self, name: str, *arguments: Any) -> None:
        """Call this hook of all interceptors."""
        if self._is_closed:
            return
        interrupt: BaseException | None = None
        for interceptor, method in self.having(name):
            try:
                method(*arguments)
            except BaseException as error:
                interrupt = self.logged(interceptor, name, error) or interrupt
        if interrupt is not None:
            self._interrupt(interrupt)

    def failed(self, interceptor: Any, name: str, error: BaseException, effect: str = "") -> None:
        """Log the exception of a hook; pass one that is not an Exception on to the client's caller."""
        interrupt = self.logged(interceptor, name, error, effect)
        if interrupt is not None:
            self._interrupt(interrupt)

    def logged(
        self, interceptor: Any, name: str, error: BaseException, effect: str = ""
    ) -> BaseException | None:
        """Log the exception of a hook; return it if it is not an Exception.

        The caller raises that one after it has called the hooks of all interceptors.
        """
        self.report(interceptor, f"{name} of %r failed{effect}", error)
        return None if isinstance(error, Exception) else error

    def report(self, interceptor: Any, text: str, error: BaseException | None = None) -> None:
        """Log what an interceptor did wrong, unless the same was logged within `QUIET_SECONDS`.

        `text` has a `%r` for the interceptor.
        """
        key = id(interceptor), text
        now = self._monotonic()
        until, count = self._quiet.get(key, (-FOREVER, 0))
        if now < until:
            self._quiet[key] = until, count + 1
            return
        self._quiet[key] = now + QUIET_SECONDS, 0
        more = f" ({count} times more since the last of these lines)" if count else ""
        logger.error(f"{text}{more}", interceptor, exc_info=error)

    def close(self) -> None:
        """Close the interceptors; does nothing when called again."""
        if not self._is_closing:
            self._is_closing = True  # first, because a hook can close the client again
            try:
                self.call("close")
            finally:
                self._is_closed = True

    def _on_event(self, event: Event) -> None:
        name = _HOOK_OF_EVENT.get(type(event))
        if name is not None:
            self.call(name, event)
            if isinstance(event, RequestAnswered) and event.throttle_time_ms > 0:
                self.call("on_throttle", event)


def _raise(error: BaseException) -> None:
    raise error
