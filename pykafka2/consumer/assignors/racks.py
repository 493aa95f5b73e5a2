"""Rack awareness of assignors: whether racks matter, and which members are near a partition (KIP-881).

Pure functions and plain data.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pykafka2.consumer.assignors.assignor import ClusterMetadata, MemberSubscription
from pykafka2.slotted import slot, slotted
from pykafka2.types import TopicPartition

NOWHERE: frozenset[str] = frozenset()


def member_racks(members: Mapping[str, MemberSubscription]) -> dict[str, str]:
    """Return the rack of each member that has one."""
    return {member_id: member.rack for member_id, member in members.items() if member.rack}


def racks_matter(of_members: Collection[str], of_partitions: Collection[frozenset[str]]) -> bool:
    """Return whether a member is nearer to one partition than to another.

    False if no replica is in a member's rack, or if every partition has a replica in every rack.
    """
    everywhere = frozenset().union(*of_partitions)
    if everywhere.isdisjoint(of_members):
        return False
    return any(racks != everywhere for racks in of_partitions)


@slotted(frozen=True)
class Racks:
    """The racks of members and of partitions' replicas; both are empty if racks do not matter."""

    of_members: Mapping[str, str] = slot(factory=dict)
    of_partitions: Mapping[TopicPartition, frozenset[str]] = slot(factory=dict)

    def is_far(self, member_id: str, partition: TopicPartition) -> bool:
        """Return whether the member has a rack and no replica is in it."""
        rack = self.of_members.get(member_id)
        return rack is not None and rack not in self.of_partitions.get(partition, NOWHERE)

    def is_near(self, member_id: str, partition: TopicPartition) -> bool:
        """Return whether the member has a rack and a replica is in it."""
        rack = self.of_members.get(member_id)
        return rack is not None and rack in self.of_partitions.get(partition, NOWHERE)


def racks_of_group(cluster: ClusterMetadata, members: Mapping[str, MemberSubscription]) -> Racks:
    """Return the racks of all members and of their topics' partitions, if racks matter."""
    of_members = member_racks(members)
    if not of_members:
        return Racks()
    of_partitions = {
        TopicPartition(topic, info.partition): cluster.racks_of(info)
        for topic in {topic for member in members.values() for topic in member.topics}
        for info in cluster.partitions.get(topic, ())
    }
    if not racks_matter(of_members.values(), of_partitions.values()):
        return Racks()
    return Racks(of_members, of_partitions)
