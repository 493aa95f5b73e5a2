"""A request for a topic, passed to the controller (topics.py validates it)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

DEFAULT: Final = -1


@attrs.define(frozen=True)
class NewTopic:
    """A request for a topic: -1 uses the brokers' default; `assignment` replaces both numbers."""

    name: str
    partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    configs: Mapping[str, object] = attrs.field(factory=dict)
    assignment: Mapping[int, tuple[int, ...]] = attrs.field(factory=dict)
