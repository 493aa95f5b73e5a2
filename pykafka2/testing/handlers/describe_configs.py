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
from pykafka2.testing.configs import BROKER_KEYS, DEFAULT_SOURCE, TOPIC_KEYS, Key, Synonym
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
        config = topic.config
        return [
            _entry(key, config.text(name), config.synonyms(name), read_only=False)
            for name, key in sorted(TOPIC_KEYS.items())
        ]
    if resource.resource_type == BROKER:
        if resource.resource_name not in ("", str(broker.id)):
            raise InvalidRequest(
                f"Unexpected broker id, expected {broker.id} or empty string, but received "
                f"{resource.resource_name}"
            )
        own = broker.config
        return [
            _entry(key, own.text(name), own.synonyms(name), read_only=not key.is_dynamic)
            for name, key in sorted(BROKER_KEYS.items())
        ]
    raise InvalidRequest(f"Unsupported resource type: {resource.resource_type}")


def _entry(
    key: Key, value: str | None, synonyms: list[Synonym], *, read_only: bool
) -> DescribeConfigsResourceResult:
    def shown(text: str | None) -> str | None:
        return None if key.is_sensitive else text

    return DescribeConfigsResourceResult(
        name=key.name,
        value=shown(value),
        read_only=read_only,
        config_source=synonyms[0].source if synonyms else DEFAULT_SOURCE,
        is_sensitive=key.is_sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=one.name, value=shown(one.value), source=one.source)
            for one in synonyms
        ],
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
