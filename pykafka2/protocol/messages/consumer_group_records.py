"""What the coordinator of KIP-848's groups writes to __consumer_offsets.

A key without a value removes what the key names.
"""

from __future__ import annotations

from pykafka2.protocol.fields import Bytes, Int8, Int32, Int64, String, Uuid, field
from pykafka2.protocol.struct import RecordKey, RecordValue, Struct


class ConsumerGroupMetadataKey(RecordKey, kind=3, versions="0"):
    group_id: String


class ConsumerGroupMetadataValue(RecordValue, kind=3, versions="0", flexible="0+"):
    epoch: Int32
    metadata_hash: Int64 = field(default=0, tag=0)


class ConsumerGroupPartitionMetadataKey(RecordKey, kind=4, versions="0"):
    group_id: String


class PartitionMetadata(Struct):
    partition: Int32
    racks: list[String]


class TopicMetadata(Struct):
    topic_id: Uuid
    topic_name: String
    num_partitions: Int32
    partition_metadata: list[PartitionMetadata]


class ConsumerGroupPartitionMetadataValue(RecordValue, kind=4, versions="0", flexible="0+"):
    topics: list[TopicMetadata]


class ConsumerGroupMemberMetadataKey(RecordKey, kind=5, versions="0"):
    group_id: String
    member_id: String


class ClassicProtocol(Struct):
    name: String
    metadata: Bytes


class ClassicMemberMetadata(Struct):
    session_timeout_ms: Int32 = field(default=0)
    supported_protocols: list[ClassicProtocol] = field(factory=list)


class ConsumerGroupMemberMetadataValue(RecordValue, kind=5, versions="0", flexible="0+"):
    instance_id: String | None = field(nullable="0+")
    rack_id: String | None = field(nullable="0+")
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]
    subscribed_topic_regex: String | None = field(nullable="0+")
    rebalance_timeout_ms: Int32 = field(default=-1)
    server_assignor: String | None = field(nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = field(
        factory=ClassicMemberMetadata, nullable="0+", tag=0
    )


class ConsumerGroupTargetAssignmentMetadataKey(RecordKey, kind=6, versions="0"):
    group_id: String


class ConsumerGroupTargetAssignmentMetadataValue(RecordValue, kind=6, versions="0", flexible="0+"):
    assignment_epoch: Int32
    assignment_timestamp: Int64 = field(default=0, tag=0, ignorable=True)


class ConsumerGroupTargetAssignmentMemberKey(RecordKey, kind=7, versions="0"):
    group_id: String
    member_id: String


class TopicPartition(Struct):
    topic_id: Uuid
    partitions: list[Int32]


class ConsumerGroupTargetAssignmentMemberValue(RecordValue, kind=7, versions="0", flexible="0+"):
    topic_partitions: list[TopicPartition]


class ConsumerGroupCurrentMemberAssignmentKey(RecordKey, kind=8, versions="0"):
    group_id: String
    member_id: String


class TopicPartitions(Struct):
    topic_id: Uuid
    partitions: list[Int32]
    assignment_epochs: list[Int32] | None = field(factory=list, nullable="0+", tag=0)


class ConsumerGroupCurrentMemberAssignmentValue(RecordValue, kind=8, versions="0", flexible="0+"):
    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: list[TopicPartitions]
    partitions_pending_revocation: list[TopicPartitions]


class ConsumerGroupRegularExpressionKey(RecordKey, kind=16, versions="0"):
    group_id: String
    regular_expression: String


class ConsumerGroupRegularExpressionValue(RecordValue, kind=16, versions="0", flexible="0+"):
    topics: list[String]
    version: Int64
    timestamp: Int64
