"""DescribeCluster: id, controller and brokers (KIP-700)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.broker.handlers.metadata import ALL_CLUSTER_OPERATIONS, NOT_REQUESTED
from pykafka2.errors import BrokerError, MismatchedEndpointType, UnsupportedEndpointType, error_of
from pykafka2.protocol.messages.cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext

BROKERS, CONTROLLERS = 1, 2


def handle(
    services: Services, context: RequestContext, request: DescribeClusterRequest, now: float
) -> DescribeClusterResponse:
    if request.endpoint_type == CONTROLLERS:
        return _refusal(
            MismatchedEndpointType(
                "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type "
                "CONTROLLER"
            )
        )
    if request.endpoint_type != BROKERS:
        return _refusal(UnsupportedEndpointType(f"Unsupported endpoint type {request.endpoint_type}"))
    image = services.image
    listener = context.caller.listener
    shown = [node for node in image.brokers.values() if request.include_fenced_brokers or not node.is_fenced]
    brokers = []
    for node in shown:
        host, port = node.address_by(listener)
        brokers.append(
            DescribeClusterBroker(
                broker_id=node.id, host=host, port=port, rack=node.rack, is_fenced=node.is_fenced
            )
        )
    with_operations = request.include_cluster_authorized_operations
    return DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=services.shown_controller(),
        brokers=brokers,
        cluster_authorized_operations=ALL_CLUSTER_OPERATIONS if with_operations else NOT_REQUESTED,
    )


def refuse(request: DescribeClusterRequest, code: int) -> DescribeClusterResponse:
    return _refusal(error_of(code))


def _refusal(error: BrokerError) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        error_code=error.code or 0, error_message=str(error), cluster_id="", brokers=[]
    )
