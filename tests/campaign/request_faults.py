"""Faults of any request and its response: rules in the brokers for a while (controls/rules.py).

Used by the faults of producers (producer_faults.py) and of groups (consumer_faults.py), which say of which
requests.  What returns a `Draw` says how a kind of fault is drawn from the seed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from pykafka2.broker.faults.rule import FaultRule
    from pykafka2.broker.faults.throttle_rules import ThrottleRule
    from pykafka2.testing.simulation.world import World

BROKERS_AND_LINKS = (
    "break",
    "late bytes",
    "lose request",
    "lose reply",
    "cut one way",
    "cut broker off",
    "cut brokers",
    "clog",
    "slow",
    "refuse",
    "pause",
    "crash",
    "stop",
    "crash unnoticed",
    "isolate broker",
    "pause broker",
    "move controller",
    "late metadata",
    "move leader",
    "clock jump",
    "client clock jump",
)
"""The simulation's own faults that the scenarios of producers and of groups have in common."""

Drawn = dict[str, object]
Draw = Callable[["Random", "World"], Drawn]


class RequestFault:
    """A rule of the brokers for a while; effective if it fired."""

    def __init__(self, became: str, **rule: Any) -> None:
        self._became = became
        self._wanted = rule
        self._rule: FaultRule | None = None

    def start(self, world: World) -> None:
        self._rule = world.cluster.controls.rule(**self._wanted)

    def stop(self, world: World) -> None:
        if self._rule is not None:
            world.cluster.controls.remove_rule(self._rule)

    def outcome(self, world: World) -> str:
        return self._became if self._rule is not None and self._rule.fired else ""


class Throttled:
    """Acts as if a quota were exceeded: responses contain a throttle time, and connections stay unread for
    that time.
    """

    def __init__(self, api: str, seconds: float, times: int) -> None:
        self._api, self._seconds, self._times = api, seconds, times
        self._rule: ThrottleRule | None = None

    def start(self, world: World) -> None:
        self._rule = world.cluster.controls.throttle(None, self._api, self._seconds, times=self._times)

    def stop(self, world: World) -> None:
        if self._rule is not None:
            world.cluster.controls.unthrottle(self._rule)

    def outcome(self, world: World) -> str:
        return "throttled" if self._rule is not None and self._rule.fired else ""


@attrs.define(frozen=True)
class WithoutTopics:
    """The response of a broker that knows no topic yet, like one that has just started."""

    def __call__(self, request: Any, response: Any) -> Any:
        if response is None:
            return None
        changed = copy.copy(response)  # the broker may have kept its own
        changed.topics = []
        return changed


# ---------------------------------------------------------------------- how they are drawn


def some(random: Random) -> int:
    """How many requests meet it."""
    return random.choice([1, 1, 2, 3, 5])


def passing_errors(apis: Sequence[str], errors: Mapping[str, Sequence[str]]) -> Draw:
    """Requests that are not acted upon, with an error that passes."""

    def draw(random: Random, world: World) -> Drawn:
        api = random.choice(apis)
        then = f"error:{random.choice(errors[api])}"
        return {"became": f"{api} refused", "api": api, "then": then, "times": some(random)}

    return draw


def lost_connections(apis: Sequence[str]) -> Draw:
    """Connections that end before, amid or after a request."""

    def draw(random: Random, world: World) -> Drawn:
        then = random.choice(
            ["close_before", "close_after", "half_frame", "apply_then_lose_reply", "swallow"]
        )
        api = random.choice(apis)
        return {"became": then.replace("_", " "), "api": api, "then": then, "times": some(random)}

    return draw


def delays(apis: Sequence[str], longest: float, times: int) -> Draw:
    """Answers that come late.  What waits on one connection waits one after the other, also when the fault is
    over."""

    def draw(random: Random, world: World) -> Drawn:
        api = random.choice(apis)
        then = f"delay:{random.choice([0.02, 0.2, 1.0, longest])}"
        return {"became": f"{api} delayed", "api": api, "then": then, "times": times}

    return draw


def throttles(apis: Sequence[str]) -> Draw:
    """Answers that say how long to be silent."""

    def draw(random: Random, world: World) -> Drawn:
        api = random.choice(apis)
        return {"api": api, "seconds": random.choice([0.05, 0.5, 2.0]), "times": random.choice([1, 3, 10])}

    return draw


def stale_metadata(random: Random, world: World) -> Drawn:
    """A broker with outdated metadata."""
    broker = random.choice(world.broker_ids)
    return {"became": "outdated metadata", "api": "Metadata", "then": "stale_metadata", "broker": broker}


def hidden_topics(random: Random, world: World) -> Drawn:
    """A broker that knows no topic."""
    return {
        "became": "topics hidden",
        "api": "Metadata",
        "then": "replace_reply",
        "reply": WithoutTopics(),
        "times": random.choice([1, 2, 3]),
    }
