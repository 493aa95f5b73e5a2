"""InitProducerId: a producer id that nobody had before (rule 36).  Transactional producers come in step 2."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.errors import InvalidRequest, UnsupportedVersion
from pykafka2.protocol.messages.transaction import InitProducerIdRequest, InitProducerIdResponse
from pykafka2.testing.handlers.registry import handles, refuses

if TYPE_CHECKING:
    from pykafka2.testing.broker import Broker
    from pykafka2.testing.server.request_channel import RequestContext


@handles(InitProducerIdRequest, 0, 5)
def handle(
    broker: Broker, context: RequestContext, request: InitProducerIdRequest, now: float
) -> InitProducerIdResponse:
    if request.transactional_id is not None:
        code = UnsupportedVersion.code if request.transactional_id else InvalidRequest.code
        return refuse(request, code or 0)
    return InitProducerIdResponse(producer_id=broker.next_producer_id(), producer_epoch=0)


@refuses(InitProducerIdRequest)
def refuse(request: InitProducerIdRequest, code: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
