"""Configuration of brokers and topics: values over defaults, and the source of each value.

Names, types, defaults and valid values are those of Apache Kafka 4.4.0 (keys.py). Options that Kafka defines
and this broker ignores are accepted and stored, so that tools can set and read them. Values travel as
strings, as in Kafka. Access requires the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from pykafka2.broker.config.kafka_table import FALLBACKS
from pykafka2.broker.config.keys import (
    BROKER_KEYS,
    TOPIC_KEYS,
    as_text,
    nearest,
    topic_key,
    why_refused,
)
from pykafka2.errors import ConfigurationError, InvalidConfig, UnknownOption

TOPIC_SOURCE, BROKER_SOURCE, CLUSTER_SOURCE, STATIC_SOURCE, DEFAULT_SOURCE = 1, 2, 3, 4, 5
LOGGER_SOURCE, METRICS_SOURCE, GROUP_SOURCE = 6, 7, 8
"""Sources of a value, as numbered in DescribeConfigs (KIP-226)."""


@attrs.define(frozen=True)
class Synonym:
    """One candidate value of an option; the first synonym wins."""

    name: str
    value: str
    source: int


class BrokerConfig:
    """A broker's configuration: `config.int("num.partitions")`, `config.seconds(...)`.

    `static` holds the values from the cluster's constructor. IncrementalAlterConfigs overrides them for all
    brokers (`cluster_wide`) and for this one (`own`), see `set_dynamic`. Read an option on each use: a stored
    value does not follow later changes.

    Raises `UnknownOption` with the nearest name, or `ConfigurationError` with the valid values or the reason
    why the option is refused.
    """

    def __init__(
        self,
        values: Mapping[str, object] | None = None,
        *,
        made: Mapping[str, object] | None = None,
        defaults: Mapping[str, str] | None = None,
        lacks: frozenset[str] = frozenset(),
    ) -> None:
        self.lacks = lacks
        """Options of brokers, topics and groups that the imitated release does not have (features.py)."""
        self.static = {name: as_text(value) for name, value in (values or {}).items() if value is not None}
        for name, text in self.static.items():
            _check_static(name, text, lacks)
        self.defaults = dict(defaults or {})
        """Defaults that differ from those of Apache Kafka 4.4.0 (features.py)."""
        self.own: Mapping[str, str] = {}
        self.cluster_wide: Mapping[str, str] = {}
        self.version = 0
        """Incremented by each `set_dynamic`."""
        self._parsed: dict[str, Any] = {}
        self.set_made(made or {})

    def of_broker(self, made: Mapping[str, object]) -> BrokerConfig:
        """Return the configuration of one broker, with the values that the cluster sets for it."""
        broker = BrokerConfig(None, made={**self.static, **made}, defaults=self.defaults, lacks=self.lacks)
        broker.set_dynamic({}, self.cluster_wide)
        return broker

    def set_made(self, made: Mapping[str, object]) -> None:
        """Set the values that the cluster determines, such as addresses and ids."""
        self.static.update({name: as_text(value) for name, value in made.items() if value is not None})
        self._parsed = {}

    def set_dynamic(self, own: Mapping[str, str], cluster_wide: Mapping[str, str]) -> None:
        """Set the dynamic options that IncrementalAlterConfigs produced."""
        if own == self.own and cluster_wide == self.cluster_wide:
            return
        self.own, self.cluster_wide = dict(own), dict(cluster_wide)
        self.version += 1
        self._parsed = {}

    def text(self, name: str) -> str | None:
        """Return the value as Kafka writes it, or None if it is unset and has no default."""
        for layer in (self.own, self.cluster_wide, self.static):
            if name in layer:
                return layer[name]
        return self._default(name)

    def _default(self, name: str) -> str | None:
        return self.defaults.get(name, BROKER_KEYS[name].default)

    def get(self, name: str) -> Any:
        """Return the parsed value, or the default."""
        value = self._parsed.get(name)
        if value is None:
            text = self.text(name)
            value = self._fallback(name) if text is None else BROKER_KEYS[name].parse(text)
            self._parsed[name] = value
        return value

    def _fallback(self, name: str) -> Any:
        for other, factor in FALLBACKS.get(name, ()):
            value = self.get(other)
            if value is not None:
                return value * factor
        return None

    def int(self, name: str) -> int:
        value: int = self.get(name)
        return value

    def seconds(self, name: str) -> float:
        """Return an option in milliseconds as seconds."""
        value: int = self.get(name)
        return value / 1000.0

    def synonyms(self, name: str) -> list[Synonym]:
        """Return all candidate values of an option, the effective one first.

        Empty if the option itself is unset.
        """
        names = [name, *(other for other, _ in FALLBACKS.get(name, ()))]
        layers = (
            (self.own, BROKER_SOURCE),
            (self.cluster_wide, CLUSTER_SOURCE),
            (self.static, STATIC_SOURCE),
            ({other: self._default(other) for other in names if other in BROKER_KEYS}, DEFAULT_SOURCE),
        )
        found = [
            Synonym(candidate, value, source)
            for layer, source in layers
            for candidate in names
            if (value := layer.get(candidate)) is not None
        ]
        # As in Kafka, synonyms before the option's own name are dropped.
        first = next((at for at, synonym in enumerate(found) if synonym.name == name), len(found))
        return found[first:]


def _check_static(name: str, text: str, lacks: frozenset[str]) -> None:
    key = BROKER_KEYS.get(name)
    if key is None or name in lacks:
        raise UnknownOption(f"no broker configuration {name!r}{nearest(name, BROKER_KEYS)}")
    refusal = why_refused(name)
    if refusal is not None:
        raise ConfigurationError(f"broker configuration {name!r} cannot be set: {refusal}")
    try:
        key.parse(text)
    except ValueError as error:
        raise ConfigurationError(f"broker configuration {name}={text!r}: {error}") from None


class TopicConfig:
    """A topic's configuration over a broker's. Immutable; raises `InvalidConfig` with Kafka's message.

    An instance caches parsed values. If the broker's configuration may have changed, create a new one with
    `over`.
    """

    __slots__ = ("_parsed", "_version", "broker", "overrides")

    def __init__(self, overrides: Mapping[str, object] | None, broker: BrokerConfig) -> None:
        self.overrides = {name: as_text(value) for name, value in (overrides or {}).items()}
        self.broker = broker
        self._version = broker.version
        self._parsed: dict[str, Any] = {}
        for name, text in self.overrides.items():
            key = topic_key(name)
            if key is None or name in broker.lacks:
                raise InvalidConfig(f"Unknown topic config name: {name}{nearest(name, TOPIC_KEYS)}")
            try:
                self._parsed[name] = key.parse(text)
            except ValueError as error:
                raise InvalidConfig(key.invalid(text, error)) from None
        if self._parsed.get("remote.storage.enable"):
            raise InvalidConfig(
                "Tiered Storage functionality is disabled in the broker. "
                "Topic cannot be configured with remote log storage."
            )
        if "min.compaction.lag.ms" in self.overrides or "max.compaction.lag.ms" in self.overrides:
            self._check_compaction_lag()
        segment_bytes = self._parsed.get("internal.segment.bytes")
        if segment_bytes is not None:
            self._parsed["segment.bytes"] = segment_bytes

    def _check_compaction_lag(self) -> None:
        least, most = self.get("min.compaction.lag.ms"), self.get("max.compaction.lag.ms")
        if least > most:
            raise InvalidConfig(
                "conflict topic config setting "
                f"min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"
            )

    def __eq__(self, other: object) -> bool:
        """Return whether both have equal overrides and the same version of one broker configuration."""
        if not isinstance(other, TopicConfig):
            return NotImplemented
        return (
            self.overrides == other.overrides
            and self.broker is other.broker
            and self._version == other._version
        )

    __hash__ = None  # type: ignore[assignment]  # a dictionary of options

    def over(self, broker: BrokerConfig) -> TopicConfig:
        """Return the topic's configuration over the current configuration of this broker."""
        if broker is self.broker and broker.version == self._version:
            return self
        config = TopicConfig.__new__(TopicConfig)
        config.overrides, config.broker, config._version = self.overrides, broker, broker.version
        # The topic's overrides are parsed already; defaults are read from the new broker.
        config._parsed = {name: self._parsed[name] for name in self.overrides}
        if "internal.segment.bytes" in self.overrides:
            config._parsed["segment.bytes"] = self._parsed["internal.segment.bytes"]
        return config

    def get(self, name: str) -> Any:
        value = self._parsed.get(name)
        if value is None:
            key = TOPIC_KEYS[name]
            if key.synonym is not None:
                value = self.broker.get(key.synonym)
            if value is None and key.default is not None:
                value = key.parse(key.default)
            self._parsed[name] = value
        return value

    def text(self, name: str) -> str | None:
        """Return the value as Kafka writes it."""
        if name in self.overrides:
            return self.overrides[name]
        return as_text(self.get(name))

    def synonyms(self, name: str) -> list[Synonym]:
        """Return all candidate values of an option, the effective one first."""
        own = [Synonym(name, self.overrides[name], TOPIC_SOURCE)] if name in self.overrides else []
        key = topic_key(name)
        if key is None or key.synonym is None:
            return own
        return [*own, *self.broker.synonyms(key.synonym)]

    def source(self, name: str) -> int:
        """Return the source of a value."""
        synonyms = self.synonyms(name)
        return synonyms[0].source if synonyms else DEFAULT_SOURCE

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.get("cleanup.policy")
