"""Server-side assignors of KIP-848: uniform and range. Pure functions of member ids and topic ids.

Both assign every partition of a subscribed topic to exactly one subscriber, and are deterministic, whatever
the order of members.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final

import attrs

Partition = tuple[bytes, int]


@attrs.define(frozen=True)
class Subscriber:
    """A member, as an assignor sees it: its subscribed topic ids, and its previous target."""

    topics: frozenset[bytes]
    owned: frozenset[Partition] = frozenset()
    instance_id: str | None = None


Members = Mapping[str, Subscriber]
Assigned = dict[str, set[Partition]]


def uniform(members: Members, sizes: Mapping[bytes, int]) -> Assigned:
    """Assign partitions balanced and sticky.

    With equal subscriptions totals differ by at most one, and no partition moves needlessly.
    """
    if len({member.topics for member in members.values()}) == 1:
        return _homogeneous(members, sizes)
    return _heterogeneous(members, sizes)


def _homogeneous(members: Members, sizes: Mapping[bytes, int]) -> Assigned:
    """Handle equal subscriptions: members keep their first partitions up to their share.

    The rest is distributed.

    The result is that of Kafka's UniformHomogeneousAssignmentBuilder, which takes members in any order.
    """
    topics = sorted(next(iter(members.values())).topics & sizes.keys())
    every = dict.fromkeys(
        (topic_id, partition) for topic_id in topics for partition in range(sizes[topic_id])
    )
    taken = {partition for member in members.values() for partition in member.owned}
    free = [partition for partition in every if partition not in taken]
    share, extras = divmod(len(every), len(members))
    assigned: Assigned = {}
    wants: dict[str, int] = {}
    for place, member_id in enumerate(sorted(members)):
        has_extra = extras > 0
        owned = sorted(partition for partition in members[member_id].owned if partition in every)
        kept = assigned[member_id] = set(owned[: share + has_extra])
        free += owned[len(kept) :]
        room = share + has_extra - len(kept)
        if room and has_extra and len(members) - place > extras:
            # It is not full: larger shares go to full members after it, as long as there are enough.
            room, has_extra = room - 1, False
        wants[member_id] = room
        extras -= has_extra
    left = iter(free)
    for member_id, room in wants.items():
        assigned[member_id].update(islice(left, room))
    return assigned


def _heterogeneous(members: Members, sizes: Mapping[bytes, int]) -> Assigned:
    assigned: Assigned = {member_id: set() for member_id in members}
    readers = _readers(members, sizes)
    taken: set[Partition] = set()
    for member_id in sorted(members):
        kept = {
            partition
            for partition in members[member_id].owned - taken
            if partition[1] < sizes.get(partition[0], 0) and partition[0] in members[member_id].topics
        }
        assigned[member_id] = kept
        taken |= kept
    free = sorted(
        (topic_id, partition)
        for topic_id in readers
        for partition in range(sizes[topic_id])
        if (topic_id, partition) not in taken
    )
    # Partitions with the fewest subscribers first, because they leave the least choice.
    for partition in sorted(free, key=lambda free_partition: len(readers[free_partition[0]])):
        poorest = min(readers[partition[0]], key=lambda member_id: (len(assigned[member_id]), member_id))
        assigned[poorest].add(partition)
    _level(assigned, members)
    return assigned


def _level(assigned: Assigned, members: Members) -> None:
    """Move partitions from members with the most to those with fewer, until that improves nothing."""
    settled = False
    while not settled:
        settled = True
        for rich in sorted(assigned, key=lambda member_id: (-len(assigned[member_id]), member_id)):
            # Partitions that it did not own before go first.
            for partition in sorted(
                assigned[rich],
                key=lambda candidate: (candidate in members[rich].owned, candidate[0], -candidate[1]),
            ):
                readers = [member_id for member_id in members if partition[0] in members[member_id].topics]
                poor = min(readers, key=lambda member_id: (len(assigned[member_id]), member_id))
                if len(assigned[poor]) + 1 < len(assigned[rich]):
                    assigned[rich].remove(partition)
                    assigned[poor].add(partition)
                    settled = False


def range_(members: Members, sizes: Mapping[bytes, int]) -> Assigned:
    """Assign a range of each topic to each subscriber.

    Static members come first, so that equal partition numbers stay together.
    """
    assigned: Assigned = {member_id: set() for member_id in members}
    for topic_id, readers in _readers(members, sizes).items():
        order = sorted(
            readers,
            key=lambda member_id: (
                members[member_id].instance_id is None,
                members[member_id].instance_id or member_id,
            ),
        )
        share, extra = divmod(sizes[topic_id], len(order))
        start = 0
        for position, member_id in enumerate(order):
            end = start + share + (position < extra)
            assigned[member_id] |= {(topic_id, partition) for partition in range(start, end)}
            start = end
    return assigned


def _readers(members: Members, sizes: Mapping[bytes, int]) -> dict[bytes, list[str]]:
    """Return the subscribers of each existing topic; topics and members are sorted."""
    wanted = {topic_id for member in members.values() for topic_id in member.topics}
    return {
        topic_id: [member_id for member_id in sorted(members) if topic_id in members[member_id].topics]
        for topic_id in sorted(wanted & sizes.keys())
    }


ASSIGNORS: Final[dict[str, Callable[[Members, Mapping[bytes, int]], Assigned]]] = {
    "uniform": uniform,
    "range": range_,
}
"""Assignors by name."""
