"""UpdateFeatures: finalizes other levels of the cluster's features (KIP-584).

The checks and messages are those of Kafka's FeatureControlManager.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pykafka2.broker.base.features import ELR_VERSION, METADATA_VERSION, SUPPORTED, Levels
from pykafka2.broker.controller.control.configs import safety_records
from pykafka2.broker.controller.controller import Controller
from pykafka2.broker.handlers.api import CONTROLLER, api
from pykafka2.broker.handlers.authorization import on_cluster
from pykafka2.broker.server.responses import REFUSAL
from pykafka2.errors import BrokerError, InvalidUpdateVersion
from pykafka2.protocol.acl_terms import Operation
from pykafka2.protocol.messages.cluster import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from pykafka2.protocol.messages.metadata_records import FeatureLevelRecord
from pykafka2.protocol.struct import MetadataRecord

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext


UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def feature_update(
    controller: Controller,
    name: str,
    level: int,
    upgrade_type: int,
    features: Mapping[str, Levels] = SUPPORTED,
) -> FeatureLevelRecord | None:
    """Return the record that finalizes a feature at `level`, or None if it is unchanged.

    `features` are the supported levels.

    Raise `InvalidUpdateVersion` if the change is invalid.
    """
    known = controller.image.features.get(name, 0)
    problem = _update_problem(controller.id, name, level, known, upgrade_type, features.get(name))
    if problem is not None:
        raise InvalidUpdateVersion(f"Invalid update version {level} for feature {name}. {problem}")
    if name == METADATA_VERSION and level < known:
        raise InvalidUpdateVersion(
            f"Unsupported metadata.version downgrade from {known} to {level}. Refusing to perform the "
            "requested downgrade because it might delete metadata information."
        )
    return None if level == known else FeatureLevelRecord(name=name, feature_level=level)


def _update_problem(
    controller_id: int, name: str, level: int, known: int, upgrade_type: int, supported: Levels | None
) -> str | None:
    if upgrade_type != UPGRADE and upgrade_type not in (SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
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


LAST_VERSION_WITH_RESULTS = 1


@api(UpdateFeaturesRequest, 0, 2, at=CONTROLLER, access=on_cluster(Operation.ALTER))
def handle(
    services: Services, context: RequestContext, request: UpdateFeaturesRequest, now: float
) -> UpdateFeaturesResponse:
    if not services.node.release.is_since("4.0"):
        return _one_by_one(services, request)
    records = []
    try:
        for update in request.feature_updates:
            kind = SAFE_DOWNGRADE if update.allow_downgrade else update.upgrade_type
            records.append(
                feature_update(
                    services.controller,
                    update.feature,
                    update.max_version_level,
                    kind,
                    services.node.release.supported,
                )
            )
    except BrokerError as error:
        message = f"The update failed for all features since the following feature had an error: {error}"
        return REFUSAL(request, context.version, type(error)(message))
    if not request.validate_only:
        _write(services, records)
    results = []
    if context.version <= LAST_VERSION_WITH_RESULTS:
        results = [
            UpdatableFeatureResult(feature=update.feature, error_message="NONE")
            for update in request.feature_updates
        ]
    return UpdateFeaturesResponse(error_message=None, results=results)


def _one_by_one(services: Services, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    """Update each feature for itself, with a result for each, as releases before 4.0 do."""
    records, results = [], []
    for update in request.feature_updates:
        kind = SAFE_DOWNGRADE if update.allow_downgrade else update.upgrade_type
        name, result = update.feature, UpdatableFeatureResult(feature=update.feature, error_message="NONE")
        supported = services.node.release.supported
        try:
            record = feature_update(services.controller, name, update.max_version_level, kind, supported)
        except BrokerError as error:
            result.error_code, result.error_message = error.code or 0, str(error)
        else:
            records.append(record)
        results.append(result)
    if not request.validate_only:
        _write(services, records)
    return UpdateFeaturesResponse(error_message="", results=results)


def _write(services: Services, updates: Sequence[FeatureLevelRecord | None]) -> None:
    """Write the updates; with eligible leader replicas all brokers get the same min.insync.replicas."""
    records: list[MetadataRecord] = [update for update in updates if update is not None]
    if any(update is not None and update.name == ELR_VERSION and update.feature_level for update in updates):
        records += safety_records(services.controller.state, services.config)
    services.controller.write(records)
