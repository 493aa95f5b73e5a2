"""AddRaftVoter and RemoveRaftVoter: change the quorum of controllers (KIP-853).

The quorum is static, as without the feature kraft.version: it does not change while the cluster runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.errors import BrokerError, InconsistentClusterId, InvalidRequest, UnsupportedVersion, error_of
from pykafka2.protocol.messages.quorum import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext

STATIC = "because the kraft.version feature is 0"
LISTENER = "CONTROLLER"
"""The controllers' listener, which a new voter must have."""


def handle_add(
    services: Services, context: RequestContext, request: AddRaftVoterRequest, now: float
) -> AddRaftVoterResponse:
    try:
        _check_cluster_id(services, request.cluster_id)
        if all(listener.name != LISTENER for listener in request.listeners):
            endpoints = ", ".join(f"{one.name}={one.host}:{one.port}" for one in request.listeners)
            raise InvalidRequest(
                f"Add voter request didn't include the endpoint (Endpoints(endpoints={{{endpoints}}})) "
                f"for the default listener ListenerName({LISTENER})"
            )
        raise UnsupportedVersion(f"Cluster doesn't support adding voter {STATIC}")
    except BrokerError as error:
        return AddRaftVoterResponse(error_code=error.code or 0, error_message=str(error))


def handle_remove(
    services: Services, context: RequestContext, request: RemoveRaftVoterRequest, now: float
) -> RemoveRaftVoterResponse:
    try:
        _check_cluster_id(services, request.cluster_id)
        raise UnsupportedVersion(f"Cluster doesn't support removing voter {STATIC}")
    except BrokerError as error:
        return RemoveRaftVoterResponse(error_code=error.code or 0, error_message=str(error))


def _check_cluster_id(services: Services, cluster_id: str | None) -> None:
    own = services.controller.image.cluster_id
    if cluster_id is not None and cluster_id != own:
        raise InconsistentClusterId(f'The given id "{cluster_id}" doesn\'t match the cluster id "{own}"')


def refuse_add(request: AddRaftVoterRequest, code: int) -> AddRaftVoterResponse:
    return AddRaftVoterResponse(error_code=code, error_message=str(error_of(code)))


def refuse_remove(request: RemoveRaftVoterRequest, code: int) -> RemoveRaftVoterResponse:
    return RemoveRaftVoterResponse(error_code=code, error_message=str(error_of(code)))
