"""CreateTopics: any broker takes it and has the controller do it (rules 69, 71, 72)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pykafka2.errors import BrokerError, InvalidRequest, error_of
from pykafka2.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from pykafka2.testing.configs import TOPIC_KEYS
from pykafka2.testing.controller import NewTopic
from pykafka2.testing.handlers.registry import handles, refuses

if TYPE_CHECKING:
    from pykafka2.testing.broker import Broker
    from pykafka2.testing.image import TopicImage
    from pykafka2.testing.server.request_channel import RequestContext


@handles(CreateTopicsRequest, 2, 7, by_controller=True)
def handle(
    broker: Broker, context: RequestContext, request: CreateTopicsRequest, now: float
) -> CreateTopicsResponse:
    times = Counter(topic.name for topic in request.topics)
    results = []
    for topic in request.topics:
        if times[topic.name] > 1:
            if times[topic.name] > 0:
                results.append(_failed(topic.name, InvalidRequest("Duplicate topic name.")))
            times[topic.name] = -1  # one answer for all of them
        elif times[topic.name] == 1:
            results.append(_create(broker, topic, validate_only=request.validate_only))
    return CreateTopicsResponse(topics=results)


def _create(broker: Broker, topic: CreatableTopic, *, validate_only: bool) -> CreatableTopicResult:
    new = NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        {config.name: config.value for config in topic.configs if config.value is not None},
        {assigned.partition_index: tuple(assigned.broker_ids) for assigned in topic.assignments},
    )
    try:
        created = broker.controller.create_topic(new, validate_only=validate_only)
    except BrokerError as error:
        return _failed(topic.name, error)
    return _created(created)


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
            for name in sorted(TOPIC_KEYS)
        ],
    )


def _failed(name: str, error: BrokerError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code or 0, error_message=str(error), configs=None)


@refuses(CreateTopicsRequest)
def refuse(request: CreateTopicsRequest, code: int) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[_failed(topic.name, error_of(code)) for topic in request.topics])
