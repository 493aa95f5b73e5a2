"""DescribeConfigs: topics' and brokers' configuration with its sources and synonyms (KIP-226)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.errors import BrokerError, InvalidRequest, UnknownTopicOrPartition, error_of
from pykafka2.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from pykafka2.testing.configs import BROKER_KEYS, TOPIC_KEYS, TopicConfig
from pykafka2.testing.handlers.create_topics import (
    DEFAULT_CONFIG,
    STATIC_BROKER_CONFIG,
    TOPIC_CONFIG,
    source_of,
)
from pykafka2.testing.handlers.registry import handles, refuses

if TYPE_CHECKING:
    from pykafka2.testing.broker import Broker
    from pykafka2.testing.server.request_channel import RequestContext

TOPIC, BROKER = 2, 4


@handles(DescribeConfigsRequest, 1, 4)
def handle(
    broker: Broker, context: RequestContext, request: DescribeConfigsRequest, now: float
) -> DescribeConfigsResponse:
    results = []
    for resource in request.resources:
        try:
            configs = _configs(broker, resource)
        except BrokerError as error:
            results.append(_failed(resource, error.code or 0, str(error)))
            continue
        wanted = resource.configuration_keys
        if wanted is not None:
            configs = [config for config in configs if config.name in wanted]
        if not request.include_synonyms:
            for config in configs:
                config.synonyms = []
        results.append(
            DescribeConfigsResult(
                error_message=None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=configs,
            )
        )
    return DescribeConfigsResponse(results=results)


def _configs(broker: Broker, resource: DescribeConfigsResource) -> list[DescribeConfigsResourceResult]:
    if resource.resource_type == TOPIC:
        topic = broker.image.topics.get(resource.resource_name)
        if topic is None:
            raise UnknownTopicOrPartition
        return [_of_topic(topic.config, name) for name in sorted(TOPIC_KEYS)]
    if resource.resource_type == BROKER:
        if resource.resource_name not in ("", str(broker.id)):
            raise InvalidRequest(
                f"Unexpected broker id, expected {broker.id} or empty string, but received "
                f"{resource.resource_name}"
            )
        return [_of_broker(broker, name) for name in sorted(BROKER_KEYS)]
    raise InvalidRequest(f"Unsupported resource type: {resource.resource_type}")


def _of_topic(config: TopicConfig, name: str) -> DescribeConfigsResourceResult:
    key = TOPIC_KEYS[name]
    synonyms = []
    if name in config.given:
        synonyms.append(DescribeConfigsSynonym(name=name, value=config.given[name], source=TOPIC_CONFIG))
    if key.synonym is not None:
        if key.synonym in config.broker.given:
            value = config.broker.given[key.synonym]
            synonyms.append(
                DescribeConfigsSynonym(name=key.synonym, value=value, source=STATIC_BROKER_CONFIG)
            )
        synonyms.append(DescribeConfigsSynonym(name=key.synonym, value=key.default, source=DEFAULT_CONFIG))
    return DescribeConfigsResourceResult(
        name=name,
        value=config.text(name),
        read_only=False,
        config_source=source_of(config, name),
        is_sensitive=False,
        synonyms=synonyms,
        config_type=key.type_code,
        documentation=None,
    )


def _of_broker(broker: Broker, name: str) -> DescribeConfigsResourceResult:
    key = BROKER_KEYS[name]
    is_given = name in broker.config.given
    return DescribeConfigsResourceResult(
        name=name,
        value=broker.config.given.get(name, key.default),
        read_only=True,
        config_source=STATIC_BROKER_CONFIG if is_given else DEFAULT_CONFIG,
        is_sensitive=False,
        config_type=key.type_code,
        documentation=None,
    )


def _failed(resource: DescribeConfigsResource, code: int, words: str) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=code,
        error_message=words,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[],
    )


@refuses(DescribeConfigsRequest)
def refuse(request: DescribeConfigsRequest, code: int) -> DescribeConfigsResponse:
    words = str(error_of(code))
    return DescribeConfigsResponse(results=[_failed(resource, code, words) for resource in request.resources])
