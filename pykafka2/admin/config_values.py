"""Resources with settings, their settings, and changes, as arguments and results of admin calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any

import attrs

from pykafka2.errors import IllegalArgument
from pykafka2.other_clients import explaining_creation, with_foreign_calls


class ConfigResourceType(IntEnum):
    """The kind of resource that settings belong to, with Kafka's numbers."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class AlterConfigOp(IntEnum):
    """The kinds of changes; APPEND and SUBTRACT change the items of a list (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


SOURCES = (
    "UNKNOWN",
    "DYNAMIC_TOPIC_CONFIG",
    "DYNAMIC_BROKER_CONFIG",
    "DYNAMIC_DEFAULT_BROKER_CONFIG",
    "STATIC_BROKER_CONFIG",
    "DEFAULT_CONFIG",
    "DYNAMIC_BROKER_LOGGER_CONFIG",
    "DYNAMIC_CLIENT_METRICS_CONFIG",
    "DYNAMIC_GROUP_CONFIG",
)
"""Names of the sources of settings, by their numbers in responses."""
TYPES = ("UNKNOWN", "BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD")
"""Names of the types of settings, by their numbers in responses."""


def _resource_type(value: Any) -> ConfigResourceType:
    names = [kind.name for kind in ConfigResourceType if kind is not ConfigResourceType.UNKNOWN]
    if isinstance(value, str) and value.upper() in names:
        return ConfigResourceType[value.upper()]
    if isinstance(value, int) and value in tuple(ConfigResourceType) and value:
        return ConfigResourceType(value)
    raise IllegalArgument(f"resource_type={value!r} is not valid; use one of {', '.join(names)}")


def _frozen(configs: Any) -> Any:
    if configs is None or isinstance(configs, Mapping):
        return configs
    if isinstance(configs, str):
        raise IllegalArgument(f"configs={configs!r} must be a list of names or a dict")
    return tuple(configs)


@with_foreign_calls
@explaining_creation
@attrs.define(frozen=True)
class ConfigResource:
    """A resource with settings: a topic, a broker by its id, a group ...

    A broker with the empty name stands for the default of all brokers. `configs` is kafka-python's: the names
    to describe or reset, or the values to set; it takes no part in comparisons.
    """

    resource_type: ConfigResourceType = attrs.field(converter=_resource_type)
    name: str = attrs.field(converter=str)
    configs: Mapping[str, Any] | Iterable[str] | None = attrs.field(
        default=None, converter=_frozen, eq=False, repr=False
    )

    @property
    def type(self) -> ConfigResourceType:
        """The kind of resource; confluent-kafka's name for `resource_type`."""
        return self.resource_type

    def __str__(self) -> str:
        return f"{self.resource_type.name.lower()} {self.name!r}"


@attrs.define(frozen=True)
class ConfigSynonym:
    """A value that a setting has or would have without those before it, with its source."""

    name: str
    value: str | None
    source: str


@attrs.define(frozen=True)
class ConfigEntry:
    """A setting and its source, such as "DYNAMIC_TOPIC_CONFIG" or "DEFAULT_CONFIG".

    `value` is None if it is sensitive or not set. `type` is "INT", "LIST" ...; the synonyms (the first is in
    effect) and the documentation are empty unless requested.
    """

    name: str
    value: str | None
    source: str
    is_read_only: bool = False
    is_sensitive: bool = False
    type: str = "UNKNOWN"
    synonyms: tuple[ConfigSynonym, ...] = ()
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        """Whether no setting of any kind overrides Kafka's default."""
        return self.source == "DEFAULT_CONFIG"
