"""The assignor protocol, its data, and what a group leader does with the chosen assignor.

An assignor divides the partitions of a group's topics among the members. The leader of a classic group
calls it once per rebalance, on a helper thread. Neighbors: registry.py finds assignors by name,
wire_format.py encodes subscriptions and assignments. Pure.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Protocol

import attrs

from pykafka2.cluster.snapshot import ClusterSnapshot
from pykafka2.errors import AssignorFailed, ConfigurationError, KafkaError
from pykafka2.types import Node, PartitionInfo, TopicPartition

NO_GENERATION = -1


class RebalanceProtocol(IntEnum):
    """The rebalance protocol (KIP-429): which partitions members revoke before they rejoin.  A greater value
    is preferred."""

    EAGER = 0
    """Members revoke all partitions, so an assignment can move any of them at once."""
    COOPERATIVE = 1
    """Members keep their partitions: one that moves is revoked in one rebalance and assigned in the next."""


@attrs.define(frozen=True)
class LastAssignment:
    """A member's last assignment and its generation, kept when its partitions are revoked."""

    partitions: tuple[TopicPartition, ...]
    generation: int


@attrs.define(frozen=True)
class MemberSubscription:
    """The subscription of a member, as the leader receives it.

    `owned` are the partitions that it owns, of generation `generation` (-1 if unknown). With an eager
    protocol a member owns none during a rebalance. `rack` is its client_rack, or None.
    """

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION
    rack: str | None = None
    instance_id: str | None = None


@attrs.define(frozen=True)
class Assignment:
    """The partitions of one member, and user data of the assignor for it."""

    partitions: tuple[TopicPartition, ...] = ()
    user_data: bytes | None = None


@attrs.define(frozen=True)
class ClusterMetadata:
    """The leader's metadata of the topics that members subscribe to.

    `partitions` has the partitions of each existing topic, ordered by number; unknown topics are not in it.
    `nodes` are the brokers by id.
    """

    partitions: Mapping[str, tuple[PartitionInfo, ...]]
    nodes: Mapping[int, Node] = attrs.field(factory=dict)

    def racks_of(self, partition: PartitionInfo) -> frozenset[str]:
        """Return the racks of all replicas, including offline and out-of-sync ones, which usually return."""
        replicas = (self.nodes.get(replica) for replica in partition.replicas)
        return frozenset(node.rack for node in replicas if node is not None and node.rack is not None)

    def topic_partitions(self, topic: str) -> Iterator[TopicPartition]:
        """Return the partitions of a topic in order; none if the topic is unknown."""
        return (TopicPartition(topic, info.partition) for info in self.partitions.get(topic, ()))


class Assignor(Protocol):
    """Divides the partitions of a group's topics among its members.

    Pass one to `partition_assignment_strategy` by name, as a class or as an object. Inherit from this class
    to get defaults for the methods that are not abstract. `assign` is called on a helper thread, so that
    heartbeats and polls continue. The other methods are called on the consumer's thread, and never two at the
    same time. Members must agree on the name: among the assignors that all members offer, the group uses the
    one that most of them prefer.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """The name in the group protocol, the same for all members and not empty."""

    @abstractmethod
    def assign(
        self, cluster: ClusterMetadata, members: Mapping[str, MemberSubscription]
    ) -> Mapping[str, Assignment]:
        """Return the assignment by member id; a missing member is assigned nothing.

        Called on the leader only. The result should depend only on the arguments and not on the order of
        `members`, because another member can be the leader next time.
        """

    @property
    def protocols(self) -> tuple[RebalanceProtocol, ...]:
        """The rebalance protocols that the assignor supports; EAGER alone by default.

        With COOPERATIVE a partition that a member owns must not be assigned to another one before its owner
        has revoked it.
        """
        return (RebalanceProtocol.EAGER,)

    def user_data(self, topics: frozenset[str], last: LastAssignment | None) -> bytes | None:
        """Return this member's user data for the leader's assignor, or None (the default).

        `topics` are the subscribed topics, `last` is the member's last assignment, None before the first one.
        """
        return None

    def on_assignment(self, assignment: Assignment, generation: int) -> None:
        """Handle a new assignment of this member.  Do nothing by default."""
        return


def cluster_metadata(snapshot: ClusterSnapshot, topics: frozenset[str]) -> ClusterMetadata:
    """Return the metadata of these topics in the form that assignors use."""
    known = {name: snapshot.topics[name].partitions for name in sorted(topics) if name in snapshot.topics}
    return ClusterMetadata(
        {
            name: tuple(partitions[number] for number in sorted(partitions))
            for name, partitions in known.items()
            if partitions
        },
        snapshot.nodes,
    )


def subscribers(cluster: ClusterMetadata, members: Mapping[str, MemberSubscription]) -> dict[str, list[str]]:
    """Return the members that subscribe to each existing topic: topics by name, members in `member_order`."""
    readers: dict[str, list[str]] = {topic: [] for topic in sorted(cluster.partitions)}
    for member_id in member_order(members):
        for topic in dict.fromkeys(members[member_id].topics):
            if topic in readers:
                readers[topic].append(member_id)
    return {topic: found for topic, found in readers.items() if found}


def member_order(members: Mapping[str, MemberSubscription]) -> list[str]:
    """Return static members by instance id, which survives restarts, then the others by member id."""

    def key(member_id: str) -> tuple[bool, str]:
        instance_id = members[member_id].instance_id
        return instance_id is None, member_id if instance_id is None else instance_id

    return sorted(members, key=key)


def rebalance_protocol(assignors: Sequence[Assignor]) -> RebalanceProtocol:
    """Return the best protocol that all assignors support, as in the Java client.

    Raise `ConfigurationError` if they have none in common.
    """
    common = set(RebalanceProtocol)
    for assignor in assignors:
        common &= set(assignor.protocols)
    if not common:
        each = ", ".join(
            f"{assignor.name!r} ({' or '.join(protocol.name for protocol in assignor.protocols) or 'none'})"
            for assignor in assignors
        )
        raise ConfigurationError(
            f"partition_assignment_strategy: the assignors have no rebalance protocol in common: {each}; "
            "offer assignors that share one"
        )
    return max(common)


def group_assignment(
    assignor: Assignor,
    protocol: RebalanceProtocol,
    cluster: ClusterMetadata,
    members: Mapping[str, MemberSubscription],
) -> dict[str, Assignment]:
    """Return the assignment of every member, as the leader sends it.

    Raises:
        AssignorFailed: the assignor raised, or returned a result that the group cannot use: an unknown
            member, a value that is not an `Assignment`, or, with the cooperative protocol, a partition that
            another member still owns.
    """
    try:
        answer = dict(assignor.assign(cluster, members))
    except KafkaError:
        raise
    except Exception as error:
        raise AssignorFailed(f"assignor {assignor.name!r}: assign() raised {error!r}") from error
    for member_id, assignment in answer.items():
        if member_id not in members:
            raise AssignorFailed(
                f"assignor {assignor.name!r}: assign() assigned partitions to {member_id!r}, "
                f"which is not a member; members are {', '.join(map(repr, sorted(members)))}"
            )
        if not isinstance(assignment, Assignment):
            raise AssignorFailed(
                f"assignor {assignor.name!r}: assign() returned {assignment!r} for member {member_id!r}; "
                "return a pykafka2.Assignment"
            )
    assigned = {member_id: answer.get(member_id, Assignment()) for member_id in members}
    if protocol is RebalanceProtocol.COOPERATIVE:
        _refuse_sudden_moves(assignor, members, assigned)
    return assigned


def _refuse_sudden_moves(
    assignor: Assignor, members: Mapping[str, MemberSubscription], assigned: Mapping[str, Assignment]
) -> None:
    """Raise if a partition moves in one rebalance, because two members would read it at the same time."""
    newest = max(member.generation for member in members.values())
    owners: dict[TopicPartition, str] = {
        partition: member_id
        for member_id, member in members.items()
        if member.generation == newest
        for partition in member.owned
    }
    for member_id, assignment in assigned.items():
        for partition in assignment.partitions:
            owner = owners.get(partition, member_id)
            if owner != member_id:
                raise AssignorFailed(
                    f"assignor {assignor.name!r} is cooperative, but assigned {partition} to {member_id!r} "
                    f"while {owner!r} owns it; leave the partition out now, and assign it in the next "
                    "rebalance"
                )
