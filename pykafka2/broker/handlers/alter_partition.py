"""AlterPartition: a leader requests ISR changes from the controller (KIP-497)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.broker.base.image import NO_LEADER, PartitionImage
from pykafka2.broker.controller import IsrChange
from pykafka2.broker.controller.control.brokers import check_epoch
from pykafka2.broker.handlers.registry import handles, refuses
from pykafka2.errors import BrokerError
from pykafka2.protocol.messages.broker_lifecycle import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext


@handles(AlterPartitionRequest, 3, 3, by_controller=True, between_brokers=True)
def handle(
    services: Services, context: RequestContext, request: AlterPartitionRequest, now: float
) -> AlterPartitionResponse:
    controller = services.controller
    check_epoch(controller, request.broker_id, request.broker_epoch)
    requested = [(topic.topic_id, partition) for topic in request.topics for partition in topic.partitions]
    changes = [_change(topic_id, partition) for topic_id, partition in requested]
    refusals = controller.alter_partitions(request.broker_id, changes)
    responses: dict[bytes, list[AlterPartitionResponsePartitionData]] = {}
    for (topic_id, partition), refusal in zip(requested, refusals, strict=True):
        topic = controller.image.topic_by_id(topic_id)
        known = None if topic is None else controller.image.partition(topic.name, partition.partition_index)
        responses.setdefault(topic_id, []).append(_response(partition.partition_index, known, refusal))
    return AlterPartitionResponse(
        topics=[
            AlterPartitionResponseTopicData(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in responses.items()
        ]
    )


def _change(topic_id: bytes, partition: AlterPartitionRequestPartitionData) -> IsrChange:
    return IsrChange(
        topic_id,
        partition.partition_index,
        partition.leader_epoch,
        partition.partition_epoch,
        {state.broker_id: state.broker_epoch for state in partition.new_isr_with_epochs},
    )


def _response(
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


@refuses(AlterPartitionRequest)
def refuse(request: AlterPartitionRequest, code: int) -> AlterPartitionResponse:
    return AlterPartitionResponse(error_code=code, topics=[])
