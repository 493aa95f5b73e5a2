"""A broker's handling of requests: received, handled under the cluster's lock, responded to or forwarded.

Connects the server, which handles connections, with the handlers, which implement APIs: through the history,
and a test's faults and throttles. A client can send a request for the controller to any broker. If the
controller is on this broker, the request becomes an event in its queue; otherwise it is forwarded (KIP-590),
and this broker responds. Recreated with each start of the broker. Access requires the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pykafka2.broker.base.image import ClusterImage, Key
from pykafka2.broker.controller_channel import ControllerChannel
from pykafka2.broker.handlers.api import (
    APIS,
    CONTROLLER,
    Api,
    authorize_and_handle,
    deadline_of,
    submit_to_controller,
)
from pykafka2.broker.handlers.services import Services
from pykafka2.broker.handlers.throttling import throttle
from pykafka2.broker.security.principal import host_bytes, principal_bytes
from pykafka2.broker.server.request_channel import RequestChannel
from pykafka2.broker.server.request_context import ClosingResponse, RequestContext
from pykafka2.broker.server.request_metrics import RequestMetrics
from pykafka2.broker.shared import Shared
from pykafka2.errors import CorruptData, KafkaError, NotController, RequestTimedOut, UnknownServerError
from pykafka2.protocol.framing import decode_response, encode_request
from pykafka2.protocol.messages.cluster import EnvelopeRequest, EnvelopeResponse
from pykafka2.protocol.registry import ApiKey
from pykafka2.protocol.struct import Response

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
        self._responses = services.responses
        self._channel = channel

    def to_controller(self, api: Api, context: RequestContext, now: float) -> None:
        """Have the controller respond; requests of brokers get NOT_CONTROLLER if it is elsewhere."""
        not_controller = NotController.code or 0
        if self._services.controller_node.is_active:

            def refused(at: float) -> None:
                if api.between_brokers:
                    self._responses.refuse(context, not_controller)
                else:
                    self.forward(context, at)

            submit_to_controller(self._services, api, context, now, refused)
        elif api.between_brokers:
            self._responses.refuse(context, not_controller)
        else:
            self.forward(context, now)

    def forward(self, context: RequestContext, now: float) -> None:
        """Forward a client's request to the controller; as a release with ZooKeeper refuses some of them."""
        if self._services.node.release.has_zookeeper and context.api_key in FOR_THE_CONTROLLER:
            self._responses.refuse(context, NotController.code or 0)
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
            lambda response, at: self._respond(context, response),
            now,
            deadline=deadline_of(context),
            on_timeout=lambda at: self._responses.refuse(context, RequestTimedOut.code or 0),
        )

    def _respond(self, context: RequestContext, envelope: EnvelopeResponse) -> None:
        if context.is_complete:
            return  # its connection is closed
        try:
            if envelope.error_code or envelope.response_data is None:
                raise CorruptData(f"the controller responded with error {envelope.error_code}")
            data = memoryview(envelope.response_data)
            _, response = decode_response(data, type(context.request), context.version)
        except KafkaError:
            self._responses.refuse(context, UnknownServerError.code or 0)
        else:
            context.respond(response)


OF_SASL = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})


class BrokerRequests:
    """Handles requests, events of their connections, and responses. The target of faults."""

    def __init__(
        self,
        shared: Shared,
        services: Services,
        metrics: RequestMetrics,
        queue: RequestChannel,
        forwarder: Forwarder,
    ) -> None:
        self._shared = shared
        self._services = services
        self._node = node = services.node
        self.id = node.id
        self.clock = node.clock
        self.wheel = node.wheel
        self._responses = services.responses
        self._metrics = metrics
        self._queue = queue
        self._forwarder = forwarder

    # ------------------------------------------------------------------ used by faults

    @property
    def image(self) -> ClusterImage:
        return self._node.image

    @image.setter
    def image(self, image: ClusterImage) -> None:
        self._node.image = image

    def in_fetch_session(self, session_id: int) -> Iterable[Key]:
        """Return the partitions of a fetch session; empty if it is unknown."""
        session = self._services.replicas.sessions.get(session_id)
        return () if session is None else [known.info.key for known in session.partitions.values()]

    # ------------------------------------------------------------------ called by connections

    def on_request(self, context: RequestContext) -> None:
        """Handle a client's request that a processor has decoded."""
        context.on_response = self.on_response
        if self._shared.history.is_on:
            with self._node.lock:
                self._shared.history.received(self._node.id, context)

    def on_disconnected(self, context: RequestContext, now: float) -> None:
        """Handle a connection closed before the response was sent: drop what waits for the request."""
        with self._node.lock:
            self._shared.history.ended(context, None, now)
            if not context.is_complete and context.abandon is not None:
                context.abandon(now)
            context.is_complete = True

    def on_sent(self, contexts: Sequence[RequestContext], now: float) -> None:
        """Handle responses that were sent to their clients."""
        with self._node.lock:
            since = self._shared.history_started_at
            for context in contexts:
                # Requests from before `KafkaCluster.forget` do not count.
                if context.received.received_at >= since:
                    self._metrics.record(context, now)
                if context.history_entry is not None:
                    self._shared.history.left(context)

    def on_refused(self, client: str, reason: str, now: float) -> None:
        """Handle an invalid request of a client, whose connection is being closed."""
        with self._node.lock:
            self._shared.events.client_refused(now, self._node.id, client, reason)

    def on_response(self, context: RequestContext, response: Response | None) -> bool:
        """Handle a response. Return False if a fault takes it over."""
        responded_at = context.progress.responded_at = self._node.clock.monotonic()
        faults = self._shared.faults
        is_plain = context.faults is None and not faults.is_active
        sent = response if is_plain else faults.reshape(context, response)
        if self._services.quotas.is_active:
            throttle(self._services.quotas, context, sent, responded_at)
        if self._shared.throttles.rules.active:
            self._shared.throttles.apply(context, sent)
        if context.history_entry is not None:
            self._shared.history.ended(context, sent, responded_at)
        return is_plain or faults.send(self, context, sent, response)

    # ------------------------------------------------------------------ responding

    def handle(self, context: RequestContext, now: float) -> None:
        """Handle one request, unless a fault takes it over."""
        with self._node.lock:
            if not self._node.is_running or (context.is_complete and context.resume is None):
                return
            if self._node.is_paused:
                self._queue.put_back(context)
                return
            if context.resume is not None:
                # Also after its connection is closed: received batches are appended.
                resume, context.resume = context.resume, None
                resume(now)
                return
            faults = self._shared.faults
            if faults.is_active and faults.intercept(self, context, now):
                return
            self.dispatch(context, now)

    def dispatch(self, context: RequestContext, now: float) -> None:
        """Pass a request to its API's function, or to the controller."""
        progress = context.progress
        progress.metrics = self._metrics
        progress.taken_at = self._node.clock.monotonic()
        api = APIS[context.api_key]
        if api.at is CONTROLLER:
            self._forwarder.to_controller(api, context, now)
        else:
            authorize_and_handle(self._services, api, context, now)
        progress.handled_at = self._node.clock.monotonic()

    def refused(self, context: RequestContext, code: int) -> Response | None:
        """Return the error response, or close the connection if there is none.

        A rejected authentication request fails the authentication: the connection closes after the response.
        """
        authentication = context.authentication
        if authentication is not None and context.api_key in OF_SASL:
            authentication.refuse()
            context.delivery.closing = ClosingResponse(resets=False)
        return self._responses.refused(context, code)

    def enqueue(self, context: RequestContext) -> None:
        """Queue a request that a fault held."""
        if self._node.is_running:
            self._queue.put(context)

    def enqueue_late(self, context: RequestContext) -> None:
        """Queue a request that a fault delayed, from a connection that is closed by now."""
        if self._node.is_running:
            context.received = context.received.again(self._node.clock.monotonic())
            self.on_request(context)
            self._queue.put(context)
