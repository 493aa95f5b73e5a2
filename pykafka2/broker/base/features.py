"""Features of the cluster: which levels the brokers know, and which ones are finalised (KIP-584).

Names and levels are those of Apache Kafka 4.3.1, without streams.version and
eligible.leader.replicas.version (both are left out).  The
finalised levels live in the controller's image; ApiVersions tells them, and the transaction coordinator takes
its transaction.version from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import attrs

from pykafka2.broker.config.keys import nearest
from pykafka2.errors import ConfigurationError, UnknownOption

TRANSACTION_VERSION: Final = "transaction.version"
METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"


@attrs.define(frozen=True)
class Levels:
    """Lowest and highest level that brokers know."""

    lowest: int
    highest: int


SUPPORTED: Final[Mapping[str, Levels]] = MappingProxyType(
    {
        "group.version": Levels(0, 1),
        KRAFT_VERSION: Levels(0, 1),
        METADATA_VERSION: Levels(7, 30),
        "share.version": Levels(0, 1),
        TRANSACTION_VERSION: Levels(0, 2),
    }
)

LATEST: Final[Mapping[str, int]] = MappingProxyType(
    # The quorum keeps kraft.version to itself.
    {name: levels.highest for name, levels in SUPPORTED.items() if name != KRAFT_VERSION}
)
"""The highest level of each: how a new cluster begins."""


def finalised(given: Mapping[str, int] | None) -> Mapping[str, int]:
    """The latest levels with those given in their place; level 0 leaves a feature out.

    Raises `UnknownOption` naming the nearest feature, `ConfigurationError` for a level that is not supported.
    """
    levels = dict(LATEST)
    for name, level in (given or {}).items():
        known = SUPPORTED.get(name)
        if known is None:
            raise UnknownOption(f"no feature {name!r}{nearest(name, SUPPORTED)}")
        if not isinstance(level, int) or not known.lowest <= level <= known.highest:
            raise ConfigurationError(f"{name}={level!r}: say a level from {known.lowest} to {known.highest}")
        levels[name] = level
    return MappingProxyType({name: level for name, level in levels.items() if level > 0})
