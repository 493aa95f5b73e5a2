"""Clusters and members to ask assignors about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pykafka2.consumer.assignors.assignor import Assignment, ClusterMetadata, MemberSubscription
from pykafka2.types import Node, PartitionInfo, TopicPartition


def a_cluster(
    sizes: Mapping[str, int],
    racks: Sequence[str | None] = (),
    replicas: Mapping[str, Sequence[Sequence[int]]] | None = None,
) -> ClusterMetadata:
    """Topics of these sizes.  Broker i stands in `racks[i]`; replicas are brokers by topic and partition."""
    placed = replicas or {}
    return ClusterMetadata(
        {
            topic: tuple(
                PartitionInfo(topic, number, 0, 0, _brokers(placed, topic, number), ())
                for number in range(size)
            )
            for topic, size in sizes.items()
            if size
        },
        {number: Node(number, "host", 9092, rack) for number, rack in enumerate(racks)},
    )


def _brokers(placed: Mapping[str, Sequence[Sequence[int]]], topic: str, number: int) -> tuple[int, ...]:
    return tuple(placed[topic][number]) if topic in placed else ()


def partitions(*names: str) -> tuple[TopicPartition, ...]:
    """`partitions("t-0", "t-3")`."""
    return tuple(
        TopicPartition(topic, int(number)) for topic, _, number in (name.rpartition("-") for name in names)
    )


def reading(
    topics: Iterable[str], *owned: str, generation: int = -1, rack: str | None = None
) -> MemberSubscription:
    """A member that reads these topics and owns these partitions."""
    return MemberSubscription(tuple(topics), owned=partitions(*owned), generation=generation, rack=rack)


def by_member(assigned: Mapping[str, Assignment]) -> dict[str, list[str]]:
    """An assignment as a reader writes it: `{"a": ["t-0", "t-1"]}`, in order."""
    return {
        member: [str(one) for one in sorted(assignment.partitions)] for member, assignment in assigned.items()
    }


def assert_everything_is_assigned_once(
    cluster: ClusterMetadata, members: Mapping[str, MemberSubscription], assigned: Mapping[str, Assignment]
) -> None:
    """Every partition of a topic with subscribers belongs to exactly one of them."""
    assert set(assigned) == set(members)
    assigned_pairs = [
        (one, member) for member, assignment in assigned.items() for one in assignment.partitions
    ]
    wanted = {topic for member in members.values() for topic in member.topics}
    every = sorted(one for topic in wanted for one in cluster.topic_partitions(topic))
    assert sorted(one for one, _ in assigned_pairs) == every
    assert [(one, member) for one, member in assigned_pairs if one.topic not in members[member].topics] == []
