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
    """They give up all of them, so that an assignment may move anything at once."""
    COOPERATIVE = 1
    """They keep them, so that a partition is taken from its owner in one rebalance and given in the next."""


@attrs.define(frozen=True)
class LastAssignment:
    """A member's last assignment and its generation, kept when its partitions are revoked."""

    partitions: tuple[TopicPartition, ...]
    generation: int


@attrs.define(frozen=True)
class MemberSubscription:
    """A member as the leader sees it.

    `owned` is what it holds now, of the generation `generation` (-1 if it does not say).  A member of an
    eager protocol holds nothing while the group rebalances.  `rack` is its client_rack, None if it has none.
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
    """The topics that members subscribe to, as the leader's metadata has them.

    `partitions` has the partitions of each topic that exists in the order of their numbers; a topic that
    nobody knows is not in it.  `nodes` are the brokers by id.
    """

    partitions: Mapping[str, tuple[PartitionInfo, ...]]
    nodes: Mapping[int, Node] = attrs.field(factory=dict)

    def racks_of(self, partition: PartitionInfo) -> frozenset[str]:
        """The racks of all replicas, offline and out of sync ones too: they will be back soon."""
        replicas = (self.nodes.get(replica) for replica in partition.replicas)
        return frozenset(node.rack for node in replicas if node is not None and node.rack is not None)

    def topic_partitions(self, topic: str) -> Iterator[TopicPartition]:
        """All of a topic in order; nothing of one that is not known."""
        return (TopicPartition(topic, info.partition) for info in self.partitions.get(topic, ()))


class Assignor(Protocol):
    """Divides the partitions of a group's topics among its members.

    Give one to `partition_assignment_strategy`, by name, as a class or as an object; inherit from this class
    to have the defaults of what is not abstract.  `assign` is called on a helper thread, as heartbeats and
    polls go on meanwhile, the other methods on the consumer's, and never two at once.  Members must agree on
    the name: the group uses the first assignor of most members that all of them offer.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """The name in the group protocol: the same for all members, and not empty."""

    @abstractmethod
    def assign(
        self, cluster: ClusterMetadata, members: Mapping[str, MemberSubscription]
    ) -> Mapping[str, Assignment]:
        """Return the assignment by member id; a missing member is assigned nothing.

        Called on the leader only.  The answer should depend on nothing but the arguments, and not on the
        order of `members`, because another member may be the leader next time.
        """

    @property
    def protocols(self) -> tuple[RebalanceProtocol, ...]:
        """Those that it keeps to.  The default is EAGER alone.

        With COOPERATIVE a partition that one member owns must not be given to another in the same assignment.
        """
        return (RebalanceProtocol.EAGER,)

    def user_data(self, topics: frozenset[str], last: LastAssignment | None) -> bytes | None:
        """Return this member's user data for the leader's assignor, or None (the default).

        `topics` are those subscribed to, `last` is what the member was assigned last (None: nothing yet).
        """
        return None

    def on_assignment(self, assignment: Assignment, generation: int) -> None:
        """This member was assigned something.  Does nothing by default."""
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
    """The members that read each topic that exists, topics by name, members in `member_order`."""
    readers: dict[str, list[str]] = {topic: [] for topic in sorted(cluster.partitions)}
    for member_id in member_order(members):
        for topic in dict.fromkeys(members[member_id].topics):
            if topic in readers:
                readers[topic].append(member_id)
    return {topic: found for topic, found in readers.items() if found}


def member_order(members: Mapping[str, MemberSubscription]) -> list[str]:
    """Static members by their instance ids, which outlive restarts, then the others by member ids."""

    def key(member_id: str) -> tuple[bool, str]:
        instance_id = members[member_id].instance_id
        return instance_id is None, member_id if instance_id is None else instance_id

    return sorted(members, key=key)


def rebalance_protocol(assignors: Sequence[Assignor]) -> RebalanceProtocol:
    """The best protocol that all of them keep to, as in the Java client: one eager assignor makes all eager.

    Raises `ConfigurationError` where they have none in common.
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

    Raises `AssignorFailed` if the assignor fails, or answers what the group cannot use: a member that is not
    of the group, something that is no `Assignment`, or, with the cooperative protocol, a partition of one
    member given to another before it was taken away.
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
                f"assignor {assignor.name!r}: assign() gives partitions to {member_id!r}, "
                f"which is not a member; members are {', '.join(map(repr, sorted(members)))}"
            )
        if not isinstance(assignment, Assignment):
            raise AssignorFailed(
                f"assignor {assignor.name!r}: assign() answered {assignment!r} for member {member_id!r}; "
                "it takes a pykafka2.Assignment"
            )
    assigned = {member_id: answer.get(member_id, Assignment()) for member_id in members}
    if protocol is RebalanceProtocol.COOPERATIVE:
        _refuse_sudden_moves(assignor, members, assigned)
    return assigned


def _refuse_sudden_moves(
    assignor: Assignor, members: Mapping[str, MemberSubscription], assigned: Mapping[str, Assignment]
) -> None:
    """Two members would read a partition at once if it moved in one rebalance."""
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
                    f"assignor {assignor.name!r} is cooperative, and gives {partition} to {member_id!r} "
                    f"while {owner!r} owns it; it must leave the partition out now, and give it in the next "
                    "rebalance"
                )
