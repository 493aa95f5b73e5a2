"""Controls of requests and responses: fault rules as data, and shortcuts for common ones.

A mixin of `Controls` (controls/controls.py).  Any thread except the cluster's own; a rule is active
when the call returns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict, Unpack

from pykafka2.broker.base.arguments import api_key, error_name
from pykafka2.broker.faults.rule import FOR_EVER, Action, FaultRule, Reply, Where
from pykafka2.broker.faults.throttle_rules import ThrottleRule
from pykafka2.errors import BrokerError, ConfigurationError
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

    _running: Running

    def rule(self, *, then: str | type[BrokerError] | None = None, **matching: Unpack[Matching]) -> FaultRule:
        """Add a rule; the arguments are those of `FaultRule`, and `then` can be an error class.

        Return the rule, which counts in `.fired`.  Raise `ConfigurationError` without `then`, or for a
        misspelt api, key, action or error; the message names the nearest.
        """
        if then is None:
            return self.add_rule(matching)
        if isinstance(then, type):
            then = f"{Action.ERROR.value}:{error_name(then)}"
        return self.add_rule({"then": then, **matching})

    def add_rule(self, rule: FaultRule | Mapping[str, Any]) -> FaultRule:
        """Add a `FaultRule`, or a rule from a mapping, such as JSON."""
        if isinstance(rule, Mapping):
            rule = FaultRule.from_dict(rule)
        elif not isinstance(rule, FaultRule):
            raise ConfigurationError(f"{rule!r} is not a rule: use a FaultRule or a mapping")
        self._running.check()
        if rule.broker is not None:
            self._running.broker(rule.broker)
        with self._running.lock:
            return self._running.faults.add(rule, self._running.controllers.image)

    def rules(self) -> list[FaultRule]:
        """Rules added since the last `clear`, including spent ones: see `seen`, `fired` and `is_spent`."""
        with self._running.lock:
            return list(self._running.faults.rules.all)

    def remove_rule(self, rule: FaultRule | int) -> None:
        """Remove a rule (or the rule with this id) and release the requests that it holds."""
        with self._running.lock:
            faults = self._running.faults
            faults.remove(faults.rules.resolve(rule, FaultRule))

    def clear(self) -> None:
        """Remove all rules and throttles, and release held requests."""
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
        """Throttle a client's requests of one API (None: any client, any API), as after a quota violation.

        The response with throttle_time_ms is immediate; then the connection is not read for that time.
        """
        known = None if request is None else request_class(api_key(request))
        with self._running.lock:
            return self._running.throttles.add(client_id, known, seconds, times)

    def throttles(self) -> list[ThrottleRule]:
        """Throttles added since the last `unthrottle()` or `clear`, including spent ones: see `fired`."""
        with self._running.lock:
            return list(self._running.throttles.rules.all)

    def unthrottle(self, rule: ThrottleRule | int | None = None) -> None:
        """Remove one throttle (or the one with this id), or all.  Muted connections stay muted until their
        throttle time is over.
        """
        with self._running.lock:
            throttles = self._running.throttles
            if rule is None:
                throttles.rules.clear()
            else:
                throttles.remove(throttles.rules.resolve(rule, ThrottleRule))

    # ------------------------------------------------------------------ holding

    def hold(self, request: AnyRequest, *, times: int = FOR_EVER, **match: Unpack[Match]) -> FaultRule:
        """Hold requests of this API unhandled until `release`.  Later requests on the same connection also
        wait.
        """
        return self._plant(Action.HOLD, request, times, match)

    def release(self, request: AnyRequest | None = None) -> None:
        """End `hold` (of one API): held requests are handled now, and late frames of `replay` arrive."""
        with self._running.lock:
            self._running.faults.release(request)

    def held(self, request: AnyRequest | None = None) -> int:
        """Return the number of held requests."""
        with self._running.lock:
            return self._running.faults.held(request)

    # ------------------------------------------------------------------ short words

    def fail_next(
        self, request: AnyRequest, error: type[BrokerError], times: int = 1, **match: Unpack[Match]
    ) -> FaultRule:
        """Respond to the next requests of this API with an error, without handling them."""
        return self._plant(Action.ERROR, request, times, match, f":{error_name(error)}")

    def delay(
        self, request: AnyRequest, seconds: float, *, times: int = FOR_EVER, **match: Unpack[Match]
    ) -> FaultRule:
        """Delay the handling of requests of this API."""
        return self._plant(Action.DELAY, request, times, match, f":{seconds}")

    def lose_reply(self, request: AnyRequest, times: int = 1, **match: Unpack[Match]) -> FaultRule:
        """Handle the request, then reset the connection instead of responding."""
        return self._plant(Action.LOSE_REPLY, request, times, match)

    def disconnect_next(self, request: AnyRequest, times: int = 1, **match: Unpack[Match]) -> FaultRule:
        """Reset the connection instead of handling the request."""
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
