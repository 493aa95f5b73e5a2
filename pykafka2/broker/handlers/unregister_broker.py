"""UnregisterBroker: removes a broker permanently (KIP-500); its replicas keep their assignment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.errors import BrokerError, error_of
from pykafka2.protocol.messages.cluster import UnregisterBrokerRequest, UnregisterBrokerResponse

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext


def handle(
    services: Services, context: RequestContext, request: UnregisterBrokerRequest, now: float
) -> UnregisterBrokerResponse:
    try:
        services.controller.unregister_broker(request.broker_id)
    except BrokerError as error:
        return UnregisterBrokerResponse(error_code=error.code or 0, error_message=str(error))
    return UnregisterBrokerResponse()


def refuse(request: UnregisterBrokerRequest, code: int) -> UnregisterBrokerResponse:
    return UnregisterBrokerResponse(error_code=code, error_message=str(error_of(code)))
