"""One request in a broker, from its receipt to its response.

Its handler responds once: `reply`, `no_reply` or `close`; `local_processed` in between allows the
connection's next request. Its data is split into parts by the component that writes them (context_parts.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from pykafka2.broker.security.authentication import Authentication
from pykafka2.broker.security.principal import Caller, Principal
from pykafka2.broker.server.context_parts import (
    FaultMarks,
    HistoryEntry,
    Progress,
    ReceivedRequest,
    ReplyDelivery,
)
from pykafka2.errors import IllegalState
from pykafka2.protocol.struct import Request, Response


class Origin(Protocol):
    """The source of a request and the destination of its response.

    A client's connection, or another broker's link.
    """

    peer: str
    is_broker: bool

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
        "client_id",
        "closes_unanswered",
        "delivery",
        "faults",
        "history_entry",
        "is_answered",
        "on_reply",
        "origin",
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
        self.progress = Progress()
        self.delivery = ReplyDelivery()
        self.faults: FaultMarks | None = None
        self.history_entry: HistoryEntry | None = None  # set by the history, if it is on
        self.is_answered = False
        self.abandon: Callable[[float], object] | None = None
        """Drops what waits for this request; called if its connection closes before the response."""
        self.amend: Callable[[Response], object] | None = None
        """Adds authorization errors to the response, or removes what the caller must not see."""
        self.closes_unanswered = False
        """Whether the connection closes if there is no response, because a part of the request was
        rejected.
        """
        self.resume: Callable[[float], None] | None = None
        """Continues a request that was queued again so that others could be handled in between."""
        self.on_reply: Callable[[RequestContext, Response | None], bool] | None = None
        """Called with the response before it is sent (history, faults); returns False if it takes over the
        response.
        """

    def copy_from(self, origin: Origin) -> RequestContext:
        """Return the same request with another origin."""
        return RequestContext(origin, self.received)

    @property
    def peer(self) -> str:
        """The address of a client's socket, or a broker's name."""
        return self.origin.peer

    @property
    def is_from_broker(self) -> bool:
        return self.origin.is_broker

    @property
    def caller(self) -> Caller:
        """The sender, with address and listener."""
        return self.origin.caller

    @property
    def principal(self) -> Principal:
        """The principal of the sender."""
        return self.origin.caller.principal

    @property
    def authentication(self) -> Authentication | None:
        """The SASL state of the connection; None without SASL."""
        return self.origin.authentication

    @property
    def client_host(self) -> str:
        """The client's address, without its port."""
        return self.origin.caller.host

    @property
    def path(self) -> tuple[str, ...]:
        """The components that processed the request: acceptor, processor, handler."""
        return (*self.origin.parts, self.progress.handled_by)

    def reply(self, response: Response | None) -> None:
        """Send the response; can be called once."""
        if self.is_answered:
            raise IllegalState(f"{type(self.request).__name__} was answered twice")
        self.is_answered = True
        if self.amend is not None and response is not None:
            self.amend(response)
            self.delivery.known_body = None
        if self.on_reply is None or self.on_reply(self, response):
            self.origin.deliver(self, response)

    def no_reply(self) -> None:
        """End the request without a response: acks=0."""
        if self.closes_unanswered:
            self.close()
        else:
            self.reply(None)

    def local_processed(self) -> None:
        """Mark the request as processed locally, so that the connection's next request can be processed."""
        self.origin.local_processed(self)

    def close(self, *, reset: bool = False) -> None:
        """Close the connection instead of responding."""
        self.is_answered = True
        self.origin.disconnect(self, reset=reset)
