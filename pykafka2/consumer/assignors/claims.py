"""Who owned which partition before, as far as the members' claims can be believed.

A member that was out of its group for a while still claims what it had.  The claim of the later generation
counts; where two of one generation contradict each other, neither does.  Pure functions.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from pykafka2.consumer.assignors.assignor import NO_GENERATION, ClusterMetadata
from pykafka2.types import TopicPartition


@attrs.define(frozen=True)
class Claim:
    """What a member says it owned, and in which generation (-1 if it does not say)."""

    partitions: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION


def owners(cluster: ClusterMetadata, claims: Mapping[str, Claim]) -> dict[TopicPartition, str]:
    """The owner of each partition that exists and is claimed without contradiction."""
    found: dict[TopicPartition, tuple[int, str | None]] = {}
    for member_id, claim in claims.items():
        for partition in dict.fromkeys(claim.partitions):
            generation, _ = found.get(partition, (NO_GENERATION - 1, None))
            if claim.generation > generation:
                found[partition] = claim.generation, member_id
            elif claim.generation == generation:
                found[partition] = generation, None
    existing = {one for topic in cluster.partitions for one in cluster.topic_partitions(topic)}
    return {
        partition: owner
        for partition, (_, owner) in found.items()
        if owner is not None and partition in existing
    }


def earlier_owners(claims: Mapping[str, Claim]) -> dict[TopicPartition, str]:
    """Who says to have owned a partition in an older generation than the newest; of several the latest."""
    newest = max((claim.generation for claim in claims.values()), default=NO_GENERATION)
    found: dict[TopicPartition, tuple[int, str]] = {}
    for member_id in sorted(claims):
        claim = claims[member_id]
        if claim.generation == newest:
            continue
        for partition in claim.partitions:
            if partition not in found or claim.generation > found[partition][0]:
                found[partition] = claim.generation, member_id
    return {partition: member_id for partition, (_, member_id) in found.items()}
