"""Parts of a request's context, one for each component that writes to it.

The received request is immutable. The handler and the broker record the progress, the processor the delivery
of the response, and only fault rules write the fault marks. request_context.py combines them. Plain data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

import attrs

from pykafka2.broker.server.channel import Slot
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


class MeasuredRequest(Protocol):
    """A request whose response was sent, as metrics read it."""

    @property
    def received(self) -> ReceivedRequest: ...

    @property
    def progress(self) -> Progress: ...

    @property
    def delivery(self) -> ReplyDelivery: ...

    @property
    def api_key(self) -> int: ...

    @property
    def is_from_broker(self) -> bool: ...


class Recorder(Protocol):
    """Counts requests whose responses were sent, such as a broker's metrics."""

    def record(self, context: MeasuredRequest, left_at: float) -> None: ...


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
    answered_at: float = 0.0
    metrics: Recorder | None = None
    """The metrics of the broker that handles the request; links count requests between brokers."""


@attrs.define(frozen=True)
class ClosingReply:
    """The connection closes after the response, of which possibly only the first half is sent."""

    resets: bool
    sends_half: bool = False


@attrs.define(eq=False)
class ReplyDelivery:
    """Delivery of a response."""

    slot: Slot | None = None
    """The request's slot in the connection's response order; None between brokers."""
    reply_bytes: int = 0
    throttle: float = 0.0
    """How long the connection is muted after the response."""
    closing: ClosingReply | None = None
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
    loses_reply: bool = False
    resets: bool = False
    """Whether the connection is reset if the response is lost."""
    closing: ClosingReply | None = None
