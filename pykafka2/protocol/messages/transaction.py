"""Producer ids and transactions: InitProducerId to TxnOffsetCommit.

Sent to the transaction coordinator, which itself sends WriteTxnMarkers to the leaders of partitions
(KIP-98, KIP-890).
"""

from __future__ import annotations

from pykafka2.protocol.fields import Bool, Int8, Int16, Int32, Int64, String, Uuid, field
from pykafka2.protocol.primitives import ZERO_UUID
from pykafka2.protocol.struct import Request, Response, Struct


class InitProducerIdRequest(
    Request["InitProducerIdResponse"], api_key=22, versions="0-6", flexible="2+", latest_version_unstable=True
):
    """Get a producer id; with a transactional id, fence older producers and abort their transaction."""

    transactional_id: String | None = field(nullable="0+")  # null for a producer that is only idempotent
    transaction_timeout_ms: Int32
    producer_id: Int64 = field("3+", default=-1)
    producer_epoch: Int16 = field("3+", default=-1)
    enable2_pc: Bool = field("6+", default=False)
    keep_prepared_txn: Bool = field("6+", default=False)


class InitProducerIdResponse(
    Response, api_key=22, versions="0-6", flexible="2+", latest_version_unstable=True
):
    """The producer id and its epoch."""

    throttle_time_ms: Int32 = field(default=0, ignorable=True)
    error_code: Int16 = field(default=0)
    producer_id: Int64 = field(default=-1)
    producer_epoch: Int16
    ongoing_txn_producer_id: Int64 = field("6+", default=-1)
    ongoing_txn_producer_epoch: Int16 = field("6+", default=-1)


class AddPartitionsToTxnTopic(Struct):
    name: String
    partitions: list[Int32]


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    verify_only: Bool = field(default=False)
    topics: list[AddPartitionsToTxnTopic]


class AddPartitionsToTxnRequest(
    Request["AddPartitionsToTxnResponse"], api_key=24, versions="0-5", flexible="3+"
):
    """Add partitions to a transaction; from version 4 on brokers verify them in batches (KIP-890)."""

    transactions: list[AddPartitionsToTxnTransaction] = field("4+", factory=list)
    v3_and_below_transactional_id: String = field("0-3", default="")
    v3_and_below_producer_id: Int64 = field("0-3", default=0)
    v3_and_below_producer_epoch: Int16 = field("0-3", default=0)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field("0-3", factory=list)


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: Int32
    partition_error_code: Int16


class AddPartitionsToTxnTopicResult(Struct):
    name: String
    results_by_partition: list[AddPartitionsToTxnPartitionResult]


class AddPartitionsToTxnResult(Struct):
    transactional_id: String
    topic_results: list[AddPartitionsToTxnTopicResult]


class AddPartitionsToTxnResponse(Response, api_key=24, versions="0-5", flexible="3+"):
    """Per partition: the error, if it was not added."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field("4+", default=0, ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = field("4+", factory=list)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field("0-3", factory=list)


class AddOffsetsToTxnRequest(Request["AddOffsetsToTxnResponse"], api_key=25, versions="0-4", flexible="3+"):
    """Add a group's offsets to a transaction."""

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    group_id: String


class AddOffsetsToTxnResponse(Response, api_key=25, versions="0-4", flexible="3+"):
    """The error, if they were not added."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)


class EndTxnRequest(Request["EndTxnResponse"], api_key=26, versions="0-5", flexible="3+"):
    """Commit or abort a transaction."""

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    committed: Bool  # false aborts


class EndTxnResponse(Response, api_key=26, versions="0-5", flexible="3+"):
    """The error, if any; from version 5 on also the producer id and epoch to use next (KIP-890)."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    producer_id: Int64 = field("5+", default=-1, ignorable=True)
    producer_epoch: Int16 = field("5+", default=-1, ignorable=True)


class WritableTxnMarkerTopic(Struct):
    name: String
    partition_indexes: list[Int32]


class WritableTxnMarker(Struct):
    producer_id: Int64
    producer_epoch: Int16
    transaction_result: Bool
    topics: list[WritableTxnMarkerTopic]
    coordinator_epoch: Int32
    transaction_version: Int8 = field("2+", default=0, ignorable=True)


class WriteTxnMarkersRequest(Request["WriteTxnMarkersResponse"], api_key=27, versions="0-2", flexible="1+"):
    """Write commit or abort markers; the transaction coordinator sends it to leaders."""

    markers: list[WritableTxnMarker]


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: Int32
    error_code: Int16 = field(default=0)


class WritableTxnMarkerTopicResult(Struct):
    name: String
    partitions: list[WritableTxnMarkerPartitionResult]


class WritableTxnMarkerResult(Struct):
    producer_id: Int64
    topics: list[WritableTxnMarkerTopicResult]


class WriteTxnMarkersResponse(Response, api_key=27, versions="0-2", flexible="1+"):
    """Per partition: the error, if the marker was not written."""

    markers: list[WritableTxnMarkerResult]


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = field("2+", default=-1, ignorable=True)
    committed_metadata: String | None = field(nullable="0+")


class TxnOffsetCommitRequestTopic(Struct):
    name: String = field("0-5", default="", ignorable=True)
    topic_id: Uuid = field("6+", default=ZERO_UUID, ignorable=True)
    partitions: list[TxnOffsetCommitRequestPartition]


class TxnOffsetCommitRequest(Request["TxnOffsetCommitResponse"], api_key=28, versions="0-6", flexible="3+"):
    """Commit offsets of a group as part of a transaction."""

    transactional_id: String
    group_id: String
    producer_id: Int64
    producer_epoch: Int16
    generation_id_or_member_epoch: Int32 = field("3+", default=-1)
    member_id: String = field("3+", default="")
    group_instance_id: String | None = field("3+", default=None, nullable="0+")
    topics: list[TxnOffsetCommitRequestTopic]


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: Int32
    error_code: Int16 = field(default=0)


class TxnOffsetCommitResponseTopic(Struct):
    name: String = field("0-5", default="", ignorable=True)
    topic_id: Uuid = field("6+", default=ZERO_UUID, ignorable=True)
    partitions: list[TxnOffsetCommitResponsePartition]


class TxnOffsetCommitResponse(Response, api_key=28, versions="0-6", flexible="3+"):
    """Per partition: the error, if the offset was not accepted."""

    throttle_time_ms: Int32 = field(default=0)
    topics: list[TxnOffsetCommitResponseTopic]
