"""ElectLeaders: elects preferred replicas, or unclean leaders of offline partitions (KIP-460)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.broker.controller.metadata.records import PartitionSet, Record
from pykafka2.broker.controller.partition_changes import requested_election
from pykafka2.errors import BrokerError, ElectionNotNeeded, InvalidRequest, error_of
from pykafka2.protocol.messages.reassignments import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext

PREFERRED, UNCLEAN = 0, 1
FIRST_VERSION_WITH_AN_ERROR = 1


def handle(
    services: Services, context: RequestContext, request: ElectLeadersRequest, now: float
) -> ElectLeadersResponse:
    kind = request.election_type
    if kind not in (PREFERRED, UNCLEAN):
        return _refusal(request, context.version, InvalidRequest(f"Unknown election type {kind}"))
    controller = services.controller
    topics = controller.state.topics
    requested: list[tuple[str, list[int]]]
    if request.topic_partitions is None:
        requested = [(name, list(range(len(topic.partitions)))) for name, topic in topics.items()]
    else:
        requested = [(topic.topic, list(topic.partitions)) for topic in request.topic_partitions]
    records: list[Record] = []
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
                    result.partition_result.append(_failed(number, error))
                continue
            records.append(PartitionSet(name, number, elected))
            result.partition_result.append(PartitionResult(partition_id=number, error_message=None))
        results.append(result)
    controller.write(records)
    return ElectLeadersResponse(replica_election_results=results)


def _failed(number: int, error: BrokerError) -> PartitionResult:
    return PartitionResult(partition_id=number, error_code=error.code or 0, error_message=str(error))


def _refusal(request: ElectLeadersRequest, version: int, error: BrokerError) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=error.code or 0 if version >= FIRST_VERSION_WITH_AN_ERROR else 0,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic, partition_result=[_failed(number, error) for number in topic.partitions]
            )
            for topic in request.topic_partitions or []
        ],
    )


def refuse(request: ElectLeadersRequest, version: int, code: int) -> ElectLeadersResponse:
    return _refusal(request, version, error_of(code))
