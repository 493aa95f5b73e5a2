"""What InitProducerId leads to: a producer begins, goes on, or fences another (KIP-360).

Pure functions over `Transaction`, in Kafka 4.3's order of checks.  Difference from Apache: the retry of an
epoch bump that used up the epochs is answered like any retry, where Apache fails with UNKNOWN_SERVER_ERROR.
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
    """The producer id and epoch that a producer says it has."""

    producer_id: int
    epoch: int


def check_request(request: InitProducerIdRequest, max_timeout: float) -> Expected | None:
    """What a producer expects to have; None for one that begins.

    Raises:
        BrokerError: INVALID_REQUEST, INVALID_TRANSACTION_TIMEOUT; and what only two-phase commit knows
            (KIP-939) as a broker answers that has it switched off.
    """
    if not request.transactional_id:
        raise InvalidRequest("a transactional id is not empty")
    has_id, has_epoch = request.producer_id != NO_PRODUCER_ID, request.producer_epoch != NO_EPOCH
    if has_id != has_epoch:
        raise InvalidRequest("a producer names its id and its epoch, or neither")
    if request.enable2_pc:
        raise TransactionalIdAuthorizationFailed("transaction.two.phase.commit.enable is false")
    if request.keep_prepared_txn:
        raise UnsupportedVersion("prepared transactions are not kept")
    if not 0 < request.transaction_timeout_ms <= max_timeout * 1000:
        raise InvalidTransactionTimeout(
            f"transaction.timeout.ms is {request.transaction_timeout_ms}, "
            f"transaction.max.timeout.ms {max_timeout * 1000:.0f}"
        )
    return Expected(request.producer_id, request.producer_epoch) if has_id else None


def new_transaction(
    transactional_id: str, timeout_ms: int, new_producer_id: Callable[[], int], now_ms: int
) -> Transaction:
    """A transactional id that nobody used before; its first move gives it epoch 0."""
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
    """The draft to append.  In Empty the producer has what it says; in PrepareAbort an open transaction is
    being aborted and fenced first, and the producer is to ask again (CONCURRENT_TRANSACTIONS).

    Raises:
        BrokerError: CONCURRENT_TRANSACTIONS while markers are on their way, PRODUCER_FENCED, or what
            `new_producer_id` raises.
    """
    if transaction.state.is_ending:
        raise ConcurrentTransactions(
            f"{transaction.id} is in {transaction.state.value}; ask again when it is over"
        )
    if expected is not None and not _may_go_on(transaction, expected):
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
    """The draft that aborts what is open with an epoch that its producer does not have.

    The coordinator's own aborts speak the cluster's transaction.version.
    """
    needs_id = transaction_version >= EPOCH_BUMP and transaction.is_epoch_exhausted
    next_id = new_producer_id() if needs_id else NO_PRODUCER_ID
    return transaction.aborted_and_fenced(transaction_version, next_id, now_ms)


def _may_go_on(transaction: Transaction, expected: Expected) -> bool:
    """A new transactional id takes any; else the id is the present one, or the one before if the producer
    never learnt that its epochs were used up.
    """
    return (
        transaction.epoch == NO_EPOCH
        or expected.producer_id == transaction.producer_id
        or (expected.producer_id == transaction.previous_producer_id and is_exhausted(expected.epoch))
    )
