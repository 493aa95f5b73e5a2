"""Requests between processors and handlers: a bounded queue, and what a request carries with it.

A `RequestContext` is one request on its way through a broker.  Its handler answers it once: `reply`,
`no_reply` or `close`; `local_processed` in between lets the connection's next request in.  The queue is
bounded (queued.max.requests, queued.max.request.bytes): processors stop reading while it is full, so that
TCP holds the clients back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from pykafka2.errors import IllegalState
from pykafka2.protocol.struct import Request, Response

if TYPE_CHECKING:
    from pykafka2.broker.server.request_metrics import RequestMetrics
    from pykafka2.broker.server.threads import Part


class Origin(Protocol):
    """Where a request came from and its reply goes: a client's connection, or another broker's link."""

    peer: str
    is_broker: bool
    parts: tuple[str, ...]
    """Who took the request in: acceptor and processor by name, or the link."""

    def deliver(self, context: RequestContext, response: Response | None) -> None:
        """Send the reply (None: there is none) when its turn comes.  From any thread."""
        ...

    def local_processed(self, context: RequestContext) -> None: ...

    def disconnect(self, context: RequestContext, *, reset: bool = False) -> None:
        """Close the connection without a reply.  From any thread."""
        ...


class RequestContext:
    """One request, from its receipt to its reply."""

    __slots__ = (
        "abandon",
        "answered_at",
        "api_key",
        "client_id",
        "correlation_id",
        "ending",
        "entry",
        "faults",
        "handled_at",
        "handled_by",
        "is_answered",
        "is_carried",
        "is_from_broker",
        "is_unsupported",
        "merge",
        "metrics",
        "on_reply",
        "origin",
        "peer",
        "received_at",
        "reply_bytes",
        "request",
        "size_bytes",
        "slot",
        "taken_at",
        "throttle",
        "version",
    )

    def __init__(
        self,
        origin: Origin,
        request: Request[Any],
        version: int,
        correlation_id: int,
        client_id: str | None,
        size_bytes: int,
        received_at: float,
    ) -> None:
        self.origin = origin
        self.peer = origin.peer
        self.request = request
        self.api_key: int = request.API_KEY
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.size_bytes = size_bytes
        self.received_at = received_at
        self.handled_by = ""  # the handler's name
        self.taken_at = 0.0  # by a handler
        self.handled_at = 0.0  # the handler has returned
        self.answered_at = 0.0
        self.reply_bytes = 0
        self.throttle = 0.0  # seconds for which the connection is muted once the reply has been given
        self.is_from_broker = origin.is_broker
        self.metrics: RequestMetrics | None = None  # of the broker that handles it
        self.is_unsupported = False  # ApiVersions of a version that we do not know
        self.is_answered = False
        self.slot: Any = None
        self.faults: Any = None  # the fault rule that fired on it
        self.entry: Any = None  # the history's, if it keeps one
        self.ending: Any = None  # the fault rule that ends its connection with the answer
        self.merge: Callable[[Response], Response] | None = None
        """Adds to the answer what a fault rule refused of the request."""
        self.is_carried = False  # over the client's link, where that is slow
        self.abandon: Callable[[float], object] | None = None
        """Forgets what waits for this request; called if its connection is gone before the answer."""
        self.on_reply: Callable[[RequestContext, Response | None], bool] | None = None
        """Sees the reply before it leaves (history, faults); False: it took the reply over."""

    def copy_from(self, origin: Origin) -> RequestContext:
        """The same request once more, as if it came from elsewhere."""
        return RequestContext(
            origin,
            self.request,
            self.version,
            self.correlation_id,
            self.client_id,
            self.size_bytes,
            self.received_at,
        )

    @property
    def path(self) -> tuple[str, ...]:
        """Whose hands it went through: acceptor, processor, handler, and the same processor again."""
        return (*self.origin.parts, self.handled_by, self.origin.parts[-1])

    def reply(self, response: Response | None) -> None:
        """Answer; once."""
        if self.is_answered:
            raise IllegalState(f"{type(self.request).__name__} was answered twice")
        self.is_answered = True
        if self.on_reply is None or self.on_reply(self, response):
            self.origin.deliver(self, response)

    def no_reply(self) -> None:
        """End without bytes: acks=0."""
        self.reply(None)

    def local_processed(self) -> None:
        """All that can be done now is done; the connection's next request may be processed."""
        self.origin.local_processed(self)

    def close(self, *, reset: bool = False) -> None:
        """Close the connection instead of answering."""
        self.is_answered = True
        self.origin.disconnect(self, reset=reset)


class RequestChannel:
    """The queue between the processors and the handlers of one broker.  Any thread."""

    def __init__(self, max_requests: int, max_bytes: int = -1) -> None:
        self._max_requests = max_requests
        self._max_bytes = max_bytes
        self._requests: deque[RequestContext] = deque()
        self._handlers: tuple[Part, ...] = ()
        self._blocked: dict[Part, None] = {}  # in order, so that the same seed wakes them in it
        self._next = 0

    def connect(self, handlers: tuple[Part, ...]) -> None:
        """Name those who take requests out."""
        self._handlers = handlers

    @property
    def is_full(self) -> bool:
        if self._max_bytes > 0 and sum(one.size_bytes for one in list(self._requests)) >= self._max_bytes:
            return True
        return len(self._requests) >= self._max_requests

    def __len__(self) -> int:
        return len(self._requests)

    def put(self, context: RequestContext) -> None:
        """Queue a request and wake a handler.  A producer looks at `is_full` first."""
        self._requests.append(context)
        handlers = self._handlers
        if handlers:
            self._next = (self._next + 1) % len(handlers)
            handlers[self._next].signal()

    def put_back(self, context: RequestContext) -> None:
        """Make a request that was taken the next one again."""
        self._requests.appendleft(context)

    def take(self) -> RequestContext | None:
        """The oldest request, or None."""
        try:
            context = self._requests.popleft()
        except IndexError:
            return None
        if self._blocked and not self.is_full:
            blocked, self._blocked = self._blocked, {}
            for part in blocked:
                part.signal()
        return context

    def wait_for_room(self, processor: Part) -> None:
        """Signal `processor` once there is room again."""
        self._blocked[processor] = None
        if not self.is_full:  # a handler may have been faster
            processor.signal()

    def clear(self) -> None:
        self._requests.clear()
