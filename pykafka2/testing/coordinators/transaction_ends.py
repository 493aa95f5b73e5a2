"""May this EndTxn end the transaction?  Two tables: before KIP-890 and with it.

With KIP-890 (transaction.version 2) each end bumps the epoch, so a request that comes again is told from the
next one by its epoch: one below the current.  As in Kafka 4.3.1; newer ones answer PRODUCER_FENCED where a
commit meets the coordinator's own abort (KAFKA-20785).  Pure functions; the caller has found the transaction.
"""

from __future__ import annotations

from pykafka2.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTxnState,
    ProducerFenced,
)
from pykafka2.testing.coordinators.transaction_state import MAX_EPOCH, Transaction, TransactionState


def end_decision(
    transaction: Transaction, producer_id: int, epoch: int, commits: bool, bumps_epoch: bool
) -> bool:
    """True to go on and end it, False if it has ended just so before.

    Raises:
        InvalidProducerIdMapping, ProducerFenced: it is not this producer's.
        ConcurrentTransactions: it is being ended; ask again.
        InvalidTxnState: there is nothing to end, or it ended the other way.
    """
    if bumps_epoch:
        return _with_bumps(transaction, producer_id, epoch, commits)
    if transaction.producer_id != producer_id:
        raise InvalidProducerIdMapping
    if transaction.epoch != epoch:
        raise ProducerFenced
    if transaction.is_ending:
        raise ConcurrentTransactions
    if transaction.state is TransactionState.ONGOING:
        return True
    return _has_ended(transaction, commits)


def _has_ended(transaction: Transaction, commits: bool) -> bool:
    """False, since nothing is left to do, if it is complete with this result."""
    done = TransactionState.COMPLETE_COMMIT if commits else TransactionState.COMPLETE_ABORT
    if transaction.state is not done:
        raise InvalidTxnState(f"{transaction.id} is in {transaction.state.title}")
    return False


def _with_bumps(transaction: Transaction, producer_id: int, epoch: int, commits: bool) -> bool:
    after_rotation = (
        transaction.previous_producer_id == producer_id and epoch == MAX_EPOCH - 1 and transaction.epoch == 0
    )
    if transaction.producer_id != producer_id and not after_rotation:
        raise InvalidProducerIdMapping
    if transaction.is_ending:
        # Before the epoch is looked at: the end after this one has it already (KAFKA-18464).
        raise ConcurrentTransactions
    is_open = transaction.state in (TransactionState.EMPTY, TransactionState.ONGOING)
    is_retry = not is_open and (after_rotation or transaction.epoch == epoch + 1)
    if not is_retry and transaction.epoch != epoch:
        raise ProducerFenced
    if transaction.state is TransactionState.ONGOING:
        return True
    if is_retry:
        return _has_ended(transaction, commits)
    # Nothing is open: a commit makes no sense, an abort bumps the epoch all the same.
    if commits:
        raise InvalidTxnState(f"{transaction.id} is in {transaction.state.title}")
    return True
