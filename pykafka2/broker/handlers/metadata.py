"""Metadata and DescribeCluster: brokers, topics and leaders, from this broker's latest image.

A missing topic is created if the request and auto.create.topics.enable allow it; the client gets
UNKNOWN_TOPIC_OR_PARTITION once and finds the topic with its next request (rule
metadata-requests-can-create-topics).

With an authorizer a request for all topics returns only those that the client can describe. A named topic
without that right gets TOPIC_AUTHORIZATION_FAILED, whether it exists or not.

Produce and Fetch hint at the leader to clients that used the wrong broker: its id and address (KIP-951).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar

from pykafka2.broker.base.image import (
    INTERNAL_TOPICS,
    NO_LEADER,
    ClusterImage,
    PartitionImage,
    TopicImage,
    check_topic_name,
)
from pykafka2.broker.controller import NewTopic
from pykafka2.broker.controller.topics import MAX_PARTITIONS_PER_REQUEST
from pykafka2.broker.coordinators.coordinators import INTERNAL
from pykafka2.broker.coordinators.internal_topics import create_internal_topic
from pykafka2.broker.handlers.api import api
from pykafka2.broker.handlers.authorization import Checked, Verdict, code_of, topic_name
from pykafka2.broker.handlers.throttling import charge_on
from pykafka2.broker.security.authorizer import Access
from pykafka2.broker.server.responses import REFUSAL, Refusal
from pykafka2.errors import (
    BrokerError,
    FencedLeaderEpoch,
    InvalidRequest,
    KafkaError,
    LeaderNotAvailable,
    MismatchedEndpointType,
    NotLeaderOrFollower,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedEndpointType,
)
from pykafka2.protocol.acl_terms import CLUSTER_NAME, Operation, ResourceType
from pykafka2.protocol.messages.cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from pykafka2.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pykafka2.protocol.primitives import ZERO_UUID

if TYPE_CHECKING:
    from pykafka2.broker.base.image import Key
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext

T = TypeVar("T")

# Without an authorizer all operations are allowed: a bit for each one that applies (KIP-430).
ALL_TOPIC_OPERATIONS = sum(1 << code for code in (3, 4, 5, 6, 7, 8, 10, 11))
ALL_CLUSTER_OPERATIONS = sum(1 << code for code in (5, 7, 8, 9, 10, 11, 12))
NOT_REQUESTED = -2147483648
FIRST_VERSION_WITH_USABLE_IDS = 12  # versions 10 and 11 have the field, but Kafka rejects ids there


def check_metadata(checked: Checked) -> Verdict:
    access, requested = checked.access, checked.request.topics
    if requested is not None and has_unusable_ids(checked.version, requested):
        return None  # the handler rejects the whole request and discloses nothing
    if requested is None or (checked.version == 0 and not requested):
        checked.amend(lambda response: _keep_described(access, response))
    else:
        kept, refused = _split_topics(checked, requested)
        if refused:
            checked.replace(topics=kept)
            # An empty list would mean all topics in version 0.
            checked.amend(lambda response: _with_refused(response, refused, keeps=bool(kept)))
    if checked.request.include_topic_authorized_operations:
        checked.amend(lambda response: set_topic_operations(access, response))
    if checked.request.include_cluster_authorized_operations:
        checked.amend(lambda response: _set_cluster_operations(access, response))
    return None


@api(MetadataRequest, 0, 13, access=check_metadata, refusal=Refusal(entries=True, blank={"name": ""}))
def handle_metadata(
    services: Services, context: RequestContext, request: MetadataRequest, now: float
) -> MetadataResponse:
    image = services.image
    requested = request.topics
    # Version 0 has no null: there an empty list means all topics.
    if requested is None or (context.version == 0 and not requested):
        return _about_all(services, context, request)
    may_create = request.allow_auto_topic_creation and services.config.get("auto.create.topics.enable")
    if has_unusable_ids(context.version, requested):
        raise InvalidRequest("topics by id need version 12")
    distinct = {(topic.name, topic.topic_id): topic for topic in requested}.values()
    unknown: list[str] = []
    topics = [_requested(image, topic, unknown) for topic in distinct]
    if may_create and unknown:
        _create(services, context, unknown, now)
    response = _about_brokers(services, context, request)
    response.topics = _with_operations(topics) if request.include_topic_authorized_operations else topics
    return response


def _about_all(services: Services, context: RequestContext, request: MetadataRequest) -> MetadataResponse:
    """Return the response about all topics; its bytes are cached until the next change."""
    image = services.image
    with_operations = request.include_topic_authorized_operations

    def build() -> list[MetadataResponseTopic]:
        topics = [_known(image, topic) for topic in image.topics.values()]
        return _with_operations(topics) if with_operations else topics

    response = _about_brokers(services, context, request)
    # A fault rule can change the response, or have it built from another image.
    if context.faults is not None:
        response.topics = build()
        return response
    with_cluster = request.include_cluster_authorized_operations
    listener = context.caller.listener
    key = (context.version, with_operations, with_cluster, response.controller_id, listener)
    context.delivery.known_body = services.metadata_cache.fill(response, image, key, build)
    return response


def _about_brokers(services: Services, context: RequestContext, request: MetadataRequest) -> MetadataResponse:
    """Return a response without topics."""
    image = services.image
    with_cluster = request.include_cluster_authorized_operations
    listener = context.caller.listener
    brokers = []
    for node in image.live_brokers():
        host, port = node.address_by(listener)
        brokers.append(MetadataResponseBroker(node_id=node.id, host=host, port=port, rack=node.rack))
    return MetadataResponse(
        brokers=brokers,
        cluster_id=image.cluster_id,
        controller_id=services.shown_controller(),
        topics=[],
        cluster_authorized_operations=ALL_CLUSTER_OPERATIONS if with_cluster else NOT_REQUESTED,
    )


def _with_operations(topics: list[MetadataResponseTopic]) -> list[MetadataResponseTopic]:
    """Set the authorized operations of these topics, except for unknown ids."""
    for topic in topics:
        if topic.name is not None:
            topic.topic_authorized_operations = ALL_TOPIC_OPERATIONS
    return topics


def has_unusable_ids(version: int, topics: Iterable[MetadataRequestTopic]) -> bool:
    """Return True if a topic is requested by id in a version that has the field but must not use it.

    Kafka then refuses the whole request with INVALID_REQUEST, before it checks any access rule.
    """
    if version >= FIRST_VERSION_WITH_USABLE_IDS:
        return False
    return any(topic.name is None or topic.topic_id != ZERO_UUID for topic in topics)


def _create(services: Services, context: RequestContext, names: list[str], now: float) -> None:
    """Create topics, up to the limit of one request and the client's quota.

    Errors are ignored: the client's next request shows whether a topic exists.
    """
    with suppress(KafkaError):
        for name in INTERNAL:
            if name in names:
                create_internal_topic(services.node, services.create_topic, name)
        own = [NewTopic(name) for name in names[:MAX_PARTITIONS_PER_REQUEST] if name not in INTERNAL]
        if own:
            services.create_topics(own, lambda controller: charge_on(services, context, controller, now))


def _requested(
    image: ClusterImage, requested: MetadataRequestTopic, unknown: list[str]
) -> MetadataResponseTopic:
    """Return one topic by name, or by id (since version 10); add a missing name to `unknown`."""
    if requested.topic_id != ZERO_UUID:
        by_id = image.topic_by_id(requested.topic_id)
        if by_id is None:
            return _unknown_topic(None, UnknownTopicId, requested.topic_id)
        return _known(image, by_id)
    name = requested.name or ""
    topic = image.topics.get(name)
    if topic is not None:
        return _known(image, topic)
    try:
        check_topic_name(name)
    except BrokerError as error:
        return _unknown_topic(name, type(error))
    unknown.append(name)
    return _unknown_topic(name, UnknownTopicOrPartition)


def _unknown_topic(
    name: str | None, error: type[BrokerError], topic_id: bytes = ZERO_UUID
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=error.code or 0,
        name=name,
        topic_id=topic_id,
        is_internal=name in INTERNAL_TOPICS,  # by its name alone, even if it does not exist
        partitions=[],
    )


def _known(image: ClusterImage, topic: TopicImage) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=[_partition(image, number, known) for number, known in enumerate(topic.partitions)],
    )


def _partition(image: ClusterImage, number: int, partition: PartitionImage) -> MetadataResponsePartition:
    has_leader = partition.leader != NO_LEADER and image.is_alive(partition.leader)
    return MetadataResponsePartition(
        error_code=0 if has_leader else LeaderNotAvailable.code or 0,
        partition_index=number,
        leader_id=partition.leader if has_leader else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=[
            replica for replica in partition.replicas if not image.is_online(partition, replica)
        ],
    )


BROKERS, CONTROLLERS = 1, 2


def check_cluster(checked: Checked) -> Verdict:
    if checked.request.include_cluster_authorized_operations:
        checked.amend(lambda response: _set_cluster_operations(checked.access, response))
    return None


@api(DescribeClusterRequest, 0, 2, access=check_cluster)
def handle_describe_cluster(
    services: Services, context: RequestContext, request: DescribeClusterRequest, now: float
) -> DescribeClusterResponse:
    if request.endpoint_type == CONTROLLERS:
        mismatch = (
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
        )
        return REFUSAL(request, context.version, MismatchedEndpointType(mismatch))
    if request.endpoint_type != BROKERS:
        unsupported = UnsupportedEndpointType(f"Unsupported endpoint type {request.endpoint_type}")
        return REFUSAL(request, context.version, unsupported)
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


def leader_hint(services: Services, key: Key, error: BrokerError | None) -> PartitionImage | None:
    """Return this broker's image of the partition if the error is about leadership."""
    if isinstance(error, NotLeaderOrFollower | FencedLeaderEpoch):
        return services.image.partition(*key)
    return None


def leader_endpoints(
    services: Services, context: RequestContext, leaders: Iterable[int], kind: Callable[..., T]
) -> list[T]:
    """Return these leaders with their addresses for the client, each once; stopped ones are left out."""
    endpoints = []
    for leader in sorted(set(leaders)):
        if services.image.is_alive(leader):
            node = services.image.brokers[leader]
            host, port = node.address_by(context.caller.listener)
            endpoints.append(kind(node_id=node.id, host=host, port=port, rack=node.rack))
    return endpoints


REFUSED = code_of(ResourceType.TOPIC)


# ---------------------------------------------------------------------- topics


def _split_topics(checked: Checked, requested: list[Any]) -> tuple[list[Any], list[MetadataResponseTopic]]:
    """Return the allowed topics, and errors for the others."""
    access, image = checked.access, checked.image
    may_create: bool | None = None
    creates = checked.request.allow_auto_topic_creation and checked.services.config.get(
        "auto.create.topics.enable"
    )
    kept: list[Any] = []
    refused: dict[tuple[str | None, bytes], MetadataResponseTopic] = {}
    for topic in requested:
        name = topic_name(topic, image)
        if name is None:
            kept.append(topic)  # an unknown id
        elif not access.may(Operation.DESCRIBE, ResourceType.TOPIC, name):
            refused[topic.name, topic.topic_id] = _refused_topic(topic)
        elif creates and name not in image.topics:
            if may_create is None:
                may_create = access.may_on_cluster(Operation.CREATE, notes=False)
            if may_create or access.may(Operation.CREATE, ResourceType.TOPIC, name):
                kept.append(topic)
            else:
                refused[topic.name, topic.topic_id] = _refused_topic(topic)
        else:
            kept.append(topic)
    return kept, list(refused.values())


def _refused_topic(topic: Any) -> MetadataResponseTopic:
    """Return the error for a topic: with its id, but without the name behind it."""
    by_id = topic.topic_id != ZERO_UUID
    return MetadataResponseTopic(
        error_code=REFUSED,
        name=None if by_id else topic.name,
        topic_id=topic.topic_id if by_id else ZERO_UUID,
        partitions=[],
    )


def _keep_described(access: Access, response: Any) -> None:
    response.topics = [
        topic
        for topic in response.topics
        if access.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name, notes=False)
    ]


def _with_refused(response: Any, refused: list[MetadataResponseTopic], *, keeps: bool) -> None:
    response.topics = [*(response.topics if keeps else ()), *refused]


# ---------------------------------------------------------------------- authorized operations


def set_topic_operations(access: Access, response: Any) -> None:
    """Set the authorized operations of topics.

    Change copies, because a cached response shares its topics (base/metadata_cache.py).
    """
    topics = []
    for topic in response.topics:
        described_topic = topic
        if topic.error_code != REFUSED and topic.name is not None:
            described_topic = copy(topic)
            described_topic.topic_authorized_operations = access.rights.operations(
                ResourceType.TOPIC, topic.name
            )
        topics.append(described_topic)
    response.topics = topics


def _set_cluster_operations(access: Access, response: Any) -> None:
    """Set the authorized operations on the cluster; none without DESCRIBE."""
    if response.cluster_authorized_operations != NOT_REQUESTED:
        may_describe = access.may_on_cluster(Operation.DESCRIBE)
        response.cluster_authorized_operations = (
            access.rights.operations(ResourceType.CLUSTER, CLUSTER_NAME) if may_describe else 0
        )
