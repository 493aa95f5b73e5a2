"""The sticky assignment of a group whose members read different topics.

What is owned stays, what is free goes to the reader that has least, and then partitions move from readers
that have at least two more than another, until no move would make it more balanced.  Partitions that few can
read come first.  The outcome is that of Kafka's AbstractStickyAssignor where that does not hang on the order
of a Java hash table.  Every move here makes the assignment more balanced, so that it always ends.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Mapping, Sequence

from pykafka2.consumer.assignors.racks import Racks
from pykafka2.types import TopicPartition

Given = dict[str, list[TopicPartition]]


def divide_mixed(
    topics: Mapping[str, Sequence[TopicPartition]],
    readers: Mapping[str, frozenset[str]],
    member_ids: Collection[str],
    owner_of: Mapping[TopicPartition, str],
    earlier_owner_of: Mapping[TopicPartition, str],
    racks: Racks,
    *,
    must_move: bool,
) -> Given:
    """All partitions of `topics` among the readers of each; the partitions of a topic are in order.

    `owner_of` is what they may keep; `must_move` says that they lost something else that they owned.
    """
    return _Division(topics, readers, member_ids, racks, owner_of).divide(earlier_owner_of, must_move)


class _Loads:
    """How much each member has, and the members in the order of that, then of their ids."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self.counts = dict(counts)
        self.order = sorted((count, member_id) for member_id, count in counts.items())

    def change(self, member_id: str, by: int) -> None:
        count = self.counts[member_id]
        del self.order[bisect_left(self.order, (count, member_id))]
        self.counts[member_id] = count + by
        insort(self.order, (count + by, member_id))

    def first_of(self, readers: frozenset[str]) -> str:
        """The reader that has least."""
        return next(member_id for _, member_id in self.order if member_id in readers)

    @property
    def are_level(self) -> bool:
        return not self.order or self.order[-1][0] - self.order[0][0] <= 1


class _Moves:
    """Which partition of a topic went from whom to whom, so that none goes there while another comes back."""

    def __init__(self) -> None:
        self._by_way: dict[tuple[str, str, str], set[TopicPartition]] = {}
        self._of: dict[TopicPartition, tuple[str, str]] = {}

    def note(self, partition: TopicPartition, source: str, target: str) -> None:
        before = self._of.pop(partition, None)
        if before is not None:
            self._by_way[partition.topic, *before].discard(partition)
            source = before[0]
        if source != target:
            self._of[partition] = source, target
            self._by_way.setdefault((partition.topic, source, target), set()).add(partition)

    def better_choice(self, partition: TopicPartition, owner: str, target: str) -> TopicPartition:
        """A partition of the same topic that came from `target` and may go back, or `partition` itself."""
        origin = self._of.get(partition, (owner, ""))[0]
        came = self._by_way.get((partition.topic, target, origin))
        return min(came) if came else partition


class _Division:
    """One assignment while it is being made."""

    def __init__(
        self,
        topics: Mapping[str, Sequence[TopicPartition]],
        readers: Mapping[str, frozenset[str]],
        member_ids: Collection[str],
        racks: Racks,
        owner_of: Mapping[TopicPartition, str],
    ) -> None:
        self._readers = readers
        by_choice = sorted(topics, key=lambda topic: (len(readers[topic]), topic))
        self._partitions = [partition for topic in by_choice for partition in topics[topic]]
        self._racks = racks
        self._owner = dict(owner_of)
        counts = dict.fromkeys(member_ids, 0)
        for owner in owner_of.values():
            counts[owner] += 1
        self._loads = _Loads(counts)
        self._moves = _Moves()

    def divide(self, earlier_owner_of: Mapping[TopicPartition, str], must_move: bool) -> Given:
        free = [partition for partition in self._partitions if partition not in self._owner]
        self._give(free)
        # What was free moves first, unless owned partitions must move anyway.
        if not must_move:
            self._level(free, earlier_owner_of)
        self._level(self._partitions, earlier_owner_of)
        given: Given = {member_id: [] for member_id in self._loads.counts}
        for partition, owner in self._owner.items():
            given[owner].append(partition)
        return given

    def _give(self, free: list[TopicPartition]) -> None:
        """Give what is free to the reader that has least: first to those that are not far, then to any."""
        left = [partition for partition in free if not self._give_near(partition)]
        for partition in left:
            self._give_to(partition, self._loads.first_of(self._readers[partition.topic]))

    def _give_near(self, partition: TopicPartition) -> bool:
        if not self._racks.of_members:
            return False
        readers = self._readers[partition.topic]
        not_far = frozenset(one for one in readers if not self._racks.is_far(one, partition))
        if not_far:
            self._give_to(partition, self._loads.first_of(not_far))
        return bool(not_far)

    def _give_to(self, partition: TopicPartition, member_id: str) -> None:
        self._owner[partition] = member_id
        self._loads.change(member_id, +1)

    def _level(
        self, partitions: list[TopicPartition], earlier_owner_of: Mapping[TopicPartition, str]
    ) -> None:
        """Move partitions until none of `partitions` can go to a reader that has at least two fewer."""
        movable = [one for one in partitions if len(self._readers[one.topic]) > 1]
        has_moved = True
        while has_moved:
            has_moved = False
            for partition in movable:
                if self._loads.are_level:
                    return
                target = self._better_reader(partition, earlier_owner_of.get(partition))
                if target is not None:
                    self._move(partition, target)
                    has_moved = True

    def _better_reader(self, partition: TopicPartition, earlier_owner: str | None) -> str | None:
        """Whom to move a partition to; its owner of an earlier generation comes first."""
        readers, counts = self._readers[partition.topic], self._loads.counts
        limit = counts[self._owner[partition]] - 1
        if earlier_owner in readers and counts[earlier_owner] < limit:
            return earlier_owner
        if self._loads.order[0][0] >= limit:
            return None
        least = self._loads.first_of(readers)
        return least if counts[least] < limit else None

    def _move(self, partition: TopicPartition, target: str) -> None:
        counts = self._loads.counts
        choice = self._moves.better_choice(partition, self._owner[partition], target)
        if counts[self._owner[choice]] - 1 > counts[target]:
            partition = choice
        owner = self._owner[partition]
        self._moves.note(partition, owner, target)
        self._owner[partition] = target
        self._loads.change(owner, -1)
        self._loads.change(target, +1)
