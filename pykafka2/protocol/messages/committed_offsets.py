"""A group's committed offsets: OffsetCommit, OffsetFetch, OffsetDelete.

Sent to the group's coordinator.
"""

from __future__ import annotations

from pykafka2.protocol.fields import Bool, Int16, Int32, Int64, String, Uuid, field
from pykafka2.protocol.primitives import ZERO_UUID
from pykafka2.protocol.struct import Request, Response, Struct


class OffsetCommitRequestPartition(Struct):
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = field("6+", default=-1, ignorable=True)
    commit_timestamp: Int64 = field("1", default=-1)
    committed_metadata: String | None = field(nullable="0+")


class OffsetCommitRequestTopic(Struct):
    name: String = field("0-9", default="", ignorable=True)
    topic_id: Uuid = field("10+", default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetCommitRequestPartition]


class OffsetCommitRequest(Request["OffsetCommitResponse"], api_key=8, versions="0-10", flexible="8+"):
    """Commit offsets of a group."""

    group_id: String
    generation_id_or_member_epoch: Int32 = field("1+", default=-1, ignorable=True)  # -1 outside of groups
    member_id: String = field("1+", default="", ignorable=True)
    group_instance_id: String | None = field("7+", default=None, nullable="0+")
    retention_time_ms: Int64 = field("2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic]


class OffsetCommitResponsePartition(Struct):
    partition_index: Int32
    error_code: Int16 = field(default=0)


class OffsetCommitResponseTopic(Struct):
    name: String = field("0-9", default="", ignorable=True)
    topic_id: Uuid = field("10+", default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetCommitResponsePartition]


class OffsetCommitResponse(Response, api_key=8, versions="0-10", flexible="8+"):
    """Per partition: the error, if the offset was not committed."""

    throttle_time_ms: Int32 = field("3+", default=0, ignorable=True)
    topics: list[OffsetCommitResponseTopic]


class OffsetFetchRequestTopic(Struct):
    name: String
    partition_indexes: list[Int32]


class OffsetFetchRequestTopics(Struct):
    name: String = field("8-9", default="", ignorable=True)
    topic_id: Uuid = field("10+", default=ZERO_UUID, ignorable=True)
    partition_indexes: list[Int32]


class OffsetFetchRequestGroup(Struct):
    group_id: String
    member_id: String | None = field("9+", default=None, nullable="0+", ignorable=True)
    member_epoch: Int32 = field("9+", default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = field(nullable="0+")


class OffsetFetchRequest(Request["OffsetFetchResponse"], api_key=9, versions="0-10", flexible="6+"):
    """Fetch the committed offsets of a group (several groups from version 8); null topics mean all."""

    group_id: String = field("0-7", default="")
    topics: list[OffsetFetchRequestTopic] | None = field("0-7", factory=list, nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = field("8+", factory=list)
    require_stable: Bool = field("7+", default=False)  # wait for open transactions (KIP-447)


class OffsetFetchResponsePartition(Struct):
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = field("5-7", default=-1, ignorable=True)
    metadata: String | None = field(nullable="0+")
    error_code: Int16 = field(default=0)


class OffsetFetchResponseTopic(Struct):
    name: String
    partitions: list[OffsetFetchResponsePartition]


class OffsetFetchResponsePartitions(Struct):
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = field(default=-1, ignorable=True)
    metadata: String | None = field(nullable="0+")
    error_code: Int16 = field(default=0)


class OffsetFetchResponseTopics(Struct):
    name: String = field("8-9", default="", ignorable=True)
    topic_id: Uuid = field("10+", default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetFetchResponsePartitions]


class OffsetFetchResponseGroup(Struct):
    group_id: String
    topics: list[OffsetFetchResponseTopics]
    error_code: Int16 = field(default=0)


class OffsetFetchResponse(Response, api_key=9, versions="0-10", flexible="6+"):
    """Per partition: the committed offset, -1 if there is none."""

    throttle_time_ms: Int32 = field("3+", default=0, ignorable=True)
    topics: list[OffsetFetchResponseTopic] = field("0-7", factory=list)
    error_code: Int16 = field("2-7", default=0, ignorable=True)
    groups: list[OffsetFetchResponseGroup] = field("8+", factory=list)


class OffsetDeleteRequestPartition(Struct):
    partition_index: Int32


class OffsetDeleteRequestTopic(Struct):
    name: String
    partitions: list[OffsetDeleteRequestPartition]


class OffsetDeleteRequest(Request["OffsetDeleteResponse"], api_key=47, versions="0"):
    """Delete committed offsets of topics that no member reads (KIP-496)."""

    group_id: String
    topics: list[OffsetDeleteRequestTopic]


class OffsetDeleteResponsePartition(Struct):
    partition_index: Int32
    error_code: Int16 = field(default=0)


class OffsetDeleteResponseTopic(Struct):
    name: String
    partitions: list[OffsetDeleteResponsePartition]


class OffsetDeleteResponse(Response, api_key=47, versions="0"):
    """Per partition: the error, if the offset was not deleted."""

    error_code: Int16 = field(default=0)
    throttle_time_ms: Int32 = field(default=0, ignorable=True)
    topics: list[OffsetDeleteResponseTopic]
