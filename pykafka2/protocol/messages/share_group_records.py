"""Records of share groups in __consumer_offsets (KIP-932).

A key without a value (a tombstone) removes its entry.
"""

from __future__ import annotations

from pykafka2.protocol.fields import Int8, Int32, Int64, String, Uuid, field
from pykafka2.protocol.struct import RecordKey, RecordValue, Struct


class ShareGroupMemberMetadataKey(RecordKey, kind=10, versions="0"):
    """A member of a share group."""

    group_id: String
    member_id: String


class ShareGroupMemberMetadataValue(RecordValue, kind=10, versions="0", flexible="0+"):
    """A member's subscription and client."""

    rack_id: String | None = field(nullable="0+")
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]


class ShareGroupMetadataKey(RecordKey, kind=11, versions="0"):
    """A share group."""

    group_id: String


class ShareGroupMetadataValue(RecordValue, kind=11, versions="0", flexible="0+"):
    """A share group's epoch."""

    epoch: Int32
    metadata_hash: Int64


class ShareGroupTargetAssignmentMetadataKey(RecordKey, kind=12, versions="0"):
    """The share group of a target-epoch record."""

    group_id: String


class ShareGroupTargetAssignmentMetadataValue(RecordValue, kind=12, versions="0", flexible="0+"):
    """The epoch of a share group's target assignment."""

    assignment_epoch: Int32
    assignment_timestamp: Int64 = field(default=0, tag=0, ignorable=True)


class ShareGroupTargetAssignmentMemberKey(RecordKey, kind=13, versions="0"):
    """A member of a share group's target assignment."""

    group_id: String
    member_id: String


class TopicPartition(Struct):
    topic_id: Uuid
    partitions: list[Int32]


class ShareGroupTargetAssignmentMemberValue(RecordValue, kind=13, versions="0", flexible="0+"):
    """A member's target assignment."""

    topic_partitions: list[TopicPartition]


class ShareGroupCurrentMemberAssignmentKey(RecordKey, kind=14, versions="0"):
    """A member of a share group."""

    group_id: String
    member_id: String


class TopicPartitions(Struct):
    topic_id: Uuid
    partitions: list[Int32]


class ShareGroupCurrentMemberAssignmentValue(RecordValue, kind=14, versions="0", flexible="0+"):
    """A member's current partitions."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: list[TopicPartitions]


class ShareGroupStatePartitionMetadataKey(RecordKey, kind=15, versions="0"):
    """The share group of a partition-states record."""

    group_id: String


class TopicPartitionsInfo(Struct):
    topic_id: Uuid
    topic_name: String
    partitions: list[Int32]


class TopicInfo(Struct):
    topic_id: Uuid
    topic_name: String


class ShareGroupStatePartitionMetadataValue(RecordValue, kind=15, versions="0", flexible="0+"):
    """Partitions whose state is being initialized, is initialized, or is being deleted."""

    initializing_topics: list[TopicPartitionsInfo]
    initialized_topics: list[TopicPartitionsInfo]
    deleting_topics: list[TopicInfo]
