"""The assignor "range": of each topic a member gets consecutive partitions, as Kafka's RangeAssignor.

Members stand in the order of their instance or member ids; where a topic does not divide evenly the first get
one more.  So topics with equal counts of partitions and the same readers are divided alike: the member that
reads partition 3 of one reads partition 3 of the others.

Racks come first where they matter, though never before balance (KIP-881): a member is offered the partitions
that have a replica in its rack, and what is left goes out by ranges.  Topics that are divided alike stay so:
partition 3 of all of them goes to a member that is near to all of them.
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
    """Consecutive partitions of each topic, racks considered.  Stateless: any number of consumers may share
    it."""

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
        given: dict[str, list[TopicPartition]] = {member_id: [] for member_id in members}
        for topic in topics:
            for member_id, partitions in topic.given.items():
                given[member_id] += sorted(partitions)
        return {member_id: Assignment(tuple(partitions)) for member_id, partitions in given.items()}


class _Topic:
    """One topic while it is being divided among its readers."""

    def __init__(
        self,
        partitions: Sequence[PartitionInfo],
        readers: list[str],
        racks: Mapping[str, str],
        cluster: ClusterMetadata,
    ) -> None:
        self.given: dict[str, list[TopicPartition]] = {member_id: [] for member_id in readers}
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
        return tuple(self.given)

    def room(self, member_id: str) -> int:
        """How many more it may get; larger shares go to the first that take them."""
        return max(0, self._share + (self._larger_shares > 0) - len(self.given[member_id]))

    def is_near(self, member_id: str, number: int) -> bool:
        """Whether a replica is in the member's rack; a member without a rack is near to everything."""
        rack = self._racks.get(member_id)
        return rack is None or rack in self._near.get(number, ())

    def give(self, member_id: str, numbers: list[int]) -> None:
        mine = self.given[member_id]
        mine += [self._free.pop(number) for number in numbers]
        if numbers and len(mine) > self._share:
            self._larger_shares -= 1

    def give_ranges(self, *, near_only: bool) -> None:
        for member_id in self.given:
            if not self._free:
                return
            offered = (number for number in self._free if not near_only or self.is_near(member_id, number))
            self.give(member_id, list(islice(offered, self.room(member_id))))


def _divided_alike(topics: list[_Topic]) -> list[list[_Topic]]:
    """Topics with the same readers and equally many partitions, together."""
    groups: dict[tuple[tuple[str, ...], tuple[int, ...]], list[_Topic]] = {}
    for topic in topics:
        groups.setdefault((topic.readers, topic.numbers), []).append(topic)
    return list(groups.values())


def _give_alike_to_near(topics: list[_Topic]) -> None:
    """Give each number, of all these topics at once, to the first member that is near to all and has room."""
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
