"""The producer id, epoch and sequence numbers of an idempotent producer (KIP-98).

Used on the IO thread by the sender. `ProducerIdentity` requests an id before the first idempotent batch and
repeats the request until a broker responds. Brokers accept the batches of a partition only without a gap,
so a batch that failed, or whose outcome is unknown, ends the run of numbers: once nothing of the partition
is in flight, the next batch starts at 0 under the next epoch, which fences late copies. The policies, as
tables, decide what an error means for the identity; within a transaction only the coordinator raises the
epoch. sending/results.py applies them.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from enum import Enum
from typing import ClassVar

from pykafka2.backoff import Backoff
from pykafka2.driver.pollable import PollResult
from pykafka2.errors import (
    BrokerError,
    ClusterAuthorizationFailed,
    CorruptData,
    DuplicateSequenceNumber,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    KafkaError,
    OutOfOrderSequenceNumber,
    ProducerFenced,
    TransactionalIdAuthorizationFailed,
    UnknownProducerId,
    UnsupportedVersion,
    error_of,
)
from pykafka2.producer.accumulator.batch import ProducerBatch
from pykafka2.producer.accumulator.batch_records import NO_IDENTITY, NO_SEQUENCE, Identity
from pykafka2.producer.options import MAX_IN_FLIGHT_IDEMPOTENT, ProducerOptions
from pykafka2.protocol.messages.transaction import InitProducerIdRequest, InitProducerIdResponse
from pykafka2.slotted import slot, slotted

LAST_EPOCH = 2**15 - 2


class Verdict(Enum):
    """The result of a failed attempt, for the batch and for its identity."""

    WRITTEN = "an earlier attempt wrote it"
    RETRY = "it is resent unchanged"
    RENUMBER = "it and the unfinished batches behind it are renumbered under the next identity and resent"
    FAIL = "it has failed; its sequence numbers are a gap for later batches"
    FATAL = "the batch and the producer have failed"


class IdentityPolicy:
    """The policy of a producer without idempotence, and the base class of the others.

    `TABLE` has two verdicts for each error: for the first unfinished batch of its partition, and for a batch
    behind it or with outdated numbers. Other errors are retried if they are retriable.
    """

    TABLE: ClassVar[Mapping[type[KafkaError], tuple[Verdict, Verdict]]] = {}
    is_transactional: ClassVar[bool] = False

    def verdict(self, error: KafkaError, *, is_in_turn: bool) -> Verdict:
        """Return the verdict on a failed attempt."""
        row = self.TABLE.get(type(error))
        if row is not None:
            in_turn, otherwise = row
            return in_turn if is_in_turn else otherwise
        # An unreadable response does not mean that the batch was rejected.
        return Verdict.RETRY if error.retriable or isinstance(error, CorruptData) else Verdict.FAIL

    def next_identity(self, identity: Identity) -> Identity:
        """Return the producer's identity after a gap in its numbers.

        It is the same one if only the coordinator can change it, and `NO_IDENTITY` if a broker must assign a
        new producer id.
        """
        return identity


class IdempotentPolicy(IdentityPolicy):
    """Idempotence without transactions: the producer raises its epoch after a gap (KIP-360)."""

    TABLE = {  # noqa: RUF012
        # It was written, and the broker no longer knows its offset.
        DuplicateSequenceNumber: (Verdict.WRITTEN, Verdict.WRITTEN),
        # The broker lacks earlier batches: it lost them, or they failed. Expected behind an unfinished batch.
        OutOfOrderSequenceNumber: (Verdict.RENUMBER, Verdict.RETRY),
        UnknownProducerId: (Verdict.RENUMBER, Verdict.RETRY),
        # The broker knows a later epoch: usually ours, raised for another partition.
        InvalidProducerEpoch: (Verdict.RENUMBER, Verdict.RETRY),
        # Another producer took over the id.
        ProducerFenced: (Verdict.FATAL, Verdict.FATAL),
        InvalidProducerIdMapping: (Verdict.FATAL, Verdict.FATAL),
    }

    def next_identity(self, identity: Identity) -> Identity:
        producer_id, epoch = identity
        return (producer_id, epoch + 1) if epoch < LAST_EPOCH else NO_IDENTITY


class TransactionalPolicy(IdentityPolicy):
    """Transactions: only the coordinator assigns ids and epochs, so a gap ends the transaction.

    Batches are never renumbered within a transaction. A batch that was rejected for its number can be in the
    log, or its predecessors can be missing, and the commit must not hide that. The abort raises the epoch
    (transactions/manager.py).
    """

    is_transactional = True
    TABLE = {  # noqa: RUF012
        DuplicateSequenceNumber: (Verdict.WRITTEN, Verdict.WRITTEN),
        # Expected behind an unfinished batch; otherwise the broker lost earlier batches.
        OutOfOrderSequenceNumber: (Verdict.FAIL, Verdict.RETRY),
        UnknownProducerId: (Verdict.FAIL, Verdict.RETRY),
        # The coordinator aborted this transaction; the producer can start the next one.
        InvalidProducerEpoch: (Verdict.FAIL, Verdict.FAIL),
        # A new id would bring back a fenced producer (KAFKA-18019).
        InvalidProducerIdMapping: (Verdict.FATAL, Verdict.FATAL),
        ProducerFenced: (Verdict.FATAL, Verdict.FATAL),
        TransactionalIdAuthorizationFailed: (Verdict.FATAL, Verdict.FATAL),
        ClusterAuthorizationFailed: (Verdict.FATAL, Verdict.FATAL),
    }


LAST_SEQUENCE = 2**31 - 1


def next_sequence(sequence: int, records: int) -> int:
    """Return the number after `records` records from `sequence` on; 0 follows 2**31 - 1."""
    return (sequence + records) & LAST_SEQUENCE


@slotted
class _Run:
    """The sequence of one partition: its identity, its next number and its numbered batches."""

    identity: Identity = NO_IDENTITY
    next_sequence: int = 0
    unfinished: list[ProducerBatch] = slot(factory=list)
    window: list[ProducerBatch] = slot(factory=list)
    """Numbered batches from the oldest unfinished one on, including finished ones."""
    has_gap: bool = False
    """A numbered batch failed, so no new batch can follow under this identity."""
    gap_may_close: bool = False
    """A failed batch can still be written, and so can late copies of the batches behind it."""
    must_renumber: bool = False
    is_known_to_broker: bool = False
    """A batch was written under this identity."""

    def begin(self, identity: Identity) -> None:
        self.identity = identity
        self.next_sequence = 0
        self.window = list(self.unfinished)
        self.has_gap = self.gap_may_close = self.must_renumber = self.is_known_to_broker = False


class Sequences:
    """The producer's identity and the numbering of every partition."""

    def __init__(self, policy: IdentityPolicy) -> None:
        self.identity: Identity = NO_IDENTITY
        self._policy = policy
        self._runs: dict[tuple[str, int], _Run] = {}

    @property
    def is_known(self) -> bool:
        """False until a broker assigned a producer id, and when its epochs are used up."""
        return self.identity != NO_IDENTITY

    def on_identity(self, producer_id: int, producer_epoch: int) -> None:
        self.identity = (producer_id, producer_epoch)

    def may_send(self, batch: ProducerBatch) -> bool:
        """Return whether the batch can be sent now without breaking the order of its partition."""
        if self.identity == NO_IDENTITY:
            return False
        run = self._runs.get((batch.topic, batch.partition)) or self._run(batch)
        if not run.unfinished:
            return self._may_begin(run)
        if run.must_renumber:
            self._renumber(run)
        if batch.base_sequence != NO_SEQUENCE:
            # Batches are resent one by one: a later one would be rejected as out of order.
            return run.unfinished[0] is batch
        # A broker without state of a producer accepts any number as the first, so a second batch could be
        # written before the first one's retry. Java sends it nevertheless.
        may_follow = run.is_known_to_broker and not run.has_gap and run.identity == self.identity
        # A broker recognizes a producer's last five batches. After a leader change, later batches can finish
        # first; they count while an earlier one is unfinished.
        return may_follow and len(run.window) < MAX_IN_FLIGHT_IDEMPOTENT

    def assign(self, batch: ProducerBatch) -> None:
        """Number a batch that `may_send`; a numbered batch keeps its number and its bytes."""
        if batch.base_sequence == NO_SEQUENCE:
            run = self._runs.get((batch.topic, batch.partition)) or self._run(batch)
            batch.is_transactional = self._policy.is_transactional
            sequence = run.next_sequence
            batch.sequence(run.identity, sequence)
            run.next_sequence = (sequence + batch.count) & LAST_SEQUENCE  # as `next_sequence` has it
            run.unfinished.append(batch)
            run.window.append(batch)

    def on_written(self, batch: ProducerBatch) -> None:
        run = self._runs.get((batch.topic, batch.partition)) or self._run(batch)
        run.is_known_to_broker = batch.identity == run.identity
        if run.window == [batch]:  # the usual case of a caller that waits for each record
            run.unfinished, run.window = [], []
        else:
            self._finish(run, batch)

    def on_failed(self, batch: ProducerBatch, *, may_be_written: bool) -> None:
        """Record a failed batch, whose numbers are a gap for later batches."""
        run = self._run(batch)
        if self._finish(run, batch):
            run.has_gap = True
            run.gap_may_close = run.gap_may_close or may_be_written

    def cut_off(self, batch: ProducerBatch) -> list[ProducerBatch]:
        """Return the batches numbered after the gap of this batch, whose epoch no broker can know yet.

        The broker would accept the next number as the epoch's first and miss the gap, so these must be
        renumbered, or fail.
        """
        run = self._run(batch)
        is_unseen = run.has_gap and not run.is_known_to_broker and not run.must_renumber
        return list(run.unfinished) if is_unseen and not self._policy.is_transactional else []

    def may_come_late(self, batch: ProducerBatch) -> bool:
        """Return whether a late copy of the batch could be written after a failed one before it."""
        run = self._run(batch)
        return run.gap_may_close and batch in run.unfinished

    def is_in_turn(self, batch: ProducerBatch, sent_as: Identity) -> bool:
        """Return whether the batch is the first unfinished one of its partition, with current numbers."""
        run = self._run(batch)
        is_current = sent_as == run.identity and not run.must_renumber
        return is_current and bool(run.unfinished) and run.unfinished[0] is batch

    def renumber(self, batch: ProducerBatch) -> None:
        """Renumber the unfinished batches of the partition under the next identity."""
        if self.is_known:  # otherwise a new one comes anyway
            self.identity = self._policy.next_identity(self.identity)
        self._run(batch).must_renumber = True

    def split(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """Share the numbers of a batch that was split, as the broker rejected it, among its parts."""
        run = self._run(batch)
        if batch not in run.unfinished:
            return
        sequence = batch.base_sequence
        for part in parts:
            part.sequence(batch.identity, sequence)
            sequence = next_sequence(sequence, part.count)
        for numbered in (run.unfinished, run.window):
            place = numbered.index(batch)
            numbered[place : place + 1] = parts

    def on_refusal(self) -> None:
        """Drop the identity; the producer has failed."""
        self.identity = NO_IDENTITY

    # ------------------------------------------------------------------ inside

    def _run(self, batch: ProducerBatch) -> _Run:
        key = (batch.topic, batch.partition)
        run = self._runs.get(key)
        if run is None:
            run = self._runs[key] = _Run()
        return run

    def _may_begin(self, run: _Run) -> bool:
        if run.has_gap and run.identity == self.identity:
            self.identity = self._policy.next_identity(self.identity)
        if run.identity != self.identity:
            run.begin(self.identity)
        return self.identity != NO_IDENTITY and not run.has_gap

    def _renumber(self, run: _Run) -> None:
        run.begin(self.identity)
        for batch in run.unfinished:
            batch.sequence(run.identity, run.next_sequence)
            run.next_sequence = next_sequence(run.next_sequence, batch.count)

    def _finish(self, run: _Run, batch: ProducerBatch) -> bool:
        if batch not in run.unfinished:
            return False
        run.unfinished.remove(batch)
        while run.window and run.window[0] not in run.unfinished:
            run.window.pop(0)
        return True


def policy_of(options: ProducerOptions) -> IdentityPolicy:
    """Return the policy of a producer with these options."""
    if options.transactional_id is not None:
        return TransactionalPolicy()
    return IdempotentPolicy() if options.enable_idempotence else IdentityPolicy()


def error_of_identity(answer: InitProducerIdResponse) -> KafkaError | None:
    """Return the error of the response; None if it has a producer id."""
    if answer.error_code:
        return error_of(answer.error_code)
    if answer.producer_id < 0 or answer.producer_epoch < 0:
        identity = f"producer id {answer.producer_id}, epoch {answer.producer_epoch}"
        return CorruptData(f"The InitProducerId response has {identity} and no error")
    return None


class ProducerIdentity:
    """Requests a producer id, and repeats the request with backoff until it succeeds or is rejected.

    A transactional producer sends no request here: transactions/manager.py sets its identity.
    """

    def __init__(self, options: ProducerOptions, random: random.Random, policy: IdentityPolicy) -> None:
        self.sequences = Sequences(policy)
        self.refusal: KafkaError | None = None
        """The error if no broker assigns an id, or accepts records under this producer's id."""
        self._backoff = Backoff(options.retry_backoff, options.retry_backoff_max, random)
        self._is_transactional = options.transactional_id is not None
        self._is_requested = False
        self._not_before = 0.0

    def poll(self, now: float) -> PollResult:
        if self._is_requested or self._is_transactional or self.refusal is not None:
            return PollResult.idle()
        if now < self._not_before:
            return PollResult.idle_until(self._not_before)
        self._is_requested = True
        # Without a transactional id any broker assigns ids, and the timeout has no meaning.
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
        return PollResult.send(request, on_response=self._on_response, on_failure=self._on_failure)

    def refuse(self, error: KafkaError, because: str) -> None:
        """Fail the producer: waiting records and later calls fail with this error."""
        self.refusal = type(error)(because)
        self.sequences.on_refusal()

    def _on_response(self, response: InitProducerIdResponse, now: float) -> None:
        error = error_of_identity(response)
        if error is not None:
            self._on_failure(error, now)
            return
        self._is_requested = False
        self._backoff.reset()
        self.sequences.on_identity(response.producer_id, response.producer_epoch)

    def _on_failure(self, error: KafkaError, now: float) -> None:
        self._is_requested = False
        if error.retriable or not isinstance(error, BrokerError):
            self._not_before = now + self._backoff.next()
            return
        hint = "close the producer"
        if isinstance(error, UnsupportedVersion):
            hint = "set enable_idempotence=False"
        elif isinstance(error, ClusterAuthorizationFailed):
            hint = "grant WRITE on a topic, or IDEMPOTENT_WRITE on the cluster; then create a new producer"
        self.refuse(error, f"no producer id for an idempotent producer: {error}; {hint}")
