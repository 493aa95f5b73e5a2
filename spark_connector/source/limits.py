"""How much of what waits goes into one micro-batch, by number of offsets.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, floor

from pykafka2 import TopicPartition
from spark_connector.offsets import Offsets


def waiting(
    begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """How many offsets lie between, for the partitions where there are some."""
    sizes = {partition: end - begins.get(partition, end) for partition, end in ends.items()}
    return {partition: size for partition, size in sizes.items() if size > 0}


def shared_out(
    limit: int, begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> Offsets:
    """Ends so that about `limit` offsets lie between, shared out by how many wait in each partition.

    Each partition with something gets one offset at least, so that small ones do not starve.
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
