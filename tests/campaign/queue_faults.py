"""Faults for share groups: of places and links, of leaders and coordinators, of requests and responses.

The first are the package's own kinds.  How members come, go, stall and crash is their own part
(queue_work.py).
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from pykafka2.broker.coordinators.internal_topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC
from pykafka2.testing.simulation.fault_kinds import Crash
from pykafka2.testing.simulation.fault_table import kinds
from pykafka2.testing.simulation.faults import Kind
from tests.campaign.request_faults import (
    BROKERS_AND_LINKS,
    Drawn,
    RequestFault,
    Throttled,
    delays,
    hidden_topics,
    lost_connections,
    passing_errors,
    some,
    stale_metadata,
    throttles,
)

if TYPE_CHECKING:
    from pykafka2.testing.simulation.world import World

# A share consumer does not read the wall clock.
PLACES_AND_LINKS = (
    *(name for name in BROKERS_AND_LINKS if name != "client clock jump"),
    "slow replication",
    "slicing",
    "small buffers",
)

INTERNAL = {OFFSETS_TOPIC: 2, SHARE_STATE_TOPIC: 2}
"""The topics of the coordinators, and their numbers of partitions."""

OF_A_COORDINATOR = ("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR")
OF_A_SESSION = ("SHARE_SESSION_NOT_FOUND", "INVALID_SHARE_SESSION_EPOCH")
# Errors of requests that were not acted upon, by what asks.
PASSING = {
    "ShareFetch": (*OF_A_SESSION, "SHARE_SESSION_LIMIT_REACHED"),
    "ShareAcknowledge": OF_A_SESSION,
    "ShareGroupHeartbeat": (*OF_A_COORDINATOR, "UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH"),
    "FindCoordinator": ("COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"),
    "Metadata": ("LEADER_NOT_AVAILABLE", "UNKNOWN_TOPIC_OR_PARTITION"),
}
OF_QUEUES = ("ShareFetch", "ShareAcknowledge", "ShareGroupHeartbeat")
REQUESTS = (*OF_QUEUES, *OF_QUEUES, *PASSING)

OF_STATES = ("WriteShareGroupState", "WriteShareGroupState", "ReadShareGroupState")
"""Requests of leaders to share coordinators."""

LATEST = 4.0
"""So many seconds a request comes late at the most."""


class MoveCoordinators:
    """Another broker leads a partition of an internal topic: it loads the log, the old one refuses."""

    def __init__(self, topic: str, partition: int, to: int) -> None:
        self._place = topic, partition
        self._to = to
        self._became = ""

    def start(self, world: World) -> None:
        if self._place[0] not in world.cluster.controller.image.topics:
            return
        state = world.partition(*self._place)
        if self._to in world.live_brokers and state.leader != self._to and self._to in state.isr:
            world.move_leader(*self._place, self._to)
            self._became = "moved"

    def stop(self, world: World) -> None:
        pass

    def outcome(self, world: World) -> str:
        return self._became


class CrashLeader:
    """The leader of a partition is gone for a while: of records, or a coordinator."""

    def __init__(self, topic: str, partition: int, clean: bool) -> None:
        self._place = topic, partition
        self._clean = clean
        self._crash: Crash | None = None

    def start(self, world: World) -> None:
        if self._place[0] not in world.cluster.controller.image.topics:
            return
        leader = world.partition(*self._place).leader
        if leader in world.live_brokers:
            self._crash = Crash(leader, self._clean)
            self._crash.start(world)

    def stop(self, world: World) -> None:
        if self._crash is not None:
            self._crash.stop(world)

    def outcome(self, world: World) -> str:
        return "" if self._crash is None else self._crash.outcome(world)


class OutdatedLeader:
    """Another broker leads a partition, and the former leader does not know it for a while."""

    def __init__(self, topic: str, partition: int, seconds: float) -> None:
        self._place = topic, partition
        self._seconds = seconds
        self._former = -1

    def start(self, world: World) -> None:
        state = world.partition(*self._place)
        others = [one for one in state.isr if one != state.leader and one in world.live_brokers]
        if state.leader in world.live_brokers and others:
            self._former = state.leader
            world.cluster.controls.delay_metadata(self._former, self._seconds)
            world.move_leader(*self._place, others[0])

    def stop(self, world: World) -> None:
        if self._former >= 0:
            world.cluster.controls.release_metadata(self._former)

    def outcome(self, world: World) -> str:
        return "two leaders" if self._former >= 0 else ""


# ---------------------------------------------------------------------- how they are drawn


def _coordinators(random: Random, world: World) -> Drawn:
    topic = random.choice(sorted(INTERNAL))
    return {
        "topic": topic,
        "partition": random.randrange(INTERNAL[topic]),
        "to": random.choice(world.broker_ids),
    }


def _leader(random: Random, world: World) -> Drawn:
    known = {**world.topics, SHARE_STATE_TOPIC: INTERNAL[SHARE_STATE_TOPIC]}
    topic = random.choice(sorted(known))
    return {
        "topic": topic,
        "partition": random.randrange(known[topic]),
        "clean": random.random() < 0.5,
    }


def _outdated(random: Random, world: World) -> Drawn:
    return {"topic": "orders", "partition": random.randrange(world.topics["orders"]), "seconds": 6.0}


def _late(random: Random, world: World) -> Drawn:
    api = random.choice(OF_QUEUES)
    then = f"replay:{random.uniform(0.01, LATEST):.3f}"
    return {"became": f"{api} arrived late", "api": api, "then": then, "times": some(random)}


def _state_refused(random: Random, world: World) -> Drawn:
    """A share coordinator rejects a request, or carries it out and the leader does not get the response."""
    api = random.choice(OF_STATES)
    errors = [f"error:{error}" for error in OF_A_COORDINATOR]
    then = random.choice([*errors, "apply_then_lose_reply", "apply_then_lose_reply", "swallow"])
    became = f"{api} {'refused' if then in errors else 'without response'}"
    return {"became": became, "api": api, "then": then, "times": some(random), "between_brokers": True}


def _state_delayed(random: Random, world: World) -> Drawn:
    api = random.choice(OF_STATES)
    then = f"delay:{random.choice([0.05, 0.5, 2.0])}"
    return {"became": f"{api} delayed", "api": api, "then": then, "times": 3, "between_brokers": True}


OF_QUEUES_ALONE: tuple[Kind, ...] = (
    Kind("move coordinators", 0.0, MoveCoordinators, _coordinators),
    Kind("crash leader", 5.0, CrashLeader, _leader),
    Kind("outdated leader", 6.0, OutdatedLeader, _outdated),
    Kind("state refused", 3.0, RequestFault, _state_refused),
    Kind("state delayed", 3.0, RequestFault, _state_delayed),
    Kind("passing error", 3.0, RequestFault, passing_errors(REQUESTS, PASSING)),
    Kind("request cut short", 3.0, RequestFault, lost_connections([*REQUESTS, "ApiVersions"])),
    Kind("late request", 3.0, RequestFault, _late),
    Kind("delay", 4.0, RequestFault, delays(REQUESTS, 2.0, times=3)),
    Kind("stale metadata", 6.0, RequestFault, stale_metadata),
    Kind("hidden topics", 4.0, RequestFault, hidden_topics),
    Kind("throttle", 3.0, Throttled, throttles([*OF_QUEUES, "Metadata"])),
)


def queue_kinds() -> tuple[Kind, ...]:
    """All that can go wrong for share groups."""
    return (*kinds(*PLACES_AND_LINKS), *OF_QUEUES_ALONE)
