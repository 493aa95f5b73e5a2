"""Log directories: AlterReplicaLogDirs, DescribeLogDirs (KIP-113).

Sent to the broker that has them.
"""

from __future__ import annotations

from pykafka2.protocol.fields import Bool, Int16, Int32, Int64, String, field
from pykafka2.protocol.struct import Request, Response, Struct


class AlterReplicaLogDirTopic(Struct):
    name: String
    partitions: list[Int32]


class AlterReplicaLogDir(Struct):
    path: String
    topics: list[AlterReplicaLogDirTopic]


class AlterReplicaLogDirsRequest(
    Request["AlterReplicaLogDirsResponse"], api_key=34, versions="0-2", flexible="2+"
):
    """Move a broker's replicas between its log directories."""

    dirs: list[AlterReplicaLogDir]


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: Int32
    error_code: Int16 = field(default=0)


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: String
    partitions: list[AlterReplicaLogDirPartitionResult]


class AlterReplicaLogDirsResponse(Response, api_key=34, versions="0-2", flexible="2+"):
    """Per partition: the error, if the move did not begin."""

    throttle_time_ms: Int32 = field(default=0)
    results: list[AlterReplicaLogDirTopicResult]


class DescribableLogDirTopic(Struct):
    topic: String
    partitions: list[Int32]


class DescribeLogDirsRequest(Request["DescribeLogDirsResponse"], api_key=35, versions="0-5", flexible="2+"):
    """Describe the log directories of a broker and their partitions; null topics mean all."""

    topics: list[DescribableLogDirTopic] | None = field(nullable="0+")


class DescribeLogDirsPartition(Struct):
    partition_index: Int32
    partition_size: Int64
    offset_lag: Int64
    is_future_key: Bool


class DescribeLogDirsTopic(Struct):
    name: String
    partitions: list[DescribeLogDirsPartition]


class DescribeLogDirsResult(Struct):
    error_code: Int16 = field(default=0)
    log_dir: String
    topics: list[DescribeLogDirsTopic]
    total_bytes: Int64 = field("4+", default=-1, ignorable=True)
    usable_bytes: Int64 = field("4+", default=-1, ignorable=True)
    is_cordoned: Bool = field("5+", default=False, ignorable=True)


class DescribeLogDirsResponse(Response, api_key=35, versions="0-5", flexible="2+"):
    """Directories with their sizes and partitions."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field("3+", default=0, ignorable=True)
    results: list[DescribeLogDirsResult]
