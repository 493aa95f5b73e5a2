"""AllocateProducerIds: the controller assigns a block of producer ids to a broker (KIP-730)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.broker.controller.control.brokers import check_epoch
from pykafka2.broker.handlers.registry import handles, refuses
from pykafka2.protocol.messages.broker_lifecycle import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext


@handles(AllocateProducerIdsRequest, 0, 0, by_controller=True, between_brokers=True)
def handle(
    services: Services, context: RequestContext, request: AllocateProducerIdsRequest, now: float
) -> AllocateProducerIdsResponse:
    check_epoch(services.controller, request.broker_id, request.broker_epoch)
    block = services.controller.allocate_producer_ids()
    return AllocateProducerIdsResponse(producer_id_start=block.start, producer_id_len=len(block))


@refuses(AllocateProducerIdsRequest)
def refuse(request: AllocateProducerIdsRequest, code: int) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(error_code=code, producer_id_start=-1, producer_id_len=0)
