"""Error responses of a transaction coordinator for each type of request. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pykafka2.protocol.messages import transaction, transaction_admin
from pykafka2.protocol.struct import Response

FIRST_ADD_PARTITIONS_WITH_TRANSACTIONS: Final = 4


def _init(request: transaction.InitProducerIdRequest, version: int, code: int) -> Response:
    return transaction.InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)


def _add_partitions(request: transaction.AddPartitionsToTxnRequest, version: int, code: int) -> Response:
    if version >= FIRST_ADD_PARTITIONS_WITH_TRANSACTIONS:
        return transaction.AddPartitionsToTxnResponse(
            results_by_transaction=[
                transaction.AddPartitionsToTxnResult(
                    transactional_id=entry.transactional_id,
                    topic_results=partition_results(entry.topics, code),
                )
                for entry in request.transactions
            ]
        )
    return transaction.AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=partition_results(request.v3_and_below_topics, code)
    )


def partition_results(
    topics: list[transaction.AddPartitionsToTxnTopic], code: int
) -> list[transaction.AddPartitionsToTxnTopicResult]:
    """Return one code for all partitions of an AddPartitionsToTxn."""
    return [
        transaction.AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                transaction.AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=code
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


def _add_offsets(request: transaction.AddOffsetsToTxnRequest, version: int, code: int) -> Response:
    return transaction.AddOffsetsToTxnResponse(error_code=code)


def _end(request: transaction.EndTxnRequest, version: int, code: int) -> Response:
    return transaction.EndTxnResponse(error_code=code)


def _describe_transactions(
    request: transaction_admin.DescribeTransactionsRequest, version: int, code: int
) -> Response:
    return transaction_admin.DescribeTransactionsResponse(
        transaction_states=[described_transaction_error(name, code) for name in request.transactional_ids]
    )


def described_transaction_error(
    transactional_id: str, code: int
) -> transaction_admin.DescribeTransactionsResponseTransactionState:
    """Return a transaction with an error for a DescribeTransactions response."""
    return transaction_admin.DescribeTransactionsResponseTransactionState(
        error_code=code,
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=0,
        producer_id=0,
        producer_epoch=0,
        topics=[],
    )


def _list_transactions(
    request: transaction_admin.ListTransactionsRequest, version: int, code: int
) -> Response:
    return transaction_admin.ListTransactionsResponse(
        error_code=code, unknown_state_filters=[], transaction_states=[]
    )


REFUSERS: Final[dict[type[Any], Callable[[Any, int, int], Response]]] = {
    transaction.InitProducerIdRequest: _init,
    transaction.AddPartitionsToTxnRequest: _add_partitions,
    transaction.AddOffsetsToTxnRequest: _add_offsets,
    transaction.EndTxnRequest: _end,
    transaction_admin.DescribeTransactionsRequest: _describe_transactions,
    transaction_admin.ListTransactionsRequest: _list_transactions,
}
"""For each type of request, the function (request, version, error code) that builds its error response."""
