"""The controls of requests and answers: fault rules as data, and short words for the common ones.

Part of `Controls` (controls.py).  Any thread but the cluster's own; a rule is in force when the call
returns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from pykafka2.broker.base.names import api_key, error_name
from pykafka2.broker.faults.rule import FOR_EVER, Action, FaultRule, Reply, Where, check_keys
from pykafka2.broker.faults.throttle import ThrottleRule
from pykafka2.errors import BrokerError
from pykafka2.protocol.registry import request_class
from pykafka2.protocol.struct import Request

if TYPE_CHECKING:
    from typing import Unpack

    from pykafka2.testing.cluster import KafkaCluster

AnyRequest = str | int | type[Request[Any]]
"""An API by name ("Produce"), key (0) or request class."""


class Match(TypedDict, total=False):
    """What a short word's rule may depend on; see `FaultRule`."""

    topic: str | None
    partition: int | None
    client_id: str | None
    broker: int | None
    between_brokers: bool


class Matching(Match, total=False):
    """What a rule may depend on, and how it goes on; see `FaultRule`."""

    api: AnyRequest | None
    where: Where | None
    nth: int | None
    every: int | None
    times: int | None
    reset: bool | None
    reply: Reply | None


class RuleControls:
    """Fault rules: `controls.rule(api="Produce", nth=3, then="apply_then_lose_reply")`."""

    _cluster: KafkaCluster

    def rule(self, *, then: str | type[BrokerError] | None = None, **matching: Unpack[Matching]) -> FaultRule:
        """Plant a rule; the arguments are those of `FaultRule`, and `then` may be an error's class.

        Returns the rule: `.fired` counts.  Raises `ConfigurationError` naming the nearest word for a
        misspelt api, key, action or error, and without `then`.
        """
        if then is None:
            return self.add_rule(matching)
        if isinstance(then, type):
            then = f"{Action.ERROR.value}:{error_name(then)}"
        return self.add_rule({"then": then, **matching})

    def add_rule(self, rule: FaultRule | Mapping[str, Any]) -> FaultRule:
        """Plant a rule that was made before, or one from a mapping, such as JSON."""
        if not isinstance(rule, FaultRule):
            check_keys(rule)
            rule = FaultRule.from_dict(rule)
        self._cluster.check()
        if rule.broker is not None:
            self._cluster.broker(rule.broker)
        with self._cluster.lock:
            return self._cluster.faults.add(rule, self._cluster.controller.image)

    def rules(self) -> list[FaultRule]:
        """Those planted since the last `clear`, spent ones included: see `seen`, `fired` and `is_spent`."""
        with self._cluster.lock:
            return list(self._cluster.faults.planted)

    def remove_rule(self, rule: FaultRule | int) -> None:
        """Take back a rule (or the one with this id); what it holds goes on."""
        with self._cluster.lock:
            faults = self._cluster.faults
            faults.remove(faults.find(rule) if isinstance(rule, int) else rule)

    def clear(self) -> None:
        """Take back every rule and throttle, and release what is held."""
        self.unthrottle()
        with self._cluster.lock:
            self._cluster.faults.clear()

    # ------------------------------------------------------------------ throttling

    def throttle(
        self,
        client_id: str | None,
        request: AnyRequest | None,
        seconds: float,
        *,
        times: int = FOR_EVER,
    ) -> ThrottleRule:
        """Throttle a client's requests of one API (None: any client, any API), as when a quota is violated.

        The reply says throttle_time_ms at once, then the connection is not read for so long.
        """
        known = None if request is None else request_class(api_key(request))
        with self._cluster.lock:
            return self._cluster.throttles.add(client_id, known, seconds, times)

    def throttles(self) -> list[ThrottleRule]:
        """Those planted since the last `unthrottle()` or `clear`, spent ones included: see `fired`."""
        with self._cluster.lock:
            return list(self._cluster.throttles.planted)

    def unthrottle(self, rule: ThrottleRule | int | None = None) -> None:
        """End one rule (or the one with this id), or all; connections that are muted stay so until their time
        is up.
        """
        with self._cluster.lock:
            throttles = self._cluster.throttles
            if rule is None:
                throttles.clear()
            else:
                throttles.remove(throttles.find(rule) if isinstance(rule, int) else rule)

    # ------------------------------------------------------------------ holding

    def hold(self, request: AnyRequest, *, times: int = FOR_EVER, **match: Unpack[Match]) -> FaultRule:
        """Let requests of this API wait, unread, until `release`; others behind them on a connection wait
        too.
        """
        return self._plant(Action.HOLD, request, times, match)

    def release(self, request: AnyRequest | None = None) -> None:
        """End `hold` (of one API): what was held is handled now, and late frames of `replay` arrive."""
        with self._cluster.lock:
            self._cluster.faults.release(request)

    def held(self, request: AnyRequest | None = None) -> int:
        """How many requests are being held."""
        with self._cluster.lock:
            return self._cluster.faults.held(request)

    # ------------------------------------------------------------------ short words

    def fail_next(
        self, request: AnyRequest, error: type[BrokerError], times: int = 1, **match: Unpack[Match]
    ) -> FaultRule:
        """Answer the next requests of this API with an error, without acting on them."""
        return self._plant(Action.ERROR, request, times, match, f":{error_name(error)}")

    def delay(
        self, request: AnyRequest, seconds: float, *, times: int = FOR_EVER, **match: Unpack[Match]
    ) -> FaultRule:
        """Handle requests of this API that much later."""
        return self._plant(Action.DELAY, request, times, match, f":{seconds}")

    def lose_reply(self, request: AnyRequest, times: int = 1, **match: Unpack[Match]) -> FaultRule:
        """Act on the request, then reset the connection instead of answering."""
        return self._plant(Action.LOSE_REPLY, request, times, match)

    def disconnect_next(self, request: AnyRequest, times: int = 1, **match: Unpack[Match]) -> FaultRule:
        """Reset the connection instead of acting on the request."""
        return self._plant(Action.CLOSE_BEFORE, request, times, match, reset=True)

    def _plant(
        self,
        action: Action,
        request: AnyRequest,
        times: int,
        match: Mapping[str, Any],
        argument: str = "",
        **more: Any,
    ) -> FaultRule:
        return self.add_rule(
            {"then": action.value + argument, "api": request, "times": times, **match, **more}
        )
