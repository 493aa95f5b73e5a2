"""Server-side assignors of KIP-848: uniform and range.  Pure functions over member ids and topic ids.

Both give every partition of a subscribed topic to exactly one of its subscribers and the same answer for the
same question, whatever the order of members.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final

import attrs

Partition = tuple[bytes, int]


@attrs.define(frozen=True)
class Subscriber:
    """A member as an assignor sees it: the ids of the topics that it reads, and what it was to own so far."""

    topics: frozenset[bytes]
    owned: frozenset[Partition] = frozenset()
    instance_id: str | None = None


Members = Mapping[str, Subscriber]
Assigned = dict[str, set[Partition]]


def uniform(members: Members, sizes: Mapping[bytes, int]) -> Assigned:
    """Balanced and sticky: totals differ by at most one where all read the same, nothing moves in vain."""
    if len({member.topics for member in members.values()}) == 1:
        return _homogeneous(members, sizes)
    return _heterogeneous(members, sizes)


def _homogeneous(members: Members, sizes: Mapping[bytes, int]) -> Assigned:
    """Where all read the same: each keeps the first of what it has, up to its share; the rest goes round.

    The outcome is that of Kafka's UniformHomogeneousAssignmentBuilder, which takes members as they come.
    """
    topics = sorted(next(iter(members.values())).topics & sizes.keys())
    every = dict.fromkeys(
        (topic_id, partition) for topic_id in topics for partition in range(sizes[topic_id])
    )
    taken = {one for member in members.values() for one in member.owned}
    free = [one for one in every if one not in taken]
    share, extras = divmod(len(every), len(members))
    assigned: Assigned = {}
    wants: dict[str, int] = {}
    for place, member_id in enumerate(sorted(members)):
        has_extra = extras > 0
        owned = sorted(one for one in members[member_id].owned if one in every)
        kept = assigned[member_id] = set(owned[: share + has_extra])
        free += owned[len(kept) :]
        room = share + has_extra - len(kept)
        if room and has_extra and len(members) - place > extras:
            # It is not full: the larger share goes to those after it that are, while there are enough.
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
            one
            for one in members[member_id].owned - taken
            if one[1] < sizes.get(one[0], 0) and one[0] in members[member_id].topics
        }
        assigned[member_id] = kept
        taken |= kept
    free = sorted(
        (topic_id, partition)
        for topic_id in readers
        for partition in range(sizes[topic_id])
        if (topic_id, partition) not in taken
    )
    # Those with the fewest readers first: they leave the least choice.
    for one in sorted(free, key=lambda one: len(readers[one[0]])):
        poorest = min(readers[one[0]], key=lambda member_id: (len(assigned[member_id]), member_id))
        assigned[poorest].add(one)
    _level(assigned, members)
    return assigned


def _level(assigned: Assigned, members: Members) -> None:
    """Move partitions from the richest to poorer readers until no move would help."""
    settled = False
    while not settled:
        settled = True
        for rich in sorted(assigned, key=lambda member_id: (-len(assigned[member_id]), member_id)):
            # What it did not own before goes first.
            for one in sorted(assigned[rich], key=lambda one: (one in members[rich].owned, one[0], -one[1])):
                readers = [member_id for member_id in members if one[0] in members[member_id].topics]
                poor = min(readers, key=lambda member_id: (len(assigned[member_id]), member_id))
                if len(assigned[poor]) + 1 < len(assigned[rich]):
                    assigned[rich].remove(one)
                    assigned[poor].add(one)
                    settled = False


def range_(members: Members, sizes: Mapping[bytes, int]) -> Assigned:
    """Per topic a range for each reader, static members first, so that equal numbers go together."""
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
    """Who reads each topic that exists, topics and members in order."""
    wanted = {topic_id for member in members.values() for topic_id in member.topics}
    return {
        topic_id: [member_id for member_id in sorted(members) if topic_id in members[member_id].topics]
        for topic_id in sorted(wanted & sizes.keys())
    }


ASSIGNORS: Final[dict[str, Callable[[Members, Mapping[bytes, int]], Assigned]]] = {
    "uniform": uniform,
    "range": range_,
}
"""By the name that a member asks for."""
