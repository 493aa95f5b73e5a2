"""When the racks of members and replicas count in an assignment (KIP-881).  Pure functions."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pykafka2.consumer.assignors.assignor import MemberSubscription


def member_racks(members: Mapping[str, MemberSubscription]) -> dict[str, str]:
    """The rack of each member that has one."""
    return {member_id: member.rack for member_id, member in members.items() if member.rack}


def racks_matter(of_members: Collection[str], of_partitions: Collection[frozenset[str]]) -> bool:
    """Whether some member is nearer to some partition than to another.

    Not so where members and replicas share no rack, nor where every partition has a replica in every rack.
    """
    everywhere = frozenset().union(*of_partitions)
    if everywhere.isdisjoint(of_members):
        return False
    return any(racks != everywhere for racks in of_partitions)
