"""The share of buffer_memory that each partition uses, to name one that uses too much.

The IO thread counts each batch that is written (results.py), and any thread reads (inspection.py).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable

import attrs

from pykafka2.types import TopicPartition

RECENT_BATCHES = 1000
ENOUGH_BATCHES = 100
"""With fewer batches shares mean nothing."""

CROWDED = 3
"""Multiple of its fair share from which on `explain` names a partition."""


@attrs.define
class Taken:
    """The records, bytes and batches of a partition that were written."""

    records: int = 0
    bytes: int = 0
    batches: int = 0


class PartitionShares:
    """Counts the written batches of each partition."""

    def __init__(self) -> None:
        self._taken: dict[tuple[str, int], Taken] = {}
        self._recent: deque[tuple[str, int]] = deque(maxlen=RECENT_BATCHES)

    def note(self, topic: str, partition: int, records: int, size_bytes: int) -> None:
        """Count a batch that was written."""
        place = (topic, partition)
        taken = self._taken.get(place)
        if taken is None:
            taken = self._taken[place] = Taken()
        taken.records += records
        taken.bytes += size_bytes
        taken.batches += 1
        self._recent.append(place)

    def taken(self) -> dict[TopicPartition, Taken]:
        """Return the counts by partition."""
        return {TopicPartition(*place): taken for place, taken in self._taken.copy().items()}

    def crowded(self, partitions_of: Callable[[str], int]) -> list[str]:
        """Describe partitions with more than `CROWDED` times their fair share of the last batches."""
        counts = Counter(self._recent.copy())
        by_topic: Counter[str] = Counter()
        for (topic, _), count in counts.items():
            by_topic[topic] += count
        lines = []
        for (topic, partition), count in sorted(counts.items()):
            total, partitions = by_topic[topic], partitions_of(topic)
            if total >= ENOUGH_BATCHES and count * partitions > CROWDED * total:
                lines.append(
                    f"{topic}-{partition} took {count} of the last {total} batches of its topic, which has "
                    f"{partitions} partitions; are there too few keys?"
                )
        return lines
