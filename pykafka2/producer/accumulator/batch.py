"""A batch of records for one partition, from its first record to its outcome.

The batch is open first: callers' threads append to its `open` end (open_batch.py) under the queue's lock or
without it. `seal` hands the records over, under the lock. From then on the IO thread owns the batch: it is
numbered, encoded, sent, split and completed. The deliveries of its records share its outcome
(delivery/batch_outcome.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from enum import Enum
from weakref import ref

import attrs

from pykafka2.driver.wait_queue import WaitQueue
from pykafka2.errors import IllegalTransition, KafkaError
from pykafka2.producer.accumulator.batch_records import (
    NO_IDENTITY,
    NO_SEQUENCE,
    BatchRecords,
    Identity,
    RowRecords,
)
from pykafka2.producer.accumulator.batch_sizes import LARGEST_RECORD_OVERHEAD_BYTES, BatchPlan
from pykafka2.producer.accumulator.buffer_pool import Permit
from pykafka2.producer.accumulator.open_batch import Charge, OpenBatch
from pykafka2.producer.delivery.batch_outcome import BatchOutcome, Part, WaitUntil
from pykafka2.producer.delivery.callbacks import Interrupt, call_failed, call_written
from pykafka2.records.batch import HEADER_BYTES
from pykafka2.records.rows import Fields


def raise_here(error: BaseException) -> None:
    """Re-raise a BaseException of a callback if no driver passes it on."""
    raise error


def charge_nothing(permit: Permit, overhead_bytes: int) -> bool:
    """Accept any overhead, without a buffer pool."""
    return True


@attrs.frozen
class BatchHooks:
    """The functions of the producer that its batches call."""

    wait_until: WaitUntil
    interrupt: Interrupt = raise_here
    charge: Charge = charge_nothing


class BatchState(Enum):
    """The states of a batch; `LEGAL_MOVES` has the transitions."""

    OPEN = "open"
    QUEUED = "queued"
    IN_FLIGHT = "in flight"
    DONE = "done"

    __hash__ = object.__hash__  # each member exists once; Enum's own hash is a Python call


# A batch in flight returns to its queue to be resent. A batch that is done has its only outcome.
LEGAL_MOVES: dict[BatchState, frozenset[BatchState]] = {
    BatchState.OPEN: frozenset({BatchState.QUEUED, BatchState.DONE}),
    BatchState.QUEUED: frozenset({BatchState.IN_FLIGHT, BatchState.DONE}),
    BatchState.IN_FLIGHT: frozenset({BatchState.QUEUED, BatchState.DONE}),
    BatchState.DONE: frozenset(),
}


class ProducerBatch:
    """Records for one partition that are sent, written and failed together.

    Attributes:
        order: place among all batches of its partition; a batch that is resent returns to it.
        permit: the bytes of buffer_memory that it occupies while it is queued or on the wire.
        created_at: monotonic seconds; linger and delivery timeout start here.
        open: the end that callers append to; None once the batch is sealed.
        records: the records that are sent; None before the batch is sealed.
        outcome: the outcome that deliveries read; None once the batch is written or split.
        waiters: threads that wait for the outcome.
        identity, base_sequence, is_transactional: its place in the producer's sequence.
        count: number of its records; 0 before the batch is sealed.
        attempts: number of times that it was sent.
        sent_at: time of the last attempt.
        retry_at: time of the next attempt.
        last_error: error of the last attempt.
        error: error of the batch, if it failed.
        is_done: True if the outcome is known.
        is_finished: True if the outcome is known and all callbacks have returned.
        parts: the batches that it was split into, which have its records; it is done when they are.
        whole: the batch that it is a part of.
    """

    __slots__ = (
        "_expansion",
        "_first",
        "_hooks",
        "_plan",
        "attempts",
        "base_sequence",
        "count",
        "created_at",
        "error",
        "identity",
        "is_done",
        "is_finished",
        "is_transactional",
        "last_error",
        "open",
        "order",
        "outcome",
        "partition",
        "parts",
        "permit",
        "records",
        "retry_at",
        "sent_at",
        "state",
        "topic",
        "waiters",
        "whole",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        plan: BatchPlan,
        hooks: BatchHooks,
        *,
        permit: Permit,
        created_at: float,
        records: BatchRecords | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.order = 0
        self.permit = permit
        self.created_at = self.sent_at = created_at
        self._plan = plan
        self._expansion = expansion = plan.expansion
        self._hooks = hooks
        self.outcome: BatchOutcome | None = BatchOutcome(topic, partition, hooks.wait_until, hooks.interrupt)
        self.waiters: WaitQueue = self.outcome.waiters
        self.records = records
        self.open: OpenBatch | None = None
        self.count = 0 if records is None else records.count
        if records is None:
            limit_bytes = int((plan.max_bytes - HEADER_BYTES) / expansion)
            self.open = OpenBatch(self.outcome, permit, hooks.charge, limit_bytes, expansion)
        self._first = 0
        """The index of the first record in the outcome; above 0 in a part."""
        self.parts: list[ProducerBatch] = []
        self.whole: ProducerBatch | None = None
        self.state = BatchState.OPEN
        self.identity = NO_IDENTITY
        self.base_sequence = NO_SEQUENCE
        self.is_transactional = False
        self.attempts = 0
        self.retry_at = 0.0
        self.last_error: KafkaError | None = None
        self.error: KafkaError | None = None
        self.is_done = self.is_finished = False

    # ------------------------------------------------------------------ open or sealed, any thread

    @property
    def size(self) -> int:
        """Number of records whose outcome is open."""
        if self.parts:
            return sum(part.size for part in self.parts if not part.is_done)
        tail = self.open  # read once, as another thread can seal the batch
        return self.count if tail is None else tail.count

    @property
    def fields(self) -> Fields:
        """The records as rows (records/rows.py); empty if they are columns or the batch is done."""
        tail, records = self.open, self.records
        if records is not None:
            return records.fields
        return [] if tail is None else tail.fields

    @property
    def size_estimate(self) -> int:
        """Bytes of the batch in a request: exact once it is encoded, an upper bound before."""
        tail, records = self.open, self.records
        if records is None:
            return HEADER_BYTES if tail is None else tail.size_estimate
        if records.encoded is not None:
            return len(records.encoded)
        return HEADER_BYTES + int(records.bound_bytes * self._expansion)

    @property
    def unreported(self) -> int:
        """Number of failed records whose error was not reported."""
        if self.error is None or self.outcome is None:
            return 0
        return self.outcome.unreported(self._first, self.count)

    def mark_reported(self) -> None:
        """Note that the caller knows the failure of all records, so `flush` need not raise it."""
        if self.outcome is not None:
            for index in range(self._first, self._first + self.count):
                self.outcome.mark_reported(index)

    # ------------------------------------------------------------------ the hand-over

    def seal(self) -> int:
        """Take over the records of the open end, so that no record joins. The queue's lock is held.

        Return the estimated size of the batch, or 0 if it was sealed before. Safe to repeat, also if an
        exception interrupted it.
        """
        if self.state is not BatchState.OPEN:
            return 0
        tail = self.open
        if tail is None:
            self.state = BatchState.QUEUED
            return self.size_estimate
        bound_bytes, outcome = tail.shut(), self.outcome
        taken_bytes = bound_bytes + tail.count * LARGEST_RECORD_OVERHEAD_BYTES
        # Unless the granted bytes cover all of it.
        if taken_bytes > self.permit.size_bytes or outcome is None or outcome.callbacks is not None:
            tail.charge_memory(bound_bytes)
        self.records = RowRecords(tail.fields, bound_bytes)
        self.count = tail.count
        self.state = BatchState.QUEUED
        tail.fields, tail.outcome = [], None  # as a producer keeps the last open batch of each topic
        self.open = None
        return HEADER_BYTES + int(bound_bytes * self._expansion)

    def abandon(self) -> None:
        """End a batch that never joined its queue, so that no thread waits for it."""
        if self.open is not None:
            self.open.shut()
            self.open.fields, self.open.outcome = [], None
            self.open = None
        self.records, self.count = None, 0
        self.is_done = self.is_finished = True

    # ------------------------------------------------------------------ sealed, the IO thread

    def move_to(self, state: BatchState) -> None:
        """Change the state. Raise IllegalTransition for a move that is not in `LEGAL_MOVES`."""
        if state not in LEGAL_MOVES[self.state]:
            raise IllegalTransition(f"batch {self}: {self.state.value}", state.value)
        self.state = state

    @property
    def sealed(self) -> BatchRecords:
        """The records of a sealed batch. Raises IllegalTransition before that."""
        if self.records is None:
            raise IllegalTransition(f"batch {self}: {self.state.value}", "sealed")
        return self.records

    def sequence(self, identity: Identity, base_sequence: int) -> None:
        """Set the place in the producer's sequence; bytes made under an earlier one are dropped."""
        self.identity = identity
        self.base_sequence = base_sequence
        if self.records is not None and self.records.encoded is not None:
            self.records.drop_encoded()

    def bytes(self) -> bytes:
        """Return the batch for the wire: the same bytes at every attempt under one sequence."""
        records = self.records or self.sealed
        if records.encoded is not None:
            return records.encoded
        encoded = records.encode(self._plan, self.identity, self.base_sequence, self.is_transactional)
        taken_bytes = records.raw_bytes + len(encoded)
        if (
            records.fields
            and taken_bytes + self.count * LARGEST_RECORD_OVERHEAD_BYTES > self.permit.size_bytes
        ):
            self.charge_memory()
        return encoded

    def charge_memory(self) -> None:
        """Charge the current memory of a sealed batch."""
        listener_bytes = 0 if self.outcome is None else self.outcome.listener_bytes
        overhead_bytes = self.sealed.overhead_bytes(self.permit.size_bytes) + listener_bytes
        self._hooks.charge(self.permit, overhead_bytes)

    def complete(self, base_offset: int, log_append_time: int) -> None:
        """Set the outcome of a batch that was written, and call its callbacks."""
        fields = self._end()
        outcome, self.outcome = self.outcome, None
        part = None
        kept = None if outcome is None else ref(outcome)
        if outcome is not None and outcome.callbacks is None and kept is not None:
            # If no caller keeps a delivery, the outcome is gone now, and sizes and times are not needed.
            outcome = None
            outcome = kept()
        if outcome is not None:
            part = Part(self._first, base_offset, log_append_time)
            outcome.settle(part, fields)
        self.is_done = True
        try:
            call_written(
                self.topic, self.partition, fields, base_offset, log_append_time, self._hooks.interrupt
            )
            if outcome is not None and outcome.callbacks is not None:
                outcome.run_callbacks()
        finally:
            self.is_finished = True
            self.waiters.wake()
            outcome = None
            if part is not None and kept is not None and kept() is not None:
                part.release_records()  # a caller keeps a delivery

    def fail(self, error: KafkaError, record_errors: Mapping[int, KafkaError] | None = None) -> None:
        """Set the outcome of a batch that failed, and call its callbacks.

        `record_errors` has errors of single records, by their places in this batch.
        """
        fields = self._end()
        self.error = error
        outcome = self.outcome
        if outcome is not None:
            outcome.settle(Part(self._first, error=error, record_errors=record_errors), fields)
        self.is_done = True
        try:
            self._call_failed(fields, error, record_errors or {})
            if outcome is not None:
                outcome.run_callbacks()
        finally:
            self.is_finished = True
            self.waiters.wake()

    def _call_failed(
        self, fields: Fields, error: KafkaError, record_errors: Mapping[int, KafkaError]
    ) -> None:
        def mark_reported(index: int) -> None:
            if self.outcome is not None:
                self.outcome.mark_reported(self._first + index)

        interrupt = self._hooks.interrupt
        call_failed(self.topic, self.partition, fields, error, record_errors, mark_reported, interrupt)

    def split(self, permits: tuple[Permit, Permit]) -> list[ProducerBatch]:
        """Return two batches of about half its size each, for a batch that is too large for the broker.

        They take over its records, its place and its share of the outcome; it is done when they are
        (`end_split`). The batch has two records or more and is not on the wire.
        """
        halves = self.sealed.as_rows(self._plan, f"{self.topic}-{self.partition}").split()
        self._end()
        first = 0
        for records, permit in zip(halves, permits, strict=True):
            part = copy(self)
            part.whole, part.parts = self, []
            part.state = BatchState.IN_FLIGHT  # as it comes back from the wire
            part.records, part.count, part.permit = records, records.count, permit
            part.order += first
            part._first += first
            part.base_sequence = NO_SEQUENCE
            self.parts.append(part)
            first += records.count
        if self.outcome is not None:
            self.outcome.divide(len(self.parts))
            self.outcome = None
        for part in self.parts:
            part.charge_memory()
        return self.parts

    def end_split(self) -> None:
        """End a batch whose parts are all finished."""
        self.is_done = self.is_finished = True
        self.waiters.wake()

    @property
    def leaves(self) -> list[ProducerBatch]:
        """The batch itself, or its parts that are not done."""
        if not self.parts:
            return [self]
        return [leaf for part in self.parts if not part.is_done for leaf in part.leaves]

    def _end(self) -> Fields:
        if self.state is BatchState.OPEN:
            self.seal()
        self.move_to(BatchState.DONE)
        return (self.records or self.sealed).release()

    def __repr__(self) -> str:
        return f"<batch {self.order} of {self.topic}-{self.partition}, {self.state.value}>"
