"""The links between clients and brokers, by client id: cut, silent, slow, or narrow.

A link works on whole requests and answers, where fault rules work too, so it needs no help from the
network and is the same on sockets and in the simulation.  Order on a connection is kept.  Under the
cluster's lock.
"""

from __future__ import annotations

import attrs

from pykafka2.broker.faults.target import Target
from pykafka2.broker.server.context_parts import FaultMarks
from pykafka2.broker.server.request_context import Origin, RequestContext
from pykafka2.protocol.framing import encode_response
from pykafka2.protocol.struct import Response

LinkKey = tuple[str, int | None]

Way = tuple[int, Origin]
"""A broker, and a connection to it."""


@attrs.define(eq=False)
class ClientLink:
    """What lies between a client and one broker, or all (`broker` None).  `rate` in bytes per second."""

    client_id: str
    broker: int | None
    is_cut: bool = False
    is_silent: bool = False
    delay: float = 0.0
    rate: float | None = None
    requests_free_at: float = 0.0
    answers_free_at: float = 0.0

    def is_between(self, broker_id: int, context: RequestContext) -> bool:
        """Whether a request to this broker comes over it."""
        return context.client_id == self.client_id and self.broker in (None, broker_id)

    def carry_request(self, size_bytes: int, now: float) -> float:
        """Take a request that sets out now; when it arrives."""
        if self.rate is not None:
            self.requests_free_at = max(now, self.requests_free_at) + size_bytes / self.rate
        return max(now, self.requests_free_at) + self.delay

    def carry_answer(self, size_bytes: int, now: float) -> float:
        """Take an answer that sets out now; when it arrives."""
        if self.rate is not None:
            self.answers_free_at = max(now, self.answers_free_at) + size_bytes / self.rate
        return max(now, self.answers_free_at) + self.delay


class ClientLinks:
    """All links that are not as they should be."""

    def __init__(self) -> None:
        self.links: dict[LinkKey, ClientLink] = {}
        self._under_way: dict[Way, float] = {}
        """When the last request that is under way on a connection arrives."""

    @property
    def is_active(self) -> bool:
        """Whether requests must be looked at: a link is not as it should be, or was not just now."""
        return bool(self.links or self._under_way)

    def link(self, client_id: str, broker: int | None) -> ClientLink:
        """The link to change; made if need be."""
        return self.links.setdefault((client_id, broker), ClientLink(client_id, broker))

    def heal(self) -> None:
        """All links are as they should be.  What a silent one lost stays lost, what is under way arrives when
        it would have.
        """
        self.links.clear()

    def forget(self, broker_id: int) -> None:
        """A broker is gone: what was under way to it never arrives."""
        self._under_way = {way: due for way, due in self._under_way.items() if way[0] != broker_id}

    def carry(self, target: Target, context: RequestContext, now: float) -> bool:
        """Carry a request over its links; True if it is not there yet, or never will be."""
        marks = context.faults
        if (marks is not None and marks.is_carried) or context.is_from_broker:
            return False
        links = [link for link in self.links.values() if link.is_between(target.id, context)]
        way = (target.id, context.origin)
        # No request overtakes an earlier one of its connection, however much faster the link is by now.
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
        self._under_way[way] = due
        # What follows on the connection sets out now too; it is handled in order, since it is due later.
        context.local_processed()
        target.wheel.add(due, lambda at: self._arrive(target, way, due, context, at))
        return True

    def _arrive(self, target: Target, way: Way, due: float, context: RequestContext, now: float) -> None:
        if self._under_way.get(way) == due:
            del self._under_way[way]
        target.handle(context, now)

    def carry_back(self, target: Target, context: RequestContext, response: Response | None) -> bool:
        """Carry an answer over its links; True if nothing keeps it, so that it may leave at once.
        Otherwise it leaves later, or is lost.
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
        due = max((link.carry_answer(size, now) for link in links), default=now)
        if due <= now:
            return True
        target.wheel.add(due, lambda at: context.origin.deliver(context, response))
        return False
