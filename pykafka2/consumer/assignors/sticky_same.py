"""The sticky assignment of a group in which all members read the same topics.

Everybody gets the same number of partitions, or one more.  Each member keeps what it owns up to that; what is
left goes round among those that lack some, where racks matter first to the near ones.
The outcome is that of Kafka's AbstractStickyAssignor with members taken in the order of their ids.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from pykafka2.consumer.assignors.racks import Racks
from pykafka2.types import TopicPartition

Given = dict[str, list[TopicPartition]]


def divide_equally(
    partitions: Sequence[TopicPartition],
    member_ids: Iterable[str],
    owner_of: Mapping[TopicPartition, str],
    racks: Racks,
) -> Given:
    """All `partitions`, which are in order, among the members.  `owner_of` is what they may keep."""
    return _Division(partitions, sorted(member_ids), racks).divide(owner_of)


class _Division:
    """One assignment while it is being made."""

    def __init__(self, partitions: Sequence[TopicPartition], member_ids: list[str], racks: Racks) -> None:
        self._partitions = partitions
        self._racks = racks
        self._given: Given = {member_id: [] for member_id in member_ids}
        self._share, self._larger_shares = divmod(len(partitions), len(member_ids))
        """How many each gets, and how many members may still get one more than that."""
        self._largest = self._share + (self._larger_shares > 0)
        self._below: list[str] = []
        """Members with less than a share."""
        self._at_share: list[str] = []
        """Members with just a share, that may become one of those with one more."""

    def divide(self, owner_of: Mapping[TopicPartition, str]) -> Given:
        self._keep(owner_of)
        taken = {partition for partitions in self._given.values() for partition in partitions}
        free = [partition for partition in self._partitions if partition not in taken]
        if self._racks.of_members:
            free = self._give_to_near(self._hardest_first(free))
        self._give_round(free)
        return self._given

    def _keep(self, owner_of: Mapping[TopicPartition, str]) -> None:
        owned: Given = {member_id: [] for member_id in self._given}
        for partition, owner in owner_of.items():
            owned[owner].append(partition)
        for member_id, partitions in owned.items():
            partitions.sort(key=lambda one: (one.partition, one.topic))
            if len(partitions) < self._share:
                self._given[member_id] = partitions
                self._below.append(member_id)
            elif len(partitions) >= self._largest and self._larger_shares:
                self._given[member_id] = partitions[: self._largest]
                self._took_larger_share()
            else:
                self._given[member_id] = partitions[: self._share]
                if self._larger_shares:
                    self._at_share.append(member_id)

    def _took_larger_share(self) -> None:
        self._larger_shares -= 1
        if not self._larger_shares:
            self._at_share.clear()

    def _hardest_first(self, free: list[TopicPartition]) -> list[TopicPartition]:
        """Those with the fewest members near to them first: they leave the least choice."""
        in_rack: dict[str, int] = {}
        for rack in self._racks.of_members.values():
            in_rack[rack] = in_rack.get(rack, 0) + 1

        def near(partition: TopicPartition) -> int:
            return sum(in_rack.get(rack, 0) for rack in self._racks.of_partitions[partition])

        return sorted(free, key=near)

    def _give_to_near(self, free: list[TopicPartition]) -> list[TopicPartition]:
        """Give what is near to a member with room; answers what is left."""
        left: list[TopicPartition] = []
        turn = 0
        for partition in free:
            place = self._next_near(partition, self._below, turn)
            if place is not None:
                member_id = self._below[place]
                self._given[member_id].append(partition)
                if len(self._given[member_id]) < self._share:
                    place += 1
                else:
                    del self._below[place]
                    if self._larger_shares:
                        self._at_share.append(member_id)
                turn = place % len(self._below) if self._below else 0
                continue
            place = self._next_near(partition, self._at_share, 0)
            if place is None:
                left.append(partition)
                continue
            self._given[self._at_share.pop(place)].append(partition)
            self._took_larger_share()
        return left

    def _next_near(self, partition: TopicPartition, member_ids: list[str], first: int) -> int | None:
        """The place of the first near member from `first` on, going round."""
        count = len(member_ids)
        for step in range(count):
            place = (first + step) % count
            if self._racks.is_near(member_ids[place], partition):
                return place
        return None

    def _give_round(self, free: list[TopicPartition]) -> None:
        below, at_share = deque(self._below), deque(self._at_share)
        for partition in free:
            is_below = bool(below)
            member_id = below.popleft() if is_below else at_share.popleft()
            self._given[member_id].append(partition)
            if is_below and len(self._given[member_id]) < self._share:
                below.append(member_id)
            elif is_below:
                at_share.append(member_id)
