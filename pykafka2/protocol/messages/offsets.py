"""Lookups of offsets: ListOffsets, OffsetForLeaderEpoch.

Consumers send them to the partition's leader to find a position or detect a truncation.
"""

from __future__ import annotations

from pykafka2.protocol.fields import Int8, Int16, Int32, Int64, String, field
from pykafka2.protocol.struct import Request, Response, Struct


class ListOffsetsPartition(Struct):
    partition_index: Int32
    current_leader_epoch: Int32 = field("4+", default=-1, ignorable=True)
    timestamp: Int64  # milliseconds; -1 is the end, -2 the beginning
    max_num_offsets: Int32 = field("0", default=1)


class ListOffsetsTopic(Struct):
    name: String
    partitions: list[ListOffsetsPartition]


class ListOffsetsRequest(Request["ListOffsetsResponse"], api_key=2, versions="0-11", flexible="6+"):
    """Find offsets by time; -1 is the end, -2 the beginning, -3 the maximum timestamp, lower values tiers."""

    replica_id: Int32
    isolation_level: Int8 = field("2+", default=0)  # 0: read_uncommitted, 1: read_committed
    topics: list[ListOffsetsTopic]
    timeout_ms: Int32 = field("10+", default=0, ignorable=True)


class ListOffsetsPartitionResponse(Struct):
    partition_index: Int32
    error_code: Int16 = field(default=0)
    old_style_offsets: list[Int64] = field("0", factory=list)
    timestamp: Int64 = field("1+", default=-1)
    offset: Int64 = field("1+", default=-1)
    leader_epoch: Int32 = field("4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    name: String
    partitions: list[ListOffsetsPartitionResponse]


class ListOffsetsResponse(Response, api_key=2, versions="0-11", flexible="6+"):
    """Per partition: the offset found, its time and its epoch."""

    throttle_time_ms: Int32 = field("2+", default=0, ignorable=True)
    topics: list[ListOffsetsTopicResponse]


class OffsetForLeaderPartition(Struct):
    partition: Int32
    current_leader_epoch: Int32 = field("2+", default=-1, ignorable=True)
    leader_epoch: Int32


class OffsetForLeaderTopic(Struct):
    topic: String
    partitions: list[OffsetForLeaderPartition]


class OffsetForLeaderEpochRequest(
    Request["OffsetForLeaderEpochResponse"], api_key=23, versions="0-4", flexible="4+"
):
    """Find the end offsets of leader epochs, to detect a diverged log (KIP-101)."""

    replica_id: Int32 = field("3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic]


class EpochEndOffset(Struct):
    error_code: Int16 = field(default=0)
    partition: Int32
    leader_epoch: Int32 = field("1+", default=-1, ignorable=True)
    end_offset: Int64 = field(default=-1)


class OffsetForLeaderTopicResult(Struct):
    topic: String
    partitions: list[EpochEndOffset]


class OffsetForLeaderEpochResponse(Response, api_key=23, versions="0-4", flexible="4+"):
    """Per partition: the end offset of the largest epoch not above the requested one."""

    throttle_time_ms: Int32 = field("2+", default=0, ignorable=True)
    topics: list[OffsetForLeaderTopicResult]
