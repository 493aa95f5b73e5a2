"""The cluster as a whole: UpdateFeatures, Envelope, DescribeCluster, UnregisterBroker.

Sent to any broker or to the controller.
"""

from __future__ import annotations

from pykafka2.protocol.fields import Bool, Bytes, Int8, Int16, Int32, String, field
from pykafka2.protocol.struct import Request, Response, Struct


class FeatureUpdateKey(Struct):
    feature: String
    max_version_level: Int16
    allow_downgrade: Bool = field("0", default=False)
    upgrade_type: Int8 = field("1+", default=1)


class UpdateFeaturesRequest(Request["UpdateFeaturesResponse"], api_key=57, versions="0-2", flexible="0+"):
    """Upgrade or downgrade features of the cluster (KIP-584)."""

    timeout_ms: Int32 = field(default=60000)
    feature_updates: list[FeatureUpdateKey]
    validate_only: Bool = field("1+", default=False)


class UpdatableFeatureResult(Struct):
    feature: String
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default="", nullable="0+")


class UpdateFeaturesResponse(Response, api_key=57, versions="0-2", flexible="0+"):
    """The error, if any; up to version 1 per feature."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default="", nullable="0+")
    results: list[UpdatableFeatureResult] = field("0-1", factory=list, ignorable=True)


class EnvelopeRequest(Request["EnvelopeResponse"], api_key=58, versions="0", flexible="0+"):
    """A client's request that a broker forwards to the controller."""

    request_data: Bytes
    request_principal: Bytes | None = field(nullable="0+")
    client_host_address: Bytes


class EnvelopeResponse(Response, api_key=58, versions="0", flexible="0+"):
    """The controller's response to it."""

    response_data: Bytes | None = field(default=None, nullable="0+")
    error_code: Int16 = field(default=0)


class DescribeClusterRequest(Request["DescribeClusterResponse"], api_key=60, versions="0-2", flexible="0+"):
    """Describe the brokers (1) or controllers (2) of the cluster."""

    include_cluster_authorized_operations: Bool
    endpoint_type: Int8 = field("1+", default=1)
    include_fenced_brokers: Bool = field("2+", default=False)


class DescribeClusterBroker(Struct):
    broker_id: Int32
    host: String
    port: Int32
    rack: String | None = field(default=None, nullable="0+")
    is_fenced: Bool = field("2+", default=False)


class DescribeClusterResponse(Response, api_key=60, versions="0-2", flexible="0+"):
    """Cluster id, controller and nodes."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None, nullable="0+")
    endpoint_type: Int8 = field("1+", default=1)
    cluster_id: String
    controller_id: Int32 = field(default=-1)
    brokers: list[DescribeClusterBroker]
    cluster_authorized_operations: Int32 = field(default=-2147483648)


class UnregisterBrokerRequest(Request["UnregisterBrokerResponse"], api_key=64, versions="0", flexible="0+"):
    """Unregister a broker that was removed."""

    broker_id: Int32


class UnregisterBrokerResponse(Response, api_key=64, versions="0", flexible="0+"):
    """The error, if any."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default="", nullable="0+")


class UnregisterControllerRequest(
    Request["UnregisterControllerResponse"], api_key=94, versions="0", flexible="0+"
):
    """Unregister a controller that was removed (KIP-1331)."""

    controller_id: Int32


class UnregisterControllerResponse(Response, api_key=94, versions="0", flexible="0+"):
    """The error, if any."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default="", nullable="0+")
