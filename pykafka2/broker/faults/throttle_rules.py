"""Throttling on demand: a response has throttle_time_ms, and its connection is muted for that time.

This is the effect of exceeded quotas in Kafka (KIP-219), without a quota; those are in broker/quotas/.
Access requires the cluster's lock.
"""

from __future__ import annotations

from typing import Any

import attrs

from pykafka2.broker.base.arguments import check_client
from pykafka2.broker.faults.rule import RuleList
from pykafka2.broker.server.request_context import RequestContext
from pykafka2.errors import ConfigurationError
from pykafka2.protocol.struct import Request, Response

FOR_EVER = -1
LONGEST = 2_147_483.0
"""Maximum in seconds; throttle_time_ms has 31 bits."""


@attrs.define(eq=False)
class ThrottleRule:
    """Throttles requests of a client and API (None: any) by `seconds`.

    `times` counts down, -1 has no limit.
    """

    client_id: str | None
    api_key: int | None
    seconds: float
    times: int = FOR_EVER
    fired: int = 0
    id: int = 0


class Throttles:
    """The throttle rules of one cluster."""

    def __init__(self) -> None:
        self.rules: RuleList[ThrottleRule] = RuleList("throttle", "throttles")

    def add(
        self, client_id: str | None, request: type[Request[Any]] | None, seconds: float, times: int
    ) -> ThrottleRule:
        if client_id is not None:
            check_client(client_id)
        is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if not is_number or not 0 <= seconds <= LONGEST:
            raise ConfigurationError(f"throttle by seconds={seconds!r}: use a number from 0 to {LONGEST:g}")
        is_count = isinstance(times, int) and not isinstance(times, bool)
        if not is_count or (times != FOR_EVER and times < 1):
            raise ConfigurationError(
                f"throttle times={times!r}: use a number of at least 1, or {FOR_EVER} for no limit"
            )
        key = None if request is None else request.API_KEY
        return self.rules.add(ThrottleRule(client_id, key, seconds, times))

    def remove(self, rule: ThrottleRule) -> None:
        """Remove a rule; throttled connections stay muted. Can be called repeatedly."""
        self.rules.expire(rule)

    def apply(self, context: RequestContext, response: Response | None) -> None:
        """Throttle a response if a rule matches its request; the first matching rule counts."""
        for rule in self.rules.active:
            if rule.client_id not in (None, context.client_id) or rule.api_key not in (None, context.api_key):
                continue
            rule.fired += 1
            if rule.times > 0:
                rule.times -= 1
                if not rule.times:
                    self.remove(rule)
            context.delivery.throttle = rule.seconds
            if response is not None and "throttle_time_ms" in type(response).__slots__:
                response.throttle_time_ms = int(rule.seconds * 1000)  # type: ignore[attr-defined]
            return
