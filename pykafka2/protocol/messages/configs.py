"""Settings of topics, brokers, groups and clients: describe, alter, list.

ListConfigResources v0 was ListClientMetricsResources in Kafka 3.9, with the same bytes.
"""

from __future__ import annotations

from pykafka2.protocol.fields import Bool, Int8, Int16, Int32, String, field
from pykafka2.protocol.struct import Request, Response, Struct


class DescribeConfigsResource(Struct):
    resource_type: Int8
    resource_name: String
    configuration_keys: list[String] | None = field(nullable="0+")


class DescribeConfigsRequest(Request["DescribeConfigsResponse"], api_key=32, versions="0-4", flexible="4+"):
    """Describe settings of resources; null keys mean all."""

    resources: list[DescribeConfigsResource]
    include_synonyms: Bool = field("1+", default=False)
    include_documentation: Bool = field("3+", default=False)


class DescribeConfigsSynonym(Struct):
    name: String
    value: String | None = field(nullable="0+", secret=True)
    source: Int8


class DescribeConfigsResourceResult(Struct):
    name: String
    value: String | None = field(nullable="0+", secret=True)
    read_only: Bool
    is_default: Bool = field("0", default=False)
    config_source: Int8 = field("1+", default=-1, ignorable=True)
    is_sensitive: Bool
    synonyms: list[DescribeConfigsSynonym] = field("1+", factory=list, ignorable=True)
    config_type: Int8 = field("3+", default=0, ignorable=True)
    documentation: String | None = field("3+", default="", nullable="0+", ignorable=True)


class DescribeConfigsResult(Struct):
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default="", nullable="0+")
    resource_type: Int8
    resource_name: String
    configs: list[DescribeConfigsResourceResult]


class DescribeConfigsResponse(Response, api_key=32, versions="0-4", flexible="4+"):
    """Settings with their sources; sensitive values are null."""

    throttle_time_ms: Int32 = field(default=0)
    results: list[DescribeConfigsResult]


class AlterConfigsRequestAlterableConfig(Struct):
    name: String
    value: String | None = field(nullable="0+", secret=True)


class AlterConfigsRequestAlterConfigsResource(Struct):
    resource_type: Int8
    resource_name: String
    configs: list[AlterConfigsRequestAlterableConfig]


class AlterConfigsRequest(Request["AlterConfigsResponse"], api_key=33, versions="0-2", flexible="2+"):
    """Replace all settings of resources; superseded by IncrementalAlterConfigs."""

    resources: list[AlterConfigsRequestAlterConfigsResource]
    validate_only: Bool


class AlterConfigsResponseAlterConfigsResourceResponse(Struct):
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default="", nullable="0+")
    resource_type: Int8
    resource_name: String


class AlterConfigsResponse(Response, api_key=33, versions="0-2", flexible="2+"):
    """Per resource: the error, if any."""

    throttle_time_ms: Int32 = field(default=0)
    responses: list[AlterConfigsResponseAlterConfigsResourceResponse]


class IncrementalAlterConfigsRequestAlterableConfig(Struct):
    name: String
    config_operation: Int8  # 0: set, 1: delete, 2: append, 3: subtract
    value: String | None = field(nullable="0+", secret=True)


class IncrementalAlterConfigsRequestAlterConfigsResource(Struct):
    resource_type: Int8
    resource_name: String
    configs: list[IncrementalAlterConfigsRequestAlterableConfig]


class IncrementalAlterConfigsRequest(
    Request["IncrementalAlterConfigsResponse"], api_key=44, versions="0-1", flexible="1+"
):
    """Set (0), delete (1), append to (2) or subtract from (3) single settings (KIP-339)."""

    resources: list[IncrementalAlterConfigsRequestAlterConfigsResource]
    validate_only: Bool


class IncrementalAlterConfigsResponseAlterConfigsResourceResponse(Struct):
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default="", nullable="0+")
    resource_type: Int8
    resource_name: String


class IncrementalAlterConfigsResponse(Response, api_key=44, versions="0-1", flexible="1+"):
    """Per resource: the error, if any."""

    throttle_time_ms: Int32 = field(default=0)
    responses: list[IncrementalAlterConfigsResponseAlterConfigsResourceResponse]


class ListConfigResourcesRequest(
    Request["ListConfigResourcesResponse"], api_key=74, versions="0-1", flexible="0+"
):
    """List the resources that have settings (KIP-1142)."""

    resource_types: list[Int8] = field("1+", factory=list)


class ConfigResource(Struct):
    resource_name: String
    resource_type: Int8 = field("1+", default=16, ignorable=True)


class ListConfigResourcesResponse(Response, api_key=74, versions="0-1", flexible="0+"):
    """Resource names with types."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    config_resources: list[ConfigResource]
