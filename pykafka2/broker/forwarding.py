"""Requests that only the controller answers: made events of its queue, or forwarded to it in an Envelope and
answered here (KIP-590, rule 69).

A client may ask any broker.  The request's own timeout, where Kafka heeds it, bounds the wait for a
controller; after it the client is told REQUEST_TIMED_OUT.  Under the cluster's lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pykafka2.clock import FOREVER
from pykafka2.errors import CorruptData, KafkaError, NotController, RequestTimedOut, UnknownServerError
from pykafka2.protocol.framing import decode_request, decode_response, encode_request, encode_response
from pykafka2.protocol.struct import Response

if TYPE_CHECKING:
    from pykafka2.broker.broker import Broker
    from pykafka2.broker.handlers.registry import Api
    from pykafka2.broker.server.request_channel import RequestContext
    from pykafka2.protocol.messages.cluster import EnvelopeResponse

logger = logging.getLogger(__name__)

LENGTH_BYTES = 4

# The requests whose timeout_ms Kafka's controller heeds: CreateTopics, DeleteTopics, CreatePartitions,
# ElectLeaders, AlterPartitionReassignments.  ListPartitionReassignments and UpdateFeatures carry one in vain.
BOUNDED_BY_THEMSELVES = frozenset((19, 20, 37, 43, 45))

# For all others: Kafka's request.timeout.ms.
DEFAULT_TIMEOUT = 30.0


def timeout_of(request: Any) -> float:
    """How long the asker waits, in seconds."""
    if request.API_KEY not in BOUNDED_BY_THEMSELVES:
        return DEFAULT_TIMEOUT
    timeout_ms: int = request.timeout_ms
    return max(timeout_ms, 0) / 1000.0


def to_controller(broker: Broker, api: Api, context: RequestContext, now: float) -> None:
    """Have the controller answer, wherever it is; brokers are told NOT_CONTROLLER where it is not."""
    if broker.controller_node.is_active:
        if api.between_brokers:
            ask_controller(
                broker, api, context, now, lambda at: broker.refuse(context, NotController.code or 0)
            )
        else:
            ask_controller(broker, api, context, now, lambda at: forward(broker, context, at))
    elif api.between_brokers:
        broker.refuse(context, NotController.code or 0)
    else:
        forward(broker, context, now)


def ask_controller(
    broker: Broker, api: Api, context: RequestContext, now: float, refused: Callable[[float], None]
) -> None:
    """On the controller's broker: answer a request as an event of the queue; `refused` is told if this
    broker is not the controller any more.
    """
    broker.controller_node.change(
        api.name,
        lambda: broker.respond(api, context, broker.clock.monotonic()),
        now,
        deadline=FOREVER if api.between_brokers else context.received_at + timeout_of(context.request),
        refused=lambda error, at: refused(at),
        expire=lambda at: broker.refuse(context, RequestTimedOut.code or 0),
    )


def forward(broker: Broker, context: RequestContext, now: float) -> None:
    """Have the controller answer a client's request."""
    from pykafka2.protocol.messages.cluster import EnvelopeRequest

    request = context.request
    frame = b"".join(encode_request(request, context.version, context.correlation_id, context.client_id))
    envelope = EnvelopeRequest(
        request_data=frame[LENGTH_BYTES:], request_principal=None, client_host_address=b"\x7f\0\0\1"
    )
    broker.channel.send(
        envelope,
        0,
        lambda response, at: _answer(broker, context, response),
        now,
        deadline=context.received_at + timeout_of(request),
        on_timeout=lambda at: broker.refuse(context, RequestTimedOut.code or 0),
    )


def _answer(broker: Broker, context: RequestContext, envelope: EnvelopeResponse) -> None:
    if context.is_answered:
        return  # its connection is gone
    try:
        if envelope.error_code or envelope.response_data is None:
            raise CorruptData(f"the controller answered with error {envelope.error_code}")
        data = memoryview(envelope.response_data)
        _, response = decode_response(data, type(context.request), context.version)
    except KafkaError:
        broker.refuse(context, UnknownServerError.code or 0)
    else:
        context.reply(response)


class EnvelopeOrigin:
    """`Origin` of a request that came in an envelope: its answer goes back in one."""

    is_broker = True

    def __init__(self, envelope: RequestContext) -> None:
        self._envelope = envelope
        self.peer = envelope.peer
        self.parts = envelope.origin.parts

    def deliver(self, context: RequestContext, response: Response | None) -> None:
        from pykafka2.protocol.messages.cluster import EnvelopeResponse

        if response is None:
            self.disconnect(context)
            return
        try:
            frame = b"".join(encode_response(response, context.version, context.correlation_id))
        except KafkaError:
            # Such as an error's message that quotes a name of 32 KiB; the controller goes on.
            logger.exception("%r cannot be sent in version %d", response, context.version)
            self.disconnect(context)
            return
        self._envelope.reply(EnvelopeResponse(response_data=frame[LENGTH_BYTES:]))

    def local_processed(self, context: RequestContext) -> None:
        """Nothing waits behind it."""

    def disconnect(self, context: RequestContext, *, reset: bool = False) -> None:
        from pykafka2.protocol.messages.cluster import EnvelopeResponse

        self._envelope.reply(EnvelopeResponse(error_code=UnknownServerError.code or 0))


def opened(envelope: RequestContext, data: bytes, now: float) -> RequestContext:
    """The client's request in an envelope; raises what `decode_request` raises."""
    from pykafka2.broker.server.request_channel import RequestContext

    header, request = decode_request(memoryview(data))
    return RequestContext(
        EnvelopeOrigin(envelope),
        request,
        header.request_api_version,
        header.correlation_id,
        header.client_id,
        envelope.size_bytes,
        now,
    )
