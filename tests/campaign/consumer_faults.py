"""Faults for groups: of places and links, of coordinators, of single requests and responses.

The first are the package's own kinds.  All are faults that Apache Kafka can show; how members themselves
come, go, stall and crash is the applications' part (consumer_work.py).
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from pykafka2.driver.pollable import GROUP, ToCoordinator
from pykafka2.errors import KafkaError
from pykafka2.protocol.messages.group import LeaveGroupRequest, MemberIdentity
from pykafka2.testing.arguments import Topic
from pykafka2.testing.simulation.data_faults import CHANGE_TIMEOUT
from pykafka2.testing.simulation.fault_kinds import Crash
from pykafka2.testing.simulation.fault_table import kinds
from pykafka2.testing.simulation.faults import Kind
from pykafka2.testing.simulation.world import GROUP_ID
from pykafka2.testing.views.groups import coordinator_partition
from tests.campaign.request_faults import (
    BROKERS_AND_LINKS,
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

# Not deletions, nor what clients write.
PLACES_AND_LINKS = (
    *BROKERS_AND_LINKS,
    "slow replication",
    "add partition",
    "slicing",
    "small buffers",
)

OF_A_COORDINATOR = ("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR")
# Errors of requests that were not acted upon, by what asks.
PASSING = {
    "FindCoordinator": ("COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"),
    "JoinGroup": (*OF_A_COORDINATOR, "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS"),
    "SyncGroup": (*OF_A_COORDINATOR, "REBALANCE_IN_PROGRESS", "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"),
    "Heartbeat": (*OF_A_COORDINATOR, "REBALANCE_IN_PROGRESS", "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"),
    "LeaveGroup": OF_A_COORDINATOR,
    "OffsetCommit": (
        *OF_A_COORDINATOR,
        "REBALANCE_IN_PROGRESS",
        "ILLEGAL_GENERATION",
        "UNKNOWN_MEMBER_ID",
        "REQUEST_TIMED_OUT",
        "UNKNOWN_TOPIC_OR_PARTITION",
    ),
    "OffsetFetch": (*OF_A_COORDINATOR, "UNSTABLE_OFFSET_COMMIT"),
    "ListOffsets": (
        "NOT_LEADER_OR_FOLLOWER",
        "LEADER_NOT_AVAILABLE",
        "OFFSET_NOT_AVAILABLE",
        "FENCED_LEADER_EPOCH",
        "UNKNOWN_LEADER_EPOCH",
        "UNKNOWN_TOPIC_OR_PARTITION",
    ),
    "Fetch": (
        "NOT_LEADER_OR_FOLLOWER",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "FENCED_LEADER_EPOCH",
        "UNKNOWN_LEADER_EPOCH",
        "UNKNOWN_TOPIC_ID",
        "REPLICA_NOT_AVAILABLE",
        "OFFSET_NOT_AVAILABLE",
        "KAFKA_STORAGE_ERROR",
    ),
    "Metadata": ("LEADER_NOT_AVAILABLE", "UNKNOWN_TOPIC_OR_PARTITION"),
}
OF_GROUPS = ("JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit", "OffsetFetch")
REQUESTS = (*OF_GROUPS, *OF_GROUPS, *PASSING)
"""Two in three faults of requests are about the group."""

LATE_TOPIC = "orders-late"


class MoveGroup:
    """Another broker becomes the group's coordinator: it loads the log, the old one refuses."""

    def __init__(self, to: int) -> None:
        self._to = to
        self._became = ""

    def start(self, world: World) -> None:
        place = coordinator_partition(world.cluster.running, GROUP_ID, "group")
        state = world.partition(*place)
        if self._to in world.live_brokers and state.leader != self._to and self._to in state.isr:
            world.move_leader(*place, self._to)
            self._became = "moved"

    def stop(self, world: World) -> None:
        pass

    def outcome(self, world: World) -> str:
        return self._became


class CrashCoordinator:
    """The broker that coordinates the group is gone for a while."""

    def __init__(self, clean: bool) -> None:
        self._clean = clean
        self._crash: Crash | None = None

    def start(self, world: World) -> None:
        broker = world.cluster.coordinator(GROUP_ID)
        if broker in world.live_brokers:
            self._crash = Crash(broker, self._clean)
            self._crash.start(world)

    def stop(self, world: World) -> None:
        if self._crash is not None:
            self._crash.stop(world)

    def outcome(self, world: World) -> str:
        return "" if self._crash is None else self._crash.outcome(world)


class NewTopic:
    """A topic comes that a pattern names."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._became = ""

    def start(self, world: World) -> None:
        if LATE_TOPIC not in world.topics:
            new = Topic(self._partitions, replication_factor=2).described(LATE_TOPIC)
            try:
                world.cluster.controller.run(
                    f"create topic {LATE_TOPIC}",
                    lambda active: active.create_topic(new),
                    timeout=CHANGE_TIMEOUT,
                )
            finally:
                # Also if it is unknown whether the request was carried out.
                if LATE_TOPIC in world.cluster.controller.image.topics:
                    world.topics[LATE_TOPIC] = self._partitions
                    self._became = "found"

    def stop(self, world: World) -> None:
        pass

    def outcome(self, world: World) -> str:
        return self._became


class Expel:
    """Removes a member from the group, as an operator does (KIP-345)."""

    def __init__(self, pick: float) -> None:
        self._pick = pick
        self._became = ""

    def start(self, world: World) -> None:
        members = sorted(world.cluster.group(GROUP_ID).members)
        if not members:
            return
        member = members[int(self._pick * len(members))]
        request = LeaveGroupRequest(group_id=GROUP_ID, members=[MemberIdentity(member_id=member)])
        try:
            world.admin.request(request, ToCoordinator(GROUP, GROUP_ID), 1.0)
        except KafkaError as error:
            world.simulation.note(f"expelling {member}: {error!r}")
        else:
            self._became = "was taken out"

    def stop(self, world: World) -> None:
        pass

    def outcome(self, world: World) -> str:
        return self._became


class Wakeup:
    """Wakes a consumer, whatever it is doing."""

    def __init__(self, pick: float) -> None:
        self._pick = pick
        self._became = ""

    def start(self, world: World) -> None:
        if world.consumers:
            world.consumers[int(self._pick * len(world.consumers))].wakeup()
            self._became = "woke"

    def stop(self, world: World) -> None:
        pass

    def outcome(self, world: World) -> str:
        return self._became


# ---------------------------------------------------------------------- how they are drawn


LATEST = 4.0
"""So many seconds a request comes late at the most."""


def _late(random: Random, world: World) -> dict[str, object]:
    api = random.choice([*OF_GROUPS, "LeaveGroup"])
    then = f"replay:{random.uniform(0.01, LATEST):.3f}"
    return {"became": f"{api} arrived late", "api": api, "then": then, "times": some(random)}


OF_GROUPS_ALONE: tuple[Kind, ...] = (
    Kind("move group", 0.0, MoveGroup, lambda random, world: {"to": random.choice(world.broker_ids)}),
    Kind("crash coordinator", 5.0, CrashCoordinator, lambda random, world: {"clean": random.random() < 0.5}),
    Kind("new topic", 0.0, NewTopic, lambda random, world: {"partitions": random.choice([1, 2])}),
    Kind("expel", 0.0, Expel, lambda random, world: {"pick": random.random()}),
    Kind("wakeup", 0.0, Wakeup, lambda random, world: {"pick": random.random()}),
    Kind("passing error", 3.0, RequestFault, passing_errors(REQUESTS, PASSING)),
    Kind("request cut short", 3.0, RequestFault, lost_connections([*REQUESTS, "ApiVersions"])),
    Kind("late request", 3.0, RequestFault, _late),
    Kind("delay", 4.0, RequestFault, delays(REQUESTS, 2.0, times=3)),
    Kind("stale metadata", 6.0, RequestFault, stale_metadata),
    Kind("hidden topics", 4.0, RequestFault, hidden_topics),
    Kind(
        "throttle",
        3.0,
        Throttled,
        throttles(["Fetch", "Fetch", "Heartbeat", "JoinGroup", "OffsetCommit", "Metadata"]),
    ),
)


def consumer_kinds() -> tuple[Kind, ...]:
    """All that can go wrong for the members of a group."""
    return (*kinds(*PLACES_AND_LINKS), *OF_GROUPS_ALONE)
