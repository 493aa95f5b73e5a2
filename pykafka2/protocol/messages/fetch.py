"""Reading records: Fetch, by consumers and by following brokers.

Sessions (KIP-227), leader epochs (KIP-320), replica state (KIP-903) and topic ids (KIP-516) came with later
versions.
"""

from __future__ import annotations

from pykafka2.protocol.fields import Int8, Int16, Int32, Int64, Records, String, Uuid, field
from pykafka2.protocol.primitives import ZERO_UUID
from pykafka2.protocol.struct import Request, Response, Struct


class ReplicaState(Struct):
    replica_id: Int32 = field(default=-1)
    replica_epoch: Int64 = field(default=-1)


class FetchPartition(Struct):
    partition: Int32
    current_leader_epoch: Int32 = field("9+", default=-1, ignorable=True)
    fetch_offset: Int64
    last_fetched_epoch: Int32 = field("12+", default=-1)
    log_start_offset: Int64 = field("5+", default=-1, ignorable=True)
    partition_max_bytes: Int32
    replica_directory_id: Uuid = field("17+", default=ZERO_UUID, tag=0, ignorable=True)
    high_watermark: Int64 = field("18+", default=9223372036854775807, tag=1, ignorable=True)


class FetchTopic(Struct):
    topic: String = field("0-12", default="", ignorable=True)
    topic_id: Uuid = field("13+", default=ZERO_UUID, ignorable=True)
    partitions: list[FetchPartition]


class ForgottenTopic(Struct):
    topic: String = field("7-12", default="", ignorable=True)
    topic_id: Uuid = field("13+", default=ZERO_UUID, ignorable=True)
    partitions: list[Int32]


class FetchRequest(Request["FetchResponse"], api_key=1, versions="0-18", flexible="12+"):
    """Fetch batches from given offsets; waits for `min_bytes`, at most `max_wait_ms`."""

    cluster_id: String | None = field("12+", default=None, nullable="0+", tag=0, ignorable=True)
    replica_id: Int32 = field("0-14", default=-1)  # -1 for consumers
    replica_state: ReplicaState = field("15+", factory=ReplicaState, tag=1)
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = field("3+", default=2147483647, ignorable=True)
    isolation_level: Int8 = field("4+", default=0, ignorable=True)  # 0: read_uncommitted, 1: read_committed
    session_id: Int32 = field("7+", default=0, ignorable=True)
    # 0 opens a session, -1 closes it (KIP-227).
    session_epoch: Int32 = field("7+", default=-1, ignorable=True)
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic] = field("7+", factory=list)
    rack_id: String = field("11+", default="", ignorable=True)


class EpochEndOffset(Struct):
    epoch: Int32 = field(default=-1)
    end_offset: Int64 = field(default=-1)


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = field(default=-1)
    leader_epoch: Int32 = field(default=-1)


class SnapshotId(Struct):
    end_offset: Int64 = field(default=-1)
    epoch: Int32 = field(default=-1)


class AbortedTransaction(Struct):
    producer_id: Int64
    first_offset: Int64


class PartitionData(Struct):
    partition_index: Int32
    error_code: Int16 = field(default=0)
    high_watermark: Int64
    # The last stable offset: all transactions before it are complete.
    last_stable_offset: Int64 = field("4+", default=-1, ignorable=True)
    log_start_offset: Int64 = field("5+", default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = field("12+", factory=EpochEndOffset, tag=0)
    current_leader: LeaderIdAndEpoch = field("12+", factory=LeaderIdAndEpoch, tag=1)
    snapshot_id: SnapshotId = field("12+", factory=SnapshotId, tag=2)
    # Null under read_uncommitted.
    aborted_transactions: list[AbortedTransaction] | None = field(
        "4+", factory=list, nullable="0+", ignorable=True
    )
    preferred_read_replica: Int32 = field("11+", default=-1)  # read from this broker instead (KIP-392)
    records: Records | None = field(default=None, nullable="0+")


class FetchableTopicResponse(Struct):
    topic: String = field("0-12", default="", ignorable=True)
    topic_id: Uuid = field("13+", default=ZERO_UUID, ignorable=True)
    partitions: list[PartitionData]


class NodeEndpoint(Struct):
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = field(default=None, nullable="0+")


class FetchResponse(Response, api_key=1, versions="0-18", flexible="12+"):
    """Per partition: batches, the last one possibly truncated, and the end of readable records."""

    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    error_code: Int16 = field("7+", default=0, ignorable=True)
    session_id: Int32 = field("7+", default=0)
    responses: list[FetchableTopicResponse]
    node_endpoints: list[NodeEndpoint] = field("16+", factory=list, tag=0)
