"""DescribeProducers: a partition leader's producer states, including transactions (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.broker.base.image import check_topic_name
from pykafka2.errors import BrokerError, error_of
from pykafka2.protocol.messages.transaction_admin import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services


def describe_producers(services: Services, request: DescribeProducersRequest) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[_described(services, topic.name, index) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def _described(services: Services, topic: str, index: int) -> PartitionResponse:
    try:
        check_topic_name(topic)
        producers = services.replicas.replica_of((topic, index)).log.producers
    except BrokerError as error:
        return _failed(index, error.code or 0, None)
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=_or_none(
                    producers.transactions.first_offset_of(producer.producer_id)
                ),
            )
            for producer in producers
        ],
    )


def _or_none(offset: int | None) -> int:
    return -1 if offset is None else offset


def _failed(index: int, code: int, message: str | None) -> PartitionResponse:
    return PartitionResponse(
        partition_index=index, error_code=code, error_message=message, active_producers=[]
    )


def refused(request: DescribeProducersRequest, code: int) -> DescribeProducersResponse:
    message = str(error_of(code))
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[_failed(index, code, message) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )
