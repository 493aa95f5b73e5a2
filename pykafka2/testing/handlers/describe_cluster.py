"""DescribeCluster: id, controller and brokers (KIP-700)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.errors import MismatchedEndpointType, UnsupportedEndpointType, error_of
from pykafka2.protocol.messages.cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from pykafka2.testing.handlers.metadata import ALL_CLUSTER_OPERATIONS, NOT_ASKED
from pykafka2.testing.handlers.registry import handles, refuses

if TYPE_CHECKING:
    from pykafka2.testing.broker import Broker
    from pykafka2.testing.server.request_channel import RequestContext

BROKERS, CONTROLLERS = 1, 2


@handles(DescribeClusterRequest, 0, 2)
def handle(
    broker: Broker, context: RequestContext, request: DescribeClusterRequest, now: float
) -> DescribeClusterResponse:
    if request.endpoint_type == CONTROLLERS:
        return refuse(request, MismatchedEndpointType.code or 0)
    if request.endpoint_type != BROKERS:
        return refuse(request, UnsupportedEndpointType.code or 0)
    image = broker.image
    with_operations = request.include_cluster_authorized_operations
    return DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=broker.any_live_broker(),
        brokers=[
            DescribeClusterBroker(
                broker_id=node.id, host=node.host, port=node.port, rack=node.rack, is_fenced=node.is_fenced
            )
            for node in image.brokers.values()
            if request.include_fenced_brokers or not node.is_fenced
        ],
        cluster_authorized_operations=ALL_CLUSTER_OPERATIONS if with_operations else NOT_ASKED,
    )


@refuses(DescribeClusterRequest)
def refuse(request: DescribeClusterRequest, code: int) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        error_code=code, error_message=str(error_of(code)), cluster_id="", brokers=[]
    )
