"""Where replicas go: striped over the brokers, so that leaders and followers are balanced.

Pure functions.  As in Kafka's StripedReplicaPlacer, the leaders of successive partitions go round the
brokers, and the followers of each round are shifted by one more, so that the load of a lost broker spreads
over all others.
"""

from __future__ import annotations

from collections.abc import Sequence


def place(
    brokers: Sequence[int], partitions: int, replication_factor: int, start: int
) -> list[tuple[int, ...]]:
    """The replicas of each partition, the preferred leader first; `start` is where the round begins."""
    count = len(brokers)
    placed: list[tuple[int, ...]] = []
    for partition in range(partitions):
        leader = (start + partition) % count
        # How often the round has been completed: it shifts the followers.
        shift = (partition // count) % max(count - 1, 1)
        followers = [
            brokers[(leader + 1 + (shift + n) % (count - 1)) % count] for n in range(replication_factor - 1)
        ]
        placed.append((brokers[leader], *followers))
    return placed
