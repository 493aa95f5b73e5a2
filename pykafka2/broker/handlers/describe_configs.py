"""DescribeConfigs: options of topics, brokers, groups and others, with sources and synonyms (KIP-226)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.broker.base.image import (
    ALL_BROKERS,
    BROKER_RESOURCE,
    GROUP_RESOURCE,
    LOGGER_RESOURCE,
    METRICS_RESOURCE,
    TOPIC_RESOURCE,
    check_topic_name,
)
from pykafka2.broker.handlers import config_entries
from pykafka2.broker.handlers.config_entries import Entries
from pykafka2.errors import BrokerError, InvalidRequest, UnknownTopicOrPartition, error_of
from pykafka2.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext


def handle(
    services: Services, context: RequestContext, request: DescribeConfigsRequest, now: float
) -> DescribeConfigsResponse:
    results = []
    for resource in request.resources:
        try:
            configs = _configs(services, resource.resource_type, resource.resource_name)
        except BrokerError as error:
            results.append(_failed(resource, error.code or 0, error.args[0] if error.args else str(error)))
            continue
        wanted = resource.configuration_keys
        if wanted:  # an empty list means all, like null
            configs = [config for config in configs if config.name in wanted]
        if not request.include_synonyms:
            for config in configs:
                config.synonyms = []
        results.append(
            DescribeConfigsResult(
                error_message="",
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=configs,
            )
        )
    return DescribeConfigsResponse(results=results)


def _configs(services: Services, resource_type: int, name: str) -> Entries:
    image = services.image
    if resource_type == TOPIC_RESOURCE:
        check_topic_name(name)
        topic = image.topics.get(name)
        if topic is None:
            raise UnknownTopicOrPartition("")
        return config_entries.of_topic(topic.config.over(services.config))
    if resource_type == BROKER_RESOURCE:
        if not name:
            return config_entries.of_all_brokers(image.configs_of(*ALL_BROKERS))
        _check_id(services, name, "{} or empty string,")
        return config_entries.of_broker(services.config)
    if resource_type == LOGGER_RESOURCE:
        if not name:
            raise InvalidRequest("Broker id must not be empty")
        _check_id(services, name, "{}")
        return config_entries.of_loggers(services)
    if resource_type == GROUP_RESOURCE:
        if not name:
            raise InvalidRequest("Group name must not be empty")
        return config_entries.of_group(image.configs_of(resource_type, name), services.config)
    if resource_type == METRICS_RESOURCE:
        if not name:
            raise InvalidRequest("Client metrics subscription name must not be empty")
        return config_entries.of_metrics(image.configs_of(resource_type, name))
    raise InvalidRequest(f"Unsupported resource type: {resource_type}")


def _check_id(services: Services, name: str, expected: str) -> None:
    """Raise unless the id is this broker's: a broker describes only itself."""
    try:
        broker_id = int(name)
    except ValueError:
        raise InvalidRequest(f"Broker id must be an integer, but it is: {name}") from None
    if broker_id != services.id:
        raise InvalidRequest(
            f"Unexpected broker id, expected {expected.format(services.id)} but received {name}"
        )


def _failed(resource: DescribeConfigsResource, code: int, message: str) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[],
    )


def refuse(request: DescribeConfigsRequest, code: int) -> DescribeConfigsResponse:
    message = str(error_of(code))
    return DescribeConfigsResponse(
        results=[_failed(resource, code, message) for resource in request.resources]
    )
