"""Requests held by a fault rule, and the origin of those whose connection is closed."""

from __future__ import annotations

import attrs

from pykafka2.broker.faults.rule import FaultRule
from pykafka2.broker.faults.target import Target
from pykafka2.broker.security.principal import Caller
from pykafka2.broker.server.request_context import RequestContext
from pykafka2.protocol.struct import Response


@attrs.define(eq=False)
class Held:
    """A request held by a rule; `is_late` if its connection is closed by now."""

    target: Target
    context: RequestContext
    rule: FaultRule
    is_late: bool = False

    def release(self) -> None:
        """Queue the request on its broker."""
        if self.is_late:
            self.target.enqueue_late(self.context)
        else:
            self.target.enqueue(self.context)


class DeadOrigin:
    """The `Origin` of a request whose connection is closed: its response is dropped."""

    __slots__ = ("caller", "peer")

    is_broker = False
    authentication = None
    parts: tuple[str, ...] = ("a dead connection",)

    def __init__(self, peer: str, caller: Caller) -> None:
        self.peer = peer
        self.caller = caller

    def deliver(self, context: RequestContext, response: Response | None) -> None:
        """Do nothing: the connection is closed."""

    def local_processed(self, context: RequestContext) -> None:
        """Do nothing: no request follows on a closed connection."""

    def disconnect(self, context: RequestContext, *, reset: bool = False) -> None:
        """Do nothing: the connection is closed."""
