"""AssignReplicasToDirs: a broker reports the log directories of its replicas to the controller (KIP-858)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.broker.controller.control.brokers import check_epoch
from pykafka2.broker.handlers.registry import handles, refuses
from pykafka2.protocol.messages.broker_lifecycle import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    AssignReplicasToDirsResponseDirectoryData,
    AssignReplicasToDirsResponsePartitionData,
    AssignReplicasToDirsResponseTopicData,
)

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext


@handles(AssignReplicasToDirsRequest, 0, 0, by_controller=True, between_brokers=True)
def handle(
    services: Services, context: RequestContext, request: AssignReplicasToDirsRequest, now: float
) -> AssignReplicasToDirsResponse:
    controller = services.controller
    check_epoch(controller, request.broker_id, request.broker_epoch)
    refusals = controller.assign_directories(
        request.broker_id,
        [
            (topic.topic_id, partition.partition_index, directory.id)
            for directory in request.directories
            for topic in directory.topics
            for partition in topic.partitions
        ],
    )
    codes = iter([0 if refusal is None else refusal.code or -1 for refusal in refusals])
    return AssignReplicasToDirsResponse(
        directories=[
            AssignReplicasToDirsResponseDirectoryData(
                id=directory.id,
                topics=[
                    AssignReplicasToDirsResponseTopicData(
                        topic_id=topic.topic_id,
                        partitions=[
                            AssignReplicasToDirsResponsePartitionData(
                                partition_index=partition.partition_index, error_code=next(codes)
                            )
                            for partition in topic.partitions
                        ],
                    )
                    for topic in directory.topics
                ],
            )
            for directory in request.directories
        ]
    )


@refuses(AssignReplicasToDirsRequest)
def refuse(request: AssignReplicasToDirsRequest, code: int) -> AssignReplicasToDirsResponse:
    return AssignReplicasToDirsResponse(error_code=code, directories=[])
