"""Producer state of a partition: epochs, last five batches, open transactions, verifications (KIP-890).

Returns the original offset for a retried batch; rejects gaps, old epochs and old coordinators (KIP-98,
KIP-890; Kafka's ProducerStateManager and ProducerAppendInfo of 4.3). Rebuilt from the log after truncation,
as after a restart.

A transaction limits the last stable offset while it is open, and after its marker is written until that
marker is replicated. producer_state.py holds one instance per log.

A transaction's first batch is appended only if the coordinator knows the partition. The leader creates a
guard, sends the verification request, and appends with the guard. A marker in between invalidates the guard,
so that a late response cannot open a transaction that nothing would end. partition_log.py checks each batch;
coordinators/transactions/verifier.py sends the request. Source: Kafka's VerificationStateEntry and
UnifiedLog.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

import attrs

from pykafka2.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    TransactionCoordinatorFenced,
)
from pykafka2.records.batch import NO_SEQUENCE, RecordBatch


@attrs.define(frozen=True)
class CompletedTransaction:
    """A transaction whose marker is written.

    `last_stable_offset` is the value after the marker, ignoring replication.
    """

    producer_id: int
    first_offset: int
    marker_offset: int
    committed: bool
    last_stable_offset: int


class OpenTransactions:
    """Transactions of one log that limit the last stable offset."""

    __slots__ = ("_ongoing", "_unreplicated")

    def __init__(self) -> None:
        # Offsets only grow, so the dict is ordered by first offset.
        self._ongoing: dict[int, int] = {}
        self._unreplicated: list[tuple[int, int]] = []  # a heap of (first offset, marker's offset)

    @property
    def ongoing(self) -> dict[int, int]:
        """First offsets by producer id, the smallest first."""
        return dict(self._ongoing)

    def first_offset_of(self, producer_id: int) -> int | None:
        return self._ongoing.get(producer_id)

    def begin(self, producer_id: int, offset: int) -> None:
        """Record a transactional batch; the first one since the last marker opens a transaction."""
        self._ongoing.setdefault(producer_id, offset)

    def end(self, producer_id: int, marker_offset: int, committed: bool) -> CompletedTransaction | None:
        """Record the producer's marker. Return None if the producer had no open transaction."""
        first_offset = self._ongoing.pop(producer_id, None)
        if first_offset is None:
            return None
        heappush(self._unreplicated, (first_offset, marker_offset))
        stable = next(iter(self._ongoing.values()), marker_offset + 1)
        return CompletedTransaction(producer_id, first_offset, marker_offset, committed, stable)

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Return the smallest first offset of transactions that are open or have an unreplicated marker."""
        heap = self._unreplicated
        while heap and heap[0][1] < high_watermark:
            heappop(heap)
        first_ongoing = next(iter(self._ongoing.values()), None)
        if not heap:
            return first_ongoing
        return heap[0][0] if first_ongoing is None else min(heap[0][0], first_ongoing)

    def copy(self) -> OpenTransactions:
        other = OpenTransactions()
        other._ongoing = dict(self._ongoing)
        other._unreplicated = list(self._unreplicated)
        return other


BATCHES_KEPT = 5
NO_EPOCH = -1
MAX_SEQUENCE = 0x7FFFFFFF
NO_COORDINATOR_EPOCH = -1

EPOCH_BUMP = 2
"""The first transaction.version that gives every transaction its own epoch (KIP-890)."""


@attrs.define
class AppendedBatch:
    """The sequences and offsets of one appended batch of a producer."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


@attrs.define
class ProducerState:
    """The state of one producer id in one partition."""

    producer_id: int
    epoch: int = NO_EPOCH
    last_timestamp: int = -1
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    batches: deque[AppendedBatch] = attrs.field(factory=lambda: deque(maxlen=BATCHES_KEPT))

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class ProducerStates:
    """The states of all producers of one partition."""

    __slots__ = ("_states", "transactions")

    def __init__(self) -> None:
        self._states: dict[int, ProducerState] = {}
        self.transactions = OpenTransactions()

    def __iter__(self) -> Iterator[ProducerState]:
        return iter(self._states.values())

    def add(self, state: ProducerState) -> None:
        """Add the state of a producer, or replace it."""
        self._states[state.producer_id] = state

    def get(self, producer_id: int) -> ProducerState | None:
        return self._states.get(producer_id)

    def duplicate_of(self, batch: RecordBatch) -> AppendedBatch | None:
        """Return the original append if `batch` is a retry: same epoch, same first and last sequence."""
        state = self._states.get(batch.producer_id)
        if state is None or state.epoch != batch.producer_epoch:
            return None
        last_sequence = batch.last_sequence
        for appended in state.batches:
            if appended.first_sequence == batch.base_sequence and appended.last_sequence == last_sequence:
                return appended
        return None

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """Return whether exactly this epoch of the producer has an open transaction here."""
        state = self._states.get(producer_id)
        is_open = self.transactions.first_offset_of(producer_id) is not None
        return is_open and state is not None and state.epoch == epoch

    def check(self, batch: RecordBatch) -> None:
        """Raise unless a client's batch follows the producer's previous batches.

        `InvalidProducerEpoch` for an old epoch, `OutOfOrderSequenceNumber` for a gap, `InvalidTxnState` for a
        non-transactional batch during a transaction. An unknown producer can start with any sequence; a
        producer known only by a marker starts at 0.
        """
        self.check_epoch(batch)
        state = self._states.get(batch.producer_id)
        if state is not None:
            self._check_sequence(batch, state)
        self.check_transaction(batch)

    def check_epoch(self, batch: RecordBatch) -> None:
        """Raise `InvalidProducerEpoch` for an old epoch, or one below -1 (no epoch)."""
        state = self._states.get(batch.producer_id)
        current = NO_EPOCH if state is None else state.epoch
        if batch.producer_epoch >= current:
            return
        producer = f"producer {batch.producer_id} with epoch {batch.producer_epoch}"
        if state is None:
            raise InvalidProducerEpoch(f"{producer}: the epoch is below -1")
        raise InvalidProducerEpoch(f"{producer} was replaced by epoch {current}")

    def _check_sequence(self, batch: RecordBatch, state: ProducerState) -> None:
        is_new_epoch = batch.producer_epoch > state.epoch
        expected = 0 if is_new_epoch else next_sequence(state.last_sequence)
        if batch.base_sequence == expected:
            return
        producer = f"producer {batch.producer_id} with epoch {batch.producer_epoch}"
        if is_new_epoch:
            raise OutOfOrderSequenceNumber(
                f"{producer} starts at sequence {batch.base_sequence}; a new epoch starts at 0"
            )
        raise OutOfOrderSequenceNumber(
            f"{producer} sent sequence {batch.base_sequence}, expected {expected}: a batch is missing"
        )

    def check_transaction(self, batch: RecordBatch) -> None:
        """Raise `InvalidTxnState` for a non-transactional batch during the producer's transaction."""
        if batch.is_transactional or self.transactions.first_offset_of(batch.producer_id) is None:
            return
        raise InvalidTxnState(
            f"producer {batch.producer_id} has a transaction open since offset "
            f"{self.transactions.first_offset_of(batch.producer_id)}; this batch is not transactional"
        )

    def check_marker(
        self, producer_id: int, epoch: int, coordinator_epoch: int, transaction_version: int
    ) -> None:
        """Raise if a coordinator's marker is late.

        With transaction.version 2 the marker's epoch must be above that of the records; the same epoch is
        accepted only for a repeated marker, without an open transaction. Before version 2 it can equal that
        of the records. Raise `InvalidProducerEpoch` or `TransactionCoordinatorFenced`.
        """
        state = self._states.get(producer_id)
        if state is None:
            return
        if transaction_version >= EPOCH_BUMP:
            is_repetition = epoch == state.epoch and self.transactions.first_offset_of(producer_id) is None
            is_late = epoch <= state.epoch and not is_repetition
        else:
            is_late = epoch < state.epoch
        if is_late:
            raise InvalidProducerEpoch(
                f"a marker of producer {producer_id} has epoch {epoch}, records have {state.epoch} "
                f"(transaction.version {transaction_version})"
            )
        if coordinator_epoch < state.coordinator_epoch:
            raise TransactionCoordinatorFenced(
                f"a marker of producer {producer_id} comes from coordinator epoch {coordinator_epoch}, "
                f"epoch {state.coordinator_epoch} has written since"
            )

    def record(self, batch: RecordBatch) -> CompletedTransaction | None:
        """Update the state for an appended batch. Return the completed transaction if it is a marker."""
        if not batch.has_producer_id or (batch.is_control and not batch.count):
            return None  # a marker that compaction has emptied changes nothing, as in Kafka
        state = self._states.get(batch.producer_id)
        if state is None:
            state = self._states[batch.producer_id] = ProducerState(batch.producer_id)
        if batch.producer_epoch != state.epoch:
            state.epoch = batch.producer_epoch
            state.batches.clear()
        state.last_timestamp = batch.max_timestamp  # from the latest batch, even if its timestamp is older
        if batch.is_control:
            return self._record_marker(batch, state)
        state.batches.append(
            AppendedBatch(
                batch.base_sequence,
                batch.last_sequence,
                batch.base_offset,
                batch.last_offset,
                batch.max_timestamp,
            )
        )
        if batch.is_transactional:
            self.transactions.begin(batch.producer_id, batch.base_offset)
        return None

    def _record_marker(self, batch: RecordBatch, state: ProducerState) -> CompletedTransaction | None:
        from pykafka2.records.control import read_marker

        marker = read_marker(batch, check_crcs=False)
        if not (marker.is_commit or marker.is_abort):
            return None
        state.coordinator_epoch = max(state.coordinator_epoch, marker.coordinator_epoch)
        return self.transactions.end(batch.producer_id, batch.last_offset, marker.is_commit)

    def copy(self) -> ProducerStates:
        other = ProducerStates()
        other._states = {
            producer_id: attrs.evolve(state, batches=state.batches.copy())
            for producer_id, state in self._states.items()
        }
        other.transactions = self.transactions.copy()
        return other

    def rebuild(self, batches: Iterable[RecordBatch], before: ProducerStates | None = None) -> None:
        """Rebuild the state from the log's batches, starting from the state `before` the first one."""
        start = ProducerStates() if before is None else before.copy()
        self._states, self.transactions = start._states, start.transactions
        for batch in batches:
            self.record(batch)

    def expire(self, before_ms: int) -> int:
        """Drop producers whose last batch is not newer than `before_ms` (producer.id.expiration.ms).

        Return their number.

        Producers with an open transaction are kept.
        """
        old = [
            state.producer_id
            for state in self._states.values()
            if state.last_timestamp <= before_ms
            and self.transactions.first_offset_of(state.producer_id) is None
        ]
        for producer_id in old:
            del self._states[producer_id]
        return len(old)


def next_sequence(sequence: int) -> int:
    """Return the sequence after `sequence`; 0 follows 2**31 - 1."""
    return 0 if sequence == MAX_SEQUENCE else sequence + 1


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
