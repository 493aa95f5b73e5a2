"""APIs of the group coordinator: classic groups, KIP-848 groups, committed offsets.

All of them are submitted to the shard of the group's partition, which responds once its records are committed
(coordinators/groups/). The versions are those of Apache Kafka 4.3.1. Registered without importing messages:
coordinators and their messages are imported with the first group.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pykafka2.broker.handlers.registry import APIS, Api
from pykafka2.errors import UnsupportedVersion
from pykafka2.protocol.acl_terms import Operation, ResourceType
from pykafka2.protocol.registry import ApiKey
from pykafka2.protocol.struct import Request, Response

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.security.authorizer import Access
    from pykafka2.broker.server.request_context import RequestContext

VERSIONS: Final = {
    ApiKey.OFFSET_COMMIT: (2, 10),
    ApiKey.OFFSET_FETCH: (1, 10),
    ApiKey.JOIN_GROUP: (0, 9),
    ApiKey.HEARTBEAT: (0, 4),
    ApiKey.LEAVE_GROUP: (0, 5),
    ApiKey.SYNC_GROUP: (0, 5),
    ApiKey.DESCRIBE_GROUPS: (0, 6),
    ApiKey.LIST_GROUPS: (0, 5),
    ApiKey.DELETE_GROUPS: (0, 2),
    ApiKey.OFFSET_DELETE: (0, 0),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 1),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1),
}


OF_CONSUMER_PROTOCOL: Final = frozenset({ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE})
RESOLVE_PATTERNS: Final = frozenset({ApiKey.JOIN_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT})
"""APIs that can resolve patterns of a KIP-848 group, which match only topics that the client can describe."""


def _has_consumer_protocol(services: Services) -> bool:
    """Return whether KIP-848 is enabled.

    It needs group.coordinator.rebalance.protocols and a finalized group.version.
    """
    configured = services.config.get("group.coordinator.rebalance.protocols")
    return "consumer" in configured and services.image.features.get("group.version", 0) > 0


def handle(services: Services, context: RequestContext, request: Request[Any], now: float) -> None:
    """Submit the request; the coordinator responds, possibly before this returns."""
    if context.api_key in OF_CONSUMER_PROTOCOL and not _has_consumer_protocol(services):
        context.respond(refuse(request, context.version, UnsupportedVersion.code))
        return
    coordinators = services.coordinators
    access = services.access_of(context) if context.api_key in RESOLVE_PATTERNS else None
    if access is None:
        coordinators.submit(coordinators.groups, context, request, now)
    else:
        may_describe = partial(_may_describe, access)
        coordinators.submit(coordinators.groups, context, request, now, may_describe, services.image.acls)


def _may_describe(access: Access, topic: str) -> bool:
    return access.may(Operation.DESCRIBE, ResourceType.TOPIC, topic, notes=False)


def refuse(request: Request[Any], version: int, code: int) -> Response:
    from pykafka2.broker.coordinators.refusals import refusal

    return refusal(request, version, code)


OLDEST_VERSIONS: Final = {ApiKey.OFFSET_COMMIT: 1}
"""Lower versions as an older release. Version 0 of OffsetCommit and OffsetFetch is about ZooKeeper."""

for _key, (_first, _last) in VERSIONS.items():
    APIS[_key] = Api(
        _key, _first, _last, handle, oldest_version=OLDEST_VERSIONS.get(_key), refuse_in_version=refuse
    )
