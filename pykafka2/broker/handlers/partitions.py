"""ElectLeaders and partition reassignments: other leaders, other replicas.

ElectLeaders elects preferred replicas, or unclean leaders of offline partitions (KIP-460). A reassignment
moves a partition to other brokers (KIP-455).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pykafka2.broker.controller.partition_changes import changed, ongoing, reassigned, requested_election
from pykafka2.broker.handlers.api import CONTROLLER, api
from pykafka2.broker.handlers.authorization import on_cluster
from pykafka2.broker.server.responses import Refusal
from pykafka2.errors import BrokerError, ElectionNotNeeded, InvalidRequest, NoReassignmentInProgress
from pykafka2.protocol.acl_terms import Operation
from pykafka2.protocol.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    PartitionResult,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
    ReplicaElectionResult,
)
from pykafka2.protocol.struct import MetadataRecord

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext


PREFERRED, UNCLEAN = 0, 1
IN_ENTRIES_TOO: Final = Refusal(entries=True)


@api(ElectLeadersRequest, 0, 2, at=CONTROLLER, access=on_cluster(Operation.ALTER), refusal=IN_ENTRIES_TOO)
def handle_elect_leaders(
    services: Services, context: RequestContext, request: ElectLeadersRequest, now: float
) -> ElectLeadersResponse:
    kind = request.election_type
    if kind not in (PREFERRED, UNCLEAN):
        return IN_ENTRIES_TOO(request, context.version, InvalidRequest(f"Unknown election type {kind}"))
    controller = services.controller
    topics = controller.state.topics
    requested: list[tuple[str, list[int]]]
    if request.topic_partitions is None:
        requested = [(name, list(range(len(topic.partitions)))) for name, topic in topics.items()]
    else:
        requested = [(topic.topic, list(topic.partitions)) for topic in request.topic_partitions]
    records: list[MetadataRecord] = []
    results = []
    for name, numbers in requested:
        result = ReplicaElectionResult(topic=name, partition_result=[])
        for number in numbers:
            try:
                elected = requested_election(
                    topics.get(name), name, number, controller.image, unclean=kind == UNCLEAN
                )
            except BrokerError as error:
                # A request for all partitions ignores those that need no election.
                if request.topic_partitions is not None or not isinstance(error, ElectionNotNeeded):
                    result.partition_result.append(_not_elected(number, error))
                continue
            records.append(changed(controller.state, topics[name], number, elected))
            result.partition_result.append(PartitionResult(partition_id=number, error_message=None))
        results.append(result)
    controller.write(records)
    return ElectLeadersResponse(replica_election_results=results)


def _not_elected(number: int, error: BrokerError) -> PartitionResult:
    return PartitionResult(partition_id=number, error_code=error.code or 0, error_message=str(error))


@api(
    AlterPartitionReassignmentsRequest,
    0,
    1,
    at=CONTROLLER,
    access=on_cluster(Operation.ALTER),
    refusal=IN_ENTRIES_TOO,
)
def handle_alter_partition_reassignments(
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


@api(ListPartitionReassignmentsRequest, 0, 0, at=CONTROLLER, access=on_cluster(Operation.DESCRIBE))
def handle_list_partition_reassignments(
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
