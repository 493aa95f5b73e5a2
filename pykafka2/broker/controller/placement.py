"""Replica placement: striped over racks, then brokers, so that leaders and followers are balanced.

Pure functions. As in Kafka's StripedReplicaPlacer, successive partitions get leaders round-robin over the
live brokers, and each round shifts the followers by one more, so that the load of a lost broker spreads over
all others. A partition's replicas use as many racks as possible. Within a rack live brokers come first;
fenced ones get replicas only if there are too few others.
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import attrs


@attrs.define(frozen=True)
class Host:
    """A broker that can host replicas."""

    id: int
    rack: str | None = None
    is_live: bool = True


def first_host(seed: int | str) -> int:
    """Return the host at which a cluster with that seed starts."""
    return seed if isinstance(seed, int) else crc32(seed.encode())


def place(
    hosts: Sequence[Host], partitions: int, replication_factor: int, start: int
) -> list[tuple[int, ...]]:
    """Return the replicas of each partition, the preferred leader first.

    `start` is the first leader's position.

    Require at least one live host, and as many hosts as replicas.
    """
    live = _striped([host for host in hosts if host.is_live])
    others = _striped([host for host in hosts if not host.is_live])
    by_rack = len({host.rack for host in hosts}) > 1
    count = len(live)
    placed: list[tuple[int, ...]] = []
    for partition in range(partitions):
        leader = (start + partition) % count
        # The number of completed rounds shifts the followers.
        shift = (partition // count) % max(count - 1, 1)
        followers = [live[(leader + 1 + (shift + n) % (count - 1)) % count] for n in range(count - 1)]
        followers += others
        if by_rack:
            followers = _spread(live[leader], followers, replication_factor - 1)
        chosen = (live[leader], *followers[: replication_factor - 1])
        placed.append(tuple(host.id for host in chosen))
    return placed


def _striped(hosts: Sequence[Host]) -> list[Host]:
    """Return one host of each rack in turn; racks are sorted by name, hosts by id."""
    racks: dict[str, list[Host]] = {}
    for host in sorted(hosts, key=lambda host: (host.rack or "", host.id)):
        racks.setdefault(host.rack or "", []).append(host)
    depth = max(map(len, racks.values()), default=0)
    return [rack[level] for level in range(depth) for rack in racks.values() if level < len(rack)]


def _spread(leader: Host, candidates: Sequence[Host], count: int) -> list[Host]:
    """Return `count` candidates, each from one of the racks used least so far."""
    used: dict[str | None, int] = {leader.rack: 1}
    left = list(candidates)
    chosen: list[Host] = []
    for _ in range(count):
        best = min(left, key=lambda host: used.get(host.rack, 0))
        left.remove(best)
        used[best.rack] = used.get(best.rack, 0) + 1
        chosen.append(best)
    return chosen
