"""Moving partitions to other brokers: begin, finish, cancel (KIP-455).

While a partition moves its replicas are those to come and those to go together; the new ones copy the data as
any follower does and join the ISR when they have caught up.  With the ISR change that brings the last of them
the old ones are dropped.  Pure functions over the controller's state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import attrs

from pykafka2.broker.base.image import PartitionImage
from pykafka2.broker.controller.assignments import check_assignment
from pykafka2.broker.controller.elections import elect
from pykafka2.broker.controller.records import PartitionSet, Record
from pykafka2.broker.controller.state import State
from pykafka2.errors import (
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    NoReassignmentInProgress,
    UnknownTopicOrPartition,
)

IsEligible = Callable[[int], bool]


def reassigned(
    state: State,
    topic: str,
    partition: int,
    target: Sequence[int] | None,
    *,
    allow_factor_change: bool = True,
) -> Record | None:
    """The record that begins a move to `target`, or with None takes one back; None if nothing changes.

    Raises why it cannot be.
    """
    known = state.topics.get(topic)
    if known is None:
        raise UnknownTopicOrPartition(f"Unable to find a topic named {topic}.")
    if not 0 <= partition < len(known.partitions):
        raise UnknownTopicOrPartition(f"Unable to find partition {topic}:{partition}.")
    image = known.partitions[partition]
    is_eligible = state.image.is_eligible
    if target is None:
        unclean = bool(known.config.get("unclean.leader.election.enable"))
        changed = cancelled(image, is_eligible, where=f"{topic}-{partition}", unclean=unclean)
    else:
        check_assignment(target, state.brokers)
        factor = len([replica for replica in image.replicas if replica not in image.adding])
        if not allow_factor_change and len(target) != factor:
            raise InvalidReplicationFactor(
                f"The replication factor is changed from {factor} to {len(target)}"
            )
        changed = begun(image, tuple(target), is_eligible)
    return None if changed is image else PartitionSet(topic, partition, changed)


def begun(image: PartitionImage, target: tuple[int, ...], is_eligible: IsEligible) -> PartitionImage:
    """A partition on its way to `target`; there already where nothing has to be copied."""
    # As in Kafka, what was on its way before counts as there: it goes like others, or stays on its way.
    adding = tuple(sorted(set(target) - set(image.replicas))) or image.adding
    removing = tuple(sorted(set(image.replicas) - set(target)))
    replicas = (*target, *removing)
    removing = removing or image.removing
    if (replicas, adding, removing) == (image.replicas, image.adding, image.removing):
        return image
    changed = attrs.evolve(
        image,
        replicas=replicas,
        adding=adding,
        removing=removing,
        isr=tuple(replica for replica in image.isr if replica in replicas),
        partition_epoch=image.partition_epoch + 1,
    )
    return completed(_with_leader(changed, is_eligible, unclean=False), is_eligible)


def completed(image: PartitionImage, is_eligible: IsEligible) -> PartitionImage:
    """A move ends when all that were to come are in sync, and all that stay where more go than come; the same
    object if there is none, or not yet.
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
        isr=staying,
        adding=(),
        removing=(),
    )
    return _bumped(_with_leader(changed, is_eligible, unclean=False), image, image.removing)


def cancelled(image: PartitionImage, is_eligible: IsEligible, *, where: str, unclean: bool) -> PartitionImage:
    """A move taken back: the replicas that were there before stay, without those that were to come."""
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
        isr=staying or replicas[:1],
        adding=(),
        removing=(),
        partition_epoch=image.partition_epoch + 1,
    )
    return _bumped(_with_leader(changed, is_eligible, unclean=unclean), image, image.adding)


def _bumped(changed: PartitionImage, image: PartitionImage, dropped: tuple[int, ...]) -> PartitionImage:
    """A leader that stays begins a new epoch where replicas were taken from it, as in Kafka."""
    if dropped and changed.leader_epoch == image.leader_epoch:
        return attrs.evolve(changed, leader_epoch=image.leader_epoch + 1)
    return changed


def _with_leader(image: PartitionImage, is_eligible: IsEligible, *, unclean: bool) -> PartitionImage:
    """Its leader goes on if it is still among the ISR; else another one does, in the same step."""
    if image.leader in image.isr:
        return image
    elected = elect(image, is_eligible, unclean=unclean)
    return attrs.evolve(elected, partition_epoch=image.partition_epoch)


def ongoing(state: State, topics: Iterable[tuple[str, Sequence[int] | None]]) -> list[tuple[str, int]]:
    """The partitions among these that are being moved; None stands for all of a topic's."""
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
