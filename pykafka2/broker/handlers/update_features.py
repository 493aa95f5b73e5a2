"""UpdateFeatures: finalizes other levels of the cluster's features (KIP-584)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.broker.controller.control.features import feature_update
from pykafka2.errors import BrokerError, error_of
from pykafka2.protocol.messages.cluster import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext

LAST_VERSION_WITH_RESULTS = 1
UPGRADE, SAFE_DOWNGRADE = 1, 2


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
        return _refusal(type(error)(message))
    if not request.validate_only:
        services.controller.write([record for record in records if record is not None])
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
        services.controller.write([record for record in records if record is not None])
    return UpdateFeaturesResponse(error_message="", results=results)


def _refusal(error: BrokerError) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(error_code=error.code or 0, error_message=str(error))


def refuse(request: UpdateFeaturesRequest, code: int) -> UpdateFeaturesResponse:
    return _refusal(error_of(code))
