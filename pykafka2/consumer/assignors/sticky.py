"""The assignor "sticky": balances with as few moves as possible, as Kafka's StickyAssignor.

Members revoke all partitions before a rebalance and send their last assignment as user data; they get most of
it back. sticky_algorithm.py divides the partitions; cooperative_sticky.py is the same for members that keep
their partitions during a rebalance.
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
)
from pykafka2.consumer.assignors.sticky_algorithm import Claim, divide, owners
from pykafka2.errors import CorruptData
from pykafka2.protocol.fields import Int32, String, field
from pykafka2.protocol.struct import Data, Struct
from pykafka2.types import TopicPartition


class StickyAssignor(Assignor):
    """Balances first, then moves as few partitions as possible.

    Stateless: any number of consumers can share it.
    """

    @property
    def name(self) -> str:
        return "sticky"

    def user_data(self, topics: frozenset[str], last: LastAssignment | None) -> bytes | None:
        """Return the member's last assignment in the format of all clients, or None before the first one."""
        return None if last is None else claim_bytes(Claim(last.partitions, last.generation))

    def assign(
        self, cluster: ClusterMetadata, members: Mapping[str, MemberSubscription]
    ) -> Mapping[str, Assignment]:
        claims = {member_id: read_claim(member.user_data) for member_id, member in members.items()}
        division = divide(cluster, members, claims, owners(cluster, claims))
        return {
            member_id: Assignment(tuple(sorted(partitions))) for member_id, partitions in division.items()
        }


class _PreviousTopic(Struct):
    topic: String
    partitions: list[Int32]


class _PreviousAssignment(Data, versions="0-1"):
    """Kafka's STICKY_ASSIGNOR_USER_DATA; it has no version prefix, only the length shows the version."""

    previous_assignment: list[_PreviousTopic]
    generation: Int32 = field("1+", default=NO_GENERATION, ignorable=True)


def claim_bytes(claim: Claim) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for partition in sorted(claim.partitions):
        by_topic.setdefault(partition.topic, []).append(partition.partition)
    previous = [_PreviousTopic(topic=topic, partitions=numbers) for topic, numbers in by_topic.items()]
    return _PreviousAssignment(previous_assignment=previous, generation=claim.generation).encode(1)


def read_claim(user_data: bytes | None) -> Claim:
    """Return the claim in a member's user data; unreadable data is an empty claim, as in the Java client."""
    for version in (1, 0) if user_data else ():
        try:
            read, _ = _PreviousAssignment.decode_from(user_data or b"", 0, version)
        except CorruptData:
            continue
        partitions = tuple(
            TopicPartition(topic.topic, number)
            for topic in read.previous_assignment
            for number in topic.partitions
        )
        return Claim(partitions, max(read.generation, NO_GENERATION))
    return Claim()
