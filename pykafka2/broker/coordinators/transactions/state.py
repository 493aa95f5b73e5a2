"""State of one transactional id, and its transitions.

Values only: a transition returns a draft, which becomes the state when its record is appended and replayed.
Names, numbers and transitions are those of Kafka 4.3 (TransactionState, TransactionMetadata); epochs follow
KIP-360 and, with transaction.version 2, KIP-890.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

import attrs

from pykafka2.errors import CorruptData, IllegalTransition, ProducerFenced
from pykafka2.protocol.messages.transaction_records import PartitionsSchema, TransactionLogValue

Partition = tuple[str, int]

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
MAX_EPOCH: Final = 32767

EPOCH_BUMP: Final = 2
"""The first transaction.version in which every end of a transaction assigns a new epoch (KIP-890)."""


class TransactionState(Enum):
    """The name in DescribeTransactions; `number` is the value in the log."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"

    @property
    def number(self) -> int:
        return STATES.index(self)

    @property
    def is_ending(self) -> bool:
        """Whether its markers are in flight."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)


STATES: Final = tuple(TransactionState)

_AFTER_THE_END: Final = frozenset(
    {
        TransactionState.EMPTY,
        TransactionState.ONGOING,
        TransactionState.PREPARE_ABORT,  # of no transaction, with transaction.version 2 only
        TransactionState.DEAD,
    }
)

LEGAL_MOVES: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    TransactionState.EMPTY: _AFTER_THE_END,
    TransactionState.ONGOING: frozenset(
        {
            TransactionState.ONGOING,
            TransactionState.PREPARE_COMMIT,
            TransactionState.PREPARE_ABORT,
            TransactionState.PREPARE_EPOCH_FENCE,
        }
    ),
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.COMPLETE_COMMIT}),
    TransactionState.PREPARE_ABORT: frozenset({TransactionState.COMPLETE_ABORT}),
    TransactionState.COMPLETE_COMMIT: _AFTER_THE_END,
    TransactionState.COMPLETE_ABORT: _AFTER_THE_END,
    TransactionState.DEAD: frozenset(),
    # Intermediate state of an abort that fences; never in the log.
    TransactionState.PREPARE_EPOCH_FENCE: frozenset({TransactionState.PREPARE_ABORT}),
}


def is_exhausted(epoch: int) -> bool:
    """Return whether the epochs are exhausted; the last epoch is reserved for fencing.

    See rule used-up-epochs-bring-a-new-producer-id.
    """
    return epoch >= MAX_EPOCH - 1


@attrs.define(frozen=True, kw_only=True)
class Transaction:
    """One transactional id. Times are in milliseconds since 1970."""

    id: str
    """The transactional id."""
    producer_id: int
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    """With transaction.version 2: the next producer id once the epochs of this one are exhausted."""
    epoch: int = NO_EPOCH
    last_epoch: int = NO_EPOCH
    """The epoch before a requested bump. Not in the log, so a new coordinator does not know it."""
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[Partition] = frozenset()
    started_ms: int = -1
    updated_ms: int
    client_version: int = 0
    """The transaction.version of the client's requests: 0 or 2."""

    @property
    def is_epoch_exhausted(self) -> bool:
        return is_exhausted(self.epoch)

    def moved_to(self, state: TransactionState, **changes: Any) -> Transaction:
        """Return the draft of a transition; raise `IllegalTransition` if it is not in the table."""
        if state not in LEGAL_MOVES[self.state]:
            raise IllegalTransition(self.state.value, state.value)
        return attrs.evolve(self, state=state, previous_producer_id=self.producer_id, **changes)

    # -- InitProducerId -----------------------------------------------------------------------------

    def with_next_epoch(self, timeout_ms: int, expected_epoch: int | None, now_ms: int) -> Transaction:
        """Start or continue a producer (KIP-360): increment the epoch, except for a retried bump.

        Raises:
            ProducerFenced: the producer's epoch is neither the current one nor the one before the bump.
        """
        epoch, last_epoch = self.epoch + 1, NO_EPOCH
        if expected_epoch is not None and self.epoch != NO_EPOCH:
            if expected_epoch == self.epoch:
                last_epoch = self.epoch
            elif expected_epoch == self.last_epoch:
                epoch, last_epoch = self.epoch, self.last_epoch
            else:
                raise ProducerFenced(f"{self.id}: epoch {expected_epoch} is fenced, {self.epoch} is current")
        return self._restarted(self.producer_id, epoch, last_epoch, timeout_ms, now_ms)

    def with_new_id(
        self, producer_id: int, timeout_ms: int, now_ms: int, *, keeps_last_epoch: bool
    ) -> Transaction:
        """Assign a new producer id because the epochs of the current one are exhausted."""
        last_epoch = self.epoch if keeps_last_epoch else NO_EPOCH
        return self._restarted(producer_id, 0, last_epoch, timeout_ms, now_ms)

    def _restarted(
        self, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int
    ) -> Transaction:
        return self.moved_to(
            TransactionState.EMPTY,
            producer_id=producer_id,
            epoch=epoch,
            last_epoch=last_epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            started_ms=-1,
            updated_ms=now_ms,
        )

    # -- in a transaction ---------------------------------------------------------------------------

    def with_partitions(self, added: frozenset[Partition], now_ms: int, client_version: int) -> Transaction:
        """Add partitions; the first ones start the transaction."""
        is_ongoing = self.state is TransactionState.ONGOING
        return self.moved_to(
            TransactionState.ONGOING,
            partitions=self.partitions | added,
            started_ms=self.started_ms if is_ongoing else now_ms,
            updated_ms=now_ms,
            client_version=client_version,
        )

    def ended(self, committed: bool, client_version: int, next_producer_id: int, now_ms: int) -> Transaction:
        """Decide the transaction: from here on it is going to be committed or aborted.

        With transaction.version 2 this increments the epoch.
        """
        epoch, last_epoch = self.epoch, self.last_epoch
        if client_version >= EPOCH_BUMP:
            epoch, last_epoch = min(self.epoch + 1, MAX_EPOCH), self.epoch
        has_begun = self.state in (TransactionState.ONGOING, TransactionState.PREPARE_EPOCH_FENCE)
        return self.moved_to(
            TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT,
            epoch=epoch,
            last_epoch=last_epoch,
            next_producer_id=next_producer_id,
            started_ms=self.started_ms if has_begun else now_ms,
            updated_ms=now_ms,
            client_version=client_version,
        )

    def aborted_and_fenced(self, transaction_version: int, next_producer_id: int, now_ms: int) -> Transaction:
        """Abort the open transaction with an epoch that the producer does not have.

        Increment the epoch once in every version: transaction.version 2 does so anyway (KAFKA-19367, fixed
        in 4.1).
        """
        if transaction_version >= EPOCH_BUMP:
            fence = self.moved_to(TransactionState.PREPARE_EPOCH_FENCE)
            return fence.ended(False, transaction_version, next_producer_id, now_ms)
        fence = self.moved_to(
            TransactionState.PREPARE_EPOCH_FENCE,
            epoch=min(self.epoch + 1, MAX_EPOCH),
            last_epoch=NO_EPOCH,
        )
        return fence.ended(False, 0, NO_PRODUCER_ID, now_ms)

    def completed(self, now_ms: int) -> Transaction:
        """Complete the transaction after all markers are written."""
        was_commit = self.state is TransactionState.PREPARE_COMMIT
        has_new_id = self.client_version >= EPOCH_BUMP and self.next_producer_id != NO_PRODUCER_ID
        return self.moved_to(
            TransactionState.COMPLETE_COMMIT if was_commit else TransactionState.COMPLETE_ABORT,
            producer_id=self.next_producer_id if has_new_id else self.producer_id,
            epoch=0 if has_new_id else self.epoch,
            next_producer_id=NO_PRODUCER_ID,
            partitions=frozenset(),
            updated_ms=now_ms,
        )

    # -- the log ------------------------------------------------------------------------------------

    def to_value(self, version: int) -> TransactionLogValue:
        """Return the value for the log; version 0 cannot hold the other ids and the client's version."""
        topics: dict[str, list[int]] = {}
        for topic, partition in sorted(self.partitions):
            topics.setdefault(topic, []).append(partition)
        value = TransactionLogValue(
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            transaction_timeout_ms=self.timeout_ms,
            transaction_status=self.state.number,
            transaction_partitions=None
            if self.state is TransactionState.EMPTY
            else [PartitionsSchema(topic=name, partition_ids=ids) for name, ids in topics.items()],
            transaction_last_update_timestamp_ms=self.updated_ms,
            transaction_start_timestamp_ms=self.started_ms,
        )
        if version >= 1:
            value.previous_producer_id = self.previous_producer_id
            value.next_producer_id = self.next_producer_id
            value.client_transaction_version = self.client_version
        return value

    @classmethod
    def from_value(cls, transactional_id: str, value: TransactionLogValue) -> Transaction:
        """Return the state for a value of the log. Raise CorruptData for an impossible state."""
        number = value.transaction_status
        if not 0 <= number < TransactionState.DEAD.number:
            raise CorruptData(
                f"transactional id {transactional_id!r} has the invalid state {number} in the log"
            )
        return cls(
            id=transactional_id,
            producer_id=value.producer_id,
            previous_producer_id=value.previous_producer_id,
            next_producer_id=value.next_producer_id,
            epoch=value.producer_epoch,
            timeout_ms=value.transaction_timeout_ms,
            state=STATES[number],
            partitions=frozenset(
                (schema.topic, partition)
                for schema in value.transaction_partitions or ()
                for partition in schema.partition_ids
            ),
            started_ms=value.transaction_start_timestamp_ms,
            updated_ms=value.transaction_last_update_timestamp_ms,
            client_version=value.client_transaction_version,
        )
