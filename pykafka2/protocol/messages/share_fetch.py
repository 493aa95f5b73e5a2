"""Reading and acknowledging in share groups (KIP-932): ShareFetch, ShareAcknowledge.

Sent to the partition's leader.
"""

from __future__ import annotations

from pykafka2.protocol.fields import Bool, Int8, Int16, Int32, Int64, Records, String, Uuid, field
from pykafka2.protocol.struct import Request, Response, Struct


class ShareFetchRequestAcknowledgementBatch(Struct):
    first_offset: Int64
    last_offset: Int64
    acknowledge_types: list[Int8]  # per offset, 0: gap, 1: accept, 2: release, 3: reject, 4: renew


class FetchPartition(Struct):
    partition_index: Int32
    acknowledgement_batches: list[ShareFetchRequestAcknowledgementBatch]


class FetchTopic(Struct):
    topic_id: Uuid
    partitions: list[FetchPartition]


class ForgottenTopic(Struct):
    topic_id: Uuid
    partitions: list[Int32]


class ShareFetchRequest(Request["ShareFetchResponse"], api_key=78, versions="1-2", flexible="0+"):
    """Acquire records of share partitions, and acknowledge earlier ones."""

    group_id: String | None = field(default=None, nullable="0+")
    member_id: String | None = field(nullable="0+")
    share_session_epoch: Int32
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = field(default=2147483647)
    max_records: Int32
    batch_size: Int32
    share_acquire_mode: Int8 = field("2+", default=0, ignorable=True)
    is_renew_ack: Bool = field("2+", default=False)
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic]


class ShareFetchResponseLeaderIdAndEpoch(Struct):
    leader_id: Int32 = field(default=0)
    leader_epoch: Int32 = field(default=0)


class AcquiredRecords(Struct):
    first_offset: Int64
    last_offset: Int64
    delivery_count: Int16


class ShareFetchResponsePartitionData(Struct):
    partition_index: Int32
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None, nullable="0+")
    acknowledge_error_code: Int16
    acknowledge_error_message: String | None = field(default=None, nullable="0+")
    current_leader: ShareFetchResponseLeaderIdAndEpoch
    records: Records
    acquired_records: list[AcquiredRecords]


class ShareFetchableTopicResponse(Struct):
    topic_id: Uuid
    partitions: list[ShareFetchResponsePartitionData]


class ShareFetchResponseNodeEndpoint(Struct):
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = field(default=None, nullable="0+")


class ShareFetchResponse(Response, api_key=78, versions="1-2", flexible="0+"):
    """Per partition: batches and the acquired offsets."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None, nullable="0+")
    acquisition_lock_timeout_ms: Int32
    responses: list[ShareFetchableTopicResponse]
    node_endpoints: list[ShareFetchResponseNodeEndpoint]


class ShareAcknowledgeRequestAcknowledgementBatch(Struct):
    first_offset: Int64
    last_offset: Int64
    acknowledge_types: list[Int8]


class AcknowledgePartition(Struct):
    partition_index: Int32
    acknowledgement_batches: list[ShareAcknowledgeRequestAcknowledgementBatch]


class AcknowledgeTopic(Struct):
    topic_id: Uuid
    partitions: list[AcknowledgePartition]


class ShareAcknowledgeRequest(Request["ShareAcknowledgeResponse"], api_key=79, versions="1-2", flexible="0+"):
    """Accept, release, reject or renew acquired records."""

    group_id: String | None = field(default=None, nullable="0+")
    member_id: String | None = field(nullable="0+")
    share_session_epoch: Int32
    is_renew_ack: Bool = field("2+", default=False)
    topics: list[AcknowledgeTopic]


class ShareAcknowledgeResponseLeaderIdAndEpoch(Struct):
    leader_id: Int32 = field(default=0)
    leader_epoch: Int32 = field(default=0)


class ShareAcknowledgeResponsePartitionData(Struct):
    partition_index: Int32
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None, nullable="0+")
    current_leader: ShareAcknowledgeResponseLeaderIdAndEpoch


class ShareAcknowledgeTopicResponse(Struct):
    topic_id: Uuid
    partitions: list[ShareAcknowledgeResponsePartitionData]


class ShareAcknowledgeResponseNodeEndpoint(Struct):
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = field(default=None, nullable="0+")


class ShareAcknowledgeResponse(Response, api_key=79, versions="1-2", flexible="0+"):
    """Per partition: the error, if any."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None, nullable="0+")
    acquisition_lock_timeout_ms: Int32 = field("2+", default=0, ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse]
    node_endpoints: list[ShareAcknowledgeResponseNodeEndpoint]
