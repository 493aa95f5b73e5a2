"""CreateTopics, CreatePartitions and DeleteTopics.

Any broker accepts them, and the controller changes the topics. They are deleted by name, or by id since
version 6 (KIP-516).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from pykafka2.broker.config.keys import TOPIC_KEYS
from pykafka2.broker.controller import NewTopic
from pykafka2.broker.controller.topics import MAX_PARTITIONS_PER_REQUEST, added_partitions, check_size
from pykafka2.broker.handlers.api import CONTROLLER, api
from pykafka2.broker.handlers.authorization import (
    MESSAGES,
    Checked,
    Verdict,
    code_of,
    each_topic,
    topic_name,
)
from pykafka2.broker.handlers.throttling import message_of, mutation_quota
from pykafka2.broker.server.responses import Refusal
from pykafka2.errors import (
    BrokerError,
    InvalidConfig,
    InvalidReplicaAssignment,
    InvalidRequest,
    PolicyViolation,
    ThrottlingQuotaExceeded,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from pykafka2.protocol.acl_terms import Operation, ResourceType
from pykafka2.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from pykafka2.protocol.primitives import ZERO_UUID

if TYPE_CHECKING:
    from pykafka2.broker.base.image import ClusterImage, TopicImage
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.quotas.client_quotas import MutationQuota
    from pykafka2.broker.server.request_context import RequestContext


FIRST_STRICT_ADDITION = 3
"""Since then partitions above the controller mutation quota are rejected."""


@api(
    CreatePartitionsRequest,
    0,
    3,
    at=CONTROLLER,
    access=each_topic(Operation.ALTER, skip_duplicates=True, message=None),
    refusal=Refusal(silent=(ThrottlingQuotaExceeded, UnknownTopicOrPartition)),
)
def handle_create_partitions(
    services: Services, context: RequestContext, request: CreatePartitionsRequest, now: float
) -> CreatePartitionsResponse:
    times = Counter(topic.name for topic in request.topics)
    duplicates = [name for name, count in times.items() if count > 1]
    results = [_not_added(name, InvalidRequest("Duplicate topic name.")) for name in duplicates]
    quota = mutation_quota(services, context, FIRST_STRICT_ADDITION, now)
    results += [
        _add_partitions(services, topic, quota, validate_only=request.validate_only)
        for topic in request.topics
        if times[topic.name] == 1
    ]
    return CreatePartitionsResponse(throttle_time_ms=quota.throttle_ms, results=results)


def _add_partitions(
    services: Services, topic: CreatePartitionsTopic, quota: MutationQuota, *, validate_only: bool
) -> CreatePartitionsTopicResult:
    assignments = topic.assignments
    try:
        check_size(topic.count)
        records = added_partitions(
            services.controller.state,
            topic.name,
            topic.count,
            None if assignments is None else [assigned.broker_ids for assigned in assignments],
            charge=quota.record,
        )
        if not validate_only:
            services.controller.write(records)
    except BrokerError as error:
        return _not_added(topic.name, error)
    return CreatePartitionsTopicResult(name=topic.name)


def _not_added(name: str, error: BrokerError) -> CreatePartitionsTopicResult:
    message = None if isinstance(error, UnknownTopicOrPartition) else message_of(error)
    return CreatePartitionsTopicResult(name=name, error_code=error.code or 0, error_message=message)


FIRST_STRICT_CREATION = 6
"""Since then a topic above the controller mutation quota is rejected."""


def check_create_topics(checked: Checked) -> Verdict:
    """Check CREATE on the cluster or the topic; hide the configuration without DESCRIBE_CONFIGS."""
    access = checked.access
    verdict = None
    if not access.may_on_cluster(Operation.CREATE, notes=False):
        verdict = each_topic(Operation.CREATE, skip_duplicates=True, message="Authorization failed.")(checked)
    checked.amend(lambda response: _hide_configs(access, response))
    return verdict


@api(
    CreateTopicsRequest,
    2,
    7,
    at=CONTROLLER,
    access=check_create_topics,
    refusal=Refusal(silent=ThrottlingQuotaExceeded),
    oldest=0,
)
def handle_create_topics(
    services: Services, context: RequestContext, request: CreateTopicsRequest, now: float
) -> CreateTopicsResponse:
    times = Counter(topic.name for topic in request.topics)
    duplicates = [name for name, count in times.items() if count > 1]
    results = [_not_created(name, InvalidRequest("Duplicate topic name.")) for name in duplicates]
    room = MAX_PARTITIONS_PER_REQUEST
    quota = mutation_quota(services, context, FIRST_STRICT_CREATION, now)
    for topic in request.topics:
        if times[topic.name] > 1:
            continue
        room -= len(topic.assignments) or max(1, topic.num_partitions)
        try:
            if room < 0:
                raise PolicyViolation("Excessively large number of partitions per request.")
            created = services.controller.create_topic(
                _new_topic(topic), validate_only=request.validate_only, charge=quota.record
            )
        except BrokerError as error:
            results.append(_not_created(topic.name, error))
        else:
            results.append(_created(created))
    return CreateTopicsResponse(throttle_time_ms=quota.throttle_ms, topics=results)


def _new_topic(topic: CreatableTopic) -> NewTopic:
    nulls = [config.name for config in topic.configs if config.value is None]
    if nulls:
        raise InvalidConfig(f"Null value not supported for topic configs: {', '.join(nulls)}")
    assignment: dict[int, tuple[int, ...]] = {}
    for assigned in topic.assignments:
        if assigned.partition_index in assignment:
            raise InvalidReplicaAssignment(
                f"Found multiple manual partition assignments for partition {assigned.partition_index}"
            )
        assignment[assigned.partition_index] = tuple(assigned.broker_ids)
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        {config.name: config.value for config in topic.configs},
        assignment,
    )


def _created(topic: TopicImage) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic.id,
        error_message=None,
        num_partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas),
        configs=[
            CreatableTopicConfigs(
                name=name,
                value=topic.config.text(name),
                read_only=False,
                config_source=topic.config.source(name),
                is_sensitive=False,
            )
            for name in _described(topic)
        ],
    )


def _described(topic: TopicImage) -> list[str]:
    """Return the names of all public options, and of internal ones that this topic sets."""
    return sorted({*TOPIC_KEYS, *topic.config.overrides} - topic.config.broker.lacks)


def _not_created(name: str, error: BrokerError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code or 0, error_message=message_of(error))


FIRST_STRICT_DELETION = 5
"""Since then deletions above the controller mutation quota are rejected."""


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
            hides = by_id and not access.may(Operation.DESCRIBE, ResourceType.TOPIC, name, notes=False)
            refused.append(_may_not_delete(None if hides else name, state.topic_id if by_id else ZERO_UUID))
    for name in request.topic_names:
        if _may_delete(access, name, checked):
            names.append(name)
        else:
            refused.append(_may_not_delete(name, ZERO_UUID))
    if refused:
        checked.replace(topics=topics, topic_names=names)
        checked.amend(lambda response: response.responses.extend(refused))
    return None


@api(DeleteTopicsRequest, 1, 6, at=CONTROLLER, access=check_delete_topics, oldest=0)
def handle_delete_topics(
    services: Services, context: RequestContext, request: DeleteTopicsRequest, now: float
) -> DeleteTopicsResponse:
    quota = mutation_quota(services, context, FIRST_STRICT_DELETION, now)
    responses = _deleted(services, _topics_to_delete(request), quota)
    return DeleteTopicsResponse(throttle_time_ms=quota.throttle_ms, responses=responses)


def _topics_to_delete(request: DeleteTopicsRequest) -> list[DeleteTopicState]:
    named = [DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in request.topic_names]
    return [*request.topics, *named]


def _deleted(
    services: Services, requested: list[DeleteTopicState], quota: MutationQuota
) -> list[DeletableTopicResult]:
    """Reject topics that are named twice, by name or id, and delete the others (KIP-516)."""
    image = services.controller.image
    results: list[DeletableTopicResult] = []
    names = Counter(
        state.name for state in requested if state.name is not None and state.topic_id == ZERO_UUID
    )
    ids = Counter(state.topic_id for state in requested if state.name is None)
    named_ids = {image.topics[name].id for name in names if name in image.topics}
    seen: set[tuple[str | None, bytes]] = set()
    for state in requested:
        key = (state.name, state.topic_id)
        if key in seen:
            continue
        seen.add(key)
        try:
            if state.name is not None and state.topic_id != ZERO_UUID:
                raise InvalidRequest("You may not specify both topic name and topic id.")
            if state.name is None and state.topic_id == ZERO_UUID:
                raise InvalidRequest("Neither topic name nor id were specified.")
            if state.name is not None and names[state.name] > 1:
                raise InvalidRequest("Duplicate topic name.")
            if state.name is None and ids[state.topic_id] > 1:
                raise InvalidRequest("Duplicate topic id.")
            if state.name is None and state.topic_id in named_ids:
                continue  # reported with its name
            results.append(_delete_topic(services, image, state, quota, by_both=ids))
        except BrokerError as error:
            results.append(_not_deleted(state, error))
    return results


def _delete_topic(
    services: Services,
    image: ClusterImage,
    state: DeleteTopicState,
    quota: MutationQuota,
    *,
    by_both: Counter[bytes],
) -> DeletableTopicResult:
    topic = image.topic_by_id(state.topic_id) if state.name is None else image.topics.get(state.name)
    if topic is None:
        if state.name is None:
            raise UnknownTopicId("This server does not host this topic ID.")
        raise UnknownTopicOrPartition("This server does not host this topic-partition.")
    if state.name is not None and topic.id in by_both:
        return DeletableTopicResult(
            name=topic.name,
            topic_id=topic.id,
            error_code=InvalidRequest.code or 0,
            error_message="The provided topic name maps to an ID that was already supplied.",
        )
    services.controller.delete_topic(topic.name, charge=quota.record)
    return DeletableTopicResult(name=topic.name, topic_id=topic.id)


def _not_deleted(state: DeleteTopicState, error: BrokerError) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=state.name, topic_id=state.topic_id, error_code=error.code or 0, error_message=message_of(error)
    )


def _hide_configs(access: Any, response: Any) -> None:
    for topic in response.topics:
        if not topic.error_code and not access.may(
            Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name, notes=False
        ):
            topic.topic_config_error_code = code_of(ResourceType.TOPIC)
            topic.num_partitions = topic.replication_factor = -1
            topic.configs = []


def _may_delete(access: Any, name: str, checked: Checked) -> bool:
    """Return whether a topic can be deleted; a missing topic counts as unknown if it can be described."""
    if name not in checked.image.topics and access.may(
        Operation.DESCRIBE, ResourceType.TOPIC, name, notes=False
    ):
        return True
    return bool(access.may(Operation.DELETE, ResourceType.TOPIC, name))


def _may_not_delete(name: str | None, topic_id: bytes) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=name,
        topic_id=topic_id,
        error_code=code_of(ResourceType.TOPIC),
        error_message=MESSAGES[code_of(ResourceType.TOPIC)],
    )
