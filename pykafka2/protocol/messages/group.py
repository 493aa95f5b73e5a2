"""Membership by the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

Sent to the group's coordinator; consumer_protocol.py has the members' metadata.
"""

from __future__ import annotations

from pykafka2.protocol.fields import Bool, Bytes, Int16, Int32, String, field
from pykafka2.protocol.struct import Request, Response, Struct


class JoinGroupRequestProtocol(Struct):
    name: String
    metadata: Bytes


class JoinGroupRequest(Request["JoinGroupResponse"], api_key=11, versions="0-9", flexible="6+"):
    """Join a group or its next generation; the response comes when the rebalance is complete."""

    group_id: String
    session_timeout_ms: Int32
    rebalance_timeout_ms: Int32 = field("1+", default=-1, ignorable=True)
    member_id: String  # empty at first
    # A static member's name (KIP-345).
    group_instance_id: String | None = field("5+", default=None, nullable="0+")
    protocol_type: String
    protocols: list[JoinGroupRequestProtocol]
    reason: String | None = field("8+", default=None, nullable="0+", ignorable=True)


class JoinGroupResponseMember(Struct):
    member_id: String
    group_instance_id: String | None = field("5+", default=None, nullable="0+", ignorable=True)
    metadata: Bytes


class JoinGroupResponse(Response, api_key=11, versions="0-9", flexible="6+"):
    """The generation and its protocol; for the leader also all members."""

    throttle_time_ms: Int32 = field("2+", default=0, ignorable=True)
    error_code: Int16 = field(default=0)
    generation_id: Int32 = field(default=-1)
    protocol_type: String | None = field("7+", default=None, nullable="0+", ignorable=True)
    protocol_name: String | None = field(nullable="7+")
    leader: String
    skip_assignment: Bool = field("9+", default=False)
    member_id: String
    members: list[JoinGroupResponseMember]


class HeartbeatRequest(Request["HeartbeatResponse"], api_key=12, versions="0-4", flexible="4+"):
    """Send a member's heartbeat."""

    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: String | None = field("3+", default=None, nullable="0+")


class HeartbeatResponse(Response, api_key=12, versions="0-4", flexible="4+"):
    """Whether the group is stable or a rebalance has begun."""

    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    error_code: Int16 = field(default=0)


class MemberIdentity(Struct):
    member_id: String
    group_instance_id: String | None = field(default=None, nullable="0+")
    reason: String | None = field("5+", default=None, nullable="0+", ignorable=True)


class LeaveGroupRequest(Request["LeaveGroupResponse"], api_key=13, versions="0-5", flexible="4+"):
    """Leave a group, or remove members from it (from version 3)."""

    group_id: String
    member_id: String = field("0-2", default="")
    members: list[MemberIdentity] = field("3+", factory=list)


class MemberResponse(Struct):
    member_id: String
    group_instance_id: String | None = field(nullable="0+")
    error_code: Int16 = field(default=0)


class LeaveGroupResponse(Response, api_key=13, versions="0-5", flexible="4+"):
    """Per member: the error, if it was not removed."""

    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    error_code: Int16 = field(default=0)
    members: list[MemberResponse] = field("3+", factory=list)


class SyncGroupRequestAssignment(Struct):
    member_id: String
    assignment: Bytes


class SyncGroupRequest(Request["SyncGroupResponse"], api_key=14, versions="0-5", flexible="4+"):
    """Get the member's assignment; the leader sends the assignments of all members."""

    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: String | None = field("3+", default=None, nullable="0+")
    protocol_type: String | None = field("5+", default=None, nullable="0+", ignorable=True)
    protocol_name: String | None = field("5+", default=None, nullable="0+", ignorable=True)
    assignments: list[SyncGroupRequestAssignment]


class SyncGroupResponse(Response, api_key=14, versions="0-5", flexible="4+"):
    """The member's assignment, as encoded by the leader."""

    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    error_code: Int16 = field(default=0)
    protocol_type: String | None = field("5+", default=None, nullable="0+", ignorable=True)
    protocol_name: String | None = field("5+", default=None, nullable="0+", ignorable=True)
    assignment: Bytes
