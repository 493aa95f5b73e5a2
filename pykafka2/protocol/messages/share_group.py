"""Membership in share groups (KIP-932): ShareGroupHeartbeat, ShareGroupDescribe.

Sent to the group's coordinator.
"""

from __future__ import annotations

from pykafka2.protocol.fields import Bool, Int16, Int32, String, Uuid, field
from pykafka2.protocol.struct import Request, Response, Struct


class ShareGroupHeartbeatRequest(
    Request["ShareGroupHeartbeatResponse"], api_key=76, versions="1", flexible="0+"
):
    """Join or leave (epoch -1) a share group, or send a heartbeat; null means unchanged."""

    group_id: String
    member_id: String
    member_epoch: Int32  # 0 joins, -1 leaves
    rack_id: String | None = field(default=None, nullable="0+")
    subscribed_topic_names: list[String] | None = field(default=None, nullable="0+")


class ShareGroupHeartbeatResponseTopicPartitions(Struct):
    topic_id: Uuid
    partitions: list[Int32]


class ShareGroupHeartbeatResponseAssignment(Struct):
    topic_partitions: list[ShareGroupHeartbeatResponseTopicPartitions]


class ShareGroupHeartbeatResponse(Response, api_key=76, versions="1", flexible="0+"):
    """The member's epoch and, if it changed, its assignment."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None, nullable="0+")
    member_id: String | None = field(default=None, nullable="0+")
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    assignment: ShareGroupHeartbeatResponseAssignment | None = field(default=None, nullable="0+")


class ShareGroupDescribeRequest(
    Request["ShareGroupDescribeResponse"], api_key=77, versions="1", flexible="0+"
):
    """Describe state and members of share groups."""

    group_ids: list[String]
    include_authorized_operations: Bool


class ShareGroupDescribeResponseTopicPartitions(Struct):
    topic_id: Uuid
    topic_name: String
    partitions: list[Int32]


class ShareGroupDescribeResponseAssignment(Struct):
    topic_partitions: list[ShareGroupDescribeResponseTopicPartitions] = field(factory=list)


class Member(Struct):
    member_id: String
    rack_id: String | None = field(default=None, nullable="0+")
    member_epoch: Int32
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]
    assignment: ShareGroupDescribeResponseAssignment


class DescribedGroup(Struct):
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None, nullable="0+")
    group_id: String
    group_state: String
    group_epoch: Int32
    assignment_epoch: Int32
    assignor_name: String
    members: list[Member]
    authorized_operations: Int32 = field(default=-2147483648)


class ShareGroupDescribeResponse(Response, api_key=77, versions="1", flexible="0+"):
    """Groups with members and assignments."""

    throttle_time_ms: Int32 = field(default=0)
    groups: list[DescribedGroup]
