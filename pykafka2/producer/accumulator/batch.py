"""One batch of records on its way: what it holds and where it stands.

Appended to on callers' threads while open, under its queue's lock or by the short way (partition_queue.py);
everything after that belongs to the IO thread.  Records are kept as they came (records/rows.py), and made
into bytes when they are to be sent.  What became of them is told by its outcome (delivery/batch_outcome.py),
which the deliveries of its records share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from enum import Enum
from weakref import ref

from pykafka2.driver.wait_queue import WaitQueue
from pykafka2.errors import IllegalState, IllegalTransition, KafkaError
from pykafka2.producer.accumulator.batch_sizes import (
    LARGEST_RECORD_OVERHEAD_BYTES,
    LARGEST_STEP_BYTES,
    LONGER_OVERHEAD_BYTES,
    SMALLEST_RECORD_BYTES,
    BatchPlan,
    next_step,
    overhead_of,
)
from pykafka2.producer.accumulator.buffer_pool import Permit
from pykafka2.producer.delivery.batch_outcome import BatchOutcome, Part, WaitUntil
from pykafka2.producer.delivery.callbacks import Interrupt, tell_failed, tell_written
from pykafka2.records.batch import HEADER_BYTES
from pykafka2.records.encoder import SHORT, Row, encode_only, encode_rows, frame_batch
from pykafka2.records.plain_encoder import encode_plain
from pykafka2.records.rows import FIELDS, Fields, has_columns, row_at, rows_of
from pykafka2.types import NO_TIMESTAMP

SHUT = -SMALLEST_RECORD_BYTES
"""`room_bytes` that has no room for any record."""

NO_SEQUENCE = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1

Charge = Callable[[Permit, int], bool]
"""`BufferPool.charge`."""


def raise_here(error: BaseException) -> None:
    """Re-raise a BaseException of a callback if no driver passes it on."""
    raise error


def charge_nothing(permit: Permit, overhead_bytes: int) -> bool:
    return True


class BatchState(Enum):
    OPEN = "open"
    QUEUED = "queued"
    IN_FLIGHT = "in flight"
    DONE = "done"

    __hash__ = object.__hash__  # each is there once; Enum's own is a call of Python's


# A batch in flight goes back to its queue when it is to be sent again.  Done is done: one outcome, once.
LEGAL_MOVES: dict[BatchState, frozenset[BatchState]] = {
    BatchState.OPEN: frozenset({BatchState.QUEUED, BatchState.DONE}),
    BatchState.QUEUED: frozenset({BatchState.IN_FLIGHT, BatchState.DONE}),
    BatchState.IN_FLIGHT: frozenset({BatchState.QUEUED, BatchState.DONE}),
    BatchState.DONE: frozenset(),
}


class ProducerBatch:
    """Records for one partition that are sent, and fail, together.

    Attributes:
        order: place among all batches of its partition; a batch sent again goes back to it.
        permit: the bytes of buffer_memory that it occupies until it is off the wire.
        created_at: monotonic seconds; linger and delivery timeout count from here.
        fields: its records, one behind the other (records/rows.py); none when it is done.
        count: how many these are; when it is done, were.
        base_timestamp: of the first record.
        room_bytes: how much of the current step is left for records of short numbers; SHUT while records
            are looked at one by one, and for good from `close` on.
        since_ns, until_ns, timestamp: records of this time of the clock have this timestamp
            (partition_queue.py).
        is_full: no further record would find room.
        attempts: how often it was sent.
        retry_at: not to be sent before this moment.
        last_error: why it has to be sent again.
        is_done: the outcome is known; is_told: and all listeners were called.
        is_transactional: it goes out as a part of a transaction.
        error: why it failed for good.
        outcome: what deliveries see; gone when it is written.
        waiters: of the threads that wait for its end.
        parts: the batches that it was split into; they have its records, and it is done when they are.
        whole: the batch that it is a part of.
    """

    __slots__ = (
        "_charge",
        "_expansion",
        "_first",
        "_granted_bytes",
        "_interrupt",
        "_limit_bytes",
        "_plan",
        "attempts",
        "base_sequence",
        "base_timestamp",
        "count",
        "created_at",
        "encoded",
        "error",
        "fields",
        "is_done",
        "is_full",
        "is_told",
        "is_transactional",
        "last_error",
        "order",
        "outcome",
        "partition",
        "parts",
        "permit",
        "producer_epoch",
        "producer_id",
        "raw_bytes",
        "retry_at",
        "room_bytes",
        "sent_at",
        "since_ns",
        "state",
        "timestamp",
        "topic",
        "until_ns",
        "waiters",
        "whole",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        plan: BatchPlan,
        *,
        order: int,
        permit: Permit,
        created_at: float,
        wait_until: WaitUntil,
        interrupt: Interrupt = raise_here,
        charge: Charge = charge_nothing,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.order = order
        self.permit = permit
        self.created_at = created_at
        self.fields: Fields = []
        self.base_timestamp = NO_TIMESTAMP
        self.room_bytes = SHUT
        self.since_ns = self.until_ns = 0
        self.timestamp = NO_TIMESTAMP
        self.is_full = False
        self.outcome: BatchOutcome | None = BatchOutcome(topic, partition, wait_until, interrupt)
        self.waiters: WaitQueue = self.outcome.waiters
        self.parts: list[ProducerBatch] = []
        self.whole: ProducerBatch | None = None
        self._first = 0
        """The index in the outcome of its first record."""
        self._interrupt = interrupt
        self._charge = charge
        self._plan = plan
        self._expansion = plan.expansion
        self._limit_bytes = int((plan.max_bytes - HEADER_BYTES) / self._expansion)
        self._granted_bytes = 0
        """What records may take up to the end of the current step."""
        self.state = BatchState.OPEN
        self.count = 0
        self.raw_bytes = 0
        """What its records took before compression when they were encoded."""
        self.encoded: bytes | None = None
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.base_sequence = NO_SEQUENCE
        self.attempts = 0
        self.sent_at = created_at
        self.retry_at = 0.0
        self.last_error: KafkaError | None = None
        self.is_done = False
        self.is_told = False
        self.is_transactional = False
        self.error: KafkaError | None = None

    # ------------------------------------------------------------------ callers' threads

    def append(self, row: Row, size_bytes: int) -> int | None:
        """Add a record that `room_bytes` has no room for, or that is not a plain one.

        `size_bytes` is what it takes at most if all its numbers are short.  Its place in the outcome; None if
        there is no room, or no memory for its overhead.  Its queue's lock is held.
        """
        self._shut()
        count = self.count
        delta = row[2] - self.base_timestamp
        if count:
            if not 0 <= delta < SHORT or count >= SHORT or size_bytes > LARGEST_STEP_BYTES:
                size_bytes += LONGER_OVERHEAD_BYTES
            if self._bound_bytes + size_bytes > self._limit_bytes or not self._charge_all():
                return None
        else:
            size_bytes += LONGER_OVERHEAD_BYTES if size_bytes > LARGEST_STEP_BYTES else 0
            self.base_timestamp = row[2]
        # A Ctrl-C before the record has joined leaves sizes that are too high, which is harmless.
        room_bytes = self._begin_step(self._bound_bytes + size_bytes, count + 1)
        self.fields += row; self.count = count + 1  # fmt: skip # noqa: E702 (both or none: partition_queue.py)
        # From here on other threads may add records as well.
        self._granted_bytes += room_bytes - SHUT; self.room_bytes = room_bytes  # fmt: skip # noqa: E702
        return count

    def _shut(self) -> None:
        """No record joins from now on without being looked at.  Its queue's lock is held."""
        room_bytes, self.room_bytes = self.room_bytes, SHUT
        if self._granted_bytes:
            self._granted_bytes -= room_bytes - SHUT

    @property
    def _bound_bytes(self) -> int:
        """Return the upper bound of the size of its records before compression."""
        return self._granted_bytes - self.room_bytes - SMALLEST_RECORD_BYTES if self._granted_bytes else 0

    def _begin_step(self, used_bytes: int, count: int) -> int:
        """How many bytes of further records may join without being looked at: nothing has to be decided."""
        left_bytes = self._limit_bytes - used_bytes
        step_bytes, reserved_bytes = next_step(left_bytes, used_bytes, count)
        self._granted_bytes = used_bytes + reserved_bytes
        self.is_full = left_bytes < SMALLEST_RECORD_BYTES
        # The last record of a step is always looked at: it may make the batch full.
        return step_bytes - reserved_bytes - SMALLEST_RECORD_BYTES

    def _charge_all(self) -> bool:
        """Charge for what the batch takes by now; False if there is no memory for more of it."""
        beyond_bytes = max(0, self._bound_bytes - self.permit.size_bytes)
        if self.encoded is not None:
            beyond_bytes += len(self.encoded)
        listener_bytes = 0 if self.outcome is None else self.outcome.listener_bytes
        overhead_bytes = overhead_of(self.fields) + listener_bytes + beyond_bytes
        return self._charge(self.permit, overhead_bytes)

    @property
    def size(self) -> int:
        """Records in it whose outcome is open; from any thread, for an open batch as of now."""
        if self.parts:
            return sum(part.size for part in self.parts if not part.is_done)
        return self.count

    @property
    def unreported(self) -> int:
        """Records whose failure nobody was told."""
        if self.error is None or self.outcome is None:
            return 0
        return self.outcome.unreported(self._first, self.count)

    def mark_reported(self) -> None:
        """Somebody knows that all its records fail, so `flush` need not raise it.  Of a closed batch."""
        if self.outcome is not None:
            for index in range(self._first, self._first + self.count):
                self.outcome.mark_reported(index)

    # ------------------------------------------------------------------ the IO thread

    def move_to(self, state: BatchState) -> None:
        if state not in LEGAL_MOVES[self.state]:
            raise IllegalTransition(f"batch {self}: {self.state.value}", state.value)
        self.state = state

    def close(self) -> None:
        """No more records: fixes the count.  Its queue's lock is held.  Safe to repeat."""
        if self.state is BatchState.OPEN:
            self._shut()
            self.move_to(BatchState.QUEUED)
            taken_bytes = self._bound_bytes + self.count * LARGEST_RECORD_OVERHEAD_BYTES
            outcome = self.outcome
            # Not where all of it is within the bytes that it was granted.
            if taken_bytes > self.permit.size_bytes or outcome is None or outcome.callbacks is not None:
                self._charge_all()

    @property
    def size_estimate(self) -> int:
        """Bytes that it takes in a request: exact once they are made, before that at most as far as known."""
        if self.encoded is not None:
            return len(self.encoded)
        return HEADER_BYTES + int(self._bound_bytes * self._expansion)

    def unpack(self) -> None:
        """Have its records as fields, however it holds them; before it is split."""

    def sequence(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """Give it its place in the producer's sequence; bytes made under an earlier one are dropped."""
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.encoded = None

    def bytes(self) -> bytes:
        """The batch as it goes over the wire: the same bytes at every attempt under one sequence."""
        if self.encoded is None:
            if not self.fields:
                raise IllegalState(f"{self} is done and has no bytes any more")
            records, max_timestamp = _encoded(self.fields, self.base_timestamp)
            self.raw_bytes = len(records)
            self.encoded = frame_batch(
                records,
                self.count,
                self.base_timestamp,
                max_timestamp,
                self._plan.codec,
                self._plan.level,
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                base_sequence=self.base_sequence,
                is_transactional=self.is_transactional,
            )
            taken_bytes = self.raw_bytes + len(self.encoded)
            if taken_bytes + self.count * LARGEST_RECORD_OVERHEAD_BYTES > self.permit.size_bytes:
                self._charge_all()
        return self.encoded

    def complete(self, base_offset: int, log_append_time: int) -> None:
        """Written: tell everybody."""
        fields = self._end()
        outcome, self.outcome = self.outcome, None
        part = None
        kept = None if outcome is None else ref(outcome)
        if outcome is not None and not outcome.has_listeners and kept is not None:
            # If nobody has kept a delivery, it is gone now, and so is the need for sizes and times.
            outcome = None
            outcome = kept()
        if outcome is not None:
            part = Part(self._first, base_offset, log_append_time)
            outcome.settle(part, fields)
        self.is_done = True
        try:
            tell_written(self.topic, self.partition, fields, base_offset, log_append_time, self._interrupt)
            if outcome is not None:
                outcome.tell()
        finally:
            self.is_told = True
            self.waiters.wake()
            outcome = None
            if part is not None and kept is not None and kept() is not None:
                part.let_go()  # somebody has kept a delivery

    def fail(self, error: KafkaError, record_errors: Mapping[int, KafkaError] | None = None) -> None:
        """Failed for good: tell everybody.  `record_errors` by the records' places in this batch."""
        fields = self._end()
        self.error = error
        outcome = self.outcome
        if outcome is not None:
            outcome.settle(Part(self._first, error=error, record_errors=record_errors), fields)
        self.is_done = True
        try:
            self._tell_failed(fields, error, record_errors or {})
            if outcome is not None:
                outcome.tell()
        finally:
            self.is_told = True
            self.waiters.wake()

    def _tell_failed(
        self, fields: Fields, error: KafkaError, record_errors: Mapping[int, KafkaError]
    ) -> None:
        def mark_reported(index: int) -> None:
            if self.outcome is not None:
                self.outcome.mark_reported(self._first + index)

        tell_failed(self.topic, self.partition, fields, error, record_errors, mark_reported, self._interrupt)

    def split(self, permits: tuple[Permit, Permit]) -> list[ProducerBatch]:
        """Two batches of about half its records' bytes each, which have no more to do with one another.

        They take over its records, its place and its share of the outcome; it is done when they are
        (`end_split`).  Of a batch of two records or more that is not on the wire.
        """
        self.unpack()
        sizes = [_record_bytes(row) for row in rows_of(self.fields)]
        half, first_bytes, count = sum(sizes) / 2, sizes[0], 1
        while count < len(sizes) - 1 and first_bytes + sizes[count] / 2 < half:
            first_bytes += sizes[count]
            count += 1
        fields = self._end()
        self.parts = [
            self._part(fields[: count * FIELDS], 0, permits[0], first_bytes),
            self._part(fields[count * FIELDS :], count, permits[1], sum(sizes) - first_bytes),
        ]
        if self.outcome is not None:
            self.outcome.divide(len(self.parts))
            self.outcome = None
        for part in self.parts:
            part._charge_all()
        return self.parts

    def _part(self, fields: Fields, first: int, permit: Permit, bound_bytes: int) -> ProducerBatch:
        part = copy(self)
        part.whole, part.parts = self, []
        part.state = BatchState.OPEN
        part.fields, part.count = fields, len(fields) // FIELDS
        part.base_timestamp = row_at(fields, 0)[2]
        part.order += first
        part._first += first
        part.permit = permit
        part.raw_bytes = part._granted_bytes = bound_bytes
        part.room_bytes = SHUT
        part.base_sequence = NO_SEQUENCE
        return part

    def end_split(self) -> None:
        """All its parts have been told."""
        self.is_done = self.is_told = True
        self.waiters.wake()

    @property
    def leaves(self) -> list[ProducerBatch]:
        """Itself, or of what it was split into what is not done."""
        if not self.parts:
            return [self]
        return [leaf for part in self.parts if not part.is_done for leaf in part.leaves]

    def _end(self) -> Fields:
        if self.state is BatchState.OPEN:
            self._shut()
        self.move_to(BatchState.DONE)
        fields, self.fields, self.encoded = self.fields, [], None
        return fields

    def abandon(self) -> None:
        """It never joined its queue: nobody needs to wait for it."""
        self._shut()
        self.fields, self.count = [], 0
        self.is_done = self.is_told = True

    def __repr__(self) -> str:
        return f"<batch {self.order} of {self.topic}-{self.partition}, {self.state.value}>"


def _encoded(fields: Fields, base_timestamp: int) -> tuple[bytes, int]:
    """The records, and the latest of their timestamps."""
    if len(fields) == FIELDS and fields[2] == base_timestamp:  # what is waited for, as a rule
        return encode_only(fields[0], fields[1], fields[3]), base_timestamp
    if has_columns(fields):
        keys = None if fields[1] is None else fields[1::FIELDS]
        encoded = encode_plain(fields[::FIELDS], fields[2::FIELDS], base_timestamp, keys)
        if encoded is not None:
            return encoded
    return encode_rows(rows_of(fields), base_timestamp)


def _record_bytes(row: Row) -> int:
    """Return the upper bound of the size of a record, uncompressed."""
    value, key, _, headers, _ = row
    sizes = len(value or b"") + len(key or b"") + len(headers)
    return SMALLEST_RECORD_BYTES + LONGER_OVERHEAD_BYTES + sizes
