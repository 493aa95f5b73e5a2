"""The requests of one connection whose answers are awaited, oldest first.

Kafka answers the requests of a connection in their order, so the window is a queue and a correlation id only
proves that both sides count alike.  Belongs to its connection (connection.py), on the driver's thread.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from typing import Any

import attrs

from pykafka2.clock import FOREVER
from pykafka2.errors import CorruptData, CorruptResponse, KafkaError, UnsupportedVersion
from pykafka2.network.frames import Frame
from pykafka2.protocol.framing import decode_response_body
from pykafka2.protocol.registry import ApiKey
from pykafka2.protocol.struct import Request

OnResponse = Callable[[Any, float], None]
OnFailure = Callable[[KafkaError, float], None]

MAX_CORRELATION_ID = 0x7FFFFFFF

_CORRELATION_ID = struct.Struct(">i")
_ERROR_AFTER_ID = struct.Struct(">ih")


@attrs.define(eq=False)
class InFlight:
    """A request whose answer is awaited."""

    request: Request[Any]
    version: int
    correlation_id: int
    sent_at: float
    deadline: float
    on_response: OnResponse
    on_failure: OnFailure

    @property
    def api(self) -> str:
        """The request's name as people say it, such as `Heartbeat`."""
        return self.request.NAME.removesuffix("Request")

    def decode(self, frame: Frame, broker: str) -> Any:
        """The response that the frame holds.

        Raises `CorruptResponse` naming the broker: it is the answer to another request, or none at all.
        """
        if len(frame) < 4:
            raise CorruptResponse(f"{broker} sent a response of {len(frame)} bytes")
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
        if correlation_id != self.correlation_id:
            raise CorruptResponse(
                f"{broker} answered correlation id {correlation_id} where {self.correlation_id} "
                f"({self.api}) was due"
            )
        version = self.version
        if self.request.API_KEY == ApiKey.API_VERSIONS and _is_refusal(frame):
            version = 0  # a broker that does not know the version answers in the oldest (KIP-511)
        try:
            return decode_response_body(frame, type(self.request), version)
        except CorruptData as error:
            raise CorruptResponse(f"{broker}: {error}") from error


class InFlightWindow:
    """The queue of those, and the next correlation id."""

    __slots__ = ("_next_id", "_waiting")

    def __init__(self) -> None:
        self._next_id = 0
        self._waiting: deque[InFlight] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def next_id(self) -> int:
        """The id that `take_id` will return."""
        return self._next_id

    def take_id(self) -> int:
        """A correlation id; they count on from 0 and start again after the largest int32."""
        taken = self._next_id
        self._next_id = 0 if taken == MAX_CORRELATION_ID else taken + 1
        return taken

    def add(self, waiting: InFlight) -> None:
        self._waiting.append(waiting)

    def take_oldest(self) -> InFlight | None:
        """The one that the next response answers."""
        return self._waiting.popleft() if self._waiting else None

    def take_overdue(self, now: float) -> list[InFlight]:
        """Those whose deadline has come.  Timeouts differ, so it may be any of them."""
        overdue = [waiting for waiting in self._waiting if waiting.deadline <= now]
        for waiting in overdue:
            self._waiting.remove(waiting)
        return overdue

    def take_all(self) -> list[InFlight]:
        taken = list(self._waiting)
        self._waiting.clear()
        return taken

    def next_deadline(self) -> float:
        """The earliest deadline; FOREVER if nothing is awaited."""
        deadline = FOREVER
        for waiting in self._waiting:
            if waiting.deadline < deadline:
                deadline = waiting.deadline
        return deadline

    def last_deadline(self) -> float:
        """The latest deadline, by which all that is awaited has come or failed; -FOREVER if nothing is."""
        return max((waiting.deadline for waiting in self._waiting), default=-FOREVER)


def _is_refusal(frame: Frame) -> bool:
    if len(frame) < _ERROR_AFTER_ID.size:
        return False
    _, error_code = _ERROR_AFTER_ID.unpack_from(frame)
    return bool(error_code == UnsupportedVersion.code)
