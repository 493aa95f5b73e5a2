"""OffsetForLeaderEpoch: the end of an epoch in the leader's log (KIP-320)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.broker.handlers.registry import handles, refuses
from pykafka2.errors import BrokerError
from pykafka2.protocol.messages.offsets import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext


@handles(OffsetForLeaderEpochRequest, 2, 4, oldest_version=0)
def handle(
    services: Services, context: RequestContext, request: OffsetForLeaderEpochRequest, now: float
) -> OffsetForLeaderEpochResponse:
    topics = []
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            try:
                replica = services.replicas.leader_of(
                    (topic.topic, partition.partition), partition.current_leader_epoch
                )
            except BrokerError as error:
                partitions.append(EpochEndOffset(error_code=error.code or 0, partition=partition.partition))
                continue
            end = replica.log.end_of_epoch(partition.leader_epoch)
            partitions.append(
                EpochEndOffset(
                    partition=partition.partition, leader_epoch=end.epoch, end_offset=end.end_offset
                )
            )
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions))
    return OffsetForLeaderEpochResponse(topics=topics)


@refuses(OffsetForLeaderEpochRequest)
def refuse(request: OffsetForLeaderEpochRequest, code: int) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    EpochEndOffset(error_code=code, partition=partition.partition)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
