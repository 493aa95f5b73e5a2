"""Resources with settings, and their settings."""

from __future__ import annotations

from enum import Enum

import attrs


class ResourceType(Enum):
    """The kind of resource that a configuration belongs to, with Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


@attrs.define(frozen=True)
class ConfigResource:
    type: ResourceType
    name: str


@attrs.define(frozen=True)
class ConfigEntry:
    """A setting and its source; `value` is None if it is sensitive."""

    name: str
    value: str | None
    source: str
    is_read_only: bool = False
    is_sensitive: bool = False
