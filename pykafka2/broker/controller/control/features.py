"""Changes of finalized features (KIP-584), with the checks and messages of Kafka's FeatureControlManager."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pykafka2.broker.base.features import METADATA_VERSION, SUPPORTED, Levels
from pykafka2.broker.controller.controller import Controller
from pykafka2.broker.controller.metadata.records import FeatureSet, Record
from pykafka2.errors import InvalidUpdateVersion

UPGRADE: Final = 1
DOWNGRADES: Final = (2, 3)
"""Safe and unsafe downgrades."""


def feature_update(
    controller: Controller,
    name: str,
    level: int,
    upgrade_type: int,
    features: Mapping[str, Levels] = SUPPORTED,
) -> Record | None:
    """Return the record that finalizes a feature at `level`, or None if it is unchanged.

    `features` are the supported levels.

    Raise `InvalidUpdateVersion` if the change is invalid.
    """
    known = controller.image.features.get(name, 0)
    problem = _problem(controller.id, name, level, known, upgrade_type, features.get(name))
    if problem is not None:
        raise InvalidUpdateVersion(f"Invalid update version {level} for feature {name}. {problem}")
    if name == METADATA_VERSION and level < known:
        raise InvalidUpdateVersion(
            f"Unsupported metadata.version downgrade from {known} to {level}. Refusing to perform the "
            "requested downgrade because it might delete metadata information."
        )
    return None if level == known else FeatureSet(name, level)


def _problem(
    controller_id: int, name: str, level: int, known: int, upgrade_type: int, supported: Levels | None
) -> str | None:
    if upgrade_type != UPGRADE and upgrade_type not in DOWNGRADES:
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    if supported is None and level == 0:
        return f"Feature {name} not found."
    if supported is None:
        return f"Local controller {controller_id} does not support this feature."
    if level and not supported.lowest <= level <= supported.highest:
        return (
            f"Local controller {controller_id} only supports versions {supported.lowest}-{supported.highest}"
        )
    if level < known and upgrade_type == UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade."
        )
    return None
