"""The assignor "cooperative-sticky": sticky for members that keep reading during a rebalance (KIP-429).

A partition that moves is first assigned to no member. Its owner revokes it and rejoins, and the next
rebalance assigns it to the new owner, so two members never own it at the same time.

If racks matter, Kafka's assignor can move partitions between far members in every rebalance. This one moves
no partition for racks unless more partitions are near their owners afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping

from pykafka2.consumer.assignors.assignor import (
    NO_GENERATION,
    Assignment,
    Assignor,
    ClusterMetadata,
    LastAssignment,
    MemberSubscription,
    RebalanceProtocol,
)
from pykafka2.consumer.assignors.sticky_algorithm import Claim, divide_calmly, owners
from pykafka2.types import TopicPartition

_GENERATION_BYTES = 4


class CooperativeStickyAssignor(Assignor):
    """The "sticky" assignor for members that keep reading partitions that do not move.

    Stateless: any number of consumers can share it. Together with an eager assignor it works eagerly.
    """

    @property
    def name(self) -> str:
        return "cooperative-sticky"

    @property
    def protocols(self) -> tuple[RebalanceProtocol, ...]:
        return (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def user_data(self, topics: frozenset[str], last: LastAssignment | None) -> bytes | None:
        """Return the generation of the last assignment, for leaders that read no generation elsewhere."""
        generation = NO_GENERATION if last is None else last.generation
        return generation.to_bytes(_GENERATION_BYTES, "big", signed=True)

    def assign(
        self, cluster: ClusterMetadata, members: Mapping[str, MemberSubscription]
    ) -> Mapping[str, Assignment]:
        claims = {member_id: _claim(member) for member_id, member in members.items()}
        owner_of = owners(cluster, claims)
        division = divide_calmly(cluster, members, claims, owner_of)
        claimants: dict[TopicPartition, set[str]] = {}
        for member_id, claim in claims.items():
            for partition in claim.partitions:
                claimants.setdefault(partition, set()).add(member_id)

        def can_get(member_id: str, partition: TopicPartition) -> bool:
            if owner_of.get(partition) == member_id:
                return True
            return not claimants.get(partition, set()) - {member_id}

        return {
            member_id: Assignment(
                tuple(sorted(partition for partition in partitions if can_get(member_id, partition)))
            )
            for member_id, partitions in division.items()
        }


def _claim(member: MemberSubscription) -> Claim:
    """Return the member's claim; subscriptions before version 2 have its generation in their user data."""
    generation, user_data = member.generation, member.user_data or b""
    if generation == NO_GENERATION and len(user_data) == _GENERATION_BYTES:
        generation = int.from_bytes(user_data, "big", signed=True)
    return Claim(member.owned, max(generation, NO_GENERATION))
