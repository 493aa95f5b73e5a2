"""FindCoordinator: the broker that coordinates a group, a transactional id, or a share partition (KIP-932).

The hash of the key selects a partition of the internal topic, whose leader is the coordinator. The first
request has the controller create the topic; if its leaders are known at once, the response has them (Kafka
responds COORDINATOR_NOT_AVAILABLE the first time). Since version 4 a request has several keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pykafka2.broker.coordinators.internal_topics import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
    check_share_partition_key,
    create_internal_topic,
    partition_for,
)
from pykafka2.broker.handlers.api import api
from pykafka2.broker.handlers.authorization import Checked, Verdict, add_refusals, code_of
from pykafka2.broker.server.responses import Refusal
from pykafka2.errors import (
    BrokerError,
    CoordinatorNotAvailable,
    InvalidRequest,
)
from pykafka2.protocol.acl_terms import Operation, ResourceType
from pykafka2.protocol.messages.coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

if TYPE_CHECKING:
    from pykafka2.broker.base.image import BrokerImage
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.node import Node
    from pykafka2.broker.server.request_context import RequestContext


GROUP, TRANSACTION, SHARE = 0, 1, 2
FIRST_VERSION_WITH_KEYS = 4
FIRST_VERSION_WITH_SHARE = 6
TOPICS: Final = {GROUP: OFFSETS_TOPIC, TRANSACTION: TRANSACTIONS_TOPIC, SHARE: SHARE_STATE_TOPIC}


def check_find_coordinator(checked: Checked) -> Verdict:
    """Check DESCRIBE on the group or the transactional id, CLUSTER_ACTION for share partitions."""
    request = checked.request
    if request.key_type == FIND_SHARE and checked.version >= FIRST_VERSION_WITH_SHARE:
        may_find = checked.access.may_on_cluster(Operation.CLUSTER_ACTION)
        return None if may_find else code_of(ResourceType.CLUSTER)
    kinds = {FIND_GROUP: ResourceType.GROUP, FIND_TRANSACTION: ResourceType.TRANSACTIONAL_ID}
    resource_type = kinds.get(request.key_type)
    if resource_type is None:
        return None
    is_allowed = checked.access.may
    if checked.version < FIRST_FIND_WITH_KEYS:
        may_find = is_allowed(Operation.DESCRIBE, resource_type, request.key)
        return None if may_find else code_of(resource_type)
    keys = request.coordinator_keys
    refused = {key for key in keys if not is_allowed(Operation.DESCRIBE, resource_type, key)}
    if not refused:
        return None
    add_refusals(checked, [key for key in keys if key in refused], code_of(resource_type), "")
    checked.replace(coordinator_keys=[key for key in keys if key not in refused])
    return None


UNKNOWN: Final = Refusal(blank={"node_id": -1, "port": -1})


@api(FindCoordinatorRequest, 0, 6, access=check_find_coordinator, refusal=UNKNOWN)
def handle(
    services: Services, context: RequestContext, request: FindCoordinatorRequest, now: float
) -> FindCoordinatorResponse:
    listener = context.caller.listener
    if context.version >= FIRST_VERSION_WITH_KEYS:
        coordinators = []
        for key in request.coordinator_keys:
            try:
                node = _coordinator(services, context.version, request.key_type, key)
            except BrokerError as error:
                failed = UNKNOWN.entry(Coordinator, key, context.version, error.code or 0)
                if request.key_type in (GROUP, TRANSACTION, SHARE):
                    failed.error_message = ""  # Kafka has a message only for unknown kinds
                coordinators.append(failed)
                continue
            host, port = node.address_by(listener)
            coordinators.append(Coordinator(key=key, node_id=node.id, host=host, port=port))
        return FindCoordinatorResponse(coordinators=coordinators)
    try:
        node = _coordinator(services, context.version, request.key_type, request.key)
    except BrokerError as error:
        return UNKNOWN(request, context.version, error.code or 0)
    host, port = node.address_by(listener)
    return FindCoordinatorResponse(node_id=node.id, host=host, port=port, error_message="NONE")


def _coordinator(services: Services, version: int, kind: int, key: str) -> BrokerImage:
    name = TOPICS.get(kind)
    if name is None or (kind == SHARE and not _has_share_coordinator(services.node, version)):
        raise InvalidRequest(f"unknown coordinator type {kind}")
    if kind == SHARE:
        check_share_partition_key(key)
    if name not in services.image.topics:
        create_internal_topic(services.node, services.create_topic, name)
    topic = services.image.topics.get(name)
    if topic is None:
        raise CoordinatorNotAvailable
    leader = topic.partitions[partition_for(key, len(topic.partitions))].leader
    if not services.image.is_alive(leader):
        raise CoordinatorNotAvailable
    return services.image.brokers[leader]


def _has_share_coordinator(node: Node, version: int) -> bool:
    return version >= FIRST_VERSION_WITH_SHARE and node.release.is_since("4.1")


FIND_GROUP, FIND_TRANSACTION, FIND_SHARE = 0, 1, 2

FIRST_FIND_WITH_KEYS = 4
