"""One request on its way through a broker, from its receipt to its reply.

Its handler answers it once: `reply`, `no_reply` or `close`; `local_processed` in between lets the
connection's next request in.  What is known of it is kept in parts by who writes them (context_parts.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from pykafka2.broker.security.authentication import Authentication
from pykafka2.broker.security.caller import Caller, Principal
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
    """Where a request came from and its reply goes: a client's connection, or another broker's link."""

    peer: str
    is_broker: bool

    @property
    def authentication(self) -> Authentication | None:
        """The SASL side of the connection; None where there is none."""
        ...

    @property
    def caller(self) -> Caller:
        """Who asks; of a connection that has not authenticated yet, nobody known."""
        ...

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
    """One request and its answer.

    `request` is what is to be handled: what came, unless a fault rule has refused some partitions of it.
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
        # What every handler asks for, at hand.
        self.request: Request[Any] = received.request
        self.api_key: int = received.request.API_KEY
        self.version = received.version
        self.client_id = received.client_id
        self.progress = Progress()
        self.delivery = ReplyDelivery()
        self.faults: FaultMarks | None = None
        self.history_entry: HistoryEntry | None = None  # by the history, if it is on
        self.is_answered = False
        self.abandon: Callable[[float], object] | None = None
        """Forgets what waits for this request; called if its connection is gone before the answer."""
        self.amend: Callable[[Response], object] | None = None
        """Adds to the answer what authorization has refused, or takes away what is not for who asks."""
        self.closes_unanswered = False
        """Whether the connection ends where there is no answer, since a part of the request was refused."""
        self.resume: Callable[[float], None] | None = None
        """Continues a request that was queued again so that others could be handled in between."""
        self.on_reply: Callable[[RequestContext, Response | None], bool] | None = None
        """Sees the reply before it leaves (history, faults); False: it took the reply over."""

    def copy_from(self, origin: Origin) -> RequestContext:
        """The same request once more, as if it came from elsewhere."""
        return RequestContext(origin, self.received)

    @property
    def peer(self) -> str:
        """Who asks: the address of a client's socket, or a broker's name."""
        return self.origin.peer

    @property
    def is_from_broker(self) -> bool:
        return self.origin.is_broker

    @property
    def caller(self) -> Caller:
        """Who asks, from where, by which listener."""
        return self.origin.caller

    @property
    def principal(self) -> Principal:
        """Whom the request is from."""
        return self.origin.caller.principal

    @property
    def authentication(self) -> Authentication | None:
        """The SASL side of the connection it came over; None where there is none."""
        return self.origin.authentication

    @property
    def client_host(self) -> str:
        """The client's address, without its port."""
        return self.origin.caller.host

    @property
    def path(self) -> tuple[str, ...]:
        """Whose hands it went through until it was answered: acceptor, processor, handler."""
        return (*self.origin.parts, self.progress.handled_by)

    def reply(self, response: Response | None) -> None:
        """Answer; once."""
        if self.is_answered:
            raise IllegalState(f"{type(self.request).__name__} was answered twice")
        self.is_answered = True
        if self.amend is not None and response is not None:
            self.amend(response)
            self.delivery.known_body = None
        if self.on_reply is None or self.on_reply(self, response):
            self.origin.deliver(self, response)

    def no_reply(self) -> None:
        """End without bytes: acks=0."""
        if self.closes_unanswered:
            self.close()
        else:
            self.reply(None)

    def local_processed(self) -> None:
        """All that can be done now is done; the connection's next request may be processed."""
        self.origin.local_processed(self)

    def close(self, *, reset: bool = False) -> None:
        """Close the connection instead of answering."""
        self.is_answered = True
        self.origin.disconnect(self, reset=reset)
