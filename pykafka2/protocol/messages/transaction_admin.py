"""Descriptions of producers and transactions (KIP-664).

DescribeProducers, DescribeTransactions, ListTransactions.
"""

from __future__ import annotations

from pykafka2.protocol.fields import Int16, Int32, Int64, String, field
from pykafka2.protocol.struct import Request, Response, Struct


class TopicRequest(Struct):
    name: String
    partition_indexes: list[Int32]


class DescribeProducersRequest(Request["DescribeProducersResponse"], api_key=61, versions="0", flexible="0+"):
    """Describe the active producers of partitions; sent to their leaders."""

    topics: list[TopicRequest]


class ProducerState(Struct):
    producer_id: Int64
    producer_epoch: Int32
    last_sequence: Int32 = field(default=-1)
    last_timestamp: Int64 = field(default=-1)
    coordinator_epoch: Int32
    current_txn_start_offset: Int64 = field(default=-1)


class PartitionResponse(Struct):
    partition_index: Int32
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None, nullable="0+")
    active_producers: list[ProducerState]


class TopicResponse(Struct):
    name: String
    partitions: list[PartitionResponse]


class DescribeProducersResponse(Response, api_key=61, versions="0", flexible="0+"):
    """Per partition: producers with epochs, sequences and open transactions."""

    throttle_time_ms: Int32 = field(default=0)
    topics: list[TopicResponse]


class DescribeTransactionsRequest(
    Request["DescribeTransactionsResponse"], api_key=65, versions="0", flexible="0+"
):
    """Describe the state of transactions; sent to their coordinator."""

    transactional_ids: list[String]


class TopicData(Struct):
    topic: String
    partitions: list[Int32]


class DescribeTransactionsResponseTransactionState(Struct):
    error_code: Int16 = field(default=0)
    transactional_id: String
    transaction_state: String
    transaction_timeout_ms: Int32
    transaction_start_time_ms: Int64
    producer_id: Int64
    producer_epoch: Int16
    topics: list[TopicData]


class DescribeTransactionsResponse(Response, api_key=65, versions="0", flexible="0+"):
    """Transactions with state, producer and partitions."""

    throttle_time_ms: Int32 = field(default=0)
    transaction_states: list[DescribeTransactionsResponseTransactionState]


class ListTransactionsRequest(Request["ListTransactionsResponse"], api_key=66, versions="0-2", flexible="0+"):
    """List the transactions that a broker coordinates, filtered."""

    state_filters: list[String]
    producer_id_filters: list[Int64]
    duration_filter: Int64 = field("1+", default=-1)
    transactional_id_pattern: String | None = field("2+", default=None, nullable="0+")


class ListTransactionsResponseTransactionState(Struct):
    transactional_id: String
    producer_id: Int64
    transaction_state: String


class ListTransactionsResponse(Response, api_key=66, versions="0-2", flexible="0+"):
    """Transactional ids with producer ids and states."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    unknown_state_filters: list[String]
    transaction_states: list[ListTransactionsResponseTransactionState]
