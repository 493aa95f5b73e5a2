"""Changes of configurations: what IncrementalAlterConfigs and AlterConfigs ask for, checked as in Kafka.

Functions over a `Controller`; `configured` gives the record of a change without writing it, so that a request
is carried out, or only validated, as a whole.  Under the cluster's lock, on the controller's queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum

import attrs

from pykafka2.broker.base.image import BROKER_RESOURCE, GROUP_RESOURCE, METRICS_RESOURCE, TOPIC_RESOURCE
from pykafka2.broker.config.configs import TopicConfig
from pykafka2.broker.config.keys import (
    BROKER_KEYS,
    DYNAMIC_ONLY_KEYS,
    GROUP_KEYS,
    METRICS_KEYS,
    Key,
    topic_key,
)
from pykafka2.broker.config.resources import check_group, check_metrics
from pykafka2.broker.config.topic_names import check_topic_name
from pykafka2.broker.controller.controller import Controller
from pykafka2.broker.controller.records import ConfigsSet, Record, TopicConfigured
from pykafka2.errors import (
    InvalidConfig,
    InvalidRequest,
    UnknownServerError,
    UnknownTopicOrPartition,
)

# Kafka takes these for a single broker only, or not at all but with a listener's prefix.
PER_BROKER = ("listeners", "listener.security.protocol.map", "principal.builder.class", "sasl.", "ssl.")
PER_LISTENER = ("ssl.keystore.", "ssl.truststore.", "ssl.key.password")


class Operation(IntEnum):
    """What IncrementalAlterConfigs may do to one setting (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@attrs.define(frozen=True)
class ConfigChange:
    """One setting of a resource: a number of `Operation` as it came, and its value."""

    name: str
    operation: int
    value: str | None


def configured(
    controller: Controller, resource_type: int, name: str, changes: Iterable[ConfigChange]
) -> Record:
    """The record that changes single settings (IncrementalAlterConfigs); raises why it cannot be."""
    current = _current(controller, resource_type, name)
    configs = dict(current)
    for change in changes:
        _change(controller, resource_type, configs, change)
    return _checked(controller, resource_type, name, configs, current)


def replaced(controller: Controller, resource_type: int, name: str, configs: Mapping[str, str]) -> Record:
    """The record that sets these and nothing else (AlterConfigs)."""
    return _checked(controller, resource_type, name, configs, _current(controller, resource_type, name))


def _current(controller: Controller, resource_type: int, name: str) -> Mapping[str, str]:
    """What is set now; raises for a resource that cannot be."""
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
        asked = _split(change.value or "")
        if change.operation == Operation.APPEND:
            result = [*known, *(one for one in asked if one not in known)]
        else:
            result = [one for one in known if one not in asked]
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
    """What a list is before it is set."""
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
) -> Record:
    if resource_type == TOPIC_RESOURCE:
        TopicConfig(configs, controller.config)
        return TopicConfigured(name, dict(configs))
    if resource_type == BROKER_RESOURCE:
        _check_broker(name, configs, current)
    elif resource_type == GROUP_RESOURCE:
        check_group(configs, controller.config)
    else:
        check_metrics(configs)
    return ConfigsSet(resource_type, name, dict(configs))


def _check_broker(name: str, configs: Mapping[str, str], current: Mapping[str, str]) -> None:
    new = {one: text for one, text in configs.items() if current.get(one) != text}
    fixed = sorted(one for one in new if one in BROKER_KEYS and not BROKER_KEYS[one].is_dynamic)
    if fixed:
        raise InvalidRequest(f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
    listeners = sorted(one for one in new if one.startswith(PER_LISTENER))
    if listeners:
        raise InvalidRequest(
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            f"[{', '.join(listeners)}]"
        )
    single = sorted(one for one in new if one.startswith(PER_BROKER))
    if single and not name:
        raise InvalidRequest(
            "Cannot update these configs at default cluster level, broker id must be specified: "
            f"[{', '.join(single)}]"
        )
    for one, text in new.items():
        # Names that Kafka does not know are kept, as it keeps them for plugins.
        key = BROKER_KEYS.get(one) or DYNAMIC_ONLY_KEYS.get(one)
        if key is None:
            continue
        try:
            value = key.parse(text)
        except ValueError as error:
            raise InvalidRequest(key.invalid(text, error)) from None
        if one == "log.roll.ms" and value < 1:
            raise InvalidRequest("requirement failed: log.roll.ms must be greater than or equal to 1")
