"""ApiVersions: the versions that a broker supports.

The first exchange on every connection (KIP-35, KIP-511); its response header never becomes flexible.
"""

from __future__ import annotations

from pykafka2.protocol.fields import Bool, Int16, Int32, Int64, String, field
from pykafka2.protocol.struct import Request, Response, Struct


class ApiVersionsRequest(Request["ApiVersionsResponse"], api_key=18, versions="0-5", flexible="3+"):
    """Request the APIs and versions of a broker; names the software, and the expected broker."""

    client_software_name: String = field("3+", default="", ignorable=True)
    client_software_version: String = field("3+", default="", ignorable=True)
    cluster_id: String | None = field("5+", default=None, nullable="5+", ignorable=True)
    node_id: Int32 = field("5+", default=-1, ignorable=True)


class ApiVersion(Struct):
    api_key: Int16
    min_version: Int16
    max_version: Int16


class SupportedFeatureKey(Struct):
    name: String
    min_version: Int16
    max_version: Int16


class FinalizedFeatureKey(Struct):
    name: String
    max_version_level: Int16
    min_version_level: Int16


class ApiVersionsResponse(Response, api_key=18, versions="0-5", flexible="3+"):
    """APIs with their versions; features of the cluster. Error 35 in version 0: the version is too new."""

    error_code: Int16 = field(default=0)
    api_keys: list[ApiVersion]
    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    supported_features: list[SupportedFeatureKey] = field("3+", factory=list, tag=0, ignorable=True)
    finalized_features_epoch: Int64 = field("3+", default=-1, tag=1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = field("3+", factory=list, tag=2, ignorable=True)
    zk_migration_ready: Bool = field("3+", default=False, tag=3, ignorable=True)
