"""Forwarding of a client's request to the active controller, in an Envelope (KIP-590).

A client can send such a request to any broker. If the controller is on this broker, the request becomes an
event in its queue; otherwise it is forwarded, and this broker responds. Access requires the cluster's lock.
"""

from __future__ import annotations

from pykafka2.broker.controller_channel import ControllerChannel
from pykafka2.broker.handlers.by_controller import deadline_of, submit_to_controller
from pykafka2.broker.handlers.registry import Api
from pykafka2.broker.handlers.services import Services
from pykafka2.broker.security.principal import host_bytes, principal_bytes
from pykafka2.broker.server.request_context import RequestContext
from pykafka2.errors import CorruptData, KafkaError, NotController, RequestTimedOut, UnknownServerError
from pykafka2.protocol.framing import decode_response, encode_request
from pykafka2.protocol.messages.cluster import EnvelopeRequest, EnvelopeResponse
from pykafka2.protocol.registry import ApiKey

LENGTH_BYTES = 4

# Requests that brokers with ZooKeeper do not forward; all others can be handled by any of them.
FOR_THE_CONTROLLER = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.UPDATE_FEATURES,
    }
)


class Forwarder:
    """Forwards requests of one broker to the controller, wherever it is."""

    def __init__(self, services: Services, channel: ControllerChannel) -> None:
        self._services = services
        self._answers = services.answers
        self._channel = channel

    def to_controller(self, api: Api, context: RequestContext, now: float) -> None:
        """Have the controller respond; requests of brokers get NOT_CONTROLLER if it is elsewhere."""
        not_controller = NotController.code or 0
        if self._services.controller_node.is_active:

            def refused(at: float) -> None:
                if api.between_brokers:
                    self._answers.refuse(context, not_controller)
                else:
                    self.forward(context, at)

            submit_to_controller(self._services, api, context, now, refused)
        elif api.between_brokers:
            self._answers.refuse(context, not_controller)
        else:
            self.forward(context, now)

    def forward(self, context: RequestContext, now: float) -> None:
        """Forward a client's request to the controller; as a release with ZooKeeper refuses some of them."""
        if self._services.node.release.has_zookeeper and context.api_key in FOR_THE_CONTROLLER:
            self._answers.refuse(context, NotController.code or 0)
            return
        request = context.request
        correlation_id = context.received.correlation_id
        frame = b"".join(encode_request(request, context.version, correlation_id, context.client_id))
        envelope = EnvelopeRequest(
            request_data=frame[LENGTH_BYTES:],
            request_principal=principal_bytes(context.principal),
            client_host_address=host_bytes(context.client_host),
        )
        self._channel.send(
            envelope,
            0,
            lambda response, at: self._answer(context, response),
            now,
            deadline=deadline_of(context),
            on_timeout=lambda at: self._answers.refuse(context, RequestTimedOut.code or 0),
        )

    def _answer(self, context: RequestContext, envelope: EnvelopeResponse) -> None:
        if context.is_answered:
            return  # its connection is closed
        try:
            if envelope.error_code or envelope.response_data is None:
                raise CorruptData(f"the controller responded with error {envelope.error_code}")
            data = memoryview(envelope.response_data)
            _, response = decode_response(data, type(context.request), context.version)
        except KafkaError:
            self._answers.refuse(context, UnknownServerError.code or 0)
        else:
            context.reply(response)
