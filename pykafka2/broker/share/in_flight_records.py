"""The window of a share partition's records in flight: from the start offset to the end offset, in order.

Records before the start offset have ended; records after the end offset were never delivered.  What is in
between is in batches (in_flight.py); offsets that no batch has were removed by compaction, or by an earlier
leader's share partition had not been delivered (`Gap`). Decides when the start offset moves; acquisition.py
decides what a member acquires, and share_partition.py persists it. Based on Kafka's SharePartition. Access
requires the cluster's lock.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence

import attrs

from pykafka2.broker.base.timing_wheel import TimingWheel
from pykafka2.broker.share.acquired import AcquiredRange
from pykafka2.broker.share.in_flight import (
    ACQUIRED,
    AVAILABLE,
    ENDED,
    AcquisitionLock,
    DeliveryState,
    InFlightBatch,
    RecordState,
    Unit,
)
from pykafka2.errors import IllegalState, InvalidRecordState, InvalidRequest
from pykafka2.protocol.messages.share_state import ReadShareGroupStateResponseStateBatch
from pykafka2.records.batch import RecordBatch

STORED_STATES = frozenset(RecordState) - {ACQUIRED}
"""The states that leaders store: locks are not stored, so an acquired record would never be released."""

MAX_STORED_BATCH = 1 << 22
"""Records of a stored batch. A larger one is a mistake, and divided it would exhaust the memory."""


@attrs.define
class Gap:
    """A range with undelivered offsets between stored batches: from `start_offset`, up to `end_offset`.

    It exists after a new leader has read the state, until everything up to there was delivered.
    """

    start_offset: int
    end_offset: int


class InFlightRecords:
    """The records in flight. `lock` creates the lock for acquired offsets: member id, first, last offset."""

    def __init__(self, wheel: TimingWheel, lock: Callable[[str, int, int], AcquisitionLock]) -> None:
        self.start_offset = 0
        self.end_offset = 0
        self.completed_count = 0
        """Records from the start offset on that have ended, for the lag of the group (KIP-1226)."""
        self.batches: list[InFlightBatch] = []
        self._first_offsets: list[int] = []  # of the batches
        self._wheel = wheel
        self._lock = lock
        self._searches = False  # whether an available record can be before the end offset
        self._gap: Gap | None = None

    # ------------------------------------------------------------------ the state as it is stored

    def load(self, start_offset: int, stored: Sequence[ReadShareGroupStateResponseStateBatch]) -> None:
        """Start with a stored state. Raise `IllegalState` if it is inconsistent."""
        self.start_offset = self.end_offset = start_offset
        next_offset = start_offset
        for one in stored:
            if not next_offset <= one.first_offset <= one.last_offset < one.first_offset + MAX_STORED_BATCH:
                raise IllegalState(f"the stored batch {one} does not follow the offset {next_offset - 1}")
            if one.delivery_state not in STORED_STATES:
                raise IllegalState(f"the stored batch {one} has an unknown state")
            if self._gap is None and one.first_offset > next_offset:
                self._gap = Gap(next_offset, -1)
            next_offset = one.last_offset + 1
            state = DeliveryState(RecordState(one.delivery_state), one.delivery_count)
            self._add(InFlightBatch(one.first_offset, one.last_offset, state))
            if state.state in ENDED:
                self.completed_count += next_offset - one.first_offset
        if self.batches:
            self._searches = True
            self.end_offset = self.batches[-1].last_offset
            if self._gap is not None:
                self._gap.end_offset = self.end_offset
            self.trim()

    def _add(self, batch: InFlightBatch) -> None:
        index = bisect_left(self._first_offsets, batch.first_offset)
        self._first_offsets.insert(index, batch.first_offset)
        self.batches.insert(index, batch)

    # ------------------------------------------------------------------ finding

    @property
    def count(self) -> int:
        """The number of offsets in flight."""
        return self.end_offset - self.start_offset + 1 if self.batches else 0

    @property
    def is_empty(self) -> bool:
        """Whether no batch reaches the start offset."""
        return not self.batches or self.start_offset > self.batches[-1].last_offset

    @property
    def _has_gap(self) -> bool:
        return self._gap is not None and self._gap.end_offset == self.end_offset

    def units(self) -> Iterator[Unit]:
        """Iterate over all states in order."""
        for batch in self.batches:
            yield from batch.units()

    def floor(self, offset: int) -> int:
        """Return the index of the last batch that starts at or before an offset; -1 if there is none."""
        return bisect_right(self._first_offsets, offset) - 1

    def between(self, first_offset: int, last_offset: int) -> list[InFlightBatch]:
        """Return the batches that start in this range."""
        return self.batches[
            bisect_left(self._first_offsets, first_offset) : bisect_right(self._first_offsets, last_offset)
        ]

    def overlapping(self, first_offset: int, last_offset: int) -> list[InFlightBatch]:
        """Return the batches from the one that starts at or before the range."""
        start = max(0, self.floor(first_offset))
        return self.batches[start : bisect_right(self._first_offsets, last_offset)]

    def acknowledged(self, first_offset: int, last_offset: int) -> list[InFlightBatch]:
        """Return the batches of an acknowledgement.

        Raise `InvalidRecordState` or `InvalidRequest` if it is not within acquired offsets.
        """
        index = self.floor(first_offset)
        if index < 0 and first_offset < self.start_offset <= last_offset:
            index = self.floor(self.start_offset)
        if index < 0:
            raise InvalidRecordState(
                "Batch record not found. The request batch offsets are not found in the cache."
            )
        found = self.batches[index : bisect_right(self._first_offsets, last_offset)]
        if found[-1].last_offset < first_offset:
            raise InvalidRequest(
                "Batch record not found. The first offset in request is past acquired records."
            )
        if found[-1].last_offset < last_offset:
            raise InvalidRequest(
                "Batch record not found. The last offset in request is past acquired records."
            )
        return found

    def search(self) -> None:
        """Have the next fetch search for available records before the end offset."""
        self._searches = True

    def next_fetch_offset(self) -> int:
        """Return the offset of the first record that can be acquired, or that comes next."""
        if self.is_empty:
            self._searches = False
            return self.end_offset
        if self._searches:
            found = self._first_available()
            if found is not None:
                return found
            self._searches = False
        return self.end_offset + 1

    def _first_available(self) -> int | None:
        gap = self._gap if self._has_gap else None
        gap_start = -1 if gap is None else gap.start_offset
        for batch in self.batches:
            if gap is not None:
                if batch.first_offset > gap_start:
                    return gap_start
                gap_start = max(batch.last_offset + 1, gap_start)
            for first_offset, _, state in batch.units():
                if state.is_acquirable:
                    return first_offset
        return None

    def can_acquire(self, max_record_locks: int) -> bool:
        """Return whether a fetch can acquire a record, if the log has it."""
        return self.next_fetch_offset() != self.end_offset + 1 or self.count < max_record_locks

    # ------------------------------------------------------------------ acquiring

    def lock(self, member_id: str, first_offset: int, last_offset: int) -> AcquisitionLock:
        """Return a new lock for offsets that a member acquires or renews."""
        return self._lock(member_id, first_offset, last_offset)

    def add_acquired(self, member_id: str, ranges: Sequence[AcquiredRange]) -> None:
        """Add batches that were never delivered before."""
        for one in ranges:
            state = DeliveryState(AVAILABLE, 0)
            state.acquire(self._lock(member_id, one.first_offset, one.last_offset))
            self._add(InFlightBatch(one.first_offset, one.last_offset, state))

    def add_partly_acquired(self, member_id: str, acquired: AcquiredRange, last_offset: int) -> None:
        """Add a batch of which only the first records are delivered."""
        batch = InFlightBatch(acquired.first_offset, last_offset, DeliveryState(AVAILABLE, 0))
        batch.divide()
        lock = self._lock(member_id, acquired.first_offset, acquired.last_offset)
        for state in batch.offsets[: len(acquired)]:
            state.acquire(lock)
        self._add(batch)
        self._searches = True

    def extend(self, first_offset: int, last_offset: int) -> None:
        """Move start and end offset over a new batch."""
        if self._first_offsets[0] == first_offset:
            self.start_offset = first_offset
        self.end_offset = max(self.end_offset, last_offset)

    def new_start(self, first_offset: int) -> int:
        """Return where new batches from this offset start."""
        return max(first_offset, self.end_offset) if not self.batches else first_offset

    def gap_before(self, batch: InFlightBatch, offset: int) -> bool:
        """Return whether undelivered offsets can be between `offset` and a batch."""
        return self._has_gap and offset < batch.first_offset

    def within_gap(self, last_offset: int, limit: int) -> int:
        """Limit the last offset of new batches that are between stored ones."""
        return min(last_offset, limit) if self._has_gap else last_offset

    def move_gap(self, offset: int) -> None:
        """Note that everything before an offset was delivered."""
        if self._gap is not None:
            if self._has_gap and offset <= self._gap.end_offset:
                self._gap.start_offset = offset
            else:
                self._gap = None

    # ------------------------------------------------------------------ ending

    def in_window(self, first_offset: int, last_offset: int) -> int:
        """Return how many of these offsets are not before the start offset."""
        return max(0, last_offset - max(self.start_offset, first_offset) + 1)

    def count_ended(self, unit: Unit, state: RecordState, sign: int = 1) -> None:
        """Count records that have entered `state`, if they have ended; with -1 take them back."""
        if state in ENDED:
            self.completed_count += sign * self.in_window(unit.first_offset, unit.last_offset)

    def archive(
        self, first_offset: int, end_offset: int, state: RecordState = AVAILABLE, *, counts: bool
    ) -> None:
        """End the records in `state` before `end_offset`: the log or a filter does not return them any more.

        `counts`: they still are in the window.
        """
        found = False
        for batch in self.overlapping(first_offset, end_offset - 1):
            if batch.whole is not None and batch.whole.state is not state:
                continue
            for unit in batch.units_in(first_offset, end_offset - 1):
                if unit.state.state is state:
                    unit.state.archive(self._wheel)
                    found = True
                    if counts:
                        self.completed_count += self.in_window(unit.first_offset, unit.last_offset)
        if found:
            self._searches = True

    def move_log_start(self, log_start_offset: int) -> None:
        """Handle that the log starts after the start offset: what it no longer has is not delivered again."""
        if log_start_offset <= self.start_offset:
            return
        if not self.batches:
            self.start_offset = self.end_offset = log_start_offset
            self.completed_count = 0
            return
        ended = sum(
            min(unit.last_offset, log_start_offset - 1) - max(unit.first_offset, self.start_offset) + 1
            for batch in self.overlapping(self.start_offset, log_start_offset - 1)
            for unit in batch.units()
            if unit.state.state in ENDED
            and unit.last_offset >= self.start_offset
            and unit.first_offset < log_start_offset
        )
        self.archive(self.start_offset, log_start_offset, counts=False)
        self.start_offset = log_start_offset
        self.completed_count -= ended
        self.end_offset = max(self.end_offset, self.start_offset)
        self.trim()

    def trim(self) -> bool:
        """Drop what has ended at the start of the window. Return whether the start offset can have moved."""
        if not self._may_trim():
            return False
        last_ended, ended_count = self._ended()
        if last_ended < 0:
            return False
        if last_ended == self.batches[-1].last_offset:
            self.start_offset = self.end_offset = last_ended + 1
            self.completed_count = 0
            self._drop(len(self.batches))
            return True
        index = self.floor(last_ended)
        if last_ended == self.batches[index].last_offset:
            index += 1
            start = self.batches[index].first_offset
            if self._has_gap and self._gap is not None:
                start = min(start, self._gap.start_offset)
        else:
            start = last_ended + 1
        self.start_offset = max(self.start_offset, start)
        self.completed_count -= ended_count
        self._drop(index)
        return True

    def _may_trim(self) -> bool:
        index = self.floor(self.start_offset)
        return index >= 0 and self.batches[index].state_at(self.start_offset).has_ended

    def _ended(self) -> tuple[int, int]:
        """Return the last offset before which all records have ended, and their number in the window."""
        last, count = -1, 0
        for batch in self.batches:
            if self._has_gap and self._gap is not None and batch.last_offset >= self._gap.start_offset:
                break
            for unit in batch.units():
                if not unit.state.has_ended:
                    return last, count
                last = unit.last_offset
                count += self.in_window(unit.first_offset, unit.last_offset)
        return last, count

    def _drop(self, count: int) -> None:
        for batch in self.batches[:count]:
            for _, _, state in batch.units():
                state.let_go(self._wheel)
        del self.batches[:count], self._first_offsets[:count]

    def skip(self, batches: Iterable[RecordBatch]) -> None:
        """End acquired records of aborted transactions."""
        for batch in batches:
            self.archive(batch.base_offset, batch.next_offset, ACQUIRED, counts=True)
        self.trim()
