"""GetTelemetrySubscriptions and PushTelemetry: metrics that clients push (KIP-714).

Served only with the option client.telemetry, and then to every client, as by Apache Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.broker.handlers.api import api
from pykafka2.broker.handlers.authorization import OPEN
from pykafka2.protocol.messages.telemetry import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
    PushTelemetryResponse,
)

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext


@api(GetTelemetrySubscriptionsRequest, 0, 0, access=OPEN)
def handle_get_subscriptions(
    services: Services, context: RequestContext, request: GetTelemetrySubscriptionsRequest, now: float
) -> GetTelemetrySubscriptionsResponse:
    return services.client_metrics.subscribe(context, request, now)


@api(PushTelemetryRequest, 0, 0, access=OPEN)
def handle_push(
    services: Services, context: RequestContext, request: PushTelemetryRequest, now: float
) -> PushTelemetryResponse:
    return services.client_metrics.push(context, request, now)
