"""Records of KIP-848 groups in __consumer_offsets.

A key without a value (a tombstone) removes its entry.
"""

from __future__ import annotations

from pykafka2.protocol.fields import Bytes, Int8, Int32, Int64, String, Uuid, field
from pykafka2.protocol.struct import RecordKey, RecordValue, Struct


class ConsumerGroupMetadataKey(RecordKey, kind=3, versions="0"):
    """A group."""

    group_id: String


class ConsumerGroupMetadataValue(RecordValue, kind=3, versions="0", flexible="0+"):
    """A group's epoch."""

    epoch: Int32
    metadata_hash: Int64 = field(default=0, tag=0)


class ConsumerGroupPartitionMetadataKey(RecordKey, kind=4, versions="0"):
    """The group of a topic-sizes record."""

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
    """The latest topic sizes known to a group; no longer written."""

    topics: list[TopicMetadata]


class ConsumerGroupMemberMetadataKey(RecordKey, kind=5, versions="0"):
    """A member of a group."""

    group_id: String
    member_id: String


class ClassicProtocol(Struct):
    name: String
    metadata: Bytes


class ClassicMemberMetadata(Struct):
    session_timeout_ms: Int32 = field(default=0)
    supported_protocols: list[ClassicProtocol] = field(factory=list)


class ConsumerGroupMemberMetadataValue(RecordValue, kind=5, versions="0", flexible="0+"):
    """A member's subscription and client."""

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
    """The group of a target-epoch record."""

    group_id: String


class ConsumerGroupTargetAssignmentMetadataValue(RecordValue, kind=6, versions="0", flexible="0+"):
    """The epoch of a group's target assignment."""

    assignment_epoch: Int32
    assignment_timestamp: Int64 = field(default=0, tag=0, ignorable=True)


class ConsumerGroupTargetAssignmentMemberKey(RecordKey, kind=7, versions="0"):
    """A member of a group's target assignment."""

    group_id: String
    member_id: String


class TopicPartition(Struct):
    topic_id: Uuid
    partitions: list[Int32]


class ConsumerGroupTargetAssignmentMemberValue(RecordValue, kind=7, versions="0", flexible="0+"):
    """A member's target assignment."""

    topic_partitions: list[TopicPartition]


class ConsumerGroupCurrentMemberAssignmentKey(RecordKey, kind=8, versions="0"):
    """A member of a group."""

    group_id: String
    member_id: String


class TopicPartitions(Struct):
    topic_id: Uuid
    partitions: list[Int32]
    assignment_epochs: list[Int32] | None = field(factory=list, nullable="0+", tag=0)


class ConsumerGroupCurrentMemberAssignmentValue(RecordValue, kind=8, versions="0", flexible="0+"):
    """A member's current partitions, and those it must still revoke."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: list[TopicPartitions]
    partitions_pending_revocation: list[TopicPartitions]


class ConsumerGroupRegularExpressionKey(RecordKey, kind=16, versions="0"):
    """A group's subscription by pattern."""

    group_id: String
    regular_expression: String


class ConsumerGroupRegularExpressionValue(RecordValue, kind=16, versions="0", flexible="0+"):
    """The topics that a pattern matched, and when."""

    topics: list[String]
    version: Int64
    timestamp: Int64
