"""Records that iteration has taken out of a poll and not handed out yet.

Caller's thread only.  The reader's positions are past these records already, so whoever reads elsewhere, or
pauses, must forget or rewind them; consumer.py does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

from pykafka2.consumer.reader import Records
from pykafka2.types import ConsumerRecord, TopicPartition


class Undelivered:
    """A queue of records in the order in which they will be handed out."""

    def __init__(self) -> None:
        self._records: deque[ConsumerRecord] = deque()
        self.next = self._records.popleft
        """The next record; raises IndexError when there is none.  Called once a record, hence no method."""

    def __bool__(self) -> bool:
        return bool(self._records)

    def put(self, polled: Records) -> None:
        for records in polled.values():
            self._records.extend(records)

    def take(self, limit: int, *, keep: bool) -> Records:
        """Up to `limit` records by partition; with `keep` they stay."""
        found: Records = {}
        for record in list(self._records)[:limit]:
            found.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
        if not keep:
            for _ in range(min(limit, len(self._records))):
                self._records.popleft()
        return found

    def first_offset(self, partition: TopicPartition) -> int | None:
        """The offset of the partition's first record here."""
        for record in self._records:
            if (record.topic, record.partition) == partition:
                return record.offset
        return None

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Drop what is here of these partitions."""
        if self._records and partitions:
            kept = [one for one in self._records if (one.topic, one.partition) not in partitions]
            self._records.clear()
            self._records.extend(kept)

    def rewind(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Drop what is here of these partitions; where each would have to be read again from."""
        first: dict[TopicPartition, int] = {}
        for record in self._records:
            partition = TopicPartition(record.topic, record.partition)
            if partition in partitions:
                first.setdefault(partition, record.offset)
        self.forget(first)
        return first

    def clear(self) -> None:
        self._records.clear()
