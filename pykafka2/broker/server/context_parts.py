"""The parts of a request on its way through a broker, one for each of those who write to it.

What came over the wire is made by whoever takes the request in and never changed.  How far it has come is
noted by the handler and the broker, the delivery of its reply by the processor and what decides about
replies, the marks of faults by the fault rules alone.  Put together in request_context.py; all plain data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

import attrs

from pykafka2.broker.server.channel import Slot
from pykafka2.protocol.struct import Request, Response


class ReceivedRequest:
    """A request as it came: decoded, with its header, its size and when it was read."""

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
        """ApiVersions of a version that we do not know; its body was not read."""
        self.is_raw_token: Final = is_raw_token
        """A token of SASL without a request around it (SaslHandshake version 0); so is its answer."""

    def again(self, received_at: float) -> ReceivedRequest:
        """The same request, received at another time."""
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
    """What metrics read of a request whose reply has left."""

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
    """Counts requests whose reply has left, such as a broker's metrics."""

    def record(self, context: MeasuredRequest, left_at: float) -> None: ...


class HistoryEntry(Protocol):
    """What a history keeps of a request."""

    def leaves_by(self, part: str) -> None:
        """Note who hands the answer to the socket.  From any thread."""
        ...

    def give_up_response(self) -> None:
        """Let go of the answer; it takes too much memory."""
        ...


@attrs.define(eq=False)
class Progress:
    """How far a request has come, and when, by the monotonic clock; 0 where it has not."""

    handled_by: str = ""
    """The handler's name."""
    taken_at: float = 0.0
    """Its API's function, or the controller, was asked."""
    handled_at: float = 0.0
    """The function has returned; the answer may come later."""
    answered_at: float = 0.0
    metrics: Recorder | None = None
    """Of the broker that handles it; requests between brokers are counted by their links."""


@attrs.define(frozen=True)
class ClosingReply:
    """The connection ends with the reply to a request, of which perhaps only the first half leaves."""

    resets: bool
    sends_half: bool = False


@attrs.define(eq=False)
class ReplyDelivery:
    """How a reply leaves."""

    slot: Slot | None = None
    """Its place in the order of the connection's replies; None between brokers."""
    reply_bytes: int = 0
    throttle: float = 0.0
    """For how long the connection is muted once the reply has been given."""
    closing: ClosingReply | None = None
    known_body: bytes | None = None
    """The reply's bytes, without header and length, where its handler knows them: of a request that no fault
    rule has met, and if it is not throttled in the end.
    """


@attrs.define(eq=False)
class FaultMarks:
    """What fault rules and the client's link want of one request; there are none on most.

    `reshape` changes the answer before it leaves, and closes the connection where it gives None.
    """

    rule_id: int | None = None
    """The rule that fired on it; a request meets no second one."""
    is_carried: bool = False
    """Over the client's link, where that is not as it should be."""
    reshape: Callable[[Response], Response | None] | None = None
    loses_reply: bool = False
    resets: bool = False
    """Whether the connection is reset where the reply is lost."""
    closing: ClosingReply | None = None
