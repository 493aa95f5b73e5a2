"""Options of brokers, topics, groups and client metrics by name: type, default, valid values.

Built once from the tables of Apache Kafka 4.3.1 (table.py). Stateless; configs.py looks values up here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import attrs

from pykafka2.broker.config.table import (
    BROKER_TABLE,
    DEPARTURES,
    DYNAMIC_ONLY_TABLE,
    GROUP_TABLE,
    INTERNAL_TOPIC_TABLE,
    METRICS_TABLE,
    OWN_TABLE,
    REFUSED,
    TAKEN,
    TOPIC_SYNONYMS,
    TOPIC_TABLE,
)
from pykafka2.broker.config.values import TYPE_CODES, InvalidEntry, Parser, parser_of


@attrs.define(slots=True)
class Key:
    """One option. `default` is None if Kafka has none; `valid` is in Kafka's own notation."""

    name: str
    type_name: str
    default: str | None
    valid: str
    is_dynamic: bool = False
    synonym: str | None = None
    _parser: Parser | None = None

    def parse(self, text: str) -> Any:
        """Return the parsed value. Raise `ValueError` with Kafka's message if it is invalid."""
        if self._parser is None:
            self._parser = parser_of(self.type_name, self.valid)
        return self._parser(text)

    def invalid(self, text: str, error: ValueError) -> str:
        """Return Kafka's message about an invalid value."""
        entry = error.entry if isinstance(error, InvalidEntry) else text
        message = str(error).replace("{name}", self.name)
        return f"Invalid value {entry} for configuration {self.name}: {message}"

    @property
    def type_code(self) -> int:
        return TYPE_CODES[self.type_name]

    @property
    def is_sensitive(self) -> bool:
        """Whether the value is a password, which responses never include."""
        return self.type_name == "PASSWORD"


def _keys(table: str) -> dict[str, Key]:
    keys = {}
    for line in table.splitlines():
        name, type_name, default, *valid = line.split(" ", 3)
        text = None if default in ("null", "required") else default.strip('"')
        keys[name] = Key(
            name, type_name.rstrip("*"), text, valid[0] if valid else "", type_name.endswith("*")
        )
    return keys


def _topic_keys() -> dict[str, Key]:
    keys = _keys(TOPIC_TABLE)
    for name, synonym in TOPIC_SYNONYMS.items():
        keys[name].synonym = synonym
    return keys


def _group_keys() -> dict[str, Key]:
    keys = _keys(GROUP_TABLE)
    for name, key in keys.items():
        if f"group.{name}" in BROKER_KEYS:
            key.synonym = f"group.{name}"
    return keys


def _broker_keys() -> dict[str, Key]:
    keys = {**_keys(BROKER_TABLE), **_keys(OWN_TABLE)}
    for name, (default, valid, _) in DEPARTURES.items():
        keys[name].default, keys[name].valid = default, valid
    return keys


TOPIC_KEYS: Final[dict[str, Key]] = _topic_keys()
"""Topic options by name."""

INTERNAL_TOPIC_KEYS: Final[dict[str, Key]] = _keys(INTERNAL_TOPIC_TABLE)
"""Internal topic options: they can be set, but are described only on topics that set them."""

BROKER_KEYS: Final[dict[str, Key]] = _broker_keys()
"""Broker options by name, including those that only this broker has."""


DYNAMIC_ONLY_KEYS: Final[dict[str, Key]] = _keys(DYNAMIC_ONLY_TABLE)
"""Options that only a running broker accepts; described only where they are set."""

GROUP_KEYS: Final[dict[str, Key]] = _group_keys()
"""Group options by name."""

METRICS_KEYS: Final[dict[str, Key]] = _keys(METRICS_TABLE)
"""Client metrics subscription options by name."""


def topic_key(name: str) -> Key | None:
    """Return a topic option by name, including internal ones."""
    return TOPIC_KEYS.get(name) or INTERNAL_TOPIC_KEYS.get(name)


def why_refused(name: str) -> str | None:
    """Return why `KafkaCluster(config=...)` refuses a broker option, or None if it accepts it."""
    if name in TAKEN:
        return None
    for beginning, reason in REFUSED.items():
        if name == beginning or (name.startswith(beginning) and beginning[-1] in ".r"):
            return reason
    return None


def nearest(name: str, known: Iterable[str]) -> str:
    """Return " (did you mean ...?)" or an empty string, for messages about misspelt names."""
    from difflib import get_close_matches

    close = get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def as_text(value: object) -> str:
    """Return a configuration value as Kafka writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value)
