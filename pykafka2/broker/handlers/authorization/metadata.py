"""What Metadata, DescribeTopicPartitions and DescribeCluster tell whom: the topics that one may describe, and
what one may do (KIP-430).

Who asks for all topics hears nothing of the others; who names one hears TOPIC_AUTHORIZATION_FAILED, whether
it exists or not.
"""

from __future__ import annotations

from copy import copy
from typing import Any

from pykafka2.broker.handlers.authorization.checks import Checked, Verdict, code_of, topic_name
from pykafka2.broker.handlers.metadata import NOT_ASKED, has_unusable_ids
from pykafka2.broker.security.asker import Asker
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
    asker, asked = checked.asker, checked.request.topics
    if asked is not None and has_unusable_ids(checked.version, asked):
        return None  # the handler refuses the request as a whole and discloses nothing
    if asked is None or (checked.version == 0 and not asked):
        checked.amend(lambda response: _keep_described(asker, response))
    else:
        kept, refused = _split(checked, asked)
        if refused:
            checked.replace(topics=kept)
            # An empty list asks version 0 for all.
            checked.amend(lambda response: _with_refused(response, refused, keeps=bool(kept)))
    if checked.request.include_topic_authorized_operations:
        checked.amend(lambda response: _tell_topic_operations(asker, response))
    if checked.request.include_cluster_authorized_operations:
        checked.amend(lambda response: _tell_cluster_operations(asker, response))
    return None


def check_cluster(checked: Checked) -> Verdict:
    if checked.request.include_cluster_authorized_operations:
        checked.amend(lambda response: _tell_cluster_operations(checked.asker, response))
    return None


def check_topic_partitions(checked: Checked) -> Verdict:
    """Its handler takes the topics from the request, or all: so all that may be described are named to it."""
    asker, named = checked.asker, {topic.name: topic for topic in checked.request.topics}
    names = list(named) or list(checked.image.topics)
    kept = [one for one in names if asker.may(Operation.DESCRIBE, TOPIC, one, notes=bool(named))]
    cursor = checked.request.cursor
    if cursor is not None and not named and cursor.topic_name not in kept:
        # Where all are asked for, the next page begins at the next topic; the handler takes names for asked.
        kept = [one for one in kept if one > cursor.topic_name]
        cursor = None
    if len(kept) < len(names):
        described = set(kept)
        refused = [_refused_partitions(one) for one in names if one not in described] if named else []
        if not kept:
            return DescribeTopicPartitionsResponse(topics=refused)
        checked.replace(topics=[TopicRequest(name=one) for one in kept], cursor=cursor)
        checked.amend(lambda response: response.topics.extend(refused))
    checked.amend(lambda response: _tell_topic_operations(asker, response))
    return None


# ---------------------------------------------------------------------- which topics


def _split(checked: Checked, asked: list[Any]) -> tuple[list[Any], list[MetadataResponseTopic]]:
    """The topics that are answered, and refusals of the others."""
    asker, image = checked.asker, checked.image
    may_create: bool | None = None
    creates = checked.request.allow_auto_topic_creation and checked.services.config.get(
        "auto.create.topics.enable"
    )
    kept: list[Any] = []
    refused: dict[tuple[str | None, bytes], MetadataResponseTopic] = {}
    for topic in asked:
        name = topic_name(topic, image)
        if name is None:
            kept.append(topic)  # an id that nobody knows
        elif not asker.may(Operation.DESCRIBE, TOPIC, name):
            refused[topic.name, topic.topic_id] = _refused(topic)
        elif creates and name not in image.topics:
            if may_create is None:
                may_create = asker.may_on_cluster(Operation.CREATE, notes=False)
            if may_create or asker.may(Operation.CREATE, TOPIC, name):
                kept.append(topic)
            else:
                refused[topic.name, topic.topic_id] = _refused(topic)
        else:
            kept.append(topic)
    return kept, list(refused.values())


def _refused(topic: Any) -> MetadataResponseTopic:
    """An id is nothing to hide; what stands behind it is."""
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


def _keep_described(asker: Asker, response: Any) -> None:
    response.topics = [
        topic for topic in response.topics if asker.may(Operation.DESCRIBE, TOPIC, topic.name, notes=False)
    ]


def _with_refused(response: Any, refused: list[MetadataResponseTopic], *, keeps: bool) -> None:
    response.topics = [*(response.topics if keeps else ()), *refused]


# ---------------------------------------------------------------------- authorized operations


def _tell_topic_operations(asker: Asker, response: Any) -> None:
    """In copies: the topics of an answer may be shared with others (base/known_metadata.py)."""
    topics = []
    for topic in response.topics:
        told = topic
        if topic.error_code != REFUSED and topic.name is not None:
            told = copy(topic)
            told.topic_authorized_operations = asker.rights.operations(TOPIC, topic.name)
        topics.append(told)
    response.topics = topics


def _tell_cluster_operations(asker: Asker, response: Any) -> None:
    """Nothing at all to who may not describe the cluster."""
    if response.cluster_authorized_operations != NOT_ASKED:
        may_describe = asker.may_on_cluster(Operation.DESCRIBE)
        response.cluster_authorized_operations = (
            asker.rights.operations(CLUSTER, CLUSTER_NAME) if may_describe else 0
        )
