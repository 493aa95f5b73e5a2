"""Evidence about groups: the contents of the logs, and the requests and responses of coordinators.

Gathered once, when all is over; the promises (consumer_promises.py) all look at the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs

from pykafka2.broker.base.image import NO_LEADER
from pykafka2.consumer.assignors.wire_format import read_assignment
from pykafka2.testing.simulation.world import GROUP_ID
from pykafka2.testing.views.groups import coordinator_partition
from pykafka2.types import TopicPartition

if TYPE_CHECKING:
    from pykafka2.broker.observed.history import Entry
    from pykafka2.testing.simulation.world import World

DEAD = "(dead)"
"""How the peer of a request ends that came from a connection its client had given up."""

AT_ONE_TIME = 0.05


@attrs.define(eq=False)
class WrittenCommit:
    """An offset that the coordinator took; times are the simulation's."""

    life: str
    member_id: str
    generation: int
    place: TopicPartition
    offset: int
    asked_at: float
    answered_at: float
    connection: tuple[str, float]
    """Its name, and when something came over it first."""
    is_late: bool
    """It came from a connection that its client had given up."""

    def __str__(self) -> str:
        return f"{self.place} at {self.offset} by {self.life} in generation {self.generation}"


@attrs.define(eq=False)
class FetchedOffset:
    """A committed offset that the coordinator returned to a consumer; -1 for none."""

    life: str
    place: TopicPartition
    offset: int
    asked_at: float
    answered_at: float
    is_outdated: bool = False
    """Another broker was the coordinator by then, and the broker that answered did not know it yet."""


@attrs.define(eq=False)
class Assigned:
    """The coordinator's assignment for a member in a generation."""

    generation: int
    member: str
    """Its id, or its name where it is static: such a one may come back under another id."""
    life: str
    places: list[TopicPartition]


@attrs.define(eq=False)
class Joined:
    """A member's own question to join, and the generation that it was answered with.

    Kafka also counts a static member that did not send a JoinGroup, and requests that arrived over an
    abandoned connection; those do not know of the generation. Until a member has received partitions in a
    generation, the generation is lost with its coordinator, and the next coordinator counts from there.
    """

    generation: int
    member_id: str
    broker: int
    answered_at: float

    def is_of(self, other: Joined) -> bool:
        """Whether both are of one generation: all its members are answered at one time."""
        return (self.generation, self.broker) == (other.generation, other.broker) and abs(
            self.answered_at - other.answered_at
        ) < AT_ONE_TIME


@attrs.define
class Evidence:
    """All log contents, commits, fetched offsets and assignments."""

    logs: dict[TopicPartition, list[tuple[int, bytes]]]
    commits: list[WrittenCommit]
    fetched: list[FetchedOffset]
    assigned: list[Assigned]
    joins: list[Joined]

    @classmethod
    def gather(cls, world: World) -> Evidence:
        logs = {TopicPartition(*place): world.records(*place) for place in world.partitions()}
        found = cls(logs, [], [], [], [])
        connections: dict[tuple[int, str], float] = {}
        names = _names_by_id(world)
        coordinators = _coordinators(world)
        for entry in world.cluster.history.entries():
            first = connections.setdefault((entry.broker, entry.peer), entry.received_at)
            if entry.response is None:
                continue
            if entry.api == "OffsetCommit":
                found.commits += _commits(entry, first, names)
            elif entry.api == "OffsetFetch":
                found.fetched += _fetched(entry, names, coordinators)
            elif entry.api == "SyncGroup" and not entry.response.error_code:
                found.assigned.append(_assigned(entry))
            elif entry.api == "JoinGroup" and not entry.response.error_code and not _is_late(entry):
                found.joins.append(_joined(entry))
        return found


def _is_late(entry: Entry) -> bool:
    return entry.peer.endswith(DEAD)


def _names_by_id(world: World) -> dict[bytes, str]:
    """Topic names by id, from the Metadata responses to clients; no topic is created again in these runs."""
    return {
        topic.topic_id: topic.name
        for entry in world.cluster.history.entries("Metadata")
        for topic in (entry.response.topics if entry.response is not None else ())
        if topic.name and not topic.error_code
    }


def _coordinators(world: World) -> list[tuple[float, int]]:
    """Since when which broker has been the group's coordinator, the newest first."""
    topic, number = coordinator_partition(world.cluster.running, GROUP_ID, "group")
    found: list[tuple[float, int]] = []
    for event in world.cluster.running.events.events("leader"):
        leader = event.facts["leader"]
        if (
            event.facts["partition"] == f"{topic}-{number}"
            and isinstance(leader, int)
            and leader != NO_LEADER
        ):
            found.insert(0, (event.at, leader))
    return found


def _commits(entry: Entry, first: float, names: dict[bytes, str]) -> Iterator[WrittenCommit]:
    requested = entry.request
    taken = {
        TopicPartition(topic.name or names[topic.topic_id], one.partition_index)
        for topic in entry.response.topics
        for one in topic.partitions
        if not one.error_code
    }
    for topic in requested.topics:
        for one in topic.partitions:
            place = TopicPartition(topic.name or names[topic.topic_id], one.partition_index)
            if requested.group_id == GROUP_ID and place in taken:
                yield WrittenCommit(
                    entry.client_id or "",
                    requested.member_id,
                    requested.generation_id_or_member_epoch,
                    place,
                    one.committed_offset,
                    entry.received_at,
                    (entry.answered_at or entry.received_at),
                    (entry.peer, first),
                    _is_late(entry),
                )


def _fetched(
    entry: Entry, names: dict[bytes, str], coordinators: list[tuple[float, int]]
) -> Iterator[FetchedOffset]:
    elected = next((broker for since, broker in coordinators if since <= entry.received_at), entry.broker)
    for group in entry.response.groups:
        for topic in group.topics if group.group_id == GROUP_ID and not group.error_code else ():
            for one in topic.partitions:
                if not one.error_code:
                    place = TopicPartition(topic.name or names[topic.topic_id], one.partition_index)
                    requested, answered = entry.received_at, (entry.answered_at or 0.0)
                    yield FetchedOffset(
                        entry.client_id or "",
                        place,
                        one.committed_offset,
                        requested,
                        answered,
                        is_outdated=elected != entry.broker,
                    )


def _assigned(entry: Entry) -> Assigned:
    assignment = read_assignment(bytes(entry.response.assignment))
    requested = entry.request
    return Assigned(
        requested.generation_id,
        requested.group_instance_id or requested.member_id,
        entry.client_id or "",
        sorted(assignment.partitions),
    )


def _joined(entry: Entry) -> Joined:
    answer = entry.response
    return Joined(answer.generation_id, answer.member_id, entry.broker, entry.answered_at or 0.0)
