"""The controllers, described like a KRaft quorum (KIP-595), and changes of their quorum.

Every broker can become the controller, so every broker is a voter. All of them share one metadata log in
memory, so every live broker has caught up (docs/fidelity.md). The quorum is static, as without the feature
kraft.version: it does not change while the cluster runs (KIP-853).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.broker.base.features import METADATA_VERSION
from pykafka2.broker.base.image import METADATA_TOPIC
from pykafka2.broker.handlers.api import CONTROLLER, api
from pykafka2.broker.handlers.authorization import on_cluster
from pykafka2.errors import (
    BrokerError,
    ControllerIdNotRegistered,
    InconsistentClusterId,
    InvalidRequest,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from pykafka2.protocol.acl_terms import Operation
from pykafka2.protocol.messages.cluster import (
    UnregisterControllerRequest,
    UnregisterControllerResponse,
)
from pykafka2.protocol.messages.quorum import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Listener,
    Node,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    ReplicaState,
)

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext


FIRST_VERSION_WITH_NODES = 2
FIRST_WITH_UNREGISTRATION = 33
"""The metadata.version from which on controllers can be unregistered."""
LISTENER = "CONTROLLER"
"""The controllers' listener, which a new voter must have."""


@api(DescribeQuorumRequest, 0, 2, at=CONTROLLER, access=on_cluster(Operation.DESCRIBE))
def handle_describe_quorum(
    services: Services, context: RequestContext, request: DescribeQuorumRequest, now: float
) -> DescribeQuorumResponse:
    topics = [
        DescribeQuorumResponseTopicData(
            topic_name=topic.topic_name,
            partitions=[
                _quorum(services)
                if topic.topic_name == METADATA_TOPIC and partition.partition_index == 0
                else _unknown_partition(partition.partition_index)
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


def _unknown_partition(number: int) -> DescribeQuorumResponsePartitionData:
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


@api(UnregisterControllerRequest, 0, 0, at=CONTROLLER, access=on_cluster(Operation.ALTER))
def handle_unregister_controller(
    services: Services, context: RequestContext, request: UnregisterControllerRequest, now: float
) -> UnregisterControllerResponse:
    """Accept the id of a known controller; it stays a voter, as it would register again (KIP-1331)."""
    controller, controller_id = services.controller, request.controller_id
    error: BrokerError | None = None
    if controller_id == controller.id:
        error = InvalidRequest("Controller cannot unregister itself while it is active.")
    elif controller.state.features.get(METADATA_VERSION, 0) < FIRST_WITH_UNREGISTRATION:
        error = UnsupportedVersion(
            "The current MetadataVersion is too old to support controller unregistration."
        )
    elif controller_id not in controller.state.brokers:
        error = ControllerIdNotRegistered(f"Controller ID {controller_id} is not currently registered.")
    if error is None:
        return UnregisterControllerResponse()
    return UnregisterControllerResponse(error_code=error.code or 0, error_message=str(error))


STATIC = "because the kraft.version feature is 0"


@api(AddRaftVoterRequest, 0, 1, at=CONTROLLER, access=on_cluster(Operation.ALTER))
def handle_add_raft_voter(
    services: Services, context: RequestContext, request: AddRaftVoterRequest, now: float
) -> AddRaftVoterResponse:
    try:
        _check_cluster_id(services, request.cluster_id)
        if all(listener.name != LISTENER for listener in request.listeners):
            endpoints = ", ".join(f"{one.name}={one.host}:{one.port}" for one in request.listeners)
            raise InvalidRequest(
                f"Add voter request didn't include the endpoint (Endpoints(endpoints={{{endpoints}}})) "
                f"for the default listener ListenerName({LISTENER})"
            )
        raise UnsupportedVersion(f"Cluster doesn't support adding voter {STATIC}")
    except BrokerError as error:
        return AddRaftVoterResponse(error_code=error.code or 0, error_message=str(error))


@api(RemoveRaftVoterRequest, 0, 0, at=CONTROLLER, access=on_cluster(Operation.ALTER))
def handle_remove_raft_voter(
    services: Services, context: RequestContext, request: RemoveRaftVoterRequest, now: float
) -> RemoveRaftVoterResponse:
    try:
        _check_cluster_id(services, request.cluster_id)
        raise UnsupportedVersion(f"Cluster doesn't support removing voter {STATIC}")
    except BrokerError as error:
        return RemoveRaftVoterResponse(error_code=error.code or 0, error_message=str(error))


def _check_cluster_id(services: Services, cluster_id: str | None) -> None:
    own = services.controller.image.cluster_id
    if cluster_id is not None and cluster_id != own:
        raise InconsistentClusterId(f'The given id "{cluster_id}" doesn\'t match the cluster id "{own}"')
