"""Where replicas go: striped over racks, then brokers, so that leaders and followers are balanced.

Pure functions.  As in Kafka's StripedReplicaPlacer, the leaders of successive partitions go round the live
brokers, and the followers of each round are shifted by one more, so that the load of a lost broker spreads
over all others.  A partition's replicas are in as many racks as there are; within a rack live brokers come
first, so fenced ones get replicas only where there are not enough others.
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import attrs


@attrs.define(frozen=True)
class Host:
    """A broker that may hold replicas."""

    id: int
    rack: str | None = None
    is_live: bool = True


def first_host(seed: int | str) -> int:
    """Where a cluster of that seed begins."""
    return seed if isinstance(seed, int) else crc32(seed.encode())


def place(
    hosts: Sequence[Host], partitions: int, replication_factor: int, start: int
) -> list[tuple[int, ...]]:
    """The replicas of each partition, the preferred leader first; `start` is where the round begins.

    At least one host must be live, and there must be as many hosts as replicas.
    """
    live = _striped([host for host in hosts if host.is_live])
    others = _striped([host for host in hosts if not host.is_live])
    by_rack = len({host.rack for host in hosts}) > 1
    count = len(live)
    placed: list[tuple[int, ...]] = []
    for partition in range(partitions):
        leader = (start + partition) % count
        # How often the round has been completed: it shifts the followers.
        shift = (partition // count) % max(count - 1, 1)
        followers = [live[(leader + 1 + (shift + n) % (count - 1)) % count] for n in range(count - 1)]
        followers += others
        if by_rack:
            followers = _spread(live[leader], followers, replication_factor - 1)
        chosen = (live[leader], *followers[: replication_factor - 1])
        placed.append(tuple(host.id for host in chosen))
    return placed


def _striped(hosts: Sequence[Host]) -> list[Host]:
    """One host of each rack in turn, racks by name and hosts by id."""
    racks: dict[str, list[Host]] = {}
    for host in sorted(hosts, key=lambda host: (host.rack or "", host.id)):
        racks.setdefault(host.rack or "", []).append(host)
    depth = max(map(len, racks.values()), default=0)
    return [rack[level] for level in range(depth) for rack in racks.values() if level < len(rack)]


def _spread(leader: Host, candidates: Sequence[Host], count: int) -> list[Host]:
    """`count` of the candidates, each from a rack that has the fewest of those chosen so far."""
    used: dict[str | None, int] = {leader.rack: 1}
    left = list(candidates)
    chosen: list[Host] = []
    for _ in range(count):
        best = min(left, key=lambda host: used.get(host.rack, 0))
        left.remove(best)
        used[best.rack] = used.get(best.rack, 0) + 1
        chosen.append(best)
    return chosen
