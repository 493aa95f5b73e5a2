"""Metrics that clients push: GetTelemetrySubscriptions, PushTelemetry (KIP-714).

Sent to any broker.
"""

from __future__ import annotations

from pykafka2.protocol.fields import Bool, Bytes, Int8, Int16, Int32, String, Uuid, field
from pykafka2.protocol.struct import Request, Response


class GetTelemetrySubscriptionsRequest(
    Request["GetTelemetrySubscriptionsResponse"], api_key=71, versions="0", flexible="0+"
):
    """Request the metrics that the cluster subscribes to; a zero id requests a new client id."""

    client_instance_id: Uuid


class GetTelemetrySubscriptionsResponse(Response, api_key=71, versions="0", flexible="0+"):
    """The client's id, the metrics by prefix, and the push interval."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    client_instance_id: Uuid
    subscription_id: Int32
    accepted_compression_types: list[Int8]
    push_interval_ms: Int32
    telemetry_max_bytes: Int32
    delta_temporality: Bool
    requested_metrics: list[String]


class PushTelemetryRequest(Request["PushTelemetryResponse"], api_key=72, versions="0", flexible="0+"):
    """Push metrics in OpenTelemetry's format."""

    client_instance_id: Uuid
    subscription_id: Int32
    terminating: Bool
    compression_type: Int8
    metrics: Bytes


class PushTelemetryResponse(Response, api_key=72, versions="0", flexible="0+"):
    """The error, if any."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
