"""Transaction verifications in progress with the coordinator (KIP-890).

A transaction's first batch is appended only if the coordinator knows the partition. The leader creates a
guard, sends the verification request, and appends with the guard. A marker in between invalidates the guard,
so that a late response cannot open a transaction that nothing would end. partition_log.py checks each batch;
coordinators/transactions/verification.py sends the request. Source: Kafka's VerificationStateEntry and
UnifiedLog.
"""

from __future__ import annotations

import attrs

from pykafka2.broker.log.producer_state import ProducerStates
from pykafka2.errors import InvalidTxnState, OutOfOrderSequenceNumber
from pykafka2.records.batch import RecordBatch


class VerificationGuard:
    """A token for one verification; equal only to itself."""

    __slots__ = ()


@attrs.define
class Verification:
    """The state of a producer between the verification request and its first append."""

    guard: VerificationGuard
    lowest_sequence: int
    epoch: int
    supports_epoch_bump: bool
    started_ms: int

    def add(self, sequence: int, epoch: int) -> None:
        """Record another batch that waits for the same verification."""
        if epoch > self.epoch or (epoch == self.epoch and sequence < self.lowest_sequence):
            self.epoch, self.lowest_sequence = epoch, sequence


class Verifications:
    """Verifications in progress in one partition. `where` is the partition's name in errors.

    `required` is transaction.partition.verification.enable; while it is False no guard is needed.
    """

    __slots__ = ("_by_producer", "_producers", "_where", "required")

    def __init__(self, producers: ProducerStates, where: str) -> None:
        self.required = False
        self._producers = producers
        self._where = where
        self._by_producer: dict[int, Verification] = {}

    def begin(
        self, producer_id: int, epoch: int, sequence: int, supports_epoch_bump: bool, now_ms: int
    ) -> VerificationGuard | None:
        """Return the guard for appending a transactional batch once the coordinator has verified it.

        All waiting batches of a producer share it. None if no verification is needed: the transaction is open
        here, or verification is off. Producers that add partitions by producing (`supports_epoch_bump`) are
        always verified.
        """
        if self._producers.has_open_transaction(producer_id, epoch):
            return None
        if not (self.required or supports_epoch_bump):
            return None
        found = self._by_producer.get(producer_id)
        if found is None:
            found = Verification(VerificationGuard(), sequence, epoch, supports_epoch_bump, now_ms)
            self._by_producer[producer_id] = found
        else:
            found.add(sequence, epoch)
        return found.guard

    def check(self, batch: RecordBatch, guard: VerificationGuard | None) -> None:
        """Raise `InvalidTxnState` for a batch whose transaction is neither open here nor verified."""
        if not (batch.is_transactional and self.required):
            return
        if self._producers.has_open_transaction(batch.producer_id, batch.producer_epoch):
            return
        if not self.admits(batch.producer_id, guard):
            raise InvalidTxnState(
                f"{self._where}: producer {batch.producer_id} has no transaction open here and is not "
                f"verified. Add the partition to the transaction first"
            )

    def check_first_sequence(self, batch: RecordBatch) -> None:
        """Reject a first batch of a verified producer while an earlier batch is still being verified.

        Raise `OutOfOrderSequenceNumber` or `InvalidProducerEpoch`.
        """
        verification = self._by_producer.get(batch.producer_id)
        if verification is None:
            return
        self._producers.check_epoch(batch)
        is_new = self._producers.get(batch.producer_id) is None
        if (verification.supports_epoch_bump and is_new and batch.base_sequence != 0) or (
            batch.base_sequence > verification.lowest_sequence
        ):
            raise OutOfOrderSequenceNumber(
                f"producer {batch.producer_id} sent sequence {batch.base_sequence} first; its transaction "
                f"begins here with {0 if is_new else verification.lowest_sequence}"
            )

    def admits(self, producer_id: int, guard: VerificationGuard | None) -> bool:
        """Return whether `guard` is the one created since the last marker."""
        found = self._by_producer.get(producer_id)
        return found is not None and found.guard is guard

    def end(self, producer_id: int) -> None:
        """Remove the verification when the producer's first batch or a marker is appended."""
        self._by_producer.pop(producer_id, None)

    def expire(self, before_ms: int) -> int:
        """Drop verifications started at or before `before_ms` (producer.id.expiration.ms).

        Return their number.
        """
        old = [
            producer_id
            for producer_id, verification in self._by_producer.items()
            if verification.started_ms <= before_ms
        ]
        for producer_id in old:
            del self._by_producer[producer_id]
        return len(old)
