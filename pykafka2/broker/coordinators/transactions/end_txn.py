"""Results of EndTxn by state and decision, in Kafka 4.3's order of checks.

Pure functions over `Transaction`. While markers are in flight (Prepare...) every EndTxn that gets that far
gets CONCURRENT_TRANSACTIONS, even with the opposite decision: Kafka's tables say INVALID_TXN_STATE for that,
but its pending transition to Complete... is checked first.

With transaction.version 2, for Empty and Complete... states (retry: with the previous epoch):

    state           abort, retry  abort          commit, retry  commit
    Empty           FENCED        new epoch      FENCED         INVALID
    CompleteAbort   done already  new epoch      INVALID        INVALID
    CompleteCommit  INVALID       new epoch      done already   INVALID
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from pykafka2.broker.coordinators.transactions.state import (
    EPOCH_BUMP,
    MAX_EPOCH,
    NO_PRODUCER_ID,
    Transaction,
    TransactionState,
)
from pykafka2.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTxnState,
    ProducerFenced,
)

_COMPLETE: Final = {True: TransactionState.COMPLETE_COMMIT, False: TransactionState.COMPLETE_ABORT}


@attrs.define(frozen=True)
class EndOfTransaction:
    """An EndTxn: the producer, the decision, and the transaction.version of the request."""

    producer_id: int
    epoch: int
    committed: bool
    client_version: int


def end_transaction(
    transaction: Transaction, end: EndOfTransaction, new_producer_id: Callable[[], int], now_ms: int
) -> Transaction | None:
    """Return the draft to append; None if the transaction has ended that way already.

    Raises:
        BrokerError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, INVALID_TXN_STATE,
            or what `new_producer_id` raises.
    """
    if end.client_version >= EPOCH_BUMP:
        return _end_with_epoch_bump(transaction, end, new_producer_id, now_ms)
    return _end(transaction, end, now_ms)


def _end(transaction: Transaction, end: EndOfTransaction, now_ms: int) -> Transaction | None:
    if transaction.producer_id != end.producer_id:
        raise InvalidProducerIdMapping(_mapping(transaction, end))
    if transaction.epoch != end.epoch:
        raise ProducerFenced(_fenced(transaction, end))
    if transaction.state.is_ending:
        raise ConcurrentTransactions(_ending(transaction))
    if transaction.state is TransactionState.ONGOING:
        return transaction.ended(end.committed, 0, NO_PRODUCER_ID, now_ms)
    if transaction.state is _COMPLETE[end.committed]:
        return None
    raise InvalidTxnState(_invalid(transaction, end))


def _end_with_epoch_bump(
    transaction: Transaction, end: EndOfTransaction, new_producer_id: Callable[[], int], now_ms: int
) -> Transaction | None:
    is_overflow_retry = (
        transaction.previous_producer_id == end.producer_id
        and end.epoch == MAX_EPOCH - 1
        and transaction.epoch == 0
    )
    is_retry = transaction.epoch == end.epoch + 1 or is_overflow_retry
    if transaction.state.is_ending:
        raise ConcurrentTransactions(_ending(transaction))
    if transaction.producer_id != end.producer_id and not is_overflow_retry:
        raise InvalidProducerIdMapping(_mapping(transaction, end))
    is_complete = transaction.state in _COMPLETE.values()
    if transaction.epoch != end.epoch and not (is_complete and is_retry):
        raise ProducerFenced(_fenced(transaction, end))
    if is_complete and is_retry:
        if transaction.state is _COMPLETE[end.committed]:
            return None
        raise InvalidTxnState(_invalid(transaction, end))
    if end.committed and transaction.state is not TransactionState.ONGOING:
        raise InvalidTxnState(_invalid(transaction, end))
    next_id = new_producer_id() if transaction.is_epoch_exhausted else NO_PRODUCER_ID
    return transaction.ended(end.committed, end.client_version, next_id, now_ms)


def _mapping(transaction: Transaction, end: EndOfTransaction) -> str:
    return f"{transaction.id} belongs to producer {transaction.producer_id}, not {end.producer_id}"


def _fenced(transaction: Transaction, end: EndOfTransaction) -> str:
    return f"{transaction.id}: epoch {end.epoch} is fenced, {transaction.epoch} is current"


def _ending(transaction: Transaction) -> str:
    return f"{transaction.id} is in {transaction.state.value}; retry when it is complete"


def _invalid(transaction: Transaction, end: EndOfTransaction) -> str:
    decision = "committed" if end.committed else "aborted"
    return f"{transaction.id} is in {transaction.state.value} and cannot be {decision}"
