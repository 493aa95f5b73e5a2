"""Topics: CreateTopics, DeleteTopics, DeleteRecords, CreatePartitions.

Sent to the controller through any broker; DeleteRecords to the partition's leader.
"""

from __future__ import annotations

from pykafka2.protocol.fields import Bool, Int8, Int16, Int32, Int64, String, Uuid, field
from pykafka2.protocol.primitives import ZERO_UUID
from pykafka2.protocol.struct import Request, Response, Struct


class CreatableReplicaAssignment(Struct):
    partition_index: Int32
    broker_ids: list[Int32]


class CreatableTopicConfig(Struct):
    name: String
    value: String | None = field(nullable="0+", secret=True)


class CreatableTopic(Struct):
    name: String
    num_partitions: Int32  # -1: the broker's default, or as in `assignments`
    replication_factor: Int16  # -1: the broker's default, or as in `assignments`
    assignments: list[CreatableReplicaAssignment]
    configs: list[CreatableTopicConfig]


class CreateTopicsRequest(Request["CreateTopicsResponse"], api_key=19, versions="0-7", flexible="5+"):
    """Create topics, or only validate the request."""

    topics: list[CreatableTopic]
    timeout_ms: Int32 = field(default=60000)
    validate_only: Bool = field("1+", default=False)


class CreatableTopicConfigs(Struct):
    name: String
    value: String | None = field(nullable="0+", secret=True)
    read_only: Bool
    config_source: Int8 = field(default=-1, ignorable=True)
    is_sensitive: Bool


class CreatableTopicResult(Struct):
    name: String
    topic_id: Uuid = field("7+", default=ZERO_UUID, ignorable=True)
    error_code: Int16 = field(default=0)
    error_message: String | None = field("1+", default="", nullable="0+", ignorable=True)
    topic_config_error_code: Int16 = field("5+", default=0, tag=0, ignorable=True)
    num_partitions: Int32 = field("5+", default=-1, ignorable=True)
    replication_factor: Int16 = field("5+", default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = field("5+", factory=list, nullable="0+", ignorable=True)


class CreateTopicsResponse(Response, api_key=19, versions="0-7", flexible="5+"):
    """Per topic: id and settings, or the error."""

    throttle_time_ms: Int32 = field("2+", default=0, ignorable=True)
    topics: list[CreatableTopicResult]


class DeleteTopicState(Struct):
    name: String | None = field(default=None, nullable="0+")
    topic_id: Uuid


class DeleteTopicsRequest(Request["DeleteTopicsResponse"], api_key=20, versions="0-6", flexible="4+"):
    """Delete topics; from version 6 on by name or id."""

    topics: list[DeleteTopicState] = field("6+", factory=list)
    topic_names: list[String] = field("0-5", factory=list, ignorable=True)
    timeout_ms: Int32


class DeletableTopicResult(Struct):
    name: String | None = field(nullable="6+")
    topic_id: Uuid = field("6+", default=ZERO_UUID, ignorable=True)
    error_code: Int16 = field(default=0)
    error_message: String | None = field("5+", default=None, nullable="0+", ignorable=True)


class DeleteTopicsResponse(Response, api_key=20, versions="0-6", flexible="4+"):
    """Per topic: the error, if it was not deleted."""

    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    responses: list[DeletableTopicResult]


class DeleteRecordsPartition(Struct):
    partition_index: Int32
    offset: Int64  # -1: the high watermark


class DeleteRecordsTopic(Struct):
    name: String
    partitions: list[DeleteRecordsPartition]


class DeleteRecordsRequest(Request["DeleteRecordsResponse"], api_key=21, versions="0-2", flexible="2+"):
    """Delete records before an offset; -1 means the high watermark."""

    topics: list[DeleteRecordsTopic]
    timeout_ms: Int32


class DeleteRecordsPartitionResult(Struct):
    partition_index: Int32
    low_watermark: Int64
    error_code: Int16 = field(default=0)


class DeleteRecordsTopicResult(Struct):
    name: String
    partitions: list[DeleteRecordsPartitionResult]


class DeleteRecordsResponse(Response, api_key=21, versions="0-2", flexible="2+"):
    """Per partition: the new log start offset."""

    throttle_time_ms: Int32 = field(default=0)
    topics: list[DeleteRecordsTopicResult]


class CreatePartitionsAssignment(Struct):
    broker_ids: list[Int32]


class CreatePartitionsTopic(Struct):
    name: String
    count: Int32
    assignments: list[CreatePartitionsAssignment] | None = field(nullable="0+")


class CreatePartitionsRequest(Request["CreatePartitionsResponse"], api_key=37, versions="0-3", flexible="2+"):
    """Add partitions to topics."""

    topics: list[CreatePartitionsTopic]
    timeout_ms: Int32
    validate_only: Bool


class CreatePartitionsTopicResult(Struct):
    name: String
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None, nullable="0+")


class CreatePartitionsResponse(Response, api_key=37, versions="0-3", flexible="2+"):
    """Per topic: the error, if any."""

    throttle_time_ms: Int32 = field(default=0)
    results: list[CreatePartitionsTopicResult]
