"""Cluster features: the levels that brokers support and the finalized levels (KIP-584).

Names and levels are those of Apache Kafka 4.3.1, without streams.version and
eligible.leader.replicas.version, which are left out. The finalized levels are part of the controller's image.
ApiVersions returns them, and the transaction coordinator reads its transaction.version from them.
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
    """The lowest and highest supported level of a feature."""

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
    # kraft.version is not part of the finalized features in the image.
    {name: levels.highest for name, levels in SUPPORTED.items() if name != KRAFT_VERSION}
)
"""The highest level of each feature, which is how a new cluster starts."""


def finalised(
    overrides: Mapping[str, int] | None,
    supported: Mapping[str, Levels] = SUPPORTED,
    defaults: Mapping[str, int] = LATEST,
    release: str = "",
) -> Mapping[str, int]:
    """Return the default levels with these overrides; level 0 disables a feature.

    Raise `UnknownOption` with the nearest feature and the name of an older `release`, or
    `ConfigurationError` for an unsupported level.
    """
    levels = dict(defaults)
    for name, level in (overrides or {}).items():
        known = supported.get(name)
        if known is None:
            where = f" in Apache Kafka {release}" if release else ""
            raise UnknownOption(f"no feature {name!r}{where}{nearest(name, supported)}")
        if not isinstance(level, int) or not known.lowest <= level <= known.highest:
            raise ConfigurationError(f"{name}={level!r}: use a level from {known.lowest} to {known.highest}")
        levels[name] = level
    return MappingProxyType({name: level for name, level in levels.items() if level > 0})
