"""Links between clients and brokers, by client id: cut, silent, delayed, or rate-limited.

A link acts on whole requests and responses, at the same place as fault rules, which get the broker of each
request as a `Target`. So it needs no support from the network and works the same on sockets and in the
simulation. The order on a connection is kept. Access requires the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import attrs

from pykafka2.broker.base.image import ClusterImage
from pykafka2.broker.base.timing_wheel import TimingWheel
from pykafka2.broker.server.request_context import FaultMarks, Origin, RequestContext
from pykafka2.clock import Clock
from pykafka2.protocol.framing import encode_response
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

    def dispatch(self, context: RequestContext, now: float) -> None:
        """Pass a request to its API, whatever rules match it."""
        ...

    def enqueue(self, context: RequestContext) -> None:
        """Queue a request that was held or delayed."""
        ...

    def enqueue_late(self, context: RequestContext) -> None:
        """Queue a request whose connection is closed by now."""
        ...

    def refused(self, context: RequestContext, code: int) -> Response | None:
        """Return the error response, or close the connection if there is none."""
        ...

    def on_response(self, context: RequestContext, response: Response | None) -> bool:
        """Called with each response. Return False if a fault takes over the response."""
        ...

    def in_fetch_session(self, session_id: int) -> Iterable[tuple[str, int]]:
        """Return the partitions of a fetch session; empty if it is unknown."""
        ...


LinkKey = tuple[str, int | None]

Way = tuple[int, Origin]
"""A broker, and a connection to it."""


@attrs.define(eq=False)
class ClientLink:
    """The link between a client and one broker, or all (`broker` None). `rate` in bytes per second."""

    client_id: str
    broker: int | None
    is_cut: bool = False
    is_silent: bool = False
    delay: float = 0.0
    rate: float | None = None
    requests_free_at: float = 0.0
    responses_free_at: float = 0.0

    def is_between(self, broker_id: int, context: RequestContext) -> bool:
        """Return whether a request to this broker passes over the link."""
        return context.client_id == self.client_id and self.broker in (None, broker_id)

    def carry_request(self, size_bytes: int, now: float) -> float:
        """Send a request now. Return when it arrives."""
        if self.rate is not None:
            self.requests_free_at = max(now, self.requests_free_at) + size_bytes / self.rate
        return max(now, self.requests_free_at) + self.delay

    def carry_response(self, size_bytes: int, now: float) -> float:
        """Send a response now. Return when it arrives."""
        if self.rate is not None:
            self.responses_free_at = max(now, self.responses_free_at) + size_bytes / self.rate
        return max(now, self.responses_free_at) + self.delay


class ClientLinks:
    """All client links with a fault. `on_changed` is called when `is_active` can have changed."""

    def __init__(self, on_changed: Callable[[], object] = lambda: None) -> None:
        self.links: dict[LinkKey, ClientLink] = {}
        self.is_active = False
        """Whether requests must be checked: a link has a fault, or delayed requests are in flight."""
        self._under_way: dict[Way, float] = {}
        """When the last request in flight on a connection arrives."""
        self._on_changed = on_changed

    def _changed(self) -> None:
        self.is_active = bool(self.links or self._under_way)
        self._on_changed()

    def link(self, client_id: str, broker: int | None) -> ClientLink:
        """Return the link, and create it if necessary."""
        link = self.links.setdefault((client_id, broker), ClientLink(client_id, broker))
        self._changed()
        return link

    def heal(self) -> None:
        """Restore all links.

        What a silent link lost stays lost; requests in flight still arrive at their time.
        """
        self.links.clear()
        self._changed()

    def forget(self, broker_id: int) -> None:
        """Drop the requests in flight to a stopped broker."""
        self._under_way = {way: due for way, due in self._under_way.items() if way[0] != broker_id}
        self._changed()

    def carry(self, target: Target, context: RequestContext, now: float) -> bool:
        """Carry a request over its links. Return True if it has not arrived yet, or never will."""
        marks = context.faults
        if (marks is not None and marks.is_carried) or context.is_from_broker:
            return False
        links = [link for link in self.links.values() if link.is_between(target.id, context)]
        way = (target.id, context.origin)
        # A request must not overtake an earlier one of its connection, even if the link is faster now.
        before = self._under_way.get(way)
        if not links and before is None:
            return False
        marks = context.faults = marks or FaultMarks()
        marks.is_carried = True
        if any(link.is_cut for link in links):
            if not any(link.is_silent for link in links):
                context.close(reset=True)
            return True
        due = max((link.carry_request(context.received.size_bytes, now) for link in links), default=now)
        if before is not None:
            due = max(due, before)
        elif due <= now:
            return False
        self._under_way[way] = due  # active already, by a link or by `before`
        # The connection's next request is sent now too; it stays in order because it is due later.
        context.local_processed()
        target.wheel.add(due, lambda at: self._arrive(target, way, due, context, at))
        return True

    def _arrive(self, target: Target, way: Way, due: float, context: RequestContext, now: float) -> None:
        if self._under_way.get(way) == due:
            del self._under_way[way]
            self._changed()
        target.handle(context, now)

    def carry_back(self, target: Target, context: RequestContext, response: Response | None) -> bool:
        """Carry a response over its links.

        Return True if it can be sent at once; otherwise it is delayed or lost.
        """
        if not self.links or context.is_from_broker or response is None:
            return True
        links = [link for link in self.links.values() if link.is_between(target.id, context)]
        if any(link.is_cut for link in links):
            if not any(link.is_silent for link in links):
                context.origin.disconnect(context, reset=True)
            return False
        now = target.clock.monotonic()
        size = 0
        if any(link.rate is not None for link in links):
            size = sum(map(len, encode_response(response, context.version, context.received.correlation_id)))
        due = max((link.carry_response(size, now) for link in links), default=now)
        if due <= now:
            return True
        target.wheel.add(due, lambda at: context.origin.deliver(context, response))
        return False
