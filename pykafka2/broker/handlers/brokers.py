"""APIs between brokers and the active controller: registration, heartbeats, ISR changes, producer ids.

AlterPartition (KIP-497), AssignReplicasToDirs (KIP-858) and AllocateProducerIds (KIP-730) are sent by
brokers; UnregisterBroker by clients. A heartbeat counts when it arrives, however long the controller's queue
is, and becomes an event only if it changes something.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.broker.base.image import NO_LEADER, Endpoint, PartitionImage
from pykafka2.broker.controller import IsrChange
from pykafka2.broker.controller.control.brokers import Registration, check_epoch, process_heartbeat, register
from pykafka2.broker.handlers.api import CONTROLLER, api
from pykafka2.broker.handlers.authorization import BROKERS, on_cluster
from pykafka2.broker.server.responses import Refusal
from pykafka2.errors import BrokerError, InconsistentClusterId
from pykafka2.protocol.acl_terms import Operation
from pykafka2.protocol.messages.broker_lifecycle import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    AssignReplicasToDirsResponseDirectoryData,
    AssignReplicasToDirsResponsePartitionData,
    AssignReplicasToDirsResponseTopicData,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from pykafka2.protocol.messages.cluster import UnregisterBrokerRequest, UnregisterBrokerResponse

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext


@api(
    AllocateProducerIdsRequest,
    0,
    0,
    at=CONTROLLER,
    access=BROKERS,
    refusal=Refusal(blank={"producer_id_start": -1}),
)
def handle_allocate_producer_ids(
    services: Services, context: RequestContext, request: AllocateProducerIdsRequest, now: float
) -> AllocateProducerIdsResponse:
    check_epoch(services.controller, request.broker_id, request.broker_epoch)
    block = services.controller.allocate_producer_ids()
    return AllocateProducerIdsResponse(producer_id_start=block.start, producer_id_len=len(block))


@api(AlterPartitionRequest, 3, 3, at=CONTROLLER, access=BROKERS)
def handle_alter_partition(
    services: Services, context: RequestContext, request: AlterPartitionRequest, now: float
) -> AlterPartitionResponse:
    controller = services.controller
    check_epoch(controller, request.broker_id, request.broker_epoch)
    requested = [(topic.topic_id, partition) for topic in request.topics for partition in topic.partitions]
    changes = [_isr_change(topic_id, partition) for topic_id, partition in requested]
    refusals = controller.alter_partitions(request.broker_id, changes)
    responses: dict[bytes, list[AlterPartitionResponsePartitionData]] = {}
    for (topic_id, partition), refusal in zip(requested, refusals, strict=True):
        topic = controller.image.topic_by_id(topic_id)
        known = None if topic is None else controller.image.partition(topic.name, partition.partition_index)
        responses.setdefault(topic_id, []).append(
            _altered_partition(partition.partition_index, known, refusal)
        )
    return AlterPartitionResponse(
        topics=[
            AlterPartitionResponseTopicData(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in responses.items()
        ]
    )


def _isr_change(topic_id: bytes, partition: AlterPartitionRequestPartitionData) -> IsrChange:
    return IsrChange(
        topic_id,
        partition.partition_index,
        partition.leader_epoch,
        partition.partition_epoch,
        {state.broker_id: state.broker_epoch for state in partition.new_isr_with_epochs},
    )


def _altered_partition(
    index: int, known: PartitionImage | None, refusal: BrokerError | None
) -> AlterPartitionResponsePartitionData:
    if refusal is not None or known is None:
        return AlterPartitionResponsePartitionData(
            partition_index=index,
            error_code=(refusal.code or -1) if refusal is not None else -1,
            leader_id=NO_LEADER,
            leader_epoch=-1,
            isr=[],
            partition_epoch=-1,
        )
    return AlterPartitionResponsePartitionData(
        partition_index=index,
        leader_id=known.leader,
        leader_epoch=known.leader_epoch,
        isr=list(known.isr),
        partition_epoch=known.partition_epoch,
    )


@api(AssignReplicasToDirsRequest, 0, 0, at=CONTROLLER, access=BROKERS)
def handle_assign_replicas_to_dirs(
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


@api(BrokerRegistrationRequest, 4, 4, at=CONTROLLER, access=BROKERS)
def handle_registration(
    services: Services, context: RequestContext, request: BrokerRegistrationRequest, now: float
) -> BrokerRegistrationResponse:
    controller = services.controller
    if request.cluster_id != controller.image.cluster_id:
        raise InconsistentClusterId(f"the cluster id is {controller.image.cluster_id}")
    endpoints = tuple(
        Endpoint(listener.name, listener.host, listener.port, listener.security_protocol)
        for listener in request.listeners
    )
    new = Registration(
        request.broker_id,
        endpoints,
        request.rack,
        request.incarnation_id,
        tuple(request.log_dirs),
        request.previous_broker_epoch,
    )
    epoch = register(controller, new)
    sessions = services.controller_node.sessions
    if request.broker_id in controller.leaders():
        sessions.touch(request.broker_id, now)  # others lead if it does not become unfenced
    else:
        sessions.forget(request.broker_id)
    return BrokerRegistrationResponse(broker_epoch=epoch)


@api(BrokerHeartbeatRequest, 0, 1, access=BROKERS)
def handle_heartbeat(
    services: Services, context: RequestContext, request: BrokerHeartbeatRequest, now: float
) -> BrokerHeartbeatResponse | None:
    node = services.controller_node
    controller = node.require()
    registered = check_epoch(controller, request.broker_id, request.broker_epoch)
    if not registered.is_fenced:
        node.sessions.touch(request.broker_id, now)
    services.catch_up(request.broker_id, now)
    changes = (
        registered.is_fenced
        or registered.is_shutting_down
        or not set(registered.directories).isdisjoint(request.offline_log_dirs)
    )
    if not changes and not request.want_fence and not request.want_shut_down:
        return BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False, should_shut_down=False)

    def change() -> None:
        if context.is_complete:
            return
        try:
            result = process_heartbeat(
                controller,
                request.broker_id,
                request.broker_epoch,
                request.current_metadata_offset,
                want_fence=request.want_fence,
                want_shut_down=request.want_shut_down,
                failed=request.offline_log_dirs,
            )
        except BrokerError as error:
            services.responses.refuse(context, error.code or -1)
            return
        if result.is_fenced:
            node.sessions.forget(request.broker_id)
        else:
            node.sessions.touch(request.broker_id, now)
        node.signal()
        context.respond(
            BrokerHeartbeatResponse(
                is_caught_up=result.is_caught_up,
                is_fenced=result.is_fenced,
                should_shut_down=result.should_shut_down,
            )
        )

    node.change(
        f"heartbeat of broker {request.broker_id}",
        change,
        now,
        refused=lambda error, at: services.responses.refuse(context, error.code or -1),
    )
    return None


@api(UnregisterBrokerRequest, 0, 0, at=CONTROLLER, access=on_cluster(Operation.ALTER))
def handle_unregister_broker(
    services: Services, context: RequestContext, request: UnregisterBrokerRequest, now: float
) -> UnregisterBrokerResponse:
    try:
        services.controller.unregister_broker(request.broker_id)
    except BrokerError as error:
        return UnregisterBrokerResponse(error_code=error.code or 0, error_message=str(error))
    return UnregisterBrokerResponse()
