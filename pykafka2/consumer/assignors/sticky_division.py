"""What the sticky assignors share: owned partitions stay where balance lets them, the others find a reader.

sticky_same.py divides them where all members read the same, sticky_mixed.py where they do not.  Pure
functions.
"""

from __future__ import annotations

from collections.abc import Mapping

from pykafka2.consumer.assignors.assignor import ClusterMetadata, MemberSubscription, subscribers
from pykafka2.consumer.assignors.claims import Claim, earlier_owners
from pykafka2.consumer.assignors.racks import Racks, racks_of_group
from pykafka2.consumer.assignors.sticky_mixed import divide_mixed
from pykafka2.consumer.assignors.sticky_same import divide_equally
from pykafka2.types import TopicPartition

Given = dict[str, list[TopicPartition]]


def divide(
    cluster: ClusterMetadata,
    members: Mapping[str, MemberSubscription],
    claims: Mapping[str, Claim],
    owner_of: Mapping[TopicPartition, str],
) -> Given:
    """Every partition of a topic that is read to one of its readers, as Kafka's AbstractStickyAssignor does.

    Where racks matter a member loses what it owns far from its rack, though it may get it back.
    """
    return _divide(cluster, members, claims, owner_of, racks_of_group(cluster, members), keep_far=False)


def divide_calmly(
    cluster: ClusterMetadata,
    members: Mapping[str, MemberSubscription],
    claims: Mapping[str, Claim],
    owner_of: Mapping[TopicPartition, str],
) -> Given:
    """As `divide`, but nothing moves for the sake of racks unless more is near to its reader after it.

    Kafka has no such rule: its cooperative groups may move partitions between far members for ever.
    """
    racks = racks_of_group(cluster, members)
    given = _divide(cluster, members, claims, owner_of, racks, keep_far=False)
    if racks.of_members:
        calm = _divide(cluster, members, claims, owner_of, racks, keep_far=True)
        if _count_far(calm, racks) <= _count_far(given, racks):
            return calm
    return given


def _count_far(given: Given, racks: Racks) -> int:
    return sum(racks.is_far(member_id, one) for member_id, some in given.items() for one in some)


def _divide(
    cluster: ClusterMetadata,
    members: Mapping[str, MemberSubscription],
    claims: Mapping[str, Claim],
    owner_of: Mapping[TopicPartition, str],
    racks: Racks,
    *,
    keep_far: bool,
) -> Given:
    if not members:
        return {}
    readers = {topic: frozenset(reading) for topic, reading in subscribers(cluster, members).items()}
    owned = {partition: owner for partition, owner in owner_of.items() if partition.topic in readers}
    kept = {
        partition: owner
        for partition, owner in owned.items()
        if owner in readers[partition.topic] and (keep_far or not racks.is_far(owner, partition))
    }
    if len({frozenset(member.topics) for member in members.values()}) == 1:
        every = [partition for topic in readers for partition in cluster.topic_partitions(topic)]
        return divide_equally(every, members, kept, racks)
    topics = {topic: list(cluster.topic_partitions(topic)) for topic in readers}
    must_move = len(kept) < len(owned)
    return divide_mixed(topics, readers, members, kept, earlier_owners(claims), racks, must_move=must_move)
