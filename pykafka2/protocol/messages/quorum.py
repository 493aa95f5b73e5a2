"""The quorum of controllers: DescribeQuorum (KIP-595, KIP-836), AddRaftVoter and RemoveRaftVoter (KIP-853).

Sent to the controller through any broker.
"""

from __future__ import annotations

from pykafka2.protocol.fields import Bool, Int16, Int32, Int64, String, UInt16, Uuid, field
from pykafka2.protocol.primitives import ZERO_UUID
from pykafka2.protocol.struct import Request, Response, Struct


class DescribeQuorumRequestPartitionData(Struct):
    partition_index: Int32


class DescribeQuorumRequestTopicData(Struct):
    topic_name: String
    partitions: list[DescribeQuorumRequestPartitionData]


class DescribeQuorumRequest(Request["DescribeQuorumResponse"], api_key=55, versions="0-2", flexible="0+"):
    """Describe how far each controller has replicated the metadata log."""

    topics: list[DescribeQuorumRequestTopicData]


class ReplicaState(Struct):
    replica_id: Int32
    replica_directory_id: Uuid = field("2+", default=ZERO_UUID)
    log_end_offset: Int64
    last_fetch_timestamp: Int64 = field("1+", default=-1, ignorable=True)
    last_caught_up_timestamp: Int64 = field("1+", default=-1, ignorable=True)


class DescribeQuorumResponsePartitionData(Struct):
    partition_index: Int32
    error_code: Int16 = field(default=0)
    error_message: String | None = field("2+", default="", nullable="0+", ignorable=True)
    leader_id: Int32
    leader_epoch: Int32
    high_watermark: Int64
    current_voters: list[ReplicaState]
    observers: list[ReplicaState]


class DescribeQuorumResponseTopicData(Struct):
    topic_name: String
    partitions: list[DescribeQuorumResponsePartitionData]


class Listener(Struct):
    name: String
    host: String
    port: UInt16


class Node(Struct):
    node_id: Int32
    listeners: list[Listener]


class DescribeQuorumResponse(Response, api_key=55, versions="0-2", flexible="0+"):
    """Leader, epoch, voters and observers."""

    error_code: Int16 = field(default=0)
    error_message: String | None = field("2+", default="", nullable="0+", ignorable=True)
    topics: list[DescribeQuorumResponseTopicData]
    nodes: list[Node] = field("2+", factory=list)


class AddRaftVoterRequest(Request["AddRaftVoterResponse"], api_key=80, versions="0-1", flexible="0+"):
    """Make a controller a voter."""

    cluster_id: String | None = field(nullable="0+")
    timeout_ms: Int32
    voter_id: Int32
    voter_directory_id: Uuid
    listeners: list[Listener]
    ack_when_committed: Bool = field("1+", default=True)


class AddRaftVoterResponse(Response, api_key=80, versions="0-1", flexible="0+"):
    """The error, if any."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default="", nullable="0+", ignorable=True)


class RemoveRaftVoterRequest(Request["RemoveRaftVoterResponse"], api_key=81, versions="0", flexible="0+"):
    """Remove a voter from the quorum."""

    cluster_id: String | None = field(nullable="0+")
    voter_id: Int32
    voter_directory_id: Uuid


class RemoveRaftVoterResponse(Response, api_key=81, versions="0", flexible="0+"):
    """The error, if any."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default="", nullable="0+", ignorable=True)
