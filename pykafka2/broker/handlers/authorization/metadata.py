"""Authorization of Metadata, DescribeTopicPartitions and DescribeCluster.

Also sets the authorized operations in responses (KIP-430).

A request for all topics returns only those that the client can describe. A named topic without that right
gets TOPIC_AUTHORIZATION_FAILED, whether it exists or not.
"""

from __future__ import annotations

from copy import copy
from typing import Any

from pykafka2.broker.handlers.authorization.checks import Checked, Verdict, code_of, topic_name
from pykafka2.broker.handlers.metadata import NOT_REQUESTED, has_unusable_ids
from pykafka2.broker.security.authorizer import Access
from pykafka2.protocol.acl_terms import CLUSTER_NAME, Operation, ResourceType
from pykafka2.protocol.messages.metadata import (
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
    MetadataResponseTopic,
    TopicRequest,
)
from pykafka2.protocol.primitives import ZERO_UUID

TOPIC, CLUSTER = ResourceType.TOPIC, ResourceType.CLUSTER
REFUSED = code_of(TOPIC)


def check_metadata(checked: Checked) -> Verdict:
    access, requested = checked.access, checked.request.topics
    if requested is not None and has_unusable_ids(checked.version, requested):
        return None  # the handler rejects the whole request and discloses nothing
    if requested is None or (checked.version == 0 and not requested):
        checked.amend(lambda response: _keep_described(access, response))
    else:
        kept, refused = _split(checked, requested)
        if refused:
            checked.replace(topics=kept)
            # An empty list would mean all topics in version 0.
            checked.amend(lambda response: _with_refused(response, refused, keeps=bool(kept)))
    if checked.request.include_topic_authorized_operations:
        checked.amend(lambda response: _set_topic_operations(access, response))
    if checked.request.include_cluster_authorized_operations:
        checked.amend(lambda response: _set_cluster_operations(access, response))
    return None


def check_cluster(checked: Checked) -> Verdict:
    if checked.request.include_cluster_authorized_operations:
        checked.amend(lambda response: _set_cluster_operations(checked.access, response))
    return None


def check_topic_partitions(checked: Checked) -> Verdict:
    """Replace the requested topics by those that the client can describe.

    The handler uses the named topics, or all if none is named.
    """
    access, named = checked.access, {topic.name: topic for topic in checked.request.topics}
    names = list(named) or list(checked.image.topics)
    kept = [name for name in names if access.may(Operation.DESCRIBE, TOPIC, name, notes=bool(named))]
    cursor = checked.request.cursor
    if cursor is not None and not named and cursor.topic_name not in kept:
        # For all topics, the next page starts at the next topic; the handler takes the names for requested
        # ones.
        kept = [name for name in kept if name > cursor.topic_name]
        cursor = None
    if len(kept) < len(names):
        described = set(kept)
        refused = [_refused_partitions(name) for name in names if name not in described] if named else []
        if not kept:
            return DescribeTopicPartitionsResponse(topics=refused)
        checked.replace(topics=[TopicRequest(name=name) for name in kept], cursor=cursor)
        checked.amend(lambda response: response.topics.extend(refused))
    checked.amend(lambda response: _set_topic_operations(access, response))
    return None


# ---------------------------------------------------------------------- topics


def _split(checked: Checked, requested: list[Any]) -> tuple[list[Any], list[MetadataResponseTopic]]:
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
        elif not access.may(Operation.DESCRIBE, TOPIC, name):
            refused[topic.name, topic.topic_id] = _refused(topic)
        elif creates and name not in image.topics:
            if may_create is None:
                may_create = access.may_on_cluster(Operation.CREATE, notes=False)
            if may_create or access.may(Operation.CREATE, TOPIC, name):
                kept.append(topic)
            else:
                refused[topic.name, topic.topic_id] = _refused(topic)
        else:
            kept.append(topic)
    return kept, list(refused.values())


def _refused(topic: Any) -> MetadataResponseTopic:
    """Return the error for a topic: with its id, but without the name behind it."""
    by_id = topic.topic_id != ZERO_UUID
    return MetadataResponseTopic(
        error_code=REFUSED,
        name=None if by_id else topic.name,
        topic_id=topic.topic_id if by_id else ZERO_UUID,
        partitions=[],
    )


def _refused_partitions(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=REFUSED, name=name, topic_id=ZERO_UUID, partitions=[]
    )


def _keep_described(access: Access, response: Any) -> None:
    response.topics = [
        topic for topic in response.topics if access.may(Operation.DESCRIBE, TOPIC, topic.name, notes=False)
    ]


def _with_refused(response: Any, refused: list[MetadataResponseTopic], *, keeps: bool) -> None:
    response.topics = [*(response.topics if keeps else ()), *refused]


# ---------------------------------------------------------------------- authorized operations


def _set_topic_operations(access: Access, response: Any) -> None:
    """Set the authorized operations of topics.

    Change copies, because a cached response shares its topics (base/metadata_cache.py).
    """
    topics = []
    for topic in response.topics:
        described_topic = topic
        if topic.error_code != REFUSED and topic.name is not None:
            described_topic = copy(topic)
            described_topic.topic_authorized_operations = access.rights.operations(TOPIC, topic.name)
        topics.append(described_topic)
    response.topics = topics


def _set_cluster_operations(access: Access, response: Any) -> None:
    """Set the authorized operations on the cluster; none without DESCRIBE."""
    if response.cluster_authorized_operations != NOT_REQUESTED:
        may_describe = access.may_on_cluster(Operation.DESCRIBE)
        response.cluster_authorized_operations = (
            access.rights.operations(CLUSTER, CLUSTER_NAME) if may_describe else 0
        )
