"""How far a partition is safe: the high watermark, from the leader's and the followers' log ends."""

from __future__ import annotations

from collections.abc import Iterable


def high_watermark(log_ends: Iterable[int]) -> int:
    """Everything below it is on every replica that counts: the least of their log ends, the leader's among
    them.

    An unknown log end (-1) holds it back.
    """
    return min(log_ends)


def effective_min_isr(min_insync_replicas: int, replicas: int) -> int:
    """min.insync.replicas cannot ask for more replicas than there are."""
    return min(min_insync_replicas, replicas)
