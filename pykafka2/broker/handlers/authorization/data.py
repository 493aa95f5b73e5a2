"""Authorization of Produce, Fetch, and changes of topics."""

from __future__ import annotations

from typing import Any

from pykafka2.broker.handlers.authorization.checks import (
    WORDS,
    Check,
    Checked,
    Verdict,
    add_refusals,
    code_of,
    each_topic,
    topic_name,
)
from pykafka2.broker.handlers.produce import is_transactional
from pykafka2.errors import TransactionalIdAuthorizationFailed
from pykafka2.protocol.acl_terms import Operation, ResourceType
from pykafka2.protocol.messages.topics import DeletableTopicResult
from pykafka2.protocol.primitives import ZERO_UUID

TOPIC = ResourceType.TOPIC
NO_ACKS = 0
FIRST_FETCH_WITH_REPLICA_STATE = 15
TOPICS_OF_PRODUCE = each_topic(Operation.WRITE, "topic_data", "responses")


def check_produce(checked: Checked) -> Verdict:
    """Check WRITE on each topic, and on the transactional id if there are transactional batches."""
    request, access = checked.request, checked.access
    name = request.transactional_id
    if (
        name is not None
        and is_transactional(request)
        and not access.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name)
    ):
        return TransactionalIdAuthorizationFailed.code
    verdict = TOPICS_OF_PRODUCE(checked)
    if request.acks == NO_ACKS:
        if verdict is not None:
            return code_of(TOPIC)  # there is no response: the connection closes
        checked.context.closes_without_response = checked.request is not request
    return verdict


def check_fetch(checked: Checked) -> Verdict:
    """Check CLUSTER_ACTION for a follower.

    handlers/fetch.py checks what consumers can read, because fetch sessions continue without naming topics.
    """
    request = checked.request
    is_state = checked.version >= FIRST_FETCH_WITH_REPLICA_STATE
    replica_id = request.replica_state.replica_id if is_state else request.replica_id
    if replica_id < 0 or checked.access.may_on_cluster(Operation.CLUSTER_ACTION):
        return None
    return code_of(TOPIC)


def check_create_topics(checked: Checked) -> Verdict:
    """Check CREATE on the cluster or the topic; hide the configuration without DESCRIBE_CONFIGS."""
    access = checked.access
    verdict = None
    if not access.may_on_cluster(Operation.CREATE, notes=False):
        verdict = each_topic(Operation.CREATE, skip_duplicates=True, message="Authorization failed.")(checked)
    checked.amend(lambda response: _hide_configs(access, response))
    return verdict


def _hide_configs(access: Any, response: Any) -> None:
    for topic in response.topics:
        if not topic.error_code and not access.may(
            Operation.DESCRIBE_CONFIGS, TOPIC, topic.name, notes=False
        ):
            topic.topic_config_error_code = code_of(TOPIC)
            topic.num_partitions = topic.replication_factor = -1
            topic.configs = []


def check_delete_topics(checked: Checked) -> Verdict:
    """Check DELETE on the cluster or the topic.

    Without DESCRIBE the response hides whether a topic exists.
    """
    request, access = checked.request, checked.access
    if access.may_on_cluster(Operation.DELETE, notes=False):
        return None
    refused: list[DeletableTopicResult] = []
    topics, names = [], []
    for state in request.topics:
        name = topic_name(state, checked.image)
        if name is None or _may_delete(access, name, checked):
            topics.append(state)
        else:
            by_id = state.topic_id != ZERO_UUID
            hides = by_id and not access.may(Operation.DESCRIBE, TOPIC, name, notes=False)
            refused.append(_undeleted(None if hides else name, state.topic_id if by_id else ZERO_UUID))
    for name in request.topic_names:
        if _may_delete(access, name, checked):
            names.append(name)
        else:
            refused.append(_undeleted(name, ZERO_UUID))
    if refused:
        checked.replace(topics=topics, topic_names=names)
        checked.amend(lambda response: response.responses.extend(refused))
    return None


def _may_delete(access: Any, name: str, checked: Checked) -> bool:
    """Return whether a topic can be deleted; a missing topic counts as unknown if it can be described."""
    if name not in checked.image.topics and access.may(Operation.DESCRIBE, TOPIC, name, notes=False):
        return True
    return bool(access.may(Operation.DELETE, TOPIC, name))


def _undeleted(name: str | None, topic_id: bytes) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=code_of(TOPIC), error_message=WORDS[code_of(TOPIC)]
    )


TOPIC_CONFIGS, LOGGER_CONFIGS, GROUP_CONFIGS = 2, 8, 32
"""Numbers of configurable resources; resources of other types need rights on the cluster."""


def check_configs(operation: int, responses: str, *, names_loggers: bool = False) -> Check:
    """Return a check for DESCRIBE_CONFIGS or ALTER_CONFIGS on each resource.

    The right is needed on the topic, the group or the cluster.

    With `names_loggers` loggers are included, which Kafka rejects without a message.
    """

    def check(checked: Checked) -> Verdict:
        refused: dict[tuple[int, bool], list[Any]] = {}
        kept: list[Any] = []
        for resource in checked.request.resources:
            resource_type, is_allowed = _check_resource(checked, operation, resource)
            if is_allowed:
                kept.append(resource)
            else:
                is_logger = names_loggers and resource.resource_type == LOGGER_CONFIGS
                refused.setdefault((resource_type, is_logger), []).append(resource)
        for (resource_type, is_logger), resources in refused.items():
            code = code_of(resource_type)
            add_refusals(checked, "resources", responses, resources, code, None if is_logger else WORDS[code])
        if refused:
            checked.replace(resources=kept)
        return None

    return check


def _check_resource(checked: Checked, operation: int, resource: Any) -> tuple[int, bool]:
    """Return the type that a configurable resource belongs to, and whether the operation is allowed."""
    access, name = checked.access, resource.resource_name
    if resource.resource_type == TOPIC_CONFIGS:
        return TOPIC, access.may(operation, TOPIC, name)
    if resource.resource_type == GROUP_CONFIGS:
        return ResourceType.GROUP, access.may(operation, ResourceType.GROUP, name)
    return ResourceType.CLUSTER, access.may_on_cluster(operation)
