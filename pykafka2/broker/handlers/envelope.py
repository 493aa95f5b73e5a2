"""Envelope: a client's request that another broker forwards to the active controller (KIP-590, rule 69)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.broker.forwarding import ask_controller, opened
from pykafka2.broker.handlers.registry import APIS, handles, refuses
from pykafka2.errors import CorruptData, InvalidRequest, NotController, UnsupportedVersion
from pykafka2.protocol.messages.cluster import EnvelopeRequest, EnvelopeResponse

if TYPE_CHECKING:
    from pykafka2.broker.broker import Broker
    from pykafka2.broker.server.request_channel import RequestContext


@handles(EnvelopeRequest, 0, 0, between_brokers=True)
def handle(
    broker: Broker, context: RequestContext, request: EnvelopeRequest, now: float
) -> EnvelopeResponse | None:
    if not broker.controller_node.is_active:
        return refuse(request, NotController.code or 0)
    try:
        inner = opened(context, request.request_data, now)
    except (CorruptData, UnsupportedVersion):
        return refuse(request, InvalidRequest.code or 0)
    api = APIS.get(inner.api_key)
    if api is None or not api.by_controller or api.between_brokers:
        return refuse(request, InvalidRequest.code or 0)
    ask_controller(
        broker, api, inner, now, refused=lambda at: context.reply(refuse(request, NotController.code or 0))
    )
    return None


@refuses(EnvelopeRequest)
def refuse(request: EnvelopeRequest, code: int) -> EnvelopeResponse:
    return EnvelopeResponse(error_code=code)
