"""Which producers' transactions are being verified with their coordinator (KIP-890).

The first batch of a transaction may enter the log only if the coordinator knows of the partition: the leader
takes a guard, asks, and appends with the guard.  A marker meanwhile makes the guard worthless, so that a late
answer cannot open a transaction that nobody will end.  Kept by partition_log.py; the question itself is
coordinators/transactions/verification.py's.  Source: Kafka's VerificationStateEntry and UnifiedLog.
"""

from __future__ import annotations

import attrs


class VerificationGuard:
    """A token for one verification; equal only to itself."""

    __slots__ = ()


@attrs.define
class Verification:
    """What is known of a producer between the question and its first append."""

    guard: VerificationGuard
    lowest_sequence: int
    epoch: int
    supports_epoch_bump: bool
    started_ms: int

    def saw(self, sequence: int, epoch: int) -> None:
        """Another batch waits for the same verification."""
        if epoch > self.epoch or (epoch == self.epoch and sequence < self.lowest_sequence):
            self.epoch, self.lowest_sequence = epoch, sequence


class Verifications:
    """Verifications under way in one partition.

    `required` is transaction.partition.verification.enable; while it is False no guard is asked for.
    """

    __slots__ = ("_by_producer", "required")

    def __init__(self) -> None:
        self.required = False
        self._by_producer: dict[int, Verification] = {}

    def begin(
        self, producer_id: int, epoch: int, sequence: int, supports_epoch_bump: bool, now_ms: int
    ) -> VerificationGuard:
        """The guard to append with, the same one for all who wait."""
        found = self._by_producer.get(producer_id)
        if found is None:
            found = Verification(VerificationGuard(), sequence, epoch, supports_epoch_bump, now_ms)
            self._by_producer[producer_id] = found
        else:
            found.saw(sequence, epoch)
        return found.guard

    def get(self, producer_id: int) -> Verification | None:
        return self._by_producer.get(producer_id)

    def admits(self, producer_id: int, guard: VerificationGuard | None) -> bool:
        """Whether `guard` is the one given out since the last marker."""
        found = self._by_producer.get(producer_id)
        return found is not None and found.guard is guard

    def end(self, producer_id: int) -> None:
        """The producer's first batch or a marker was appended."""
        self._by_producer.pop(producer_id, None)

    def expire(self, before_ms: int) -> int:
        """Forget those begun then or before (producer.id.expiration.ms); how many."""
        old = [producer_id for producer_id, one in self._by_producer.items() if one.started_ms <= before_ms]
        for producer_id in old:
            del self._by_producer[producer_id]
        return len(old)
