"""DescribeQuorum: the controllers, described like a KRaft quorum (KIP-595).

Every broker can become the controller, so every broker is a voter. All of them share one metadata log in
memory, so every live broker has caught up (docs/fidelity.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.broker.base.image import METADATA_TOPIC
from pykafka2.errors import UnknownTopicOrPartition, error_of
from pykafka2.protocol.messages.quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Listener,
    Node,
    ReplicaState,
)

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext

FIRST_VERSION_WITH_NODES = 2
LISTENER = "CONTROLLER"


def handle(
    services: Services, context: RequestContext, request: DescribeQuorumRequest, now: float
) -> DescribeQuorumResponse:
    topics = [
        DescribeQuorumResponseTopicData(
            topic_name=topic.topic_name,
            partitions=[
                _quorum(services)
                if topic.topic_name == METADATA_TOPIC and partition.partition_index == 0
                else _unknown(partition.partition_index)
                for partition in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    has_result = any(not partition.error_code for topic in topics for partition in topic.partitions)
    nodes = []
    if context.version >= FIRST_VERSION_WITH_NODES and has_result:
        nodes = [
            Node(node_id=node.id, listeners=[Listener(name=LISTENER, host=node.host, port=node.port)])
            for node in services.controller.state.brokers.values()
        ]
    return DescribeQuorumResponse(topics=topics, nodes=nodes)


def _quorum(services: Services) -> DescribeQuorumResponsePartitionData:
    controller = services.controller
    end = controller.log.end_offset
    now_ms = services.clock.wall_ms()
    voters = [
        ReplicaState(
            replica_id=node.id,
            log_end_offset=end,
            last_fetch_timestamp=-1 if node.is_fenced else now_ms,
            last_caught_up_timestamp=-1 if node.is_fenced else now_ms,
        )
        for node in controller.state.brokers.values()
    ]
    return DescribeQuorumResponsePartitionData(
        partition_index=0,
        leader_id=controller.id,
        leader_epoch=controller.epoch,
        high_watermark=end,
        current_voters=voters,
        observers=[],
    )


def _unknown(number: int) -> DescribeQuorumResponsePartitionData:
    error = UnknownTopicOrPartition("This server does not host this topic-partition.")
    return DescribeQuorumResponsePartitionData(
        partition_index=number,
        error_code=error.code or 0,
        error_message=str(error),
        leader_id=0,
        leader_epoch=0,
        high_watermark=0,
        current_voters=[],
        observers=[],
    )


def refuse(request: DescribeQuorumRequest, code: int) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(error_code=code, error_message=str(error_of(code)), topics=[])
