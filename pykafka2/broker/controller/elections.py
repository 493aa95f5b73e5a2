"""Who leads a partition: pure functions from a partition's image to the next one.

A leader comes from the ISR, in the order of the replicas; from outside only where unclean elections are
allowed, which loses what it lacks.  The last member of an ISR stays in it, however dead: it is the one that
has everything.  Eligible leader replicas (KIP-966) are not built, see docs/fidelity.md.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from pykafka2.broker.base.image import NO_LEADER, PartitionImage, TopicImage
from pykafka2.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    PreferredLeaderNotAvailable,
    UnknownTopicOrPartition,
)

IsEligible = Callable[[int], bool]
"""Whether a broker may lead and be in sync: registered, not fenced, not shutting down."""


def elect(partition: PartitionImage, is_eligible: IsEligible, *, unclean: bool) -> PartitionImage:
    """Drop replicas that may not be in sync and find a leader; the same object if nothing changes."""
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
    """Let the first replica lead if it may; the same object if it does or may not."""
    preferred = partition.replicas[0]
    if partition.leader == preferred or preferred not in partition.isr or not is_eligible(preferred):
        return partition
    return moved(partition, preferred, partition.isr)


def asked_election(
    topic: TopicImage | None, name: str, number: int, is_eligible: IsEligible, *, unclean: bool
) -> PartitionImage:
    """What ElectLeaders asks for, or raises why there is no election."""
    if topic is None:
        raise UnknownTopicOrPartition(f"No such topic as {name}")
    if not 0 <= number < len(topic.partitions):
        raise UnknownTopicOrPartition(f"No such partition as {name}-{number}")
    partition = topic.partitions[number]
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
    """A change of leader begins a new leader epoch; a change of the ISR alone does not."""
    bump = leader != partition.leader
    return attrs.evolve(
        partition,
        leader=leader,
        isr=isr,
        leader_epoch=partition.leader_epoch + bump,
        partition_epoch=partition.partition_epoch + 1,
    )
