"""The server-side assignor of share groups: simple. A pure function.

Every partition is assigned to at least one member, and every member has at least one partition. With more
members than partitions several members share a partition. Members keep what they have as far as the shares
stay even. Shares are those of Kafka 4.4 (SimpleHomogeneousAssignmentBuilder, and per topic
SimpleHeterogeneousAssignmentBuilder), which takes members and partitions in the order of a hash map; here
both are sorted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil

Partition = tuple[bytes, int]

Held = Mapping[str, Iterable[Partition]]
"""The partitions of each member."""


def simple(
    subscriptions: Mapping[str, frozenset[bytes]], held: Held, assignable: Mapping[bytes, Iterable[int]]
) -> dict[str, set[Partition]]:
    """Return the partitions of each member by its subscribed topic ids.

    Only `assignable` partitions are assigned: those whose state is initialized.
    """
    assigned: dict[str, set[Partition]] = {
        member: {one for one in held.get(member, ()) if one[0] in subscriptions[member]}
        for member in sorted(subscriptions)
    }
    topics = sorted(frozenset[bytes]().union(*subscriptions.values()))
    targets = {topic: [(topic, number) for number in sorted(assignable.get(topic, ()))] for topic in topics}
    if len(set(subscriptions.values())) <= 1:
        _spread(assigned, list(assigned), [one for topic in topics for one in targets[topic]])
        return assigned
    for topic in topics:
        members = [member for member in assigned if topic in subscriptions[member]]
        of_topic = {member: {one for one in assigned[member] if one[0] == topic} for member in members}
        _spread(of_topic, members, targets[topic])
        for member in members:
            others = {one for one in assigned[member] if one[0] != topic}
            assigned[member] = others | of_topic[member]
    return assigned


def _spread(
    assigned: dict[str, set[Partition]], members: Sequence[str], targets: Sequence[Partition]
) -> None:
    """Change an assignment so that all members have even shares, and each partition as many members."""
    if not targets:
        for member in members:
            assigned[member].clear()
        return
    sharing = (len(members) + len(targets) - 1) // len(targets)
    precise = sharing * len(targets) / len(members)
    shares = {
        member: ceil(precise * (number + 1)) - ceil(precise * number) for number, member in enumerate(members)
    }
    known = frozenset(targets)
    holders: dict[Partition, set[str]] = {one: set() for one in targets}
    for member in members:
        kept = assigned[member] = set(sorted(assigned[member] & known)[: shares[member]])
        for one in kept:
            holders[one].add(member)
    for one, holding in holders.items():
        for member in sorted(holding)[sharing:]:
            holding.remove(member)
            assigned[member].remove(one)
    _fill(assigned, shares, holders, sharing)


def _fill(
    assigned: dict[str, set[Partition]],
    shares: Mapping[str, int],
    holders: Mapping[Partition, set[str]],
    sharing: int,
) -> None:
    """Assign partitions with too few members to members with too few partitions, in turn."""
    unfilled = [member for member in shares if len(assigned[member]) < shares[member]]
    place = 0
    for one, holding in holders.items():
        passed = 0
        while len(holding) < sharing and passed < len(unfilled):
            place %= len(unfilled)
            member = unfilled[place]
            if member in holding:
                place, passed = place + 1, passed + 1
                continue
            holding.add(member)
            assigned[member].add(one)
            passed = 0
            if len(assigned[member]) < shares[member]:
                place += 1
            else:
                del unfilled[place]
