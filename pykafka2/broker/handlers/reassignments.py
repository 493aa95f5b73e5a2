"""AlterPartitionReassignments and ListPartitionReassignments: move partitions to other brokers (KIP-455)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.broker.controller.partition_changes import ongoing, reassigned
from pykafka2.errors import BrokerError, NoReassignmentInProgress, error_of
from pykafka2.protocol.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext


def handle(
    services: Services, context: RequestContext, request: AlterPartitionReassignmentsRequest, now: float
) -> AlterPartitionReassignmentsResponse:
    may_change = request.allow_replication_factor_change
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=may_change,
        error_message=None,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    _reassign(services, topic.name, partition, may_change=may_change)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _reassign(
    services: Services, topic: str, requested: ReassignablePartition, *, may_change: bool
) -> ReassignablePartitionResponse:
    number = requested.partition_index
    try:
        record = reassigned(
            services.controller.state, topic, number, requested.replicas, allow_factor_change=may_change
        )
        if record is not None:
            services.controller.write([record])
    except BrokerError as error:
        message = None if isinstance(error, NoReassignmentInProgress) else str(error)
        return ReassignablePartitionResponse(
            partition_index=number, error_code=error.code or 0, error_message=message
        )
    return ReassignablePartitionResponse(partition_index=number, error_message=None)


def refuse(request: AlterPartitionReassignmentsRequest, code: int) -> AlterPartitionReassignmentsResponse:
    message = str(error_of(code))
    return AlterPartitionReassignmentsResponse(
        error_code=code,
        error_message=message,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=partition.partition_index, error_code=code, error_message=message
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def handle_list(
    services: Services, context: RequestContext, request: ListPartitionReassignmentsRequest, now: float
) -> ListPartitionReassignmentsResponse:
    controller = services.controller
    requested = (
        [(name, None) for name in controller.state.topics]
        if request.topics is None
        else [(topic.name, topic.partition_indexes) for topic in request.topics]
    )
    reassignments: dict[str, OngoingTopicReassignment] = {}
    for name, number in ongoing(controller.state, requested):
        partition = controller.state.topics[name].partitions[number]
        topic = reassignments.setdefault(name, OngoingTopicReassignment(name=name, partitions=[]))
        topic.partitions.append(
            OngoingPartitionReassignment(
                partition_index=number,
                replicas=list(partition.replicas),
                adding_replicas=list(partition.adding),
                removing_replicas=list(partition.removing),
            )
        )
    return ListPartitionReassignmentsResponse(error_message=None, topics=list(reassignments.values()))


def refuse_list(request: ListPartitionReassignmentsRequest, code: int) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_code=code, error_message=str(error_of(code)), topics=[])
