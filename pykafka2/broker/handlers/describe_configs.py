"""DescribeConfigs and ListConfigResources: options of topics, brokers, groups and others.

Each option has its value, source and synonyms (KIP-226); passwords are left out. ListConfigResources names
the resources that have options (KIP-1142); its version 0 lists client metrics only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pykafka2.broker.base.image import (
    ALL_BROKERS,
    BROKER_RESOURCE,
    GROUP_RESOURCE,
    LOGGER_RESOURCE,
    METRICS_RESOURCE,
    TOPIC_RESOURCE,
    ClusterImage,
    check_topic_name,
)
from pykafka2.broker.config.configs import (
    CLUSTER_SOURCE,
    DEFAULT_SOURCE,
    GROUP_SOURCE,
    LOGGER_SOURCE,
    METRICS_SOURCE,
    BrokerConfig,
    Synonym,
    TopicConfig,
)
from pykafka2.broker.config.keys import (
    BROKER_KEYS,
    DYNAMIC_ONLY_KEYS,
    GROUP_KEYS,
    INTERNAL_TOPIC_KEYS,
    METRICS_KEYS,
    TOPIC_KEYS,
    Key,
)
from pykafka2.broker.handlers.api import api
from pykafka2.broker.handlers.authorization import check_configs, on_cluster
from pykafka2.broker.handlers.services import Services
from pykafka2.broker.server.responses import REFUSAL
from pykafka2.errors import BrokerError, InvalidRequest, UnknownTopicOrPartition, UnsupportedVersion
from pykafka2.protocol.acl_terms import Operation
from pykafka2.protocol.messages.configs import (
    ConfigResource,
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from pykafka2.broker.server.request_context import RequestContext


Entries = list[DescribeConfigsResourceResult]

UNKNOWN_TYPE = 0


def of_topic(config: TopicConfig) -> Entries:
    """Return a topic's options over those of this broker."""
    keys = {
        **TOPIC_KEYS,
        **{name: key for name, key in INTERNAL_TOPIC_KEYS.items() if name in config.overrides},
    }
    return [
        _entry(key, config.text(name), config.synonyms(name))
        for name, key in sorted(keys.items())
        if name not in config.broker.lacks
    ]


def of_broker(config: BrokerConfig) -> Entries:
    """Return all options of one broker, including unknown dynamic ones."""
    entries = [
        _entry(key, config.text(name), config.synonyms(name), read_only=not key.is_dynamic)
        for name, key in sorted(BROKER_KEYS.items())
        if name not in config.lacks
    ]
    others = sorted({*config.own, *config.cluster_wide} - {*BROKER_KEYS})
    return [*entries, *(_dynamic(name, config.synonyms(name)) for name in others)]


def of_all_brokers(configs: Mapping[str, str]) -> Entries:
    """Return only the options that are set for all brokers."""
    return [_dynamic(name, [Synonym(name, text, CLUSTER_SOURCE)]) for name, text in sorted(configs.items())]


def of_group(configs: Mapping[str, str], broker: BrokerConfig) -> Entries:
    """Return a group's options over the broker's."""
    return [
        _with_default(key, configs.get(name), GROUP_SOURCE, broker)
        for name, key in GROUP_KEYS.items()
        if name not in broker.lacks
    ]


def of_metrics(configs: Mapping[str, str]) -> Entries:
    """Return the options of a client metrics subscription.

    Defaults have no synonyms, as in Kafka's ConfigHelper.
    """
    entries = []
    for name, key in METRICS_KEYS.items():
        value = configs.get(name)
        own = [] if value is None else [Synonym(name, value, METRICS_SOURCE)]
        entries.append(_entry(key, key.default if value is None else value, own))
    return entries


def of_loggers(services: Services) -> Entries:
    """Return the levels of a broker's loggers."""
    return [
        DescribeConfigsResourceResult(
            name=name,
            value=level,
            read_only=False,
            config_source=LOGGER_SOURCE,
            is_sensitive=False,
            config_type=UNKNOWN_TYPE,
            documentation=None,
        )
        for name, level in sorted(services.log_levels.items())
    ]


def _with_default(
    key: Key, value: str | None, source: int, broker: BrokerConfig
) -> DescribeConfigsResourceResult:
    synonyms = [] if value is None else [Synonym(key.name, value, source)]
    if key.synonym is not None:
        synonyms += broker.synonyms(key.synonym)
    if value is None:
        value = broker.text(key.synonym) if key.synonym else key.default
    if key.synonym is None and key.default is not None:
        synonyms.append(Synonym(key.name, key.default, DEFAULT_SOURCE))
    return _entry(key, value, synonyms)


def _dynamic(name: str, synonyms: list[Synonym]) -> DescribeConfigsResourceResult:
    """Return a dynamic option; an unknown one could be a secret."""
    key = BROKER_KEYS.get(name) or DYNAMIC_ONLY_KEYS.get(name) or Key(name, "PASSWORD", None, "")
    return _entry(key, synonyms[0].value, synonyms)


def _entry(
    key: Key, value: str | None, synonyms: list[Synonym], *, read_only: bool = False
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
            DescribeConfigsSynonym(name=synonym.name, value=shown(synonym.value), source=synonym.source)
            for synonym in synonyms
        ],
        config_type=key.type_code,
        documentation=None,
    )


@api(DescribeConfigsRequest, 1, 4, access=check_configs(Operation.DESCRIBE_CONFIGS), oldest=0)
def handle_describe_configs(
    services: Services, context: RequestContext, request: DescribeConfigsRequest, now: float
) -> DescribeConfigsResponse:
    results = []
    for resource in request.resources:
        try:
            configs = _configs(services, resource.resource_type, resource.resource_name)
        except BrokerError as error:
            failed = REFUSAL.entry(DescribeConfigsResult, resource, context.version, error)
            failed.error_message = error.args[0] if error.args else str(error)
            results.append(failed)
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
        return of_topic(topic.config.over(services.config))
    if resource_type == BROKER_RESOURCE:
        if not name:
            return of_all_brokers(image.configs_of(*ALL_BROKERS))
        _check_id(services, name, "{} or empty string,")
        return of_broker(services.config)
    if resource_type == LOGGER_RESOURCE:
        if not name:
            raise InvalidRequest("Broker id must not be empty")
        _check_id(services, name, "{}")
        return of_loggers(services)
    if resource_type == GROUP_RESOURCE:
        if not name:
            raise InvalidRequest("Group name must not be empty")
        return of_group(image.configs_of(resource_type, name), services.config)
    if resource_type == METRICS_RESOURCE:
        if not name:
            raise InvalidRequest("Client metrics subscription name must not be empty")
        return of_metrics(image.configs_of(resource_type, name))
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


LISTED = (GROUP_RESOURCE, METRICS_RESOURCE, LOGGER_RESOURCE, BROKER_RESOURCE, TOPIC_RESOURCE)


@api(ListConfigResourcesRequest, 0, 1, access=on_cluster(Operation.DESCRIBE_CONFIGS))
def handle_list_config_resources(
    services: Services, context: RequestContext, request: ListConfigResourcesRequest, now: float
) -> ListConfigResourcesResponse:
    wanted = request.resource_types or list(LISTED)
    if context.version == 0:
        wanted = [METRICS_RESOURCE]
    if not set(wanted) <= set(LISTED):
        raise UnsupportedVersion("an unknown type of resource")
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in LISTED
            if kind in wanted
            for name in _resource_names(services.image, kind)
        ]
    )


def _resource_names(image: ClusterImage, kind: int) -> list[str]:
    if kind == TOPIC_RESOURCE:
        return sorted(image.topics)
    if kind in (BROKER_RESOURCE, LOGGER_RESOURCE):
        return [str(broker.id) for broker in image.live_brokers()]
    return sorted(name for known, name in image.configs if known == kind)
