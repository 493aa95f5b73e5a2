"""CreateTopics: any broker accepts it; the controller creates the topics."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pykafka2.broker.config.keys import TOPIC_KEYS
from pykafka2.broker.controller import NewTopic
from pykafka2.broker.controller.topics import MAX_PARTITIONS_PER_REQUEST
from pykafka2.broker.handlers.throttling import message_of, mutation_quota
from pykafka2.errors import (
    BrokerError,
    InvalidConfig,
    InvalidReplicaAssignment,
    InvalidRequest,
    PolicyViolation,
    error_of,
)
from pykafka2.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from pykafka2.broker.base.image import TopicImage
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext

FIRST_STRICT_VERSION = 6
"""Since then a topic above the controller mutation quota is rejected."""


def handle(
    services: Services, context: RequestContext, request: CreateTopicsRequest, now: float
) -> CreateTopicsResponse:
    times = Counter(topic.name for topic in request.topics)
    duplicates = [name for name, count in times.items() if count > 1]
    results = [_failed(name, InvalidRequest("Duplicate topic name.")) for name in duplicates]
    room = MAX_PARTITIONS_PER_REQUEST
    quota = mutation_quota(services, context, FIRST_STRICT_VERSION, now)
    for topic in request.topics:
        if times[topic.name] > 1:
            continue
        room -= len(topic.assignments) or max(1, topic.num_partitions)
        try:
            if room < 0:
                raise PolicyViolation("Excessively large number of partitions per request.")
            created = services.controller.create_topic(
                _new(topic), validate_only=request.validate_only, charge=quota.record
            )
        except BrokerError as error:
            results.append(_failed(topic.name, error))
        else:
            results.append(_created(created))
    return CreateTopicsResponse(throttle_time_ms=quota.throttle_ms, topics=results)


def _new(topic: CreatableTopic) -> NewTopic:
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
    return sorted({*TOPIC_KEYS, *topic.config.overrides})


def _failed(name: str, error: BrokerError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code or 0, error_message=message_of(error))


def refuse(request: CreateTopicsRequest, code: int) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[_failed(topic.name, error_of(code)) for topic in request.topics])
