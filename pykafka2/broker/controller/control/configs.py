"""Configuration changes by IncrementalAlterConfigs and AlterConfigs, validated as in Kafka.

The checks of groups and client metrics subscriptions are pure functions of a map of strings, with the rules
and messages of Kafka's GroupConfig and ClientMetricsConfigs. The rest are functions over a `Controller`:
`configured` returns the records of a change without writing them, so that a request is applied, or only
validated, as a whole. Access requires the cluster's lock, on the controller's queue.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from enum import IntEnum
from importlib import import_module
from typing import Any, Final

import attrs

from pykafka2.broker.base.image import (
    ALL_BROKERS,
    BROKER_RESOURCE,
    GROUP_RESOURCE,
    METRICS_RESOURCE,
    TOPIC_RESOURCE,
    check_topic_name,
)
from pykafka2.broker.config.configs import BrokerConfig, TopicConfig
from pykafka2.broker.config.keys import (
    BROKER_KEYS,
    DYNAMIC_ONLY_KEYS,
    GROUP_KEYS,
    METRICS_KEYS,
    Key,
    topic_key,
)
from pykafka2.broker.controller.controller import Controller
from pykafka2.broker.controller.metadata.image import MetadataImage
from pykafka2.broker.controller.metadata.records import config_changes
from pykafka2.errors import InvalidConfig, InvalidRequest, UnknownServerError, UnknownTopicOrPartition
from pykafka2.protocol.messages.metadata_records import ClearElrRecord
from pykafka2.protocol.struct import MetadataRecord

SHORTEST_PUSH_MS: Final = 100
LONGEST_PUSH_MS: Final = 3_600_000

MIN_ISR: Final = "min.insync.replicas"

MATCHERS: Final = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)
"""Client attributes that the match expression of a client metrics subscription can use."""


def check_group(configs: Mapping[str, str], broker: BrokerConfig) -> None:
    """Raise `InvalidConfig` unless these are valid options of a group."""
    for name, text in configs.items():
        key = GROUP_KEYS.get(name)
        if key is None or name in broker.lacks:
            raise InvalidConfig(f"Unknown group config name: {name}")
        value = _parsed(key, text)
        low, high = _bound(key, "min"), _bound(key, "max")
        if low is not None and value < broker.int(low):
            raise InvalidConfig(f"{name} must be greater than or equal to {low}")
        if high is not None and value > broker.int(high):
            raise InvalidConfig(f"{name} must be less than or equal to {high}")


def _bound(key: Key, which: str) -> str | None:
    """Return the broker option that bounds a group option, or None.

    For example group.consumer.min.session.timeout.ms.
    """
    kind, _, rest = key.name.partition(".")
    name = f"group.{kind}.{which}.{rest.removeprefix('num.')}"
    return name if name in BROKER_KEYS else None


def check_metrics(configs: Mapping[str, str]) -> None:
    """Raise unless a client metrics subscription can have these options."""
    for name, text in configs.items():
        key = METRICS_KEYS.get(name)
        if key is None:
            raise InvalidRequest(f"Unknown client metrics configuration: {name}")
        value = _parsed(key, text)
        if name == "interval.ms" and not SHORTEST_PUSH_MS <= value <= LONGEST_PUSH_MS:
            raise InvalidRequest(
                f"Invalid value {text} for interval.ms, interval must be between 100 and 3600000 (1 hour)"
            )
        if name == "match":
            for pattern in value:
                _check_pattern(pattern)


def _check_pattern(pattern: str) -> None:
    name, equals, expression = pattern.partition("=")
    try:
        if not equals or name.strip() not in MATCHERS:
            raise ValueError
        # Nothing matches the expression, so it is only parsed: compiling can loop over all of Unicode.
        # The parser is not public, but there is no other way.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the client's pattern can be suspicious to Python
            import_module("re._parser").parse(expression.strip())
    except (ValueError, OverflowError, RecursionError, re.error):
        raise InvalidConfig(f"Illegal client matching pattern: {pattern}") from None


def _parsed(key: Key, text: str) -> Any:
    try:
        return key.parse(text)
    except ValueError as error:
        raise InvalidConfig(key.invalid(text, error)) from None


# Kafka accepts these only for a single broker, or only with a listener's prefix.
PER_BROKER = ("listeners", "listener.security.protocol.map", "principal.builder.class", "sasl.", "ssl.")
PER_LISTENER = ("ssl.keystore.", "ssl.truststore.", "ssl.key.password")


class Operation(IntEnum):
    """Operations of IncrementalAlterConfigs (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@attrs.define(frozen=True)
class ConfigChange:
    """A change of one option: the number of an `Operation` as received, and the value."""

    name: str
    operation: int
    value: str | None


def configured(
    controller: Controller, resource_type: int, name: str, changes: Iterable[ConfigChange]
) -> list[MetadataRecord]:
    """Return the records that change single options (IncrementalAlterConfigs).

    Raise if they are invalid.
    """
    current = _current(controller, resource_type, name)
    configs = dict(current)
    for change in changes:
        _change(controller, resource_type, configs, change)
    return _checked(controller, resource_type, name, configs, current)


def replaced(
    controller: Controller, resource_type: int, name: str, configs: Mapping[str, str]
) -> list[MetadataRecord]:
    """Return the records that replace all options (AlterConfigs)."""
    return _checked(controller, resource_type, name, configs, _current(controller, resource_type, name))


def _current(controller: Controller, resource_type: int, name: str) -> Mapping[str, str]:
    """Return the current options. Raise for an invalid resource."""
    if resource_type == TOPIC_RESOURCE:
        if not name:
            raise InvalidRequest("Default topic resources are not allowed.")
        check_topic_name(name)
        topic = controller.state.topics.get(name)
        if topic is None:
            raise UnknownTopicOrPartition(f"The topic '{name}' does not exist.")
        return topic.config.overrides
    if resource_type == GROUP_RESOURCE and not name:
        raise InvalidRequest("Default group resources are not allowed.")
    if resource_type == METRICS_RESOURCE and not name:
        raise InvalidRequest("Subscription name can't be empty")
    if resource_type not in (BROKER_RESOURCE, GROUP_RESOURCE, METRICS_RESOURCE):
        raise InvalidRequest(f"Unknown resource type {resource_type}")
    return controller.image.configs_of(resource_type, name)


def _change(
    controller: Controller, resource_type: int, configs: dict[str, str], change: ConfigChange
) -> None:
    if change.operation == Operation.DELETE:
        configs.pop(change.name, None)
    elif change.operation == Operation.SET:
        configs[change.name] = change.value or ""
    elif change.operation in (Operation.APPEND, Operation.SUBTRACT):
        key = _key_of(resource_type, change.name)
        if key is None or key.type_name != "LIST":
            verb = Operation(change.operation).name
            raise InvalidConfig(f"Can't {verb} to key {change.name} because its type is not LIST.")
        text = configs.get(change.name)
        known = _split(_default(controller, resource_type, key) if text is None else text)
        values = _split(change.value or "")
        if change.operation == Operation.APPEND:
            result = [*known, *(value for value in values if value not in known)]
        else:
            result = [value for value in known if value not in values]
        configs[change.name] = ",".join(result)
    else:
        raise UnknownServerError


def _key_of(resource_type: int, name: str) -> Key | None:
    if resource_type == TOPIC_RESOURCE:
        return topic_key(name)
    if resource_type == BROKER_RESOURCE:
        return BROKER_KEYS.get(name) or DYNAMIC_ONLY_KEYS.get(name)
    return (GROUP_KEYS if resource_type == GROUP_RESOURCE else METRICS_KEYS).get(name)


def _default(controller: Controller, resource_type: int, key: Key) -> str:
    """Return the default of a list option."""
    if resource_type == BROKER_RESOURCE:
        return controller.config.text(key.name) or ""
    return (controller.config.text(key.synonym) if key.synonym else key.default) or ""


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


# ---------------------------------------------------------------------- checks


def _checked(
    controller: Controller,
    resource_type: int,
    name: str,
    configs: Mapping[str, str],
    current: Mapping[str, str],
) -> list[MetadataRecord]:
    records = config_changes(resource_type, name, current, configs)
    if controller.image.has_eligible_replicas:
        records += _cleared(resource_type, name, records)
    if resource_type == TOPIC_RESOURCE:
        TopicConfig(configs, controller.config)
    elif resource_type == BROKER_RESOURCE:
        _check_broker(name, configs, current)
    elif resource_type == GROUP_RESOURCE:
        check_group(configs, controller.config)
    else:
        check_metrics(configs)
    return records


def _cleared(resource_type: int, name: str, changes: Iterable[Any]) -> list[MetadataRecord]:
    """Return the record that clears eligible leader replicas, which depend on min.insync.replicas (KIP-966).

    Raise `InvalidConfig` for a change that a single broker would not share with the controller.
    """
    found = [change for change in changes if change.name == MIN_ISR]
    if not found or resource_type not in (TOPIC_RESOURCE, BROKER_RESOURCE):
        return []
    if resource_type == TOPIC_RESOURCE:
        return [ClearElrRecord(topic_name=name)]
    if name:
        raise InvalidConfig(f"Broker-level {MIN_ISR} cannot be altered while ELR is enabled.")
    if found[0].value is None:
        raise InvalidConfig(f"Cluster-level {MIN_ISR} cannot be removed while ELR is enabled.")
    return [ClearElrRecord(topic_name="")]


def safety_records(state: MetadataImage, config: BrokerConfig) -> list[MetadataRecord]:
    """Return the records that give all brokers and the controller one min.insync.replicas (KIP-966)."""
    records: list[MetadataRecord] = []
    if MIN_ISR not in state.configs.get(ALL_BROKERS, {}):
        records += config_changes(*ALL_BROKERS, {}, {MIN_ISR: config.text(MIN_ISR) or "1"})
    for (kind, name), options in state.configs.items():
        if kind == BROKER_RESOURCE and name and MIN_ISR in options:
            left = {option: text for option, text in options.items() if option != MIN_ISR}
            records += config_changes(kind, name, options, left)
    return records


def _check_broker(name: str, configs: Mapping[str, str], current: Mapping[str, str]) -> None:
    new = {option: text for option, text in configs.items() if current.get(option) != text}
    fixed = sorted(option for option in new if option in BROKER_KEYS and not BROKER_KEYS[option].is_dynamic)
    if fixed:
        raise InvalidRequest(f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
    listeners = sorted(option for option in new if option.startswith(PER_LISTENER))
    if listeners:
        raise InvalidRequest(
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            f"[{', '.join(listeners)}]"
        )
    single = sorted(option for option in new if option.startswith(PER_BROKER))
    if single and not name:
        raise InvalidRequest(
            "Cannot update these configs at default cluster level, broker id must be specified: "
            f"[{', '.join(single)}]"
        )
    for option, text in new.items():
        # Kafka keeps unknown names for plugins.
        key = BROKER_KEYS.get(option) or DYNAMIC_ONLY_KEYS.get(option)
        if key is None:
            continue
        try:
            value = key.parse(text)
        except ValueError as error:
            raise InvalidRequest(key.invalid(text, error)) from None
        if option == "log.roll.ms" and value < 1:
            raise InvalidRequest("requirement failed: log.roll.ms must be greater than or equal to 1")
