"""Membership by the protocol of KIP-848: ConsumerGroupHeartbeat, ConsumerGroupDescribe.

Sent to the group's coordinator, which computes the assignment.
"""

from __future__ import annotations

from pykafka2.protocol.fields import Bool, Int8, Int16, Int32, String, Uuid, field
from pykafka2.protocol.struct import Request, Response, Struct


class ConsumerGroupHeartbeatRequestTopicPartitions(Struct):
    topic_id: Uuid
    partitions: list[Int32]


class ConsumerGroupHeartbeatRequest(
    Request["ConsumerGroupHeartbeatResponse"], api_key=68, versions="0-1", flexible="0+"
):
    """Join, reconcile or leave (epoch -1) a KIP-848 group, or send a heartbeat; null means unchanged."""

    group_id: String
    member_id: String
    member_epoch: Int32  # 0 joins, -1 leaves, -2 leaves temporarily
    instance_id: String | None = field(default=None, nullable="0+")
    rack_id: String | None = field(default=None, nullable="0+")
    rebalance_timeout_ms: Int32 = field(default=-1)
    subscribed_topic_names: list[String] | None = field(default=None, nullable="0+")
    subscribed_topic_regex: String | None = field("1+", default=None, nullable="0+")
    server_assignor: String | None = field(default=None, nullable="0+")
    topic_partitions: list[ConsumerGroupHeartbeatRequestTopicPartitions] | None = field(
        default=None, nullable="0+"
    )


class ConsumerGroupHeartbeatResponseTopicPartitions(Struct):
    topic_id: Uuid
    partitions: list[Int32]


class ConsumerGroupHeartbeatResponseAssignment(Struct):
    topic_partitions: list[ConsumerGroupHeartbeatResponseTopicPartitions]


class ConsumerGroupHeartbeatResponse(Response, api_key=68, versions="0-1", flexible="0+"):
    """The member's epoch and, if it changed, its assignment."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None, nullable="0+")
    member_id: String | None = field(default=None, nullable="0+")
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    assignment: ConsumerGroupHeartbeatResponseAssignment | None = field(default=None, nullable="0+")


class ConsumerGroupDescribeRequest(
    Request["ConsumerGroupDescribeResponse"], api_key=69, versions="0-1", flexible="0+"
):
    """Describe state and members of KIP-848 groups."""

    group_ids: list[String]
    include_authorized_operations: Bool


class ConsumerGroupDescribeResponseTopicPartitions(Struct):
    topic_id: Uuid
    topic_name: String
    partitions: list[Int32]


class ConsumerGroupDescribeResponseAssignment(Struct):
    topic_partitions: list[ConsumerGroupDescribeResponseTopicPartitions] = field(factory=list)


class Member(Struct):
    member_id: String
    instance_id: String | None = field(default=None, nullable="0+")
    rack_id: String | None = field(default=None, nullable="0+")
    member_epoch: Int32
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]
    subscribed_topic_regex: String | None = field(default=None, nullable="0+")
    assignment: ConsumerGroupDescribeResponseAssignment
    target_assignment: ConsumerGroupDescribeResponseAssignment
    member_type: Int8 = field("1+", default=-1, ignorable=True)


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


class ConsumerGroupDescribeResponse(Response, api_key=69, versions="0-1", flexible="0+"):
    """Groups with members, their assignments and targets."""

    throttle_time_ms: Int32 = field(default=0)
    groups: list[DescribedGroup]
