"""The state of share partitions (KIP-932): initialize, read, write, delete, summarize.

Brokers send them to the share coordinator; clients never do.
"""

from __future__ import annotations

from pykafka2.protocol.fields import Int8, Int16, Int32, Int64, String, Uuid, field
from pykafka2.protocol.struct import Request, Response, Struct


class InitializeShareGroupStateRequestPartitionData(Struct):
    partition: Int32
    state_epoch: Int32
    start_offset: Int64


class InitializeStateData(Struct):
    topic_id: Uuid
    partitions: list[InitializeShareGroupStateRequestPartitionData]


class InitializeShareGroupStateRequest(
    Request["InitializeShareGroupStateResponse"], api_key=83, versions="0", flexible="0+"
):
    """Initialize the state of share partitions, with a start offset."""

    group_id: String
    topics: list[InitializeStateData]


class InitializeShareGroupStateResponsePartitionResult(Struct):
    partition: Int32
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None, nullable="0+")


class InitializeStateResult(Struct):
    topic_id: Uuid
    partitions: list[InitializeShareGroupStateResponsePartitionResult]


class InitializeShareGroupStateResponse(Response, api_key=83, versions="0", flexible="0+"):
    """Per partition: the error, if any."""

    results: list[InitializeStateResult]


class ReadShareGroupStateRequestPartitionData(Struct):
    partition: Int32
    leader_epoch: Int32


class ReadStateData(Struct):
    topic_id: Uuid
    partitions: list[ReadShareGroupStateRequestPartitionData]


class ReadShareGroupStateRequest(
    Request["ReadShareGroupStateResponse"], api_key=84, versions="0", flexible="0+"
):
    """Read the state of share partitions."""

    group_id: String
    topics: list[ReadStateData]


class ReadShareGroupStateResponseStateBatch(Struct):
    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    delivery_count: Int16


class ReadShareGroupStateResponsePartitionResult(Struct):
    partition: Int32
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None, nullable="0+")
    state_epoch: Int32
    start_offset: Int64
    state_batches: list[ReadShareGroupStateResponseStateBatch]


class ReadStateResult(Struct):
    topic_id: Uuid
    partitions: list[ReadShareGroupStateResponsePartitionResult]


class ReadShareGroupStateResponse(Response, api_key=84, versions="0", flexible="0+"):
    """Per partition: start offset and the state of the batches after it."""

    results: list[ReadStateResult]


class WriteShareGroupStateRequestStateBatch(Struct):
    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    delivery_count: Int16


class WriteShareGroupStateRequestPartitionData(Struct):
    partition: Int32
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = field("1+", default=-1, ignorable=True)
    state_batches: list[WriteShareGroupStateRequestStateBatch]


class WriteStateData(Struct):
    topic_id: Uuid
    partitions: list[WriteShareGroupStateRequestPartitionData]


class WriteShareGroupStateRequest(
    Request["WriteShareGroupStateResponse"], api_key=85, versions="0-1", flexible="0+"
):
    """Write the state of share partitions."""

    group_id: String
    topics: list[WriteStateData]


class WriteShareGroupStateResponsePartitionResult(Struct):
    partition: Int32
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None, nullable="0+")


class WriteStateResult(Struct):
    topic_id: Uuid
    partitions: list[WriteShareGroupStateResponsePartitionResult]


class WriteShareGroupStateResponse(Response, api_key=85, versions="0-1", flexible="0+"):
    """Per partition: the error, if any."""

    results: list[WriteStateResult]


class DeleteShareGroupStateRequestPartitionData(Struct):
    partition: Int32


class DeleteStateData(Struct):
    topic_id: Uuid
    partitions: list[DeleteShareGroupStateRequestPartitionData]


class DeleteShareGroupStateRequest(
    Request["DeleteShareGroupStateResponse"], api_key=86, versions="0", flexible="0+"
):
    """Delete the state of share partitions."""

    group_id: String
    topics: list[DeleteStateData]


class DeleteShareGroupStateResponsePartitionResult(Struct):
    partition: Int32
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None, nullable="0+")


class DeleteStateResult(Struct):
    topic_id: Uuid
    partitions: list[DeleteShareGroupStateResponsePartitionResult]


class DeleteShareGroupStateResponse(Response, api_key=86, versions="0", flexible="0+"):
    """Per partition: the error, if any."""

    results: list[DeleteStateResult]


class ReadShareGroupStateSummaryRequestPartitionData(Struct):
    partition: Int32
    leader_epoch: Int32


class ReadStateSummaryData(Struct):
    topic_id: Uuid
    partitions: list[ReadShareGroupStateSummaryRequestPartitionData]


class ReadShareGroupStateSummaryRequest(
    Request["ReadShareGroupStateSummaryResponse"], api_key=87, versions="0-1", flexible="0+"
):
    """Read the state of share partitions without their batches."""

    group_id: String
    topics: list[ReadStateSummaryData]


class ReadShareGroupStateSummaryResponsePartitionResult(Struct):
    partition: Int32
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None, nullable="0+")
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = field("1+", default=-1, ignorable=True)


class ReadStateSummaryResult(Struct):
    topic_id: Uuid
    partitions: list[ReadShareGroupStateSummaryResponsePartitionResult]


class ReadShareGroupStateSummaryResponse(Response, api_key=87, versions="0-1", flexible="0+"):
    """Per partition: epochs and start offset."""

    results: list[ReadStateSummaryResult]
