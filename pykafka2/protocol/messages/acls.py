"""Access control lists: DescribeAcls, CreateAcls, DeleteAcls.

Sent to the controller through any broker.
"""

from __future__ import annotations

from pykafka2.protocol.fields import Int8, Int16, Int32, String, field
from pykafka2.protocol.struct import Request, Response, Struct


class DescribeAclsRequest(Request["DescribeAclsResponse"], api_key=29, versions="0-3", flexible="2+"):
    """Describe the ACLs that match a filter."""

    resource_type_filter: Int8
    resource_name_filter: String | None = field(nullable="0+")
    pattern_type_filter: Int8 = field("1+", default=3)
    principal_filter: String | None = field(nullable="0+")
    host_filter: String | None = field(nullable="0+")
    operation: Int8
    permission_type: Int8


class AclDescription(Struct):
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


class DescribeAclsResource(Struct):
    resource_type: Int8
    resource_name: String
    pattern_type: Int8 = field("1+", default=3)
    acls: list[AclDescription]


class DescribeAclsResponse(Response, api_key=29, versions="0-3", flexible="2+"):
    """ACLs by resource."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default="", nullable="0+")
    resources: list[DescribeAclsResource]


class AclCreation(Struct):
    resource_type: Int8
    resource_name: String
    resource_pattern_type: Int8 = field("1+", default=3)
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


class CreateAclsRequest(Request["CreateAclsResponse"], api_key=30, versions="0-3", flexible="2+"):
    """Create ACLs."""

    creations: list[AclCreation]


class AclCreationResult(Struct):
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default="", nullable="0+")


class CreateAclsResponse(Response, api_key=30, versions="0-3", flexible="2+"):
    """Per ACL: the error, if it was not created."""

    throttle_time_ms: Int32 = field(default=0)
    results: list[AclCreationResult]


class DeleteAclsFilter(Struct):
    resource_type_filter: Int8
    resource_name_filter: String | None = field(nullable="0+")
    pattern_type_filter: Int8 = field("1+", default=3)
    principal_filter: String | None = field(nullable="0+")
    host_filter: String | None = field(nullable="0+")
    operation: Int8
    permission_type: Int8


class DeleteAclsRequest(Request["DeleteAclsResponse"], api_key=31, versions="0-3", flexible="2+"):
    """Delete the ACLs that match filters."""

    filters: list[DeleteAclsFilter]


class DeleteAclsMatchingAcl(Struct):
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default="", nullable="0+")
    resource_type: Int8
    resource_name: String
    pattern_type: Int8 = field("1+", default=3)
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


class DeleteAclsFilterResult(Struct):
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default="", nullable="0+")
    matching_acls: list[DeleteAclsMatchingAcl]


class DeleteAclsResponse(Response, api_key=31, versions="0-3", flexible="2+"):
    """Per filter: the deleted ACLs."""

    throttle_time_ms: Int32 = field(default=0)
    filter_results: list[DeleteAclsFilterResult]
