"""Resets positions to an end of the log or to a timestamp.

Used on the driver's thread by fetcher.py; offset_lookups.py sends the requests.
"""

from __future__ import annotations

from functools import partial

from pykafka2.clock import FOREVER
from pykafka2.consumer.fetch.buffer import FetchBuffer
from pykafka2.consumer.fetch.fetched_data import Problem
from pykafka2.consumer.fetch.offset_lookups import OffsetLookup, OffsetLookups
from pykafka2.consumer.fetch.partitions import FRUITLESS_GAP, FetchTable
from pykafka2.consumer.reset_policy import LATEST_TIMESTAMP
from pykafka2.errors import KafkaError, NoOffsetForPartition
from pykafka2.types import OffsetAndTimestamp, TopicPartition


class PositionResets:
    """Finds the offsets to start from."""

    def __init__(self, lookups: OffsetLookups, buffer: FetchBuffer, table: FetchTable) -> None:
        self._lookups = lookups
        self._buffer = buffer
        self._table = table
        self._not_before: dict[TopicPartition, float] = {}
        """The earliest time of the next lookup after a failed one."""
        self._open: dict[TopicPartition, OffsetLookup] = {}
        """The lookups in progress.  They are cancelled when obsolete, because a lookup for a deleted topic
        would be retried forever."""

    def begin(self, partition: TopicPartition, generation: int, timestamp: int) -> None:
        """Find the offset at this timestamp, put it into the buffer, and fetch from there on."""
        self._table.clear_position(partition, generation)
        self._look_up_offset(partition, generation, timestamp)

    def cancel(self, partition: TopicPartition) -> None:
        """Cancel the lookup of this partition, if there is one."""
        lookup = self._open.pop(partition, None)
        if lookup is not None:
            self._lookups.cancel(lookup)

    def forget(self, partition: TopicPartition) -> None:
        """Drop the state of a partition that is no longer read."""
        self.cancel(partition)
        self._not_before.pop(partition, None)

    def _look_up_offset(
        self, partition: TopicPartition, generation: int, timestamp: int, end: int | None = None
    ) -> None:
        self._start(
            OffsetLookup(
                partition,
                timestamp,
                on_found=partial(self._on_found, partition, generation, timestamp, end),
                on_failed=partial(self._on_failed, partition, generation),
                not_before=self._not_before.get(partition, -FOREVER),
            )
        )

    def _start(self, lookup: OffsetLookup) -> None:
        lookup.is_of_read_topic = True
        self.cancel(lookup.partition)
        self._open[lookup.partition] = lookup
        self._lookups.add(lookup)

    def _on_found(
        self,
        partition: TopicPartition,
        generation: int,
        timestamp: int,
        end: int | None,
        found: OffsetAndTimestamp | None,
        now: float,
    ) -> None:
        if self._table.generations.get(partition) != generation:
            return  # the application has moved on
        if found is None and timestamp >= 0:
            if end is None:
                self._look_up_end(partition, generation, timestamp)
                return
            found = OffsetAndTimestamp(end, timestamp)
        if found is None:
            error = NoOffsetForPartition(f"{partition}: the broker returned no offset to start from")
            self._on_failed(partition, generation, error, now)
            return
        self.cancel(partition)
        self._table.begin(partition, generation, found.offset)
        misses = self._table.misses.get(partition)
        if misses is not None and misses.attempts > 1:
            # The offset that the broker returned last time was out of range.
            self._table.states[partition].not_before = now + max(
                misses.delay(misses.attempts - 2), FRUITLESS_GAP
            )
        self._buffer.put_reset(partition, generation, found.offset)

    def _look_up_end(self, partition: TopicPartition, generation: int, timestamp: int) -> None:
        """Start at the log's end if no record has that or a later timestamp.

        The end is looked up first and the timestamp again after it: with the other order, a record appended
        in between would be skipped.
        """

        def on_found(found: OffsetAndTimestamp | None, now: float) -> None:
            if self._table.generations.get(partition) == generation:
                self._look_up_offset(partition, generation, timestamp, found.offset if found else 0)

        failed = partial(self._on_failed, partition, generation)
        self._start(OffsetLookup(partition, LATEST_TIMESTAMP, on_found, failed))

    def _on_failed(self, partition: TopicPartition, generation: int, error: KafkaError, now: float) -> None:
        if self._table.generations.get(partition) == generation:
            self._not_before[partition] = now + FRUITLESS_GAP
            self._buffer.put(Problem(partition, generation, -1, error))
