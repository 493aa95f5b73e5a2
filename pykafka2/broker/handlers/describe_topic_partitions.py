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
from pykafka2.broker.handlers.api import api
from pykafka2.broker.handlers.authorization import Checked, Verdict, code_of
from pykafka2.broker.handlers.metadata import ALL_TOPIC_OPERATIONS, set_topic_operations
from pykafka2.broker.server.responses import REFUSAL
from pykafka2.errors import (
    BrokerError,
    InvalidRequest,
    InvalidTopicException,
    LeaderNotAvailable,
    UnknownTopicOrPartition,
)
from pykafka2.protocol.acl_terms import Operation, ResourceType
from pykafka2.protocol.messages.metadata import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from pykafka2.protocol.primitives import ZERO_UUID

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext


def check_topic_partitions(checked: Checked) -> Verdict:
    """Replace the requested topics by those that the client can describe.

    The handler uses the named topics, or all if none is named.
    """
    access, named = checked.access, {topic.name: topic for topic in checked.request.topics}
    names = list(named) or list(checked.image.topics)
    kept = [
        name for name in names if access.may(Operation.DESCRIBE, ResourceType.TOPIC, name, notes=bool(named))
    ]
    cursor = checked.request.cursor
    if cursor is not None and not named and cursor.topic_name not in kept:
        # For all topics, the next page starts at the next topic; the handler takes the names for requested
        # ones.
        kept = [name for name in kept if name > cursor.topic_name]
        cursor = None
    if len(kept) < len(names):
        described = set(kept)
        code = code_of(ResourceType.TOPIC)
        refused = [
            REFUSAL.entry(DescribeTopicPartitionsResponseTopic, name, checked.version, code)
            for name in (names if named else ())
            if name not in described
        ]
        if not kept:
            return DescribeTopicPartitionsResponse(topics=refused)
        checked.replace(topics=[TopicRequest(name=name) for name in kept], cursor=cursor)
        checked.amend(lambda response: response.topics.extend(refused))
    checked.amend(lambda response: set_topic_operations(access, response))
    return None


@api(DescribeTopicPartitionsRequest, 0, 0, access=check_topic_partitions)
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
            raise InvalidRequest("the cursor is no partition of the requested topics")
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
        eligible_leader_replicas=[*partition.elr],
        last_known_elr=[*partition.last_known_elr],
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
