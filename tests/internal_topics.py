"""Fewer partitions of the internal topics, where a test's clusters are many and their coordinators few."""

from __future__ import annotations

FEW_PARTITIONS: dict[str, object] = {
    "offsets.topic.num.partitions": 6,
    "transaction.state.log.num.partitions": 6,
}
"""To create Kafka's 50 with three replicas costs as much as the rest of a short test in virtual time."""
