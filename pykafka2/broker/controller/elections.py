"""Partition leader elections: pure functions from a partition's image to the next one.

A leader comes from the ISR, in replica order; with unclean election enabled it can be outside the ISR, and
records are lost. The last member of an ISR stays in it even if it is down, because it has all records.
Eligible leader replicas (KIP-966) are not implemented, see docs/fidelity.md.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from pykafka2.broker.base.image import NO_LEADER, ClusterImage, PartitionImage, TopicImage
from pykafka2.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    PreferredLeaderNotAvailable,
    UnknownTopicOrPartition,
)

IsEligible = Callable[[int], bool]
"""Whether a replica can lead and be in sync: its broker is registered, not fenced, not shutting down, and its
log directory has not failed.
"""


def elect(partition: PartitionImage, is_eligible: IsEligible, *, unclean: bool) -> PartitionImage:
    """Drop ineligible replicas from the ISR and elect a leader.

    Return the same object if nothing changes.
    """
    alive = tuple(replica for replica in partition.isr if is_eligible(replica))
    isr = alive or partition.isr
    if partition.leader in alive:
        leader = partition.leader
    else:
        candidates = [replica for replica in partition.replicas if replica in alive]
        if not candidates and unclean:
            candidates = [replica for replica in partition.replicas if is_eligible(replica)]
            isr = tuple(candidates[:1]) or isr
        leader = candidates[0] if candidates else NO_LEADER
    if leader == partition.leader and isr == partition.isr:
        return partition
    return moved(partition, leader, isr)


def elect_preferred(partition: PartitionImage, is_eligible: IsEligible) -> PartitionImage:
    """Make the preferred replica the leader if possible. Return the same object if nothing changes."""
    preferred = partition.replicas[0]
    if partition.leader == preferred or preferred not in partition.isr or not is_eligible(preferred):
        return partition
    return moved(partition, preferred, partition.isr)


def requested_election(
    topic: TopicImage | None, name: str, number: int, cluster: ClusterImage, *, unclean: bool
) -> PartitionImage:
    """Return the result of ElectLeaders for one partition. Raise why there is no election."""
    if topic is None:
        raise UnknownTopicOrPartition(f"No such topic as {name}")
    if not 0 <= number < len(topic.partitions):
        raise UnknownTopicOrPartition(f"No such partition as {name}-{number}")
    partition = topic.partitions[number]
    is_eligible = cluster.eligible_in(partition)
    if unclean:
        if partition.leader != NO_LEADER:
            raise ElectionNotNeeded("Leader election not needed for topic partition.")
        elected = elect(partition, is_eligible, unclean=True)
        if elected.leader == NO_LEADER:
            raise EligibleLeadersNotAvailable("Eligible topic partition leaders are not available.")
        return elected
    if partition.leader == partition.replicas[0]:
        raise ElectionNotNeeded("Leader election not needed for topic partition.")
    elected = elect_preferred(partition, is_eligible)
    if elected is partition:
        raise PreferredLeaderNotAvailable("The preferred leader was not available.")
    return elected


def moved(partition: PartitionImage, leader: int, isr: tuple[int, ...]) -> PartitionImage:
    """Return the image with a new leader or ISR; only a new leader starts a new leader epoch."""
    bump = leader != partition.leader
    return attrs.evolve(
        partition,
        leader=leader,
        isr=isr,
        leader_epoch=partition.leader_epoch + bump,
        partition_epoch=partition.partition_epoch + 1,
    )
