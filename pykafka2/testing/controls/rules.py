"""Controls of requests and responses: fault rules as data, and shortcuts for common ones.

Part of `Controls` (controls/controls.py), which documents them.  Any thread except the cluster's own; a rule
is active when the call returns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict, Unpack

from pykafka2.broker.base.arguments import api_key, error_name
from pykafka2.broker.faults.rule import FOR_EVER, Action, FaultRule, Reply, Where, check_keys
from pykafka2.broker.faults.throttle import ThrottleRule
from pykafka2.errors import BrokerError
from pykafka2.protocol.registry import request_class
from pykafka2.protocol.struct import Request
from pykafka2.testing.running import Running

AnyRequest = str | int | type[Request[Any]]
"""An API by name ("Produce"), key (0) or request class."""


class Match(TypedDict, total=False):
    """Conditions of a shortcut's rule; see `FaultRule`."""

    topic: str | None
    partition: int | None
    client_id: str | None
    broker: int | None
    between_brokers: bool


class Matching(Match, total=False):
    """Conditions and course of a rule; see `FaultRule`."""

    api: AnyRequest | None
    where: Where | None
    nth: int | None
    every: int | None
    times: int | None
    reset: bool | None
    reply: Reply | None


class RuleControls:
    """Fault rules: `controls.rule(api="Produce", nth=3, then="apply_then_lose_reply")`."""

    def __init__(self, running: Running) -> None:
        self._running = running

    def rule(self, *, then: str | type[BrokerError] | None = None, **matching: Unpack[Matching]) -> FaultRule:
        if then is None:
            return self.add_rule(matching)
        if isinstance(then, type):
            then = f"{Action.ERROR.value}:{error_name(then)}"
        return self.add_rule({"then": then, **matching})

    def add_rule(self, rule: FaultRule | Mapping[str, Any]) -> FaultRule:
        if not isinstance(rule, FaultRule):
            check_keys(rule)
            rule = FaultRule.from_dict(rule)
        self._running.check()
        if rule.broker is not None:
            self._running.broker(rule.broker)
        with self._running.lock:
            return self._running.faults.add(rule, self._running.controllers.image)

    def rules(self) -> list[FaultRule]:
        with self._running.lock:
            return list(self._running.faults.rules.all)

    def remove_rule(self, rule: FaultRule | int) -> None:
        with self._running.lock:
            faults = self._running.faults
            faults.remove(faults.rules.find(rule) if isinstance(rule, int) else rule)

    def clear(self) -> None:
        self.unthrottle()
        with self._running.lock:
            self._running.faults.clear()

    # ------------------------------------------------------------------ throttling

    def throttle(
        self,
        client_id: str | None,
        request: AnyRequest | None,
        seconds: float,
        *,
        times: int = FOR_EVER,
    ) -> ThrottleRule:
        known = None if request is None else request_class(api_key(request))
        with self._running.lock:
            return self._running.throttles.add(client_id, known, seconds, times)

    def throttles(self) -> list[ThrottleRule]:
        with self._running.lock:
            return list(self._running.throttles.rules.all)

    def unthrottle(self, rule: ThrottleRule | int | None = None) -> None:
        with self._running.lock:
            throttles = self._running.throttles
            if rule is None:
                throttles.rules.clear()
            else:
                throttles.remove(throttles.rules.find(rule) if isinstance(rule, int) else rule)

    # ------------------------------------------------------------------ holding

    def hold(self, request: AnyRequest, *, times: int = FOR_EVER, **match: Unpack[Match]) -> FaultRule:
        return self._plant(Action.HOLD, request, times, match)

    def release(self, request: AnyRequest | None = None) -> None:
        with self._running.lock:
            self._running.faults.release(request)

    def held(self, request: AnyRequest | None = None) -> int:
        with self._running.lock:
            return self._running.faults.held(request)

    # ------------------------------------------------------------------ short words

    def fail_next(
        self, request: AnyRequest, error: type[BrokerError], times: int = 1, **match: Unpack[Match]
    ) -> FaultRule:
        return self._plant(Action.ERROR, request, times, match, f":{error_name(error)}")

    def delay(
        self, request: AnyRequest, seconds: float, *, times: int = FOR_EVER, **match: Unpack[Match]
    ) -> FaultRule:
        return self._plant(Action.DELAY, request, times, match, f":{seconds}")

    def lose_reply(self, request: AnyRequest, times: int = 1, **match: Unpack[Match]) -> FaultRule:
        return self._plant(Action.LOSE_REPLY, request, times, match)

    def disconnect_next(self, request: AnyRequest, times: int = 1, **match: Unpack[Match]) -> FaultRule:
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
