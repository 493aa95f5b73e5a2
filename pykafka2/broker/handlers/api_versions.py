"""ApiVersions: the APIs and versions of this broker (KIP-35, KIP-511), and the cluster's features (KIP-584).

A client can name the cluster and the node that it expects; another broker responds with
REBOOTSTRAP_REQUIRED (KIP-1242), but as in Kafka not before authentication.

A request of an unknown version gets UNSUPPORTED_VERSION in version 0, with only the range of this API, so
that the client can retry with a lower version.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from pykafka2.broker.base.features import release_of
from pykafka2.broker.handlers.api import api, client_ranges
from pykafka2.broker.handlers.authorization import OPEN
from pykafka2.errors import InvalidRequest, RebootstrapRequired, UnsupportedVersion
from pykafka2.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from pykafka2.protocol.registry import ApiKey

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext

SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?\Z")
FIRST_VERSION_WITH_SOFTWARE = 3
FIRST_VERSION_WITH_LEVEL_0 = 4

# librdkafka assumes that a broker whose Produce starts above version 0 has no compression, so Kafka 4
# advertises 0 although it rejects 0 to 2 (KAFKA-18659).
ADVERTISED_MINIMUM = {ApiKey.PRODUCE: 0}


@api(ApiVersionsRequest, 0, 5, access=OPEN)
def handle(
    services: Services, context: RequestContext, request: ApiVersionsRequest, now: float
) -> ApiVersionsResponse:
    node = services.node
    ranges = _ranges(node.release.name, node.has_telemetry)
    if context.received.is_unsupported:
        own = [one for one in ranges if one.api_key == ApiKey.API_VERSIONS]
        return ApiVersionsResponse(error_code=UnsupportedVersion.code or 0, api_keys=own)
    if (request.cluster_id is None) != (request.node_id == -1):
        raise InvalidRequest("the client expects a cluster without a node, or a node without a cluster")
    if context.version >= FIRST_VERSION_WITH_SOFTWARE and not (
        SOFTWARE.match(request.client_software_name) and SOFTWARE.match(request.client_software_version)
    ):
        raise InvalidRequest("the name or version of the client's software is malformed")
    image, release = services.image, node.release
    is_authenticated = context.authentication is None or context.authentication.is_complete
    expected = (request.cluster_id, request.node_id)
    if is_authenticated and expected not in ((None, -1), (image.cluster_id, node.id)):
        raise RebootstrapRequired(f"the client expects node {request.node_id} of {request.cluster_id}")
    if context.authentication is not None:
        context.authentication.versions_sent()
    return ApiVersionsResponse(
        api_keys=ranges,
        supported_features=[
            SupportedFeatureKey(name=name, min_version=levels.lowest, max_version=levels.highest)
            for name, levels in release.supported.items()
            # Clients of version 3 treat a lowest level of 0 as an error (KAFKA-17011).
            if levels.lowest > 0 or context.version >= FIRST_VERSION_WITH_LEVEL_0
        ],
        # A broker with ZooKeeper has no features, in epoch 0.
        finalized_features_epoch=image.version if release.supported else 0,
        finalized_features=[
            FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, level in sorted(image.features.items())
        ],
    )


@cache
def _ranges(release: str, has_telemetry: bool) -> list[ApiVersion]:
    """Return the ranges of all APIs for clients.

    Cached, because every connection starts with this request.
    """
    return [
        ApiVersion(api_key=key, min_version=ADVERTISED_MINIMUM.get(key, low), max_version=high)
        for key, (low, high) in client_ranges(release_of(release), has_telemetry=has_telemetry).items()
    ]
