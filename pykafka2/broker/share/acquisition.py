"""Acquisition of records in flight, and of new ones, by a member of a share group (KIP-932).

Records that failed repeatedly are delivered apart from others, and fewer at a time. Based on Kafka's
SharePartition. Access requires the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from pykafka2.broker.share.acquired import AcquiredRange, end_of_batch_with, merged
from pykafka2.broker.share.in_flight import InFlightBatch, Unit
from pykafka2.broker.share.in_flight_records import InFlightRecords
from pykafka2.broker.share.options import ShareGroupOptions
from pykafka2.records.batch import RecordBatch

MIN_THROTTLE_LIMIT = 2
"""The smallest delivery count from which fewer records are delivered at a time."""


@attrs.define(frozen=True)
class AcquireLimits:
    """Limits of one acquisition: `is_strict` is the record-limit mode of KIP-1206.

    Without it whole batches are acquired, so that the number of records can exceed `max_records`; records of
    new batches are returned in ranges of about `batch_size`.
    """

    max_records: int
    batch_size: int
    is_strict: bool = False


def acquire(
    window: InFlightRecords,
    member_id: str,
    limits: AcquireLimits,
    fetch_offset: int,
    fetched: Sequence[RecordBatch],
    options: ShareGroupOptions,
) -> list[AcquiredRange]:
    """Acquire records of fetched batches for a member.

    `fetched` was read at `fetch_offset`. Return the acquired offsets in order.
    """
    if not fetched or limits.max_records <= 0 or fetched[-1].last_offset < window.start_offset:
        return []
    last_offset = fetched[-1].last_offset
    room = min(limits.max_records, options.max_record_locks - window.count)
    if room <= 0:
        # With all locks in use, released records in between are still delivered.
        if fetch_offset > window.end_offset:
            return []
        room = min(limits.max_records, window.end_offset - fetch_offset + 1)
        last_offset = min(last_offset, window.end_offset)
    run = _Acquisition(window, member_id, limits, fetched, last_offset, room, options.delivery_limit)
    first_offset = fetched[0].base_offset
    if window.batches and fetch_offset < first_offset:
        window.archive(fetch_offset, first_offset, counts=True)  # the log no longer has these records
    ranges = run.ranges()
    window.trim()
    return ranges


@attrs.define
class _Acquisition:
    """One acquisition of records for a member, from fetched batches up to `last_offset`."""

    window: InFlightRecords
    member_id: str
    limits: AcquireLimits
    fetched: Sequence[RecordBatch]
    last_offset: int
    room: int
    delivery_limit: int
    found: list[AcquiredRange] = attrs.field(factory=list)
    count: int = 0

    def ranges(self) -> list[AcquiredRange]:
        """Acquire what is possible, and return it."""
        window, first_offset = self.window, self.fetched[0].base_offset
        base = first_offset
        index = window.floor(first_offset)
        if index < 0:
            base = max(base, window.start_offset)
        elif window.batches[index].last_offset >= base:
            base = window.batches[index].first_offset
        known = window.between(min(first_offset, base), self.last_offset)
        if not known:
            self._new(base, self.last_offset)
            return self.found
        if self._known(known, base) and known[-1].last_offset < self.last_offset:
            self._new(known[-1].last_offset + 1, self.last_offset)
        if self.found:
            window.move_gap(self.found[-1].last_offset + 1)
        return self.found

    def _known(self, known: Sequence[InFlightBatch], base: int) -> bool:
        """Acquire what is available in known batches. Return whether later records can be acquired, too."""
        first_offset = self.fetched[0].base_offset
        after = base
        for batch in known:
            if self.count >= self.room:
                return False
            if self.window.gap_before(batch, after):
                self._new(after, batch.first_offset - 1)
                if self.count >= self.room:
                    return False
            after = batch.last_offset + 1
            if batch.whole is not None and not batch.whole.is_acquirable:
                continue
            is_throttled = self._is_throttled(batch)
            if is_throttled and self.count:
                return False  # records that failed repeatedly are delivered apart from others
            is_partial = not batch.is_within(first_offset, self.last_offset) or (
                self.limits.is_strict and len(batch) > self.room - self.count
            )
            if is_partial or is_throttled:
                batch.divide()
            if batch.whole is not None:
                batch.whole.acquire(self.window.lock(self.member_id, batch.first_offset, batch.last_offset))
                self._took([AcquiredRange(batch.first_offset, batch.last_offset, batch.whole.delivery_count)])
            elif self._offsets(batch) and is_throttled:
                return False
        return self.count < self.room

    def _is_throttled(self, batch: InFlightBatch) -> bool:
        limit = self._throttle_limit
        units = (
            [batch.whole]
            if batch.whole is not None
            else [unit.state for unit in batch.units_in(self.fetched[0].base_offset, self.last_offset)]
        )
        return any(state.is_acquirable and state.delivery_count >= limit for state in units)

    @property
    def _throttle_limit(self) -> int:
        return max(MIN_THROTTLE_LIMIT, (self.delivery_limit + 1) // 2)

    def _offsets(self, batch: InFlightBatch) -> int:
        """Acquire single records of a divided batch. Return how many."""
        most: int | None = self.room - self.count if self.limits.is_strict else None
        has_last_attempts = self.delivery_limit > MIN_THROTTLE_LIMIT
        taken: list[Unit] = []
        throttled_at: int | None = None
        for unit in batch.units_in(self.fetched[0].base_offset, self.last_offset):
            state = unit.state
            if not state.is_acquirable:
                continue
            is_last_attempt = has_last_attempts and state.delivery_count == self.delivery_limit - 1
            if is_last_attempt and taken:
                break  # delivered alone by a later fetch
            if throttled_at is None and state.delivery_count >= self._throttle_limit:
                shift = state.delivery_count - self._throttle_limit + 1
                throttled_at = max(1, len(batch) >> shift)
            taken.append(unit)
            if is_last_attempt or len(taken) in (most, throttled_at):
                break
        if taken:
            lock = self.window.lock(self.member_id, taken[0].first_offset, taken[-1].last_offset)
            for unit in taken:
                unit.state.acquire(lock)
            self._took(
                merged(
                    AcquiredRange(unit.first_offset, unit.last_offset, unit.state.delivery_count)
                    for unit in taken
                )
            )
        return len(taken)

    def _took(self, ranges: list[AcquiredRange]) -> None:
        self.found += ranges
        self.count += sum(map(len, ranges))

    def _new(self, first_offset: int, last_offset: int) -> None:
        """Acquire records that were never delivered before."""
        window, most = self.window, self.room - self.count
        first = window.new_start(first_offset)
        last = last_offset
        if most < last - first + 1:
            last = window.within_gap(end_of_batch_with(self.fetched, first + most - 1), last_offset)
        if last < first:
            return
        if self.limits.is_strict and last - first + 1 > most:
            ranges = [AcquiredRange(first, first + most - 1, 1)]
            window.add_partly_acquired(self.member_id, ranges[0], last)
        else:
            ranges = self._divided(first, last)
            window.add_acquired(self.member_id, ranges)
        window.extend(first, last)
        self._took(ranges)
        window.move_gap(ranges[-1].last_offset + 1)

    def _divided(self, first: int, last: int) -> list[AcquiredRange]:
        """Divide new records into ranges of about batch_size, at the borders of the log's batches."""
        ranges: list[AcquiredRange] = []
        batch_size = max(1, self.limits.batch_size)  # requests can have 0, and no range is empty
        if not self.limits.is_strict and last - first + 1 > batch_size:
            for batch in self.fetched:
                if batch.base_offset > last:
                    break
                if batch.base_offset - first >= batch_size:
                    ranges.append(AcquiredRange(first, batch.base_offset - 1, 1))
                    first = batch.base_offset
        return [*ranges, AcquiredRange(first, last, 1)]
