"""BrokerRegistration and BrokerHeartbeat: brokers register with the active controller.

Handled by the controller only. A heartbeat counts when it arrives, however long the controller's queue is,
and becomes an event only if it changes something.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.broker.base.image import Endpoint
from pykafka2.broker.controller.control.brokers import Registration, check_epoch, process_heartbeat, register
from pykafka2.broker.handlers.registry import handles, refuses
from pykafka2.errors import BrokerError, InconsistentClusterId
from pykafka2.protocol.messages.broker_lifecycle import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext


@handles(BrokerRegistrationRequest, 4, 4, by_controller=True, between_brokers=True)
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
        request.broker_id, endpoints, request.rack, request.incarnation_id, tuple(request.log_dirs)
    )
    epoch = register(controller, new)
    sessions = services.controller_node.sessions
    if request.broker_id in controller.leaders():
        sessions.touch(request.broker_id, now)  # others lead if it does not become unfenced
    else:
        sessions.forget(request.broker_id)
    return BrokerRegistrationResponse(broker_epoch=epoch)


@refuses(BrokerRegistrationRequest)
def refuse_registration(request: BrokerRegistrationRequest, code: int) -> BrokerRegistrationResponse:
    return BrokerRegistrationResponse(error_code=code)


@handles(BrokerHeartbeatRequest, 0, 1, between_brokers=True)
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
            context.respond(refuse_heartbeat(request, error.code or -1))
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
        refused=lambda error, at: context.respond(refuse_heartbeat(request, error.code or -1)),
    )
    return None


@refuses(BrokerHeartbeatRequest)
def refuse_heartbeat(request: BrokerHeartbeatRequest, code: int) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(error_code=code, should_shut_down=False)
