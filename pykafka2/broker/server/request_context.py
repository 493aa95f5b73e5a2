"""One request in a broker, from its receipt to its response.

Its handler responds once: `respond`, `no_response` or `close`; `local_processed` in between allows the
connection's next request. The received request is immutable. The handler and the broker record the progress,
the processor the delivery of the response, and only fault rules write the fault marks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

import attrs

from pykafka2.broker.security.authentication import Authentication
from pykafka2.broker.security.principal import Caller, Principal
from pykafka2.broker.server.channel import Slot
from pykafka2.errors import IllegalState
from pykafka2.protocol.struct import Request, Response


class ReceivedRequest:
    """A decoded request with its header, its size and the time of receipt."""

    __slots__ = (
        "client_id",
        "correlation_id",
        "is_raw_token",
        "is_unsupported",
        "received_at",
        "request",
        "size_bytes",
        "version",
    )

    def __init__(
        self,
        request: Request[Any],
        version: int,
        correlation_id: int,
        client_id: str | None,
        size_bytes: int,
        received_at: float,
        *,
        is_unsupported: bool = False,
        is_raw_token: bool = False,
    ) -> None:
        self.request: Final = request
        self.version: Final = version
        self.correlation_id: Final = correlation_id
        self.client_id: Final = client_id
        self.size_bytes: Final = size_bytes
        self.received_at: Final = received_at
        self.is_unsupported: Final = is_unsupported
        """An ApiVersions request of an unknown version, whose body was not decoded."""
        self.is_raw_token: Final = is_raw_token
        """A bare SASL token (after SaslHandshake version 0); its response is a bare token too."""

    def again(self, received_at: float) -> ReceivedRequest:
        """Return the same request with another time of receipt."""
        return ReceivedRequest(
            self.request,
            self.version,
            self.correlation_id,
            self.client_id,
            self.size_bytes,
            received_at,
            is_unsupported=self.is_unsupported,
            is_raw_token=self.is_raw_token,
        )


class Recorder(Protocol):
    """Counts requests whose responses were sent, such as a broker's metrics."""

    def record(self, context: RequestContext, left_at: float) -> None: ...


class HistoryEntry(Protocol):
    """The history's entry for a request."""

    def sent_by(self, part: str) -> None:
        """Record the component that passes the response to the socket. From any thread."""
        ...

    def drop_response(self) -> None:
        """Drop the response to free its memory."""
        ...


@attrs.define(eq=False)
class Progress:
    """Progress of a request, with times of the monotonic clock; 0 if not reached."""

    handled_by: str = ""
    """The handler's name."""
    taken_at: float = 0.0
    """When the API's function or the controller was called."""
    handled_at: float = 0.0
    """When the function returned; the response can come later."""
    responded_at: float = 0.0
    metrics: Recorder | None = None
    """The metrics of the broker that handles the request; links count requests between brokers."""


@attrs.define(frozen=True)
class ClosingResponse:
    """The connection closes after the response, of which possibly only the first half is sent."""

    resets: bool
    sends_half: bool = False


@attrs.define(eq=False)
class ResponseDelivery:
    """Delivery of a response."""

    slot: Slot | None = None
    """The request's slot in the connection's response order; None between brokers."""
    response_bytes: int = 0
    throttle: float = 0.0
    """How long the connection is muted after the response."""
    closing: ClosingResponse | None = None
    known_body: bytes | None = None
    """Encoded body of the response without header and length, if its handler has it. Used only if no fault
    rule matched the request and it is not throttled.
    """


@attrs.define(eq=False)
class FaultMarks:
    """Effects of fault rules and of the client's link on one request; most requests have none.

    `reshape` changes the response before it is sent; if it returns None, the connection closes.
    """

    rule_id: int | None = None
    """The rule that fired on the request; no second one can fire."""
    is_carried: bool = False
    """Whether the request passes through a client link with a fault."""
    reshape: Callable[[Response], Response | None] | None = None
    loses_response: bool = False
    resets: bool = False
    """Whether the connection is reset if the response is lost."""
    closing: ClosingResponse | None = None


class Origin(Protocol):
    """The source of a request and the destination of its response.

    A client's connection, or another broker's link.
    """

    peer: str
    is_broker: bool

    @property
    def software(self) -> str:
        """Name and version of the client's library, from its ApiVersions request; "" if unknown."""
        ...

    @property
    def is_closed(self) -> bool:
        """Whether the client's connection has closed. Brokers' links do not close."""
        ...

    @property
    def authentication(self) -> Authentication | None:
        """The SASL state of the connection; None without SASL."""
        ...

    @property
    def caller(self) -> Caller:
        """The sender; anonymous before authentication."""
        ...

    parts: tuple[str, ...]
    """The components that received the request: acceptor and processor by name, or the link."""

    def when_closed(self, then: Callable[[float], object]) -> None:
        """Have `then` called with the time once the client's connection has closed, on its thread.

        Brokers' links do not close.
        """
        ...

    def deliver(self, context: RequestContext, response: Response | None) -> None:
        """Send the response (None: there is none) in request order. From any thread."""
        ...

    def local_processed(self, context: RequestContext) -> None: ...

    def disconnect(self, context: RequestContext, *, reset: bool = False) -> None:
        """Close the connection without a response. From any thread."""
        ...


class RequestContext:
    """One request and its response.

    `request` is what the handler processes: the received one, unless a fault rule rejected some of its
    partitions.
    """

    __slots__ = (
        "abandon",
        "amend",
        "api_key",
        "authentication",
        "client_id",
        "closes_without_response",
        "delivery",
        "faults",
        "history_entry",
        "is_complete",
        "is_from_broker",
        "on_response",
        "origin",
        "peer",
        "progress",
        "received",
        "request",
        "resume",
        "version",
    )

    def __init__(self, origin: Origin, received: ReceivedRequest) -> None:
        self.origin = origin
        self.received = received
        # Copies of what every handler needs.
        self.request: Request[Any] = received.request
        self.api_key: int = received.request.API_KEY
        self.version = received.version
        self.client_id = received.client_id
        self.peer = origin.peer
        """The address of a client's socket, or a broker's name."""
        self.is_from_broker = origin.is_broker
        self.authentication = origin.authentication
        """The SASL state of the connection; None without SASL."""
        self.progress = Progress()
        self.delivery = ResponseDelivery()
        self.faults: FaultMarks | None = None
        self.history_entry: HistoryEntry | None = None  # set by the history, if it is on
        self.is_complete = False
        self.abandon: Callable[[float], object] | None = None
        """Drops what waits for this request; called if its connection closes before the response."""
        self.amend: Callable[[Response], object] | None = None
        """Adds authorization errors to the response, or removes what the caller must not see."""
        self.closes_without_response = False
        """Whether the connection closes if there is no response, because a part of the request was
        rejected.
        """
        self.resume: Callable[[float], None] | None = None
        """Continues a request that was queued again so that others could be handled in between."""
        self.on_response: Callable[[RequestContext, Response | None], bool] | None = None
        """Called with the response before it is sent (history, faults); returns False if it takes over the
        response.
        """

    @property
    def caller(self) -> Caller:
        """The sender, with address and listener."""
        return self.origin.caller

    @property
    def principal(self) -> Principal:
        """The principal of the sender."""
        return self.origin.caller.principal

    @property
    def client_host(self) -> str:
        """The client's address, without its port."""
        return self.origin.caller.host

    def respond(self, response: Response | None) -> None:
        """Send the response; can be called once."""
        if self.is_complete:
            raise IllegalState(f"{type(self.request).__name__} has a response already")
        self.is_complete = True
        if self.amend is not None and response is not None:
            self.amend(response)
            self.delivery.known_body = None
        if self.on_response is None or self.on_response(self, response):
            self.origin.deliver(self, response)

    def no_response(self) -> None:
        """End the request without a response: acks=0."""
        if self.closes_without_response:
            self.close()
        else:
            self.respond(None)

    def local_processed(self) -> None:
        """Mark the request as processed locally, so that the connection's next request can be processed."""
        self.origin.local_processed(self)

    def close(self, *, reset: bool = False) -> None:
        """Close the connection instead of responding."""
        self.is_complete = True
        self.origin.disconnect(self, reset=reset)
