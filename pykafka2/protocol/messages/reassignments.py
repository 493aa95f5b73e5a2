"""ElectLeaders, AlterPartitionReassignments and ListPartitionReassignments.

Sent to the controller through any broker (KIP-455, KIP-460).
"""

from __future__ import annotations

from pykafka2.protocol.fields import Bool, Int8, Int16, Int32, String, field
from pykafka2.protocol.struct import Request, Response, Struct


class TopicPartitions(Struct):
    topic: String
    partitions: list[Int32]


class ElectLeadersRequest(Request["ElectLeadersResponse"], api_key=43, versions="0-2", flexible="2+"):
    """Elect the preferred replica as leader, or one out of sync; null partitions mean all."""

    election_type: Int8 = field("1+", default=0)  # 0: preferred, 1: unclean
    topic_partitions: list[TopicPartitions] | None = field(nullable="0+")
    timeout_ms: Int32 = field(default=60000)


class PartitionResult(Struct):
    partition_id: Int32
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default="", nullable="0+")


class ReplicaElectionResult(Struct):
    topic: String
    partition_result: list[PartitionResult]


class ElectLeadersResponse(Response, api_key=43, versions="0-2", flexible="2+"):
    """Per partition: the error, if no leader was elected."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field("1+", default=0)
    replica_election_results: list[ReplicaElectionResult]


class ReassignablePartition(Struct):
    partition_index: Int32
    replicas: list[Int32] | None = field(default=None, nullable="0+")


class ReassignableTopic(Struct):
    name: String
    partitions: list[ReassignablePartition]


class AlterPartitionReassignmentsRequest(
    Request["AlterPartitionReassignmentsResponse"], api_key=45, versions="0-1", flexible="0+"
):
    """Move partitions to other brokers; null replicas cancel a reassignment."""

    timeout_ms: Int32 = field(default=60000)
    allow_replication_factor_change: Bool = field("1+", default=True)
    topics: list[ReassignableTopic]


class ReassignablePartitionResponse(Struct):
    partition_index: Int32
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default="", nullable="0+")


class ReassignableTopicResponse(Struct):
    name: String
    partitions: list[ReassignablePartitionResponse]


class AlterPartitionReassignmentsResponse(Response, api_key=45, versions="0-1", flexible="0+"):
    """Per partition: the error, if the reassignment did not begin."""

    throttle_time_ms: Int32 = field(default=0)
    allow_replication_factor_change: Bool = field("1+", default=True, ignorable=True)
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default="", nullable="0+")
    responses: list[ReassignableTopicResponse]


class ListPartitionReassignmentsTopics(Struct):
    name: String
    partition_indexes: list[Int32]


class ListPartitionReassignmentsRequest(
    Request["ListPartitionReassignmentsResponse"], api_key=46, versions="0", flexible="0+"
):
    """List the ongoing reassignments; null topics mean all."""

    timeout_ms: Int32 = field(default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = field(default=None, nullable="0+")


class OngoingPartitionReassignment(Struct):
    partition_index: Int32
    replicas: list[Int32]
    adding_replicas: list[Int32]
    removing_replicas: list[Int32]


class OngoingTopicReassignment(Struct):
    name: String
    partitions: list[OngoingPartitionReassignment]


class ListPartitionReassignmentsResponse(Response, api_key=46, versions="0", flexible="0+"):
    """Per partition: its replicas, those being added and those being removed."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default="", nullable="0+")
    topics: list[OngoingTopicReassignment]
