"""Envelope: a client's request that another broker forwards to the active controller (KIP-590)."""

from __future__ import annotations

import logging
from collections.abc import Callable

from pykafka2.broker.handlers.api import APIS, CONTROLLER, api, submit_to_controller
from pykafka2.broker.handlers.authorization import BROKERS
from pykafka2.broker.handlers.services import Services
from pykafka2.broker.security.principal import ANONYMOUS, Caller, host_from_bytes, principal_from_bytes
from pykafka2.broker.server.request_codec import response_parts
from pykafka2.broker.server.request_context import ReceivedRequest, RequestContext
from pykafka2.errors import (
    CorruptData,
    InvalidRequest,
    KafkaError,
    NotController,
    UnknownServerError,
    UnsupportedVersion,
)
from pykafka2.protocol.framing import decode_request, in_memory
from pykafka2.protocol.messages.cluster import EnvelopeRequest, EnvelopeResponse
from pykafka2.protocol.registry import name_of
from pykafka2.protocol.struct import Response

logger = logging.getLogger(__name__)

LENGTH_BYTES = 4


@api(EnvelopeRequest, 0, 0, access=BROKERS)
def handle(
    services: Services, context: RequestContext, request: EnvelopeRequest, now: float
) -> EnvelopeResponse | None:
    if not services.controller_node.is_active:
        raise NotController("this broker is not the active controller")
    try:
        inner = opened(context, request, now)
    except (CorruptData, UnsupportedVersion) as error:
        raise InvalidRequest("the request in the envelope cannot be decoded") from error
    served = APIS.get(inner.api_key)
    if served is None or served.at is not CONTROLLER or served.between_brokers:
        raise InvalidRequest(f"{name_of(inner.api_key)} is not forwarded to the controller")
    submit_to_controller(
        services,
        served,
        inner,
        now,
        refused=lambda at: services.responses.refuse(context, NotController.code or 0),
    )
    return None


class EnvelopeOrigin:
    """The `Origin` of a request from an envelope; its response is sent in an envelope."""

    is_broker = True
    software = ""
    is_closed = False
    authentication = None

    def __init__(self, envelope: RequestContext, caller: Caller) -> None:
        self._envelope = envelope
        self.caller = caller
        self.peer = envelope.peer
        self.parts = envelope.origin.parts

    def when_closed(self, then: Callable[[float], object]) -> None:
        """Do nothing: no request for the controller waits for it."""

    def deliver(self, context: RequestContext, response: Response | None) -> None:
        if response is None:
            self.disconnect(context)
            return
        try:
            frame = b"".join(
                in_memory(response_parts(response, context.version, context.received.correlation_id))
            )
        except KafkaError:  # a bug; the controller continues
            logger.exception("%r cannot be sent in version %d", response, context.version)
            self.disconnect(context)
            return
        self._envelope.respond(EnvelopeResponse(response_data=frame[LENGTH_BYTES:]))

    def local_processed(self, context: RequestContext) -> None:
        """Do nothing: no request waits behind it."""

    def disconnect(self, context: RequestContext, *, reset: bool = False) -> None:
        self._envelope.respond(EnvelopeResponse(error_code=UnknownServerError.code or 0))


def opened(envelope: RequestContext, sent: EnvelopeRequest, now: float) -> RequestContext:
    """Return the client's request from an envelope, with its sender. Raise what `decode_request` raises."""
    header, request = decode_request(memoryview(sent.request_data))
    principal = ANONYMOUS if sent.request_principal is None else principal_from_bytes(sent.request_principal)
    caller = Caller(principal, host_from_bytes(sent.client_host_address))
    received = ReceivedRequest(
        request,
        header.request_api_version,
        header.correlation_id,
        header.client_id,
        envelope.received.size_bytes,
        now,
    )
    return RequestContext(EnvelopeOrigin(envelope, caller), received)
