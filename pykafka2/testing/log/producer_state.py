"""What a partition remembers of each idempotent producer: epoch, and its last five batches.

Enough to answer a retry with the offset of the first try, to refuse a gap, and to refuse an old epoch
(KIP-98; Kafka's ProducerStateManager).  Rebuilt from the log after truncation, as after a restart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import attrs

from pykafka2.errors import InvalidProducerEpoch, OutOfOrderSequenceNumber
from pykafka2.records.batch import NO_SEQUENCE, RecordBatch

BATCHES_KEPT = 5
NO_EPOCH = -1
MAX_SEQUENCE = 0x7FFFFFFF


@attrs.define
class AppendedBatch:
    """Where one batch of a producer went."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


@attrs.define
class ProducerState:
    """One producer id on one partition."""

    producer_id: int
    epoch: int = NO_EPOCH
    last_timestamp: int = -1
    batches: deque[AppendedBatch] = attrs.field(factory=lambda: deque(maxlen=BATCHES_KEPT))

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class ProducerStates:
    """All producers of one partition."""

    __slots__ = ("_states",)

    def __init__(self) -> None:
        self._states: dict[int, ProducerState] = {}

    def get(self, producer_id: int) -> ProducerState | None:
        return self._states.get(producer_id)

    def duplicate_of(self, batch: RecordBatch) -> AppendedBatch | None:
        """The earlier append that `batch` is a retry of: same epoch, same first and last sequence."""
        state = self._states.get(batch.producer_id)
        if state is None or state.epoch != batch.producer_epoch:
            return None
        last_sequence = batch.last_sequence
        for appended in state.batches:
            if appended.first_sequence == batch.base_sequence and appended.last_sequence == last_sequence:
                return appended
        return None

    def check(self, batch: RecordBatch) -> None:
        """Raise if a client's batch does not follow what was appended before (rules 31 to 33).

        `InvalidProducerEpoch` for an epoch that is over, `OutOfOrderSequenceNumber` for a gap.  A producer
        that is not known may start with any sequence.
        """
        state = self._states.get(batch.producer_id)
        if state is None or state.epoch == NO_EPOCH:
            return
        who = f"producer {batch.producer_id} with epoch {batch.producer_epoch}"
        if batch.producer_epoch < state.epoch:
            raise InvalidProducerEpoch(f"{who} was replaced by epoch {state.epoch}")
        if batch.producer_epoch > state.epoch:
            if batch.base_sequence != 0:
                raise OutOfOrderSequenceNumber(
                    f"{who} starts at sequence {batch.base_sequence}; a new epoch starts at 0"
                )
            return
        expected = next_sequence(state.last_sequence)
        if state.batches and batch.base_sequence != expected:
            raise OutOfOrderSequenceNumber(
                f"{who} sent sequence {batch.base_sequence}, expected {expected}: a batch is missing"
            )

    def record(self, batch: RecordBatch) -> None:
        """Remember an appended batch, from a client or from the leader."""
        if not batch.has_producer_id:
            return
        state = self._states.get(batch.producer_id)
        if state is None:
            state = self._states[batch.producer_id] = ProducerState(batch.producer_id)
        if batch.producer_epoch != state.epoch:
            state.epoch = batch.producer_epoch
            state.batches.clear()
        state.last_timestamp = max(state.last_timestamp, batch.max_timestamp)
        if not batch.is_control:
            state.batches.append(
                AppendedBatch(
                    batch.base_sequence,
                    batch.last_sequence,
                    batch.base_offset,
                    batch.last_offset,
                    batch.max_timestamp,
                )
            )

    def rebuild(self, batches: Iterable[RecordBatch]) -> None:
        """Start again from what the log holds."""
        self._states.clear()
        for batch in batches:
            self.record(batch)

    def expire(self, before_ms: int) -> int:
        """Forget producers whose last batch is older than that (producer.id.expiration.ms); how many."""
        old = [state.producer_id for state in self._states.values() if state.last_timestamp < before_ms]
        for producer_id in old:
            del self._states[producer_id]
        return len(old)


def next_sequence(sequence: int) -> int:
    """The sequence after `sequence`: 0 follows 2**31 - 1."""
    return 0 if sequence == MAX_SEQUENCE else sequence + 1
