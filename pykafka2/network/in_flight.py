"""The requests in flight on one connection, oldest first.

Brokers respond to the requests of a connection in order, so the window is a queue, and the correlation id
only confirms that order. Belongs to its connection (connection.py), on the driver's thread.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from typing import Any

from pykafka2.clock import FOREVER
from pykafka2.errors import CorruptData, CorruptResponse, KafkaError, UnsupportedVersion
from pykafka2.network.frames import Frame
from pykafka2.protocol.framing import decode_response_body
from pykafka2.protocol.registry import ApiKey
from pykafka2.protocol.struct import Request
from pykafka2.slotted import slotted

OnResponse = Callable[[Any, float], None]
OnFailure = Callable[[KafkaError, float], None]

MAX_CORRELATION_ID = 0x7FFFFFFF

_CORRELATION_ID = struct.Struct(">i")
_ERROR_AFTER_ID = struct.Struct(">ih")


@slotted(eq=False)
class InFlight:
    """A request in flight."""

    request: Request[Any]
    version: int
    correlation_id: int
    sent_at: float
    deadline: float
    on_response: OnResponse
    on_failure: OnFailure

    @property
    def api(self) -> str:
        """The API's name, such as `Heartbeat`."""
        return self.request.NAME.removesuffix("Request")

    def decode(self, frame: Frame, broker: str) -> Any:
        """Return the response that the frame holds.

        Raise CorruptResponse if it belongs to another request or cannot be decoded.
        """
        if len(frame) < 4:
            raise CorruptResponse(f"{broker} sent a response of {len(frame)} bytes")
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
        if correlation_id != self.correlation_id:
            raise CorruptResponse(
                f"{broker} responded to correlation id {correlation_id} instead of {self.correlation_id} "
                f"({self.api})"
            )
        version = self.version
        if self.request.API_KEY == ApiKey.API_VERSIONS and _is_refusal(frame):
            version = 0  # a broker that does not support the version responds in the oldest (KIP-511)
        try:
            return decode_response_body(frame, type(self.request), version)
        except CorruptData as error:
            raise CorruptResponse(f"{broker}: {error}") from error


class InFlightWindow(deque[InFlight]):
    """The requests in flight; the next response belongs to the first one."""

    __slots__ = ()

    def take_overdue(self, now: float) -> list[InFlight]:
        """Remove and return the requests that have timed out, wherever they are in the queue."""
        overdue = [request for request in self if request.deadline <= now]
        for request in overdue:
            self.remove(request)
        return overdue

    def take_all(self) -> list[InFlight]:
        taken = list(self)
        self.clear()
        return taken

    def next_deadline(self) -> float:
        """Return the earliest deadline, or FOREVER if the window is empty."""
        deadline = FOREVER
        for request in self:
            if request.deadline < deadline:
                deadline = request.deadline
        return deadline

    def last_deadline(self) -> float:
        """Return the latest deadline, or -FOREVER if the window is empty."""
        return max((request.deadline for request in self), default=-FOREVER)


def _is_refusal(frame: Frame) -> bool:
    if len(frame) < _ERROR_AFTER_ID.size:
        return False
    _, error_code = _ERROR_AFTER_ID.unpack_from(frame)
    return bool(error_code == UnsupportedVersion.code)
