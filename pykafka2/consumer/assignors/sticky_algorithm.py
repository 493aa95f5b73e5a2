"""The sticky assignment: members keep the partitions they own as far as balance permits.

One class handles groups in which all members read the same topics; another handles the rest, where
partitions move until no move improves the balance, so that the algorithm ends. Claims of ownership count by
generation: the latest wins, and contradicting claims of one generation cancel out. The result equals that
of Kafka's AbstractStickyAssignor with members in the order of their ids, except where Kafka depends on the
order of a hash table. Pure.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence

from pykafka2.consumer.assignors.assignor import (
    NO_GENERATION,
    ClusterMetadata,
    MemberSubscription,
    subscribers,
)
from pykafka2.consumer.assignors.racks import Racks, racks_of_group
from pykafka2.slotted import slotted
from pykafka2.types import TopicPartition

Division = dict[str, list[TopicPartition]]


def divide_equally(
    partitions: Sequence[TopicPartition],
    member_ids: Iterable[str],
    owner_of: Mapping[TopicPartition, str],
    racks: Racks,
) -> Division:
    """Divide `partitions`, which are in order, among the members.

    `owner_of` has the partitions that members can keep.
    """
    return _EqualDivision(partitions, sorted(member_ids), racks).divide(owner_of)


class _EqualDivision:
    """A division among members that all subscribe to the same topics."""

    def __init__(self, partitions: Sequence[TopicPartition], member_ids: list[str], racks: Racks) -> None:
        self._partitions = partitions
        self._racks = racks
        self._assigned: Division = {member_id: [] for member_id in member_ids}
        self._share, self._larger_shares = divmod(len(partitions), len(member_ids))
        """The number of partitions of each member, and how many members can still get one more."""
        self._largest = self._share + (self._larger_shares > 0)
        self._below: list[str] = []
        """Members with less than a share."""
        self._at_share: list[str] = []
        """Members with exactly a share that can still get one more partition."""

    def divide(self, owner_of: Mapping[TopicPartition, str]) -> Division:
        self._keep(owner_of)
        taken = {partition for partitions in self._assigned.values() for partition in partitions}
        free = [partition for partition in self._partitions if partition not in taken]
        if self._racks.of_members:
            free = self._give_to_near(self._hardest_first(free))
        self._give_round(free)
        return self._assigned

    def _keep(self, owner_of: Mapping[TopicPartition, str]) -> None:
        owned: Division = {member_id: [] for member_id in self._assigned}
        for partition, owner in owner_of.items():
            owned[owner].append(partition)
        for member_id, partitions in owned.items():
            partitions.sort(key=lambda partition: (partition.partition, partition.topic))
            if len(partitions) < self._share:
                self._assigned[member_id] = partitions
                self._below.append(member_id)
            elif len(partitions) >= self._largest and self._larger_shares:
                self._assigned[member_id] = partitions[: self._largest]
                self._took_larger_share()
            else:
                self._assigned[member_id] = partitions[: self._share]
                if self._larger_shares:
                    self._at_share.append(member_id)

    def _took_larger_share(self) -> None:
        self._larger_shares -= 1
        if not self._larger_shares:
            self._at_share.clear()

    def _hardest_first(self, free: list[TopicPartition]) -> list[TopicPartition]:
        """Sort partitions by the number of near members: those with the least choice come first."""
        in_rack: dict[str, int] = {}
        for rack in self._racks.of_members.values():
            in_rack[rack] = in_rack.get(rack, 0) + 1

        def near(partition: TopicPartition) -> int:
            return sum(in_rack.get(rack, 0) for rack in self._racks.of_partitions[partition])

        return sorted(free, key=near)

    def _give_to_near(self, free: list[TopicPartition]) -> list[TopicPartition]:
        """Assign partitions to near members with room; return the remaining ones."""
        left: list[TopicPartition] = []
        turn = 0
        for partition in free:
            place = self._next_near(partition, self._below, turn)
            if place is not None:
                member_id = self._below[place]
                self._assigned[member_id].append(partition)
                if len(self._assigned[member_id]) < self._share:
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
            self._assigned[self._at_share.pop(place)].append(partition)
            self._took_larger_share()
        return left

    def _next_near(self, partition: TopicPartition, member_ids: list[str], first: int) -> int | None:
        """Return the index of the first near member, starting at `first` and wrapping around."""
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
            self._assigned[member_id].append(partition)
            if is_below and len(self._assigned[member_id]) < self._share:
                below.append(member_id)
            elif is_below:
                at_share.append(member_id)


def divide_mixed(
    topics: Mapping[str, Sequence[TopicPartition]],
    readers: Mapping[str, frozenset[str]],
    member_ids: Collection[str],
    owner_of: Mapping[TopicPartition, str],
    earlier_owner_of: Mapping[TopicPartition, str],
    racks: Racks,
    *,
    must_move: bool,
) -> Division:
    """Divide all partitions of `topics` among the subscribers of each; partitions of a topic are in order.

    `owner_of` has the partitions that members can keep; `must_move` is True if other owned partitions must
    move.
    """
    return _MixedDivision(topics, readers, member_ids, racks, owner_of).divide(earlier_owner_of, must_move)


class _Loads:
    """The number of partitions of each member, and the members ordered by that number and their ids."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self.counts = dict(counts)
        self.order = sorted((count, member_id) for member_id, count in counts.items())

    def change(self, member_id: str, by: int) -> None:
        count = self.counts[member_id]
        del self.order[bisect_left(self.order, (count, member_id))]
        self.counts[member_id] = count + by
        insort(self.order, (count + by, member_id))

    def first_of(self, readers: frozenset[str]) -> str:
        """Return the subscriber with the fewest partitions."""
        return next(member_id for _, member_id in self.order if member_id in readers)

    @property
    def are_level(self) -> bool:
        return not self.order or self.order[-1][0] - self.order[0][0] <= 1


class _Moves:
    """The moves of partitions between members, so that no partition moves while another one moves back."""

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
        """Return a partition of the same topic that came from `target` and can move back, or `partition`."""
        origin = self._of.get(partition, (owner, ""))[0]
        came = self._by_way.get((partition.topic, target, origin))
        return min(came) if came else partition


class _MixedDivision:
    """A division among members with different subscriptions."""

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

    def divide(self, earlier_owner_of: Mapping[TopicPartition, str], must_move: bool) -> Division:
        free = [partition for partition in self._partitions if partition not in self._owner]
        self._give(free)
        # Partitions without an owner move first, unless owned partitions must move anyway.
        if not must_move:
            self._level(free, earlier_owner_of)
        self._level(self._partitions, earlier_owner_of)
        division: Division = {member_id: [] for member_id in self._loads.counts}
        for partition, owner in self._owner.items():
            division[owner].append(partition)
        return division

    def _give(self, free: list[TopicPartition]) -> None:
        """Assign free partitions to the subscribers with the fewest: first to near ones, then to any."""
        left = [partition for partition in free if not self._give_near(partition)]
        for partition in left:
            self._give_to(partition, self._loads.first_of(self._readers[partition.topic]))

    def _give_near(self, partition: TopicPartition) -> bool:
        if not self._racks.of_members:
            return False
        readers = self._readers[partition.topic]
        not_far = frozenset(reader for reader in readers if not self._racks.is_far(reader, partition))
        if not_far:
            self._give_to(partition, self._loads.first_of(not_far))
        return bool(not_far)

    def _give_to(self, partition: TopicPartition, member_id: str) -> None:
        self._owner[partition] = member_id
        self._loads.change(member_id, +1)

    def _level(
        self, partitions: list[TopicPartition], earlier_owner_of: Mapping[TopicPartition, str]
    ) -> None:
        """Move partitions until none of them can go to a subscriber with at least two fewer."""
        movable = [partition for partition in partitions if len(self._readers[partition.topic]) > 1]
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
        """Return the member to move a partition to, or None; its earlier owner is preferred."""
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


def divide(
    cluster: ClusterMetadata,
    members: Mapping[str, MemberSubscription],
    claims: Mapping[str, Claim],
    owner_of: Mapping[TopicPartition, str],
) -> Division:
    """Assign every partition to a subscriber of its topic, as Kafka's AbstractStickyAssignor does.

    If racks matter, a member loses partitions that are far from its rack, but can get them back.
    """
    return _divide(cluster, members, claims, owner_of, racks_of_group(cluster, members), keep_far=False)


def divide_calmly(
    cluster: ClusterMetadata,
    members: Mapping[str, MemberSubscription],
    claims: Mapping[str, Claim],
    owner_of: Mapping[TopicPartition, str],
) -> Division:
    """Divide like `divide`, but move no partition for racks unless more partitions are near their owners
    afterwards.

    Kafka has no such rule: its cooperative groups can move partitions between far members forever.
    """
    racks = racks_of_group(cluster, members)
    division = _divide(cluster, members, claims, owner_of, racks, keep_far=False)
    if racks.of_members:
        calm = _divide(cluster, members, claims, owner_of, racks, keep_far=True)
        if _count_far(calm, racks) <= _count_far(division, racks):
            return calm
    return division


def _count_far(division: Division, racks: Racks) -> int:
    return sum(
        racks.is_far(member_id, partition)
        for member_id, partitions in division.items()
        for partition in partitions
    )


def _divide(
    cluster: ClusterMetadata,
    members: Mapping[str, MemberSubscription],
    claims: Mapping[str, Claim],
    owner_of: Mapping[TopicPartition, str],
    racks: Racks,
    *,
    keep_far: bool,
) -> Division:
    if not members:
        return {}
    readers = {topic: frozenset(reading) for topic, reading in subscribers(cluster, members).items()}
    owned = {partition: owner for partition, owner in owner_of.items() if partition.topic in readers}
    kept = {
        partition: owner
        for partition, owner in owned.items()
        if owner in readers[partition.topic] and (keep_far or not racks.is_far(owner, partition))
    }
    if len({frozenset(member.topics) for member in members.values()}) == 1:
        every = [partition for topic in readers for partition in cluster.topic_partitions(topic)]
        return divide_equally(every, members, kept, racks)
    topics = {topic: list(cluster.topic_partitions(topic)) for topic in readers}
    must_move = len(kept) < len(owned)
    return divide_mixed(topics, readers, members, kept, earlier_owners(claims), racks, must_move=must_move)


@slotted(frozen=True)
class Claim:
    """The partitions that a member claims to own, and the generation of the claim (-1 if unknown)."""

    partitions: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION


def owners(cluster: ClusterMetadata, claims: Mapping[str, Claim]) -> dict[TopicPartition, str]:
    """Return the owner of each existing partition whose latest claim is not contradicted."""
    found: dict[TopicPartition, tuple[int, str | None]] = {}
    for member_id, claim in claims.items():
        for partition in dict.fromkeys(claim.partitions):
            generation, _ = found.get(partition, (NO_GENERATION - 1, None))
            if claim.generation > generation:
                found[partition] = claim.generation, member_id
            elif claim.generation == generation:
                found[partition] = generation, None
    existing = {each for topic in cluster.partitions for each in cluster.topic_partitions(topic)}
    return {
        partition: owner
        for partition, (_, owner) in found.items()
        if owner is not None and partition in existing
    }


def earlier_owners(claims: Mapping[str, Claim]) -> dict[TopicPartition, str]:
    """Return the owner of each partition in an older generation than the newest; the latest wins."""
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
