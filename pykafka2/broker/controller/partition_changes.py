"""Changes of a partition: leader elections and reassignments (KIP-455).

Pure functions over the controller's state. A leader comes from the ISR, in replica order; with unclean
election enabled it can be outside the ISR, and records are lost.

With eligible leader replicas (KIP-966), replicas that leave an ISR smaller than min.insync.replicas stay
eligible: the high watermark does not advance then, so they have all committed records. If the ISR is empty an
eligible replica is elected; if none is left, because all were shut down uncleanly, the last leader is.
Without, the last member of an ISR stays in it even if it is down.

During a reassignment a partition's replicas are the added and the removed ones together. The added ones copy
the data like other followers and join the ISR once they have caught up. The ISR change that completes them
drops the removed ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Final

import attrs

from pykafka2.broker.base.image import (
    NO_LEADER,
    UNASSIGNED,
    BrokerImage,
    ClusterImage,
    PartitionImage,
    TopicImage,
)
from pykafka2.broker.controller.metadata.image import MetadataImage
from pykafka2.broker.controller.metadata.records import NO_EXTRAS, partition_change
from pykafka2.broker.controller.topics import check_assignment, only_directory
from pykafka2.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    NoReassignmentInProgress,
    PreferredLeaderNotAvailable,
    UnknownTopicOrPartition,
)
from pykafka2.protocol.struct import MetadataRecord

_DIRECTORIES = attrgetter("directories")
NO_BROKER: Final = -1
IsEligible = Callable[[int], bool]
"""Whether a replica can lead and be in sync: its broker is registered, not fenced, not shutting down, and its
log directory has not failed.
"""


def elect(
    partition: PartitionImage,
    is_eligible: IsEligible,
    *,
    unclean: bool,
    min_isr: int | None = None,
    lost: int = NO_BROKER,
) -> PartitionImage:
    """Drop ineligible replicas from the ISR and elect a leader. Return the same object if nothing changes.

    `min_isr` is None without eligible leader replicas. The broker `lost` was shut down uncleanly: it can miss
    records that it had.
    """
    alive = tuple([replica for replica in partition.isr if replica != lost and is_eligible(replica)])
    if min_isr is not None:
        return _elect_among_eligible(partition, is_eligible, alive, min_isr, lost, unclean=unclean)
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


def _elect_among_eligible(
    partition: PartitionImage,
    is_eligible: IsEligible,
    isr: tuple[int, ...],
    min_isr: int,
    lost: int,
    *,
    unclean: bool,
) -> PartitionImage:
    """Elect with eligible leader replicas, as Kafka's PartitionChangeBuilder."""
    elr = eligible_after(partition, isr, min_isr, lost)
    usable = [replica for replica in partition.replicas if replica != lost and is_eligible(replica)]
    candidates = [replica for replica in usable if replica in (isr or elr)]
    if partition.leader in candidates:
        leader = partition.leader
    elif candidates:
        leader = candidates[0]
    else:
        # The last leader alone can have all records; it is not known once another replica was elected.
        last = partition.last_known_elr if not elr and len(partition.last_known_elr) == 1 else ()
        others = [replica for replica in last if replica in usable] or (usable if unclean else [])
        leader = others[0] if others else NO_LEADER
    if leader not in (NO_LEADER, *isr):
        # An unclean election leaves no other replica eligible.
        elr = tuple(replica for replica in elr if replica != leader) if leader in elr else ()
        isr = (leader,)
    last_known = partition.last_known_elr
    if leader == NO_LEADER and partition.leader != NO_LEADER:
        last_known = last_known or (partition.leader,)
    elif leader != NO_LEADER and leader != partition.leader:
        last_known = ()
    if (leader, isr, elr) == (partition.leader, partition.isr, partition.elr):
        return partition
    return attrs.evolve(moved(partition, leader, isr), elr=elr, last_known_elr=last_known)


def eligible_after(
    partition: PartitionImage, isr: tuple[int, ...], min_isr: int | None, lost: int = NO_BROKER
) -> tuple[int, ...]:
    """Return the eligible leader replicas once a partition has this ISR.

    These are all that were in the ISR or eligible, as long as the ISR is smaller than min.insync.replicas.
    """
    if min_isr is None or len(isr) >= min(min_isr, len(partition.replicas)):
        return ()
    left = ({*partition.elr, *partition.isr} & {*partition.replicas}) - {*isr, lost}
    return tuple(sorted(left))


def elect_preferred(partition: PartitionImage, is_eligible: IsEligible) -> PartitionImage:
    """Make the preferred replica the leader if possible. Return the same object if nothing changes."""
    preferred = partition.replicas[0]
    if partition.leader == preferred or preferred not in partition.isr or not is_eligible(preferred):
        return partition
    return moved(partition, preferred, partition.isr)


def min_isr_of(topic: TopicImage, cluster: ClusterImage) -> int | None:
    """Return min.insync.replicas if the cluster has eligible leader replicas, otherwise None."""
    if not cluster.has_eligible_replicas:
        return None
    least: int = topic.config.get("min.insync.replicas")
    return least


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
        elected = elect(partition, is_eligible, unclean=True, min_isr=min_isr_of(topic, cluster))
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
        isr=isr,
        leader=leader,
        leader_epoch=partition.leader_epoch + bump,
        partition_epoch=partition.partition_epoch + 1,
    )


def changed(
    state: MetadataImage,
    topic: TopicImage,
    number: int,
    after: PartitionImage,
    *,
    before: PartitionImage | None = None,
) -> MetadataRecord:
    """Return the record that changes a partition from `before`, by default its current image."""
    return partition_change(
        topic.id,
        number,
        topic.partitions[number] if before is None else before,
        with_directories(after, state.brokers),
        state.extras.get((topic.id, number), NO_EXTRAS),
    )


def with_directories(partition: PartitionImage, brokers: Mapping[int, BrokerImage]) -> PartitionImage:
    """Return the image with the directories of its replicas: those known, or the only one of a broker.

    Return the same object if nothing changes.
    """
    known = partition.directories or (UNASSIGNED,) * len(partition.replicas)
    if UNASSIGNED in known and any(map(_DIRECTORIES, brokers.values())):
        known = tuple(
            only_directory(brokers.get(replica)) if directory == UNASSIGNED else directory
            for replica, directory in zip(partition.replicas, known, strict=True)
        )
    return partition if known == partition.directories else attrs.evolve(partition, directories=known)


def reassigned(
    state: MetadataImage,
    topic: str,
    partition: int,
    target: Sequence[int] | None,
    *,
    allow_factor_change: bool = True,
) -> MetadataRecord | None:
    """Return the record that starts a move to `target`, or cancels one (None); None if nothing changes.

    Raise if the reassignment is invalid.
    """
    known = state.topics.get(topic)
    if known is None:
        raise UnknownTopicOrPartition(f"Unable to find a topic named {topic}.")
    if not 0 <= partition < len(known.partitions):
        raise UnknownTopicOrPartition(f"Unable to find partition {topic}:{partition}.")
    image = known.partitions[partition]
    is_eligible, min_isr = state.image.eligible_in(image), min_isr_of(known, state.image)
    if target is None:
        unclean = bool(known.config.get("unclean.leader.election.enable"))
        after = cancelled(image, is_eligible, where=f"{topic}-{partition}", unclean=unclean, min_isr=min_isr)
    else:
        check_assignment(target, state.brokers)
        factor = len([replica for replica in image.replicas if replica not in image.adding])
        if not allow_factor_change and len(target) != factor:
            raise InvalidReplicationFactor(
                f"The replication factor is changed from {factor} to {len(target)}"
            )
        after = begun(image, tuple(target), is_eligible, min_isr)
    return None if after is image else changed(state, known, partition, after)


def begun(
    image: PartitionImage, target: tuple[int, ...], is_eligible: IsEligible, min_isr: int | None = None
) -> PartitionImage:
    """Return the image of a partition that moves to `target`; already complete if no data must be copied."""
    # As in Kafka, replicas that were being added count as existing: they are removed like others, or stay in
    # `adding`.
    adding = tuple(sorted(set(target) - set(image.replicas))) or image.adding
    removing = tuple(sorted(set(image.replicas) - set(target)))
    replicas = (*target, *removing)
    removing = removing or image.removing
    if (replicas, adding, removing) == (image.replicas, image.adding, image.removing):
        return image
    changed = attrs.evolve(
        image,
        replicas=replicas,
        directories=image.directories_of(replicas),
        adding=adding,
        removing=removing,
        isr=tuple(replica for replica in image.isr if replica in replicas),
        partition_epoch=image.partition_epoch + 1,
    )
    return completed(_with_leader(changed, is_eligible, min_isr, unclean=False), is_eligible, min_isr)


def completed(image: PartitionImage, is_eligible: IsEligible, min_isr: int | None = None) -> PartitionImage:
    """Complete a reassignment once all added replicas are in sync.

    If more replicas are removed than added, all remaining ones must be in sync as well. Return the same
    object if there is no reassignment, or it is not complete.
    """
    staying = tuple(replica for replica in image.isr if replica not in image.removing)
    replicas = tuple(replica for replica in image.replicas if replica not in image.removing)
    if not image.is_reassigned or not staying or not set(image.adding) <= set(staying):
        return image
    if len(image.adding) < len(image.removing) and not set(replicas) <= set(staying):
        return image
    changed = attrs.evolve(
        image,
        replicas=replicas,
        directories=image.directories_of(replicas),
        isr=staying,
        adding=(),
        removing=(),
    )
    changed = attrs.evolve(changed, elr=eligible_after(changed, staying, min_isr))
    return _bumped(_with_leader(changed, is_eligible, min_isr, unclean=False), image, image.removing)


def cancelled(
    image: PartitionImage,
    is_eligible: IsEligible,
    *,
    where: str,
    unclean: bool,
    min_isr: int | None = None,
) -> PartitionImage:
    """Return the image with the original replicas, without the added ones."""
    if not image.is_reassigned:
        raise NoReassignmentInProgress
    staying = tuple(replica for replica in image.isr if replica not in image.adding)
    if not staying and not unclean:
        raise InvalidReplicaAssignment(
            f"Unable to revert partition assignment for {where} because it would require an unclean leader "
            "election."
        )
    replicas = tuple(replica for replica in image.replicas if replica not in image.adding)
    changed = attrs.evolve(
        image,
        replicas=replicas,
        directories=image.directories_of(replicas),
        isr=staying or replicas[:1],
        adding=(),
        removing=(),
        partition_epoch=image.partition_epoch + 1,
    )
    changed = attrs.evolve(changed, elr=eligible_after(changed, changed.isr, min_isr))
    return _bumped(_with_leader(changed, is_eligible, min_isr, unclean=unclean), image, image.adding)


def _bumped(changed: PartitionImage, image: PartitionImage, dropped: tuple[int, ...]) -> PartitionImage:
    """Start a new leader epoch if replicas were removed while the leader stays, as in Kafka."""
    if dropped and changed.leader_epoch == image.leader_epoch:
        return attrs.evolve(changed, leader_epoch=image.leader_epoch + 1)
    return changed


def _with_leader(
    image: PartitionImage, is_eligible: IsEligible, min_isr: int | None, *, unclean: bool
) -> PartitionImage:
    """Keep the leader if it is still in the ISR; otherwise elect another one in the same step."""
    if image.leader in image.isr:
        return image
    elected = elect(image, is_eligible, unclean=unclean, min_isr=min_isr)
    return attrs.evolve(elected, partition_epoch=image.partition_epoch)


def ongoing(
    state: MetadataImage, topics: Iterable[tuple[str, Sequence[int] | None]]
) -> list[tuple[str, int]]:
    """Return those of these partitions that are being reassigned; None means all of a topic's."""
    found: list[tuple[str, int]] = []
    for name, numbers in topics:
        topic = state.topics.get(name)
        if topic is None:
            continue
        count = len(topic.partitions)
        found.extend(
            (name, number)
            for number in (range(count) if numbers is None else numbers)
            if 0 <= number < count and topic.partitions[number].is_reassigned
        )
    return found
