"""Intended differences that Java's programs see on the bundled broker: rows of docs/fidelity.md."""

from __future__ import annotations

from ..behaviour.compare import Difference
from ..behaviour.known import NO_STREAMS, Known

KNOWN: tuple[Known, ...] = (
    Known("admin", "Streams", "", NO_STREAMS),
    Known("admin", "describeFeatures", r"streams\.version", NO_STREAMS),
    Known("admin|clients", "", r"(^|\.)message$", "Text of error messages"),
    Known("configs", "broker-loggers 1", "output", "Loggers (BROKER_LOGGER)"),
    Known("cluster", "FeatureCommand describe", "", NO_STREAMS),
    Known("cluster", "FeatureCommand upgrade --release-version", "", "All features of a release at once"),
    Known("cluster", "BrokerApiVersionsCommand", "", NO_STREAMS),
    Known("cluster", "StreamsGroupCommand", "", NO_STREAMS),
    Known("streams", "group.protocol=streams", "", NO_STREAMS),
)


def meant(difference: Difference) -> Known | None:
    """The entry that says this difference is meant."""
    return difference.among(KNOWN)
