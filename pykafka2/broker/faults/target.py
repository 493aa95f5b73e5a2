"""The interface of a broker for faults.

A broker is passed to the fault rules with each request, as a `Target`. Access requires the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from pykafka2.broker.base.image import ClusterImage
from pykafka2.broker.base.timing_wheel import TimingWheel
from pykafka2.broker.server.request_context import RequestContext
from pykafka2.clock import Clock
from pykafka2.protocol.struct import Response


class Target(Protocol):
    """One broker, as fault rules use it."""

    image: ClusterImage
    """The broker's image; a rule can replace it by an older one for a single response."""

    @property
    def id(self) -> int: ...

    @property
    def wheel(self) -> TimingWheel: ...

    @property
    def clock(self) -> Clock: ...

    def handle(self, context: RequestContext, now: float) -> None:
        """Handle a request that was delayed on a link; rules can still match it."""
        ...

    def answer(self, context: RequestContext, now: float) -> None:
        """Handle a request regardless of rules."""
        ...

    def enqueue(self, context: RequestContext) -> None:
        """Queue a request that was held or delayed."""
        ...

    def enqueue_late(self, context: RequestContext) -> None:
        """Queue a request whose connection is closed by now."""
        ...

    def refused(self, context: RequestContext, code: int | None) -> Response | None:
        """Return a response with the error in every field, or close the connection if there is none."""
        ...

    def on_reply(self, context: RequestContext, response: Response | None) -> bool:
        """Called with each response. Return False if a fault takes over the response."""
        ...

    def in_fetch_session(self, session_id: int) -> Iterable[tuple[str, int]]:
        """Return the partitions of a fetch session; empty if it is unknown."""
        ...
