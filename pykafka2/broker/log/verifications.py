"""Transaction verifications in progress with the coordinator (KIP-890).

A transaction's first batch is appended only if the coordinator knows the partition. The leader creates a
guard, sends the verification request, and appends with the guard. A marker in between invalidates the guard,
so that a late response cannot open a transaction that nothing would end. partition_log.py holds the guards;
coordinators/transactions/verification.py sends the request. Source: Kafka's VerificationStateEntry and
UnifiedLog.
"""

from __future__ import annotations

import attrs


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
        """Records another batch that waits for the same verification."""
        if epoch > self.epoch or (epoch == self.epoch and sequence < self.lowest_sequence):
            self.epoch, self.lowest_sequence = epoch, sequence


class Verifications:
    """Verifications in progress in one partition.

    `required` is transaction.partition.verification.enable; while it is False no guard is needed.
    """

    __slots__ = ("_by_producer", "required")

    def __init__(self) -> None:
        self.required = False
        self._by_producer: dict[int, Verification] = {}

    def begin(
        self, producer_id: int, epoch: int, sequence: int, supports_epoch_bump: bool, now_ms: int
    ) -> VerificationGuard:
        """Returns the guard to append with; all waiting batches of a producer share it."""
        found = self._by_producer.get(producer_id)
        if found is None:
            found = Verification(VerificationGuard(), sequence, epoch, supports_epoch_bump, now_ms)
            self._by_producer[producer_id] = found
        else:
            found.add(sequence, epoch)
        return found.guard

    def get(self, producer_id: int) -> Verification | None:
        return self._by_producer.get(producer_id)

    def admits(self, producer_id: int, guard: VerificationGuard | None) -> bool:
        """Whether `guard` is the one created since the last marker."""
        found = self._by_producer.get(producer_id)
        return found is not None and found.guard is guard

    def end(self, producer_id: int) -> None:
        """Removes the verification when the producer's first batch or a marker is appended."""
        self._by_producer.pop(producer_id, None)

    def expire(self, before_ms: int) -> int:
        """Drops verifications started at or before `before_ms` (producer.id.expiration.ms).

        Returns their number.
        """
        old = [
            producer_id
            for producer_id, verification in self._by_producer.items()
            if verification.started_ms <= before_ms
        ]
        for producer_id in old:
            del self._by_producer[producer_id]
        return len(old)
