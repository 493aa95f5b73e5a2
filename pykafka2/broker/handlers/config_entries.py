"""Configurations in responses: value, source and synonyms of each option of a resource (KIP-226).

Pure functions over a broker's image; passwords are left out.
"""

from __future__ import annotations

from collections.abc import Mapping

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
from pykafka2.broker.handlers.services import Services
from pykafka2.protocol.messages.configs import DescribeConfigsResourceResult, DescribeConfigsSynonym

Entries = list[DescribeConfigsResourceResult]

UNKNOWN_TYPE = 0


def of_topic(config: TopicConfig) -> Entries:
    """Return a topic's options over those of this broker."""
    keys = {
        **TOPIC_KEYS,
        **{name: key for name, key in INTERNAL_TOPIC_KEYS.items() if name in config.overrides},
    }
    return [_entry(key, config.text(name), config.synonyms(name)) for name, key in sorted(keys.items())]


def of_broker(config: BrokerConfig) -> Entries:
    """Return all options of one broker, including unknown dynamic ones."""
    entries = [
        _entry(key, config.text(name), config.synonyms(name), read_only=not key.is_dynamic)
        for name, key in sorted(BROKER_KEYS.items())
    ]
    others = sorted({*config.own, *config.cluster_wide} - {*BROKER_KEYS})
    return [*entries, *(_dynamic(name, config.synonyms(name)) for name in others)]


def of_all_brokers(configs: Mapping[str, str]) -> Entries:
    """Return only the options that are set for all brokers."""
    return [_dynamic(name, [Synonym(name, text, CLUSTER_SOURCE)]) for name, text in sorted(configs.items())]


def of_group(configs: Mapping[str, str], broker: BrokerConfig) -> Entries:
    """Return a group's options over the broker's."""
    return [_with_default(key, configs.get(name), GROUP_SOURCE, broker) for name, key in GROUP_KEYS.items()]


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
    if key.synonym is None and key.default:
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
