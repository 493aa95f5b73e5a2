"""Faults that a test plants in the brokers' answers: refuse, hold, delay, or apply and then lose the reply.

A rule matches requests of clients by API, and by topic, client id and broker where these are given, a
number of times or until it is taken back.  Requests between brokers are never touched (their links are cut
instead).  Under the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any

import attrs

from pykafka2.errors import BrokerError, ConfigurationError
from pykafka2.protocol.struct import Request
from pykafka2.testing.handlers.registry import APIS

if TYPE_CHECKING:
    from pykafka2.testing.broker import Broker
    from pykafka2.testing.server.request_channel import RequestContext

FOR_EVER = -1


class Fault(Enum):
    """What happens to a request that matches."""

    REFUSE = "refuse"
    HOLD = "hold"
    DELAY = "delay"
    LOSE_REPLY = "lose the reply"
    DISCONNECT = "disconnect"


@attrs.define(eq=False)
class FaultRule:
    """One planted fault; `times` counts down, -1 lasts until it is taken back; `fired` counts up."""

    fault: Fault
    request: type[Request[Any]]
    times: int = 1
    error: type[BrokerError] | None = None
    seconds: float = 0.0
    topic: str | None = None
    client_id: str | None = None
    broker: int | None = None
    fired: int = 0

    def matches(self, broker: Broker, context: RequestContext) -> bool:
        return (
            context.api_key == self.request.API_KEY
            and self.times != 0
            and (self.client_id is None or context.client_id == self.client_id)
            and (self.broker is None or broker.id == self.broker)
            and (self.topic is None or self.topic in _topics_of(broker, context.request))
        )


class Faults:
    """The rules of one cluster, and the requests that they hold."""

    def __init__(self) -> None:
        self.rules: list[FaultRule] = []
        self._held: list[tuple[Broker, RequestContext]] = []

    def add(self, rule: FaultRule) -> FaultRule:
        """Plant a fault; refuses an API that no broker serves, or that has no error to give."""
        api = APIS.get(rule.request.API_KEY)
        if api is None:
            served = ", ".join(sorted(known.name for known in APIS.values()))
            raise ConfigurationError(f"{rule.request.__name__} is not served; served are {served}")
        if rule.fault is Fault.REFUSE and rule.error is None:
            raise ConfigurationError("say which error the request is refused with")
        self.rules.append(rule)
        return rule

    def take(self, broker: Broker, context: RequestContext) -> FaultRule | None:
        """The first rule that matches a request, used up by one."""
        for rule in self.rules:
            if rule.matches(broker, context):
                rule.fired += 1
                if rule.times > 0:
                    rule.times -= 1
                    if not rule.times:
                        self.rules.remove(rule)
                return rule
        return None

    def hold(self, broker: Broker, context: RequestContext) -> None:
        self._held.append((broker, context))

    def held(self, request: type[Request[Any]] | None = None) -> int:
        """How many requests are held."""
        return len(self._select(request))

    def release(self, request: type[Request[Any]] | None) -> None:
        """End holding (of one API): what was held goes on, in the order of its arrival."""
        self.rules = [
            rule
            for rule in self.rules
            if rule.fault is not Fault.HOLD or (request is not None and rule.request is not request)
        ]
        released = self._select(request)
        self._held = [one for one in self._held if one not in released]
        for broker, context in released:
            broker.go_on(context)

    def forget(self, broker: Broker) -> None:
        """A broker is gone, and what it held with it."""
        self._held = [one for one in self._held if one[0] is not broker]

    def clear(self) -> None:
        """No more faults; what was held goes on."""
        self.rules.clear()
        self.release(None)

    def _select(self, request: type[Request[Any]] | None) -> list[tuple[Broker, RequestContext]]:
        # What is answered by now has lost its connection meanwhile.
        self._held = [one for one in self._held if not one[1].is_answered]
        return [one for one in self._held if request is None or one[1].api_key == request.API_KEY]


def _topics_of(broker: Broker, request: Any) -> set[str]:
    """The topics that a request names, by name or by id, wherever its API keeps them."""
    parts: Iterable[Any] = (
        *(getattr(request, "topic_data", None) or ()),
        *(getattr(request, "topics", None) or ()),
    )
    names: set[str] = set()
    for part in parts:
        name = getattr(part, "name", None) or getattr(part, "topic", None)
        if not name:
            known = broker.image.topic_by_id(getattr(part, "topic_id", b""))
            name = known.name if known is not None else None
        if name:
            names.add(name)
    return names
