"""Administration of groups: DescribeGroups, ListGroups, DeleteGroups.

Sent to the coordinator; ListGroups to every broker.
"""

from __future__ import annotations

from pykafka2.protocol.fields import Bool, Bytes, Int16, Int32, String, field
from pykafka2.protocol.struct import Request, Response, Struct


class DescribeGroupsRequest(Request["DescribeGroupsResponse"], api_key=15, versions="0-6", flexible="5+"):
    """Describe state and members of classic groups."""

    groups: list[String]
    include_authorized_operations: Bool = field("3+", default=False)


class DescribedGroupMember(Struct):
    member_id: String
    group_instance_id: String | None = field("4+", default=None, nullable="0+", ignorable=True)
    client_id: String
    client_host: String
    member_metadata: Bytes
    member_assignment: Bytes


class DescribedGroup(Struct):
    error_code: Int16 = field(default=0)
    error_message: String | None = field("6+", default=None, nullable="0+")
    group_id: String
    group_state: String
    protocol_type: String
    protocol_data: String
    members: list[DescribedGroupMember]
    authorized_operations: Int32 = field("3+", default=-2147483648)


class DescribeGroupsResponse(Response, api_key=15, versions="0-6", flexible="5+"):
    """Groups with members, their metadata and assignments."""

    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    groups: list[DescribedGroup]


class ListGroupsRequest(Request["ListGroupsResponse"], api_key=16, versions="0-5", flexible="3+"):
    """List the groups that a broker coordinates, by state and type."""

    states_filter: list[String] = field("4+", factory=list)
    types_filter: list[String] = field("5+", factory=list)


class ListedGroup(Struct):
    group_id: String
    protocol_type: String
    group_state: String = field("4+", default="", ignorable=True)
    group_type: String = field("5+", default="", ignorable=True)


class ListGroupsResponse(Response, api_key=16, versions="0-5", flexible="3+"):
    """Groups by id."""

    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    error_code: Int16 = field(default=0)
    groups: list[ListedGroup]


class DeleteGroupsRequest(Request["DeleteGroupsResponse"], api_key=42, versions="0-3", flexible="2+"):
    """Delete empty groups with their offsets."""

    groups_names: list[String]


class DeletableGroupResult(Struct):
    group_id: String
    error_code: Int16 = field(default=0)
    error_message: String | None = field("3+", default=None, nullable="3+", ignorable=True)


class DeleteGroupsResponse(Response, api_key=42, versions="0-3", flexible="2+"):
    """Per group: the error, if it was not deleted."""

    throttle_time_ms: Int32 = field(default=0)
    results: list[DeletableGroupResult]
