"""The assignor "range": each member gets consecutive partitions of each topic, as in Kafka's RangeAssignor.

Members are ordered by instance id or member id; if a topic does not divide evenly, the first members get one
more partition. So topics with the same number of partitions and the same subscribers are co-partitioned: the
member that gets partition 3 of one topic gets partition 3 of the others.

Racks matter only within balance (KIP-881): a member first gets partitions with a replica in its rack, and the
rest is assigned by ranges. Co-partitioned topics stay so: partition 3 of all of them goes to a member that is
near to all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from pykafka2.consumer.assignors.assignor import (
    Assignment,
    Assignor,
    ClusterMetadata,
    MemberSubscription,
    subscribers,
)
from pykafka2.consumer.assignors.racks import member_racks, racks_matter
from pykafka2.types import PartitionInfo, TopicPartition


class RangeAssignor(Assignor):
    """Assigns consecutive partitions of each topic and respects racks.

    Stateless: any number of consumers can share it.
    """

    @property
    def name(self) -> str:
        return "range"

    def assign(
        self, cluster: ClusterMetadata, members: Mapping[str, MemberSubscription]
    ) -> Mapping[str, Assignment]:
        racks = member_racks(members)
        topics = [
            _Topic(cluster.partitions[topic], readers, racks, cluster)
            for topic, readers in subscribers(cluster, members).items()
        ]
        if any(topic.racks_matter for topic in topics):
            for alike in _divided_alike(topics):
                if len(alike) > 1:
                    _give_alike_to_near(alike)
                elif alike[0].racks_matter:
                    alike[0].give_ranges(near_only=True)
        for topic in topics:
            topic.give_ranges(near_only=False)
        assigned: dict[str, list[TopicPartition]] = {member_id: [] for member_id in members}
        for topic in topics:
            for member_id, partitions in topic.assigned.items():
                assigned[member_id] += sorted(partitions)
        return {member_id: Assignment(tuple(partitions)) for member_id, partitions in assigned.items()}


class _Topic:
    """One topic while it is being divided among its readers."""

    def __init__(
        self,
        partitions: Sequence[PartitionInfo],
        readers: list[str],
        racks: Mapping[str, str],
        cluster: ClusterMetadata,
    ) -> None:
        self.assigned: dict[str, list[TopicPartition]] = {member_id: [] for member_id in readers}
        self._racks = {member_id: racks[member_id] for member_id in readers if member_id in racks}
        self._free = {info.partition: TopicPartition(info.topic, info.partition) for info in partitions}
        self.numbers = tuple(self._free)
        self._near: dict[int, frozenset[str]] = {}
        if self._racks:
            self._near = {info.partition: cluster.racks_of(info) for info in partitions}
        self.racks_matter = racks_matter(self._racks.values(), self._near.values())
        self._share, self._larger_shares = divmod(len(self._free), len(readers))

    @property
    def readers(self) -> tuple[str, ...]:
        return tuple(self.assigned)

    def room(self, member_id: str) -> int:
        """Return how many more partitions the member can get; the first takers get the larger shares."""
        return max(0, self._share + (self._larger_shares > 0) - len(self.assigned[member_id]))

    def is_near(self, member_id: str, number: int) -> bool:
        """Return whether a replica is in the member's rack; a member without a rack is near to everything."""
        rack = self._racks.get(member_id)
        return rack is None or rack in self._near.get(number, ())

    def give(self, member_id: str, numbers: list[int]) -> None:
        mine = self.assigned[member_id]
        mine += [self._free.pop(number) for number in numbers]
        if numbers and len(mine) > self._share:
            self._larger_shares -= 1

    def give_ranges(self, *, near_only: bool) -> None:
        for member_id in self.assigned:
            if not self._free:
                return
            offered = (number for number in self._free if not near_only or self.is_near(member_id, number))
            self.give(member_id, list(islice(offered, self.room(member_id))))


def _divided_alike(topics: list[_Topic]) -> list[list[_Topic]]:
    """Group the topics with the same subscribers and the same number of partitions."""
    groups: dict[tuple[tuple[str, ...], tuple[int, ...]], list[_Topic]] = {}
    for topic in topics:
        groups.setdefault((topic.readers, topic.numbers), []).append(topic)
    return list(groups.values())


def _give_alike_to_near(topics: list[_Topic]) -> None:
    """Assign each partition number of all these topics to the first near member with room for all."""
    remaining = list(topics[0].readers)
    for number in topics[0].numbers:
        for member_id in remaining:
            if all(topic.is_near(member_id, number) and topic.room(member_id) for topic in topics):
                break
        else:
            continue
        for topic in topics:
            topic.give(member_id, [number])
        if not any(topic.room(member_id) for topic in topics):
            remaining.remove(member_id)
