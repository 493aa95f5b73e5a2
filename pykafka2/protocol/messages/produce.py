"""Appending records: Produce.

The producer's sender creates the request, the broker's replica manager the response. Records are one opaque
field here; records/ decodes them.
"""

from __future__ import annotations

from pykafka2.protocol.fields import Int16, Int32, Int64, Records, String, Uuid, field
from pykafka2.protocol.primitives import ZERO_UUID
from pykafka2.protocol.struct import Request, Response, Struct


class PartitionProduceData(Struct):
    index: Int32
    records: Records | None = field(default=None, nullable="0+")


class TopicProduceData(Struct):
    name: String = field("0-12", default="", ignorable=True)
    topic_id: Uuid = field("13+", default=ZERO_UUID, ignorable=True)
    partition_data: list[PartitionProduceData]


class ProduceRequest(Request["ProduceResponse"], api_key=0, versions="0-13", flexible="9+"):
    """Append record batches to partitions; there is no response if `acks` is 0."""

    transactional_id: String | None = field("3+", default=None, nullable="0+")
    acks: Int16  # -1: all in-sync replicas, 1: the leader, 0: no response
    timeout_ms: Int32
    topic_data: list[TopicProduceData]


class BatchIndexAndErrorMessage(Struct):
    batch_index: Int32
    batch_index_error_message: String | None = field(default=None, nullable="0+")


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = field(default=-1)
    leader_epoch: Int32 = field(default=-1)


class PartitionProduceResponse(Struct):
    index: Int32
    error_code: Int16 = field(default=0)
    base_offset: Int64
    # -1 if the records keep their own timestamps.
    log_append_time_ms: Int64 = field("2+", default=-1, ignorable=True)
    log_start_offset: Int64 = field("5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = field("8+", factory=list, ignorable=True)
    error_message: String | None = field("8+", default=None, nullable="0+", ignorable=True)
    current_leader: LeaderIdAndEpoch = field("10+", factory=LeaderIdAndEpoch, tag=0)


class TopicProduceResponse(Struct):
    name: String = field("0-12", default="", ignorable=True)
    topic_id: Uuid = field("13+", default=ZERO_UUID, ignorable=True)
    partition_responses: list[PartitionProduceResponse]


class NodeEndpoint(Struct):
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = field(default=None, nullable="0+")


class ProduceResponse(Response, api_key=0, versions="0-13", flexible="9+"):
    """Per partition: the offset of the first record, or the error."""

    responses: list[TopicProduceResponse]
    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    node_endpoints: list[NodeEndpoint] = field("10+", factory=list, tag=0)
