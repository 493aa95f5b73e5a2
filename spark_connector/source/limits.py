"""Limits the size of a micro-batch by number of offsets.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, floor

from pykafka2 import TopicPartition
from spark_connector.offsets import Offsets


def waiting(
    begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return the backlog of each partition that has any, in offsets."""
    sizes = {partition: end - begins.get(partition, end) for partition, end in ends.items()}
    return {partition: size for partition, size in sizes.items() if size > 0}


def shared_out(
    limit: int, begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> Offsets:
    """Return end offsets for about `limit` offsets in all, shared in proportion to each partition's backlog.

    Each partition with a backlog gets at least one offset, so that small ones do not starve.
    """
    sizes = waiting(begins, ends)
    total = sum(sizes.values())
    if total <= limit:
        return dict(ends)
    found: Offsets = {}
    for partition, end in ends.items():
        size = sizes.get(partition)
        if size is None:
            found[partition] = end
            continue
        share = limit * (size / total)
        found[partition] = min(end, begins[partition] + (ceil(share) if share < 1 else floor(share)))
    return found
