"""Settles batches that came back: written, retried in their place, or failed.

Used on the IO thread by the sender (sender.py), which passes responses and errors. A batch has exactly one
outcome. If a failed batch can still be written, its error says that it may be in the log.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pykafka2.backoff import Backoff
from pykafka2.cluster.metadata import Metadata
from pykafka2.errors import (
    DeliveryTimeout,
    InvalidRecord,
    KafkaError,
    MessageTooLarge,
    error_of,
    text_of,
)
from pykafka2.events import BatchCompleted, BatchRetried, EventSink
from pykafka2.metrics import Metrics
from pykafka2.producer.accumulator.accumulator import Accumulator
from pykafka2.producer.accumulator.batch import BatchState, ProducerBatch
from pykafka2.producer.accumulator.batch_records import Identity
from pykafka2.producer.idempotence import IdentityPolicy, ProducerIdentity, Sequences, Verdict
from pykafka2.producer.options import ProducerOptions
from pykafka2.producer.sending.failure_log import Failures
from pykafka2.producer.sending.memory_shares import PartitionShares
from pykafka2.protocol.messages.produce import PartitionProduceResponse
from pykafka2.slotted import slotted
from pykafka2.text import counted, shown
from pykafka2.types import NO_OFFSET, NO_TIMESTAMP, Node

if TYPE_CHECKING:
    from pykafka2.producer.transactions.manager import TransactionManager

LEADER_CHANGES_WITHOUT_BACKOFF = 3
"""Attempts of a batch that follow a moved leader without a backoff (KIP-951)."""


@slotted(frozen=True)
class SenderParts:
    """The parts of a producer that the sender and its outcomes use."""

    options: ProducerOptions
    accumulator: Accumulator
    metadata: Metadata
    random: random.Random
    event_sink: EventSink
    metrics: Metrics
    transactions: TransactionManager | None = None
    """None without transactions."""


class TopicMeter:
    """The numbers of one topic's batches."""

    __slots__ = ("batches", "totals")

    def __init__(self, metrics: Metrics, topic: str) -> None:
        meter = metrics.meter(topic=topic)
        self.totals = meter.totals
        self.batches = meter.series("batch-size", "record-queue-time", "compression-rate", "record-size")


class TopicMeters(dict[str, TopicMeter]):
    """The meters by topic; looking one up creates it."""

    __slots__ = ("_metrics",)

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def __missing__(self, topic: str) -> TopicMeter:
        meter = self[topic] = TopicMeter(self._metrics, topic)
        return meter


class Outcomes:
    """Settles batches. `identity` is None without idempotence."""

    def __init__(self, parts: SenderParts, identity: ProducerIdentity | None, policy: IdentityPolicy) -> None:
        self._options = options = parts.options
        self._transactions = parts.transactions
        self._accumulator = parts.accumulator
        self._metadata = parts.metadata
        self._identity = identity
        self._sequences = identity.sequences if identity is not None else None
        self._policy = policy
        self._event_sink = parts.event_sink
        self._metrics = parts.metrics
        self.topics = TopicMeters(parts.metrics)
        self.shares = PartitionShares()
        self._failures = Failures(options.client_id)
        self._backoff = Backoff(options.retry_backoff, options.retry_backoff_max, parts.random)

    def rejected(
        self,
        batch: ProducerBatch,
        sent_as: Identity,
        answer: PartitionProduceResponse,
        endpoints: list[Node],
        now: float,
    ) -> None:
        """Handle the broker's error for the batch; `sent_as` is the identity of this attempt."""
        code, where = answer.error_code, f"{batch.topic}-{batch.partition}"
        error = error_of(code, f"{where}: {answer.error_message or error_of(code)}")
        hint = answer.current_leader
        is_moved = hint.leader_id >= 0 and self._metadata.update_leader(
            batch.topic, batch.partition, hint.leader_id, hint.leader_epoch, endpoints
        )
        self.attempt_failed(batch, sent_as, error, now, answer, is_moved=is_moved)

    def attempt_failed(
        self,
        batch: ProducerBatch,
        sent_as: Identity,
        error: KafkaError,
        now: float,
        answer: PartitionProduceResponse | None = None,
        *,
        is_moved: bool = False,
    ) -> None:
        """Resend the batch in its place, or fail it. `is_moved`: the new leader is known already.

        The records that the response names matter only if the batch fails, as in Java. After a retriable
        error, or if the batch is too large, all of it is resent.
        """
        if batch.is_done:
            return
        self._failures.attempt_failed(batch, error)
        if error.refresh_metadata and not is_moved:
            self._metadata.request_update(error)
        if isinstance(error, MessageTooLarge) and batch.count > 1:
            self._split(batch, now)
            return
        verdict = self._verdict(batch, sent_as, error)
        if verdict is Verdict.WRITTEN:
            self.written(batch, NO_OFFSET, NO_TIMESTAMP, now)
            return
        if verdict is Verdict.FATAL and self._identity is not None:
            cause = str(error).rstrip(".")
            self._identity.refuse(
                error,
                f"the brokers reject this producer's id: {cause}; close this producer, create a new one",
            )
        if verdict in (Verdict.FAIL, Verdict.FATAL) or batch.attempts > self._options.retries:
            final = self._failures.final_error(batch, error)
            named = None
            if answer is not None and answer.record_errors and final is error:
                named = _record_errors(batch, answer)
            self.fail(batch, final, named)
            return
        if verdict is Verdict.RENUMBER and self._sequences is not None:
            self._sequences.renumber(batch)
        batch.last_error = error
        # A leader that moves again and again gets a backoff, as each response can name another one.
        follows_leader = is_moved and batch.attempts <= LEADER_CHANGES_WITHOUT_BACKOFF
        batch.retry_at = now if follows_leader else now + self._backoff.delay(batch.attempts - 1)
        self._accumulator.put_back(batch)
        self.topics[batch.topic].totals["record-retry-total"] += batch.count
        if self._event_sink.is_watched:
            text = f"{type(error).__name__}: {error}"
            event = BatchRetried(now, batch.topic, batch.partition, batch.count, batch.attempts, text)
            self._event_sink.emit(event)

    def requeue_unencoded(self, batch: ProducerBatch, now: float) -> float:
        """Return a batch to its queue, as there was no memory to encode it. Return the time of the retry.

        Other batches are sent meanwhile, which frees memory. The delivery timeout still applies.
        """
        batch.move_to(BatchState.IN_FLIGHT)
        batch.attempts += 1
        batch.last_error = KafkaError("the process had no memory to encode the batch")
        batch.retry_at = now + self._backoff.delay(batch.attempts - 1)
        self._accumulator.put_back(batch)
        return batch.retry_at

    def _split(self, batch: ProducerBatch, now: float) -> None:
        """Split a batch that is too large for the broker (KIP-126)."""
        batch.retry_at = now
        parts = self._accumulator.split(batch)
        if self._sequences is not None:
            self._sequences.split(batch, parts)
        self._failures.split(batch, parts)
        self._metrics.add("batch-split-total", 1)

    def _verdict(self, batch: ProducerBatch, sent_as: Identity, error: KafkaError) -> Verdict:
        sequences = self._sequences
        is_in_turn = sequences is not None and sequences.is_in_turn(batch, sent_as)
        verdict = self._policy.verdict(error, is_in_turn=is_in_turn)
        if verdict is Verdict.RENUMBER and sequences is not None:
            # The whole batch can be in the log; the broker would recognize it, but not its halves.
            is_half = self._failures.is_part_of_unclear_batch(batch)
            # Copies of it, and of a batch that failed before it, can still be on the wire.
            is_late = self._failures.may_be_written(batch) and sequences.may_come_late(batch)
            if is_half or is_late:
                return Verdict.FAIL
        return verdict

    def written(self, batch: ProducerBatch, base_offset: int, log_append_time: int, now: float) -> None:
        """Complete a batch that was written (with acks=0: sent)."""
        if batch.is_done:
            return
        if self._sequences is not None:
            self._sequences.on_written(batch)
        self._failures.on_written(batch)
        self._accumulator.pool.deallocate(batch.permit)
        self.topics[batch.topic].totals["record-send-total"] += batch.count
        self.shares.note(batch.topic, batch.partition, batch.count, batch.size_estimate)
        self._accumulator.complete(batch, base_offset, log_append_time)
        if self._event_sink.is_watched:
            topic, partition = batch.topic, batch.partition
            self._event_sink.emit(
                BatchCompleted(now, topic, partition, batch.count, base_offset, batch.attempts)
            )

    def fail(
        self,
        batch: ProducerBatch,
        error: KafkaError,
        record_errors: Mapping[int, KafkaError] | None = None,
        *,
        is_on_the_wire: bool = False,
    ) -> None:
        """Fail a batch; one that is done stays as it is, as the halves of a split batch can fail together.

        On the wire it keeps its memory until the request has ended. Otherwise the memory is released before
        callbacks run, as a callback can send the record again.
        """
        if batch.is_done:
            return
        if not is_on_the_wire:
            self._accumulator.pool.deallocate(batch.permit)
        if self._sequences is not None:
            may_be_written = is_on_the_wire or self._failures.may_be_written(batch)
            self._sequences.on_failed(batch, may_be_written=may_be_written)
        if self._transactions is not None:
            self._transactions.on_batch_failed(batch, error)
        self._accumulator.fail(batch, error, record_errors)
        self._failures.on_failed(batch, error)
        self.topics[batch.topic].totals["record-error-total"] += batch.count
        if self._event_sink.is_watched:
            text = f"{type(error).__name__}: {error}"
            topic, partition = batch.topic, batch.partition
            event = BatchCompleted(
                batch.sent_at, topic, partition, batch.count, NO_OFFSET, batch.attempts, text
            )
            self._event_sink.emit(event)
        if self._sequences is not None:
            self._on_gap(batch, self._sequences, error)

    def fail_with_producer(self, batch: ProducerBatch, error: KafkaError, *, is_on_the_wire: bool) -> None:
        """Fail a batch because its producer or transaction has failed."""
        if is_on_the_wire:
            self._failures.mark_may_be_written(batch)
        self.fail(batch, self._failures.final_error(batch, error), is_on_the_wire=is_on_the_wire)

    def _on_gap(self, batch: ProducerBatch, sequences: Sequences, error: KafkaError) -> None:
        """Renumber the batches behind a failed one, which would be written despite the gap."""
        behind = sequences.cut_off(batch)
        if not behind:
            return
        sequences.renumber(batch)
        for later in behind:
            if self._failures.is_part_of_unclear_batch(later):
                is_on_the_wire = later.state is BatchState.IN_FLIGHT
                final = self._failures.final_error(later, error)
                self.fail(later, final, is_on_the_wire=is_on_the_wire)

    def expired(self, batch: ProducerBatch, waited_for: str) -> DeliveryTimeout:
        """Return the error of a batch whose delivery timeout has passed."""
        queue = f"{batch.topic}-{batch.partition}"
        limit_ms = self._options.delivery_timeout * 1000
        what = f"{queue}: not acknowledged within delivery_timeout_ms={limit_ms:g}"
        if not batch.attempts:
            return DeliveryTimeout(f"{what}; it was never sent, it waited for {waited_for}")
        because = f" (last: {batch.last_error})" if batch.last_error else ""
        return DeliveryTimeout(
            f"{what} after {counted(batch.attempts, 'attempt')}{because}; it may or may not be in the log"
        )


def _record_errors(batch: ProducerBatch, answer: PartitionProduceResponse) -> dict[int, KafkaError]:
    """Return the error of each record of a batch that was rejected because of some of them (KIP-467).

    The response has one error code. It is that of the record if one record is named; of several, the code
    can belong to any of them.
    """
    named: dict[int, Any] = {
        record.batch_index: record.batch_index_error_message for record in answer.record_errors
    }
    where = f"{batch.topic}-{batch.partition}"
    others = InvalidRecord(f"{where}: refused because of other records in its batch: {sorted(named)}")
    own = type(error_of(answer.error_code)) if len(named) == 1 else InvalidRecord
    return {
        index: own(
            f"{where}: record {index} of the batch: "
            f"{shown(named[index] or answer.error_message or text_of(own))}"
        )
        if index in named
        else others
        for index in range(batch.count)
    }
