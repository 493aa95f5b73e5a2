"""Sequence numbers of an idempotent producer: who gets which, and what a failure does to the rest.

Belongs to the IO thread; asked and told by the sender.  The broker accepts a partition's batches of one
producer id and epoch only without gap (KIP-98), so a batch whose outcome is unknown, or that failed, ends the
run of numbers: once nothing of the partition is in flight, the next batch starts a new run at 0 under the
next identity, if there may be one (identity_policy.py).  The old epoch is fenced by that, so a late copy of a
lost batch cannot be appended.
"""

from __future__ import annotations

import attrs

from pykafka2.producer.batch import NO_SEQUENCE, ProducerBatch
from pykafka2.producer.identity_policy import NOBODY, Identity, IdentityPolicy
from pykafka2.producer.options import MAX_IN_FLIGHT_IDEMPOTENT

LAST_SEQUENCE = 2**31 - 1


def next_sequence(sequence: int, records: int) -> int:
    """The number after `records` records from `sequence` on; after 2**31 - 1 comes 0."""
    return (sequence + records) & LAST_SEQUENCE


@attrs.define
class _Run:
    """One partition's numbering: under which identity, how far, and what was numbered and is not yet done."""

    identity: Identity = NOBODY
    next_sequence: int = 0
    unfinished: list[ProducerBatch] = attrs.field(factory=list)
    window: list[ProducerBatch] = attrs.field(factory=list)
    """What was numbered from the oldest unfinished batch on, finished or not."""
    has_gap: bool = False
    """A numbered batch failed: nothing new may follow under this identity."""
    gap_may_close: bool = False
    """What failed may be on its way to the log yet, and let in what is on its way behind it."""
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
        self.identity: Identity = NOBODY
        self._policy = policy
        self._runs: dict[tuple[str, int], _Run] = {}

    @property
    def is_known(self) -> bool:
        """False until the broker gave a producer id, and again when its epochs are used up."""
        return self.identity != NOBODY

    def on_identity(self, producer_id: int, producer_epoch: int) -> None:
        self.identity = (producer_id, producer_epoch)

    def may_send(self, batch: ProducerBatch) -> bool:
        """Whether the batch may be drained now without endangering the order of its partition."""
        if self.identity == NOBODY:
            return False
        run = self._runs.get((batch.topic, batch.partition)) or self._run(batch)
        if not run.unfinished:
            return self._may_begin(run)
        if run.must_renumber:
            self._renumber(run)
        if batch.base_sequence != NO_SEQUENCE:
            # What is sent again goes one by one: a later batch would only be refused before its turn.
            return run.unfinished[0] is batch
        # A broker that knows nothing of a producer takes any number from it as the first, so a second batch
        # could be written before the first one's retry.  Java sends it all the same.
        may_follow = run.is_known_to_broker and not run.has_gap and run.identity == self.identity
        # A broker knows a producer's last five batches again, no more.  When a leader has moved, the new one
        # may finish later batches first; they count as long as an earlier one may have to be sent again.
        return may_follow and len(run.window) < MAX_IN_FLIGHT_IDEMPOTENT

    def assign(self, batch: ProducerBatch) -> None:
        """Number a batch that `may_send`; one that has its number keeps it, and with it its bytes."""
        if batch.base_sequence == NO_SEQUENCE:
            run = self._runs.get((batch.topic, batch.partition)) or self._run(batch)
            batch.is_transactional = self._policy.is_transactional
            sequence = run.next_sequence
            batch.sequence(*run.identity, sequence)
            run.next_sequence = (sequence + batch.count) & LAST_SEQUENCE  # as `next_sequence` has it
            run.unfinished.append(batch)
            run.window.append(batch)

    def on_written(self, batch: ProducerBatch) -> None:
        run = self._runs.get((batch.topic, batch.partition)) or self._run(batch)
        run.is_known_to_broker = (batch.producer_id, batch.producer_epoch) == run.identity
        if run.window == [batch]:  # what each batch is to who waits for each
            run.unfinished, run.window = [], []
        else:
            self._finish(run, batch)

    def on_failed(self, batch: ProducerBatch, *, may_be_written: bool) -> None:
        """It was given up, written or not: its numbers are a hole for those that follow."""
        run = self._run(batch)
        if self._finish(run, batch):
            run.has_gap = True
            run.gap_may_close = run.gap_may_close or may_be_written

    def cut_off(self, batch: ProducerBatch) -> list[ProducerBatch]:
        """What is numbered behind the hole that this batch left, under an epoch no broker may know yet.

        The broker would take the next number as the epoch's first and never see the hole, so these must be
        numbered anew, or fail.
        """
        run = self._run(batch)
        is_unseen = run.has_gap and not run.is_known_to_broker and not run.must_renumber
        return list(run.unfinished) if is_unseen and not self._policy.is_transactional else []

    def may_come_late(self, batch: ProducerBatch) -> bool:
        """Whether a copy of the batch that is on its way could be let in by one of what failed before it."""
        run = self._run(batch)
        return run.gap_may_close and batch in run.unfinished

    def is_in_turn(self, batch: ProducerBatch, sent_as: Identity) -> bool:
        """Whether it is the first unfinished one of its partition, under the numbers it was sent with."""
        run = self._run(batch)
        is_current = sent_as == run.identity and not run.must_renumber
        return is_current and bool(run.unfinished) and run.unfinished[0] is batch

    def renumber(self, batch: ProducerBatch) -> None:
        """Everything unfinished of its partition gets new numbers, under the next identity."""
        if self.is_known:  # else it will be another one anyway
            self.identity = self._policy.next_identity(self.identity)
        self._run(batch).must_renumber = True

    def split(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """The broker has refused a numbered batch, which was split: its parts share its numbers."""
        run = self._run(batch)
        if batch not in run.unfinished:
            return
        sequence = batch.base_sequence
        for part in parts:
            part.sequence(batch.producer_id, batch.producer_epoch, sequence)
            sequence = next_sequence(sequence, part.count)
        for numbered in (run.unfinished, run.window):
            place = numbered.index(batch)
            numbered[place : place + 1] = parts

    def on_refusal(self) -> None:
        """The identity is over, for good."""
        self.identity = NOBODY

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
        return self.is_known and not run.has_gap

    def _renumber(self, run: _Run) -> None:
        run.begin(self.identity)
        for batch in run.unfinished:
            batch.sequence(*run.identity, run.next_sequence)
            run.next_sequence = next_sequence(run.next_sequence, batch.count)

    def _finish(self, run: _Run, batch: ProducerBatch) -> bool:
        if batch not in run.unfinished:
            return False
        run.unfinished.remove(batch)
        while run.window and run.window[0] not in run.unfinished:
            run.window.pop(0)
        return True
