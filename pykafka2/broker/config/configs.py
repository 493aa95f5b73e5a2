"""The configuration of brokers and topics: values over defaults, and where each comes from.

Names, types, defaults and valid values are those of Apache Kafka 4.3.1 (keys.py); what Kafka knows and this
broker does not act on is accepted and kept, so that tools may set and read it back.  Values travel as
strings, as in Kafka.  Under the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from pykafka2.broker.config.keys import (
    BROKER_KEYS,
    TOPIC_KEYS,
    as_text,
    nearest,
    topic_key,
    why_refused,
)
from pykafka2.broker.config.table import FALLBACKS
from pykafka2.errors import ConfigurationError, InvalidConfig, UnknownOption

TOPIC_SOURCE, BROKER_SOURCE, CLUSTER_SOURCE, STATIC_SOURCE, DEFAULT_SOURCE = 1, 2, 3, 4, 5
LOGGER_SOURCE, METRICS_SOURCE, GROUP_SOURCE = 6, 7, 8
"""Where a value comes from, as DescribeConfigs says it (KIP-226)."""


@attrs.define(frozen=True)
class Synonym:
    """One of the values that were candidates: the first one won."""

    name: str
    value: str
    source: int


class BrokerConfig:
    """A broker's configuration: `config.int("num.partitions")`, `config.seconds(...)`.

    `given` is what the cluster was made with; over it lie what IncrementalAlterConfigs set for all brokers
    (`cluster_wide`) and for this one (`own`), see `set_dynamic`.  Whoever keeps a value keeps an old one;
    whoever asks gets the newest.  Raises `UnknownOption` naming the nearest name, `ConfigurationError` naming
    what a value may be, or why an option is refused.
    """

    def __init__(
        self, values: Mapping[str, object] | None = None, *, made: Mapping[str, object] | None = None
    ) -> None:
        self.given = {name: as_text(value) for name, value in (values or {}).items() if value is not None}
        for name, text in self.given.items():
            _check_given(name, text)
        self.own: Mapping[str, str] = {}
        self.cluster_wide: Mapping[str, str] = {}
        self.version = 0
        """Grows with every `set_dynamic`."""
        self._parsed: dict[str, Any] = {}
        self.set_made(made or {})

    def of_broker(self, made: Mapping[str, object]) -> BrokerConfig:
        """The configuration of one broker: this one, and what the cluster makes for that broker alone."""
        broker = BrokerConfig(None, made={**self.given, **made})
        broker.set_dynamic({}, self.cluster_wide)
        return broker

    def set_made(self, made: Mapping[str, object]) -> None:
        """Take over what the cluster makes: addresses, ids."""
        self.given.update({name: as_text(value) for name, value in made.items() if value is not None})
        self._parsed = {}

    def set_dynamic(self, own: Mapping[str, str], cluster_wide: Mapping[str, str]) -> None:
        """Take over what IncrementalAlterConfigs made of the dynamic options."""
        if own == self.own and cluster_wide == self.cluster_wide:
            return
        self.own, self.cluster_wide = dict(own), dict(cluster_wide)
        self.version += 1
        self._parsed = {}

    def text(self, name: str) -> str | None:
        """The value as Kafka writes it; None where there is none."""
        for layer in (self.own, self.cluster_wide, self.given):
            if name in layer:
                return layer[name]
        return BROKER_KEYS[name].default

    def get(self, name: str) -> Any:
        """The parsed value, or the default."""
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
        """Of a configuration in milliseconds."""
        value: int = self.get(name)
        return value / 1000.0

    def synonyms(self, name: str) -> list[Synonym]:
        """All values that count for an option, the winner first; empty if it stands nowhere itself."""
        names = [name, *(other for other, _ in FALLBACKS.get(name, ()))]
        layers = (
            (self.own, BROKER_SOURCE),
            (self.cluster_wide, CLUSTER_SOURCE),
            (self.given, STATIC_SOURCE),
            ({one: BROKER_KEYS[one].default for one in names if one in BROKER_KEYS}, DEFAULT_SOURCE),
        )
        found = [
            Synonym(one, value, source)
            for layer, source in layers
            for one in names
            if (value := layer.get(one)) is not None
        ]
        # As Kafka does: what stands before the option's own name is left out.
        first = next((at for at, synonym in enumerate(found) if synonym.name == name), len(found))
        return found[first:]


def _check_given(name: str, text: str) -> None:
    key = BROKER_KEYS.get(name)
    if key is None:
        raise UnknownOption(f"no broker configuration {name!r}{nearest(name, BROKER_KEYS)}")
    refusal = why_refused(name)
    if refusal is not None:
        raise ConfigurationError(f"broker configuration {name!r} is not taken: {refusal}")
    try:
        key.parse(text)
    except ValueError as error:
        raise ConfigurationError(f"broker configuration {name}={text!r}: {error}") from None


class TopicConfig:
    """A topic's configuration over a broker's.  Immutable; `InvalidConfig` says what is wrong, as Kafka does.

    One instance keeps what it has read: where the broker's part may change, create a new one (`over`).
    """

    __slots__ = ("_parsed", "_version", "broker", "given")

    def __init__(self, given: Mapping[str, object] | None, broker: BrokerConfig) -> None:
        self.given = {name: as_text(value) for name, value in (given or {}).items()}
        self.broker = broker
        self._version = broker.version
        self._parsed: dict[str, Any] = {}
        for name, text in self.given.items():
            key = topic_key(name)
            if key is None:
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
        if "min.compaction.lag.ms" in self.given or "max.compaction.lag.ms" in self.given:
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
        """Whether both say the same, now and at the same broker."""
        if not isinstance(other, TopicConfig):
            return NotImplemented
        return self.given == other.given and self.broker is other.broker and self._version == other._version

    __hash__ = None  # type: ignore[assignment]  # a dictionary of options

    def over(self, broker: BrokerConfig) -> TopicConfig:
        """The same topic's configuration as that broker sees it now."""
        if broker is self.broker and broker.version == self._version:
            return self
        config = TopicConfig.__new__(TopicConfig)
        config.given, config.broker, config._version = self.given, broker, broker.version
        # What the topic itself says is read already; the rest is asked of that broker.
        config._parsed = {name: self._parsed[name] for name in self.given}
        if "internal.segment.bytes" in self.given:
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
        """The value as Kafka writes it."""
        if name in self.given:
            return self.given[name]
        return as_text(self.get(name))

    def synonyms(self, name: str) -> list[Synonym]:
        """All values that count for an option, the winner first."""
        own = [Synonym(name, self.given[name], TOPIC_SOURCE)] if name in self.given else []
        key = topic_key(name)
        if key is None or key.synonym is None:
            return own
        return [*own, *self.broker.synonyms(key.synonym)]

    def source(self, name: str) -> int:
        """Where a value comes from."""
        synonyms = self.synonyms(name)
        return synonyms[0].source if synonyms else DEFAULT_SOURCE

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.get("cleanup.policy")
