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
"""Of fewer nobody can say what is much."""

CROWDED = 3
"""So many times its fair share is worth a word."""


@attrs.define
class Taken:
    """The batches and bytes of a partition since the start, as they were sent."""

    records: int = 0
    bytes: int = 0
    batches: int = 0


class PartitionShares:
    """See the module."""

    def __init__(self) -> None:
        self._taken: dict[tuple[str, int], Taken] = {}
        self._recent: deque[tuple[str, int]] = deque(maxlen=RECENT_BATCHES)

    def note(self, topic: str, partition: int, records: int, size_bytes: int) -> None:
        """A batch was written."""
        place = (topic, partition)
        taken = self._taken.get(place)
        if taken is None:
            taken = self._taken[place] = Taken()
        taken.records += records
        taken.bytes += size_bytes
        taken.batches += 1
        self._recent.append(place)

    def taken(self) -> dict[TopicPartition, Taken]:
        """By partition, of those that took anything."""
        return {TopicPartition(*place): taken for place, taken in self._taken.copy().items()}

    def crowded(self, partitions_of: Callable[[str], int]) -> list[str]:
        """Partitions that took more than `CROWDED` times their fair share of the last batches, in words."""
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
