"""DescribeTopicPartitions: partitions of many topics, in pages (KIP-966).

Topics are sorted by name; the cursor of a response is the first partition of the next page. Eligible leader
replicas are always empty, because they are not implemented (docs/fidelity.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.broker.base.image import (
    INTERNAL_TOPICS,
    NO_LEADER,
    ClusterImage,
    PartitionImage,
    check_topic_name,
)
from pykafka2.broker.handlers.metadata import ALL_TOPIC_OPERATIONS
from pykafka2.errors import (
    BrokerError,
    InvalidRequest,
    InvalidTopicException,
    LeaderNotAvailable,
    UnknownTopicOrPartition,
)
from pykafka2.protocol.messages.metadata import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from pykafka2.protocol.primitives import ZERO_UUID

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext


def handle(
    services: Services, context: RequestContext, request: DescribeTopicPartitionsRequest, now: float
) -> DescribeTopicPartitionsResponse:
    image = services.image
    names = sorted({topic.name for topic in request.topics} or image.topics)
    first = 0
    cursor = request.cursor
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
        is_requested = not request.topics or cursor.topic_name in names
        if not is_requested or cursor.partition_index < 0:
            return refuse(request, InvalidRequest.code or 0)
        first = cursor.partition_index if names[:1] == [cursor.topic_name] else 0
    left = max(
        1, min(request.response_partition_limit, services.config.int("max.request.partition.size.limit"))
    )
    response = DescribeTopicPartitionsResponse(topics=[])
    for name in names:
        topic = image.topics.get(name)
        if topic is None:
            response.topics.append(_unknown(name))
            continue
        if left == 0:
            response.next_cursor = DescribeTopicPartitionsResponseCursor(topic_name=name, partition_index=0)
            break
        end = min(first + left, len(topic.partitions))
        response.topics.append(
            DescribeTopicPartitionsResponseTopic(
                name=name,
                topic_id=topic.id,
                is_internal=topic.is_internal,
                partitions=[
                    _partition(image, number, topic.partitions[number]) for number in range(first, end)
                ],
                topic_authorized_operations=ALL_TOPIC_OPERATIONS,
            )
        )
        if end < len(topic.partitions):
            response.next_cursor = DescribeTopicPartitionsResponseCursor(topic_name=name, partition_index=end)
            break
        left -= max(0, end - first)
        first = 0
    return response


def _partition(
    image: ClusterImage, number: int, partition: PartitionImage
) -> DescribeTopicPartitionsResponsePartition:
    has_leader = partition.leader != NO_LEADER and image.is_alive(partition.leader)
    return DescribeTopicPartitionsResponsePartition(
        error_code=0 if has_leader else LeaderNotAvailable.code or 0,
        partition_index=number,
        leader_id=partition.leader if has_leader else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=[
            replica for replica in partition.replicas if not image.is_online(partition, replica)
        ],
    )


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    error: type[BrokerError] = UnknownTopicOrPartition
    try:
        check_topic_name(name)
    except InvalidTopicException:
        error = InvalidTopicException
    return DescribeTopicPartitionsResponseTopic(
        error_code=error.code or 0,
        name=name,
        topic_id=ZERO_UUID,
        is_internal=name in INTERNAL_TOPICS,
        partitions=[],
        topic_authorized_operations=ALL_TOPIC_OPERATIONS,
    )


def refuse(request: DescribeTopicPartitionsRequest, code: int) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(
                error_code=code, name=topic.name, topic_id=ZERO_UUID, partitions=[]
            )
            for topic in request.topics
        ]
    )
