"""Metadata and DescribeTopicPartitions: brokers, topics and partitions.

Sent by the client's cluster/metadata.py to any broker.
"""

from __future__ import annotations

from pykafka2.protocol.fields import Bool, Int16, Int32, String, Uuid, field
from pykafka2.protocol.primitives import ZERO_UUID
from pykafka2.protocol.struct import Request, Response, Struct


class MetadataRequestTopic(Struct):
    topic_id: Uuid = field("10+", default=ZERO_UUID, ignorable=True)
    name: String | None = field(nullable="10+")


class MetadataRequest(Request["MetadataResponse"], api_key=3, versions="0-13", flexible="9+"):
    """Request brokers and topics; null topics (in version 0 an empty list) mean all."""

    topics: list[MetadataRequestTopic] | None = field(nullable="1+")  # null: all topics
    allow_auto_topic_creation: Bool = field("4+", default=True)
    include_cluster_authorized_operations: Bool = field("8-10", default=False)
    include_topic_authorized_operations: Bool = field("8+", default=False)


class MetadataResponseBroker(Struct):
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = field("1+", default=None, nullable="0+", ignorable=True)


class MetadataResponsePartition(Struct):
    error_code: Int16 = field(default=0)
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = field("7+", default=-1, ignorable=True)
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    offline_replicas: list[Int32] = field("5+", factory=list, ignorable=True)


class MetadataResponseTopic(Struct):
    error_code: Int16 = field(default=0)
    name: String | None = field(nullable="12+")
    topic_id: Uuid = field("10+", default=ZERO_UUID, ignorable=True)
    is_internal: Bool = field("1+", default=False, ignorable=True)
    partitions: list[MetadataResponsePartition]
    topic_authorized_operations: Int32 = field("8+", default=-2147483648)


class MetadataResponse(Response, api_key=3, versions="0-13", flexible="9+"):
    """Brokers, controller and, per partition, leader, epoch, replicas and in-sync replicas."""

    throttle_time_ms: Int32 = field("3+", default=0, ignorable=True)
    brokers: list[MetadataResponseBroker]
    cluster_id: String | None = field("2+", default=None, nullable="0+", ignorable=True)
    controller_id: Int32 = field("1+", default=-1, ignorable=True)
    topics: list[MetadataResponseTopic]
    cluster_authorized_operations: Int32 = field("8-10", default=-2147483648)
    error_code: Int16 = field("13+", default=0, ignorable=True)


class TopicRequest(Struct):
    name: String


class DescribeTopicPartitionsRequestCursor(Struct):
    topic_name: String
    partition_index: Int32


class DescribeTopicPartitionsRequest(
    Request["DescribeTopicPartitionsResponse"], api_key=75, versions="0", flexible="0+"
):
    """Describe the partitions of many topics page by page (KIP-966)."""

    topics: list[TopicRequest]
    response_partition_limit: Int32 = field(default=2000)
    cursor: DescribeTopicPartitionsRequestCursor | None = field(default=None, nullable="0+")


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: Int16 = field(default=0)
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = field(default=-1, ignorable=True)
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    eligible_leader_replicas: list[Int32] | None = field(default=None, nullable="0+")
    last_known_elr: list[Int32] | None = field(default=None, nullable="0+")
    offline_replicas: list[Int32] = field(ignorable=True)


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: Int16 = field(default=0)
    name: String | None = field(nullable="0+")
    topic_id: Uuid = field(ignorable=True)
    is_internal: Bool = field(default=False, ignorable=True)
    partitions: list[DescribeTopicPartitionsResponsePartition]
    topic_authorized_operations: Int32 = field(default=-2147483648)


class DescribeTopicPartitionsResponseCursor(Struct):
    topic_name: String
    partition_index: Int32


class DescribeTopicPartitionsResponse(Response, api_key=75, versions="0", flexible="0+"):
    """Partitions, and the cursor of the next page, if any."""

    throttle_time_ms: Int32 = field(default=0, ignorable=True)
    topics: list[DescribeTopicPartitionsResponseTopic]
    next_cursor: DescribeTopicPartitionsResponseCursor | None = field(default=None, nullable="0+")
