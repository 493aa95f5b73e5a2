"""Requests that a fault rule keeps, and where they come from if their connection is dead when they go on."""

from __future__ import annotations

import attrs

from pykafka2.broker.faults.rule import FaultRule
from pykafka2.broker.faults.target import Target
from pykafka2.broker.security.caller import Caller
from pykafka2.broker.server.request_context import RequestContext
from pykafka2.protocol.struct import Response


@attrs.define(eq=False)
class Held:
    """A request that a rule keeps; `is_late` if its connection is dead by now."""

    target: Target
    context: RequestContext
    rule: FaultRule
    is_late: bool = False

    def let_go(self) -> None:
        if self.is_late:
            self.target.take_in(self.context)
        else:
            self.target.go_on(self.context)


class DeadOrigin:
    """`Origin` of a request whose connection is gone: its answer goes nowhere."""

    __slots__ = ("caller", "peer")

    is_broker = False
    authentication = None
    parts: tuple[str, ...] = ("a dead connection",)

    def __init__(self, peer: str, caller: Caller) -> None:
        self.peer = peer
        self.caller = caller

    def deliver(self, context: RequestContext, response: Response | None) -> None:
        """Nobody listens."""

    def local_processed(self, context: RequestContext) -> None:
        """Nothing follows on a dead connection."""

    def disconnect(self, context: RequestContext, *, reset: bool = False) -> None:
        """It is gone."""
