"""Computes the high watermark from the log ends of the leader and its followers."""

from __future__ import annotations

from collections.abc import Iterable


def high_watermark(log_ends: Iterable[int]) -> int:
    """Return the smallest log end of the replicas that count, including the leader's.

    All have the records below it.

    An unknown log end (-1) holds it back.
    """
    return min(log_ends)


def effective_min_isr(min_insync_replicas: int, replicas: int) -> int:
    """Return min.insync.replicas, limited to the number of replicas."""
    return min(min_insync_replicas, replicas)
