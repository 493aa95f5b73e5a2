"""DescribeTransactions and ListTransactions (KIP-664, KIP-994, KIP-1152): read-only."""

from __future__ import annotations

from collections.abc import Collection

from pykafka2.broker.base.patterns import Pattern
from pykafka2.broker.coordinators.refusals import REFUSAL
from pykafka2.broker.coordinators.transactions.state import Transaction, TransactionState
from pykafka2.errors import InvalidRequest, TransactionalIdNotFound
from pykafka2.protocol.messages.transaction_admin import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsResponseTransactionState,
    ListTransactionsRequest,
    ListTransactionsResponse,
    ListTransactionsResponseTransactionState,
    TopicData,
)


def describe(
    request: DescribeTransactionsRequest, transactions: dict[str, Transaction]
) -> DescribeTransactionsResponse:
    """Return the state of each requested transactional id in this shard."""
    return DescribeTransactionsResponse(
        transaction_states=[_described(name, transactions) for name in request.transactional_ids]
    )


def _described(
    name: str, transactions: dict[str, Transaction]
) -> DescribeTransactionsResponseTransactionState:
    transaction = transactions.get(name)
    if transaction is None:
        code = TransactionalIdNotFound.code if name else InvalidRequest.code
        return REFUSAL.entry(DescribeTransactionsResponseTransactionState, name, 0, code)
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(partition)
    return DescribeTransactionsResponseTransactionState(
        transactional_id=name,
        transaction_state=transaction.state.value,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.started_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        topics=[TopicData(topic=topic, partitions=ids) for topic, ids in topics.items()],
    )


def list_transactions(
    request: ListTransactionsRequest, transactions: Collection[Transaction], now_ms: int
) -> ListTransactionsResponse:
    """Return the transactions that match all filters but the pattern; an empty filter matches all.

    An unknown state is listed in the response and matches nothing. The duration is that of the transaction so
    far, in milliseconds.
    """
    names = {state.value for state in TransactionState}
    states, producers = set(request.state_filters), set(request.producer_id_filters)
    found = [
        transaction
        for transaction in transactions
        if (not producers or transaction.producer_id in producers)
        and (not states or transaction.state.value in states)
        and (request.duration_filter < 0 or now_ms - transaction.started_ms > request.duration_filter)
    ]
    return ListTransactionsResponse(
        unknown_state_filters=sorted(states - names),
        transaction_states=[
            ListTransactionsResponseTransactionState(
                transactional_id=transaction.id,
                producer_id=transaction.producer_id,
                transaction_state=transaction.state.value,
            )
            for transaction in found
        ],
    )


def matching_ids(listed: ListTransactionsResponse, pattern: Pattern) -> ListTransactionsResponse:
    """Return a response with the transactions whose id matches; the pattern's steps are those of all shards.

    Raises:
        InvalidRegularExpression: the pattern takes too many steps.
    """
    return ListTransactionsResponse(
        error_code=listed.error_code,
        unknown_state_filters=listed.unknown_state_filters,
        transaction_states=[
            state for state in listed.transaction_states if pattern.fullmatch(state.transactional_id)
        ],
    )
