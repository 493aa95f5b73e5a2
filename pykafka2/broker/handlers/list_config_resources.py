"""ListConfigResources: names of configurable resources (KIP-1142); version 0 lists client metrics only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.broker.base.image import (
    BROKER_RESOURCE,
    GROUP_RESOURCE,
    LOGGER_RESOURCE,
    METRICS_RESOURCE,
    TOPIC_RESOURCE,
    ClusterImage,
)
from pykafka2.errors import UnsupportedVersion
from pykafka2.protocol.messages.configs import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext

LISTED = (GROUP_RESOURCE, METRICS_RESOURCE, LOGGER_RESOURCE, BROKER_RESOURCE, TOPIC_RESOURCE)


def handle(
    services: Services, context: RequestContext, request: ListConfigResourcesRequest, now: float
) -> ListConfigResourcesResponse:
    wanted = request.resource_types or list(LISTED)
    if context.version == 0:
        wanted = [METRICS_RESOURCE]
    if not set(wanted) <= set(LISTED):
        return refuse(request, UnsupportedVersion.code or 0)
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in LISTED
            if kind in wanted
            for name in _names(services.image, kind)
        ]
    )


def _names(image: ClusterImage, kind: int) -> list[str]:
    if kind == TOPIC_RESOURCE:
        return sorted(image.topics)
    if kind in (BROKER_RESOURCE, LOGGER_RESOURCE):
        return [str(broker.id) for broker in image.live_brokers()]
    return sorted(name for known, name in image.configs if known == kind)


def refuse(request: ListConfigResourcesRequest, code: int) -> ListConfigResourcesResponse:
    return ListConfigResourcesResponse(error_code=code, config_resources=[])
