"""Results of InitProducerId: a producer starts, continues, or fences another one (KIP-360).

Pure functions over `Transaction`, in Kafka 4.3's order of checks. Difference from Apache: the retry of an
epoch bump that exhausted the epochs succeeds like any retry, while Apache fails with UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from pykafka2.broker.coordinators.transactions.state import (
    EPOCH_BUMP,
    NO_EPOCH,
    NO_PRODUCER_ID,
    Transaction,
    TransactionState,
    is_exhausted,
)
from pykafka2.errors import (
    ConcurrentTransactions,
    InvalidRequest,
    InvalidTransactionTimeout,
    ProducerFenced,
    TransactionalIdAuthorizationFailed,
    UnsupportedVersion,
)
from pykafka2.protocol.messages.transaction import InitProducerIdRequest


@attrs.define(frozen=True)
class Expected:
    """The producer id and epoch in the producer's request."""

    producer_id: int
    epoch: int


def check_request(request: InitProducerIdRequest, max_timeout: float) -> Expected | None:
    """Return the producer's id and epoch; None if it starts.

    Raises:
        BrokerError: INVALID_REQUEST, INVALID_TRANSACTION_TIMEOUT; for two-phase commit (KIP-939) the error of
    a
            broker that has it disabled.
    """
    if not request.transactional_id:
        raise InvalidRequest("the transactional id must not be empty")
    has_id, has_epoch = request.producer_id != NO_PRODUCER_ID, request.producer_epoch != NO_EPOCH
    if has_id != has_epoch:
        raise InvalidRequest("the request must have both producer id and epoch, or neither")
    if request.enable2_pc:
        raise TransactionalIdAuthorizationFailed("transaction.two.phase.commit.enable is false")
    if request.keep_prepared_txn:
        raise UnsupportedVersion("prepared transactions are not supported")
    if not 0 < request.transaction_timeout_ms <= max_timeout * 1000:
        raise InvalidTransactionTimeout(
            f"transaction.timeout.ms is {request.transaction_timeout_ms}, but "
            f"transaction.max.timeout.ms is {max_timeout * 1000:.0f}"
        )
    return Expected(request.producer_id, request.producer_epoch) if has_id else None


def new_transaction(
    transactional_id: str, timeout_ms: int, new_producer_id: Callable[[], int], now_ms: int
) -> Transaction:
    """Return the state of a new transactional id; its first transition assigns epoch 0."""
    return Transaction(
        id=transactional_id,
        producer_id=new_producer_id(),
        timeout_ms=timeout_ms,
        updated_ms=now_ms,
    )


def init_producer(
    transaction: Transaction,
    timeout_ms: int,
    expected: Expected | None,
    new_producer_id: Callable[[], int],
    now_ms: int,
    transaction_version: int,
) -> Transaction:
    """Return the draft to append.

    In state Empty the producer has the draft's id and epoch. In PrepareAbort an open transaction is aborted
    and fenced first, and the producer must retry (CONCURRENT_TRANSACTIONS).

    Raises:
        BrokerError: CONCURRENT_TRANSACTIONS while markers are in flight, PRODUCER_FENCED, or what
            `new_producer_id` raises.
    """
    if transaction.state.is_ending:
        raise ConcurrentTransactions(
            f"{transaction.id} is in {transaction.state.value}; retry when it is complete"
        )
    if expected is not None and not _can_continue(transaction, expected):
        raise ProducerFenced(
            f"{transaction.id} belongs to producer {transaction.producer_id}, not {expected.producer_id}"
        )
    if transaction.state is TransactionState.ONGOING:
        return fence(transaction, new_producer_id, now_ms, transaction_version)
    if transaction.is_epoch_exhausted and (expected is None or expected.epoch == transaction.epoch):
        return transaction.with_new_id(
            new_producer_id(), timeout_ms, now_ms, keeps_last_epoch=expected is not None
        )
    return transaction.with_next_epoch(timeout_ms, None if expected is None else expected.epoch, now_ms)


def fence(
    transaction: Transaction, new_producer_id: Callable[[], int], now_ms: int, transaction_version: int
) -> Transaction:
    """Return the draft that aborts the open transaction with an epoch that its producer does not have.

    The coordinator's own aborts use the cluster's transaction.version.
    """
    needs_id = transaction_version >= EPOCH_BUMP and transaction.is_epoch_exhausted
    next_id = new_producer_id() if needs_id else NO_PRODUCER_ID
    return transaction.aborted_and_fenced(transaction_version, next_id, now_ms)


def _can_continue(transaction: Transaction, expected: Expected) -> bool:
    """Return whether the producer can continue: a new transactional id accepts any id.

    Otherwise it must be the current one, or the previous one if the producer does not know that its epochs
    are exhausted.
    """
    return (
        transaction.epoch == NO_EPOCH
        or expected.producer_id == transaction.producer_id
        or (expected.producer_id == transaction.previous_producer_id and is_exhausted(expected.epoch))
    )
