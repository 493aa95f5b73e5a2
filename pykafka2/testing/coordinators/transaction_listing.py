"""DescribeTransactions and ListTransactions of one shard (KIP-664).  Pure functions."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pykafka2.errors import InvalidRegularExpression, InvalidRequest, TransactionalIdNotFound
from pykafka2.protocol.messages import transaction_admin as wire
from pykafka2.testing.coordinators.refusals import described_transaction_error
from pykafka2.testing.coordinators.transaction_state import OTHER_STATES, Transaction, TransactionState


def describe_transactions(
    transactions: Mapping[str, Transaction], request: wire.DescribeTransactionsRequest
) -> wire.DescribeTransactionsResponse:
    described = []
    for transactional_id in request.transactional_ids:
        transaction = transactions.get(transactional_id)
        if not transactional_id:
            described.append(described_transaction_error(transactional_id, InvalidRequest.code))
        elif transaction is None:
            described.append(described_transaction_error(transactional_id, TransactionalIdNotFound.code))
        else:
            described.append(_described(transaction))
    return wire.DescribeTransactionsResponse(transaction_states=described)


def _described(transaction: Transaction) -> wire.DescribeTransactionsResponseTransactionState:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(partition)
    return wire.DescribeTransactionsResponseTransactionState(
        transactional_id=transaction.id,
        transaction_state=transaction.state.title,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.started_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        topics=[wire.TopicData(topic=topic, partitions=partitions) for topic, partitions in topics.items()],
    )


def list_transactions(
    transactions: Mapping[str, Transaction], request: wire.ListTransactionsRequest, now_ms: int
) -> wire.ListTransactionsResponse:
    """Those that pass every filter; names of states that do not exist are named back."""
    names = {state.title for state in TransactionState}
    wanted_states = set(request.state_filters)
    wanted_ids = set(request.producer_id_filters)
    pattern = None
    if request.transactional_id_pattern:
        try:
            pattern = re.compile(request.transactional_id_pattern)
        except re.error as error:
            raise InvalidRegularExpression(f"{request.transactional_id_pattern!r}: {error}") from None

    def passes(transaction: Transaction) -> bool:
        if wanted_states and transaction.state.title not in wanted_states:
            return False
        if wanted_ids and transaction.producer_id not in wanted_ids:
            return False
        if request.duration_filter >= 0 and now_ms - transaction.started_ms <= request.duration_filter:
            return False
        return pattern is None or pattern.fullmatch(transaction.id) is not None

    return wire.ListTransactionsResponse(
        unknown_state_filters=sorted(wanted_states - names - OTHER_STATES),
        transaction_states=[
            wire.ListTransactionsResponseTransactionState(
                transactional_id=transaction.id,
                producer_id=transaction.producer_id,
                transaction_state=transaction.state.title,
            )
            for _, transaction in sorted(transactions.items())
            if passes(transaction)
        ],
    )
