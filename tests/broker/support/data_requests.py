"""Produce, Fetch, ListOffsets, DeleteRecords, markers and DescribeProducers, in one line each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pykafka2.errors import for_code
from pykafka2.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from pykafka2.protocol.messages.offsets import (
    EpochEndOffset,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from pykafka2.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from pykafka2.protocol.messages.topics import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from pykafka2.protocol.messages.transaction import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from pykafka2.protocol.messages.transaction_admin import DescribeProducersRequest, ProducerState, TopicRequest
from tests.broker.support.raw_client import RawClient

TV1_PRODUCE, TV2_PRODUCE = 11, 12
"""The Produce versions of clients that know transaction.version 1 and 2."""


Place = tuple[str, int]
"""A topic and the number of a partition."""


def produce_request(
    topic: str,
    partition: int,
    records: bytes | None,
    *,
    acks: int = -1,
    timeout_ms: int = 5000,
    **fields: Any,
) -> ProduceRequest:
    return produce_all({(topic, partition): records}, acks=acks, timeout_ms=timeout_ms, **fields)


def produce_all(
    batches: Mapping[Place, bytes | None], *, acks: int = -1, timeout_ms: int = 5000, **fields: Any
) -> ProduceRequest:
    """Return a request of one batch for each partition, each in a topic of its own."""
    topics = [
        TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=number, records=records)])
        for (topic, number), records in batches.items()
    ]
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=topics, **fields)


def error_codes(response: ProduceResponse) -> list[int]:
    """Return the error codes of all partitions."""
    return [one.error_code for topic in response.responses for one in topic.partition_responses]


def produce(
    wire: RawClient,
    topic: str,
    partition: int,
    records: bytes | None,
    *,
    version: int = 12,
    **options: Any,
) -> PartitionProduceResponse:
    """Produce one batch and return the response for its partition."""
    return partition_of(wire.call(produce_request(topic, partition, records, **options), version))


def write(
    wire: RawClient,
    transactional_id: str | None,
    records: bytes,
    topic: str = "t",
    partition: int = 0,
    version: int = TV1_PRODUCE,
) -> PartitionProduceResponse:
    """Produce one transactional batch and return the response for its partition."""
    return produce(wire, topic, partition, records, version=version, transactional_id=transactional_id)


def partition_of(response: ProduceResponse) -> PartitionProduceResponse:
    return response.responses[0].partition_responses[0]


def fetch_request(
    topic: str = "t",
    partition: int = 0,
    offset: int = 0,
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    epoch: int = -1,
    last_fetched_epoch: int = -1,
    committed: bool = False,
) -> FetchRequest:
    """`committed` is isolation_level=read_committed."""
    requested = FetchPartition(
        partition=partition,
        fetch_offset=offset,
        current_leader_epoch=epoch,
        last_fetched_epoch=last_fetched_epoch,
        partition_max_bytes=partition_max_bytes,
    )
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=1 if committed else 0,
        topics=[FetchTopic(topic=topic, partitions=[requested])],
    )


def fetch(wire: RawClient, topic: str, partition: int, offset: int, **options: Any) -> PartitionData:
    """Fetch one partition in version 12."""
    return data_of(wire.call(fetch_request(topic, partition, offset, **options), 12))


def read(
    wire: RawClient, topic: str = "t", partition: int = 0, offset: int = 0, *, committed: bool = True
) -> PartitionData:
    """Fetch one partition, with read_committed by default."""
    return fetch(wire, topic, partition, offset, committed=committed)


def data_of(response: FetchResponse) -> PartitionData:
    return response.responses[0].partitions[0]


def list_offsets_request(
    *places: Place, timestamp: int = -1, epoch: int = -1, replica: int = -1, committed: bool = False
) -> ListOffsetsRequest:
    """Return a request for partitions, each in a topic of its own; `committed` is read_committed."""
    topics = [
        ListOffsetsTopic(
            name=topic,
            partitions=[
                ListOffsetsPartition(partition_index=number, timestamp=timestamp, current_leader_epoch=epoch)
            ],
        )
        for topic, number in places
    ]
    return ListOffsetsRequest(replica_id=replica, isolation_level=int(committed), topics=topics)


def list_offsets(wire: RawClient, place: Place = ("t", 0), **options: Any) -> ListOffsetsPartitionResponse:
    """List the offset of one partition in version 8."""
    return wire.call(list_offsets_request(place, **options), 8).topics[0].partitions[0]


def end_offset(wire: RawClient, topic: str = "t", partition: int = 0, *, committed: bool = True) -> int:
    """Return the end offset of ListOffsets, with read_committed by default."""
    return list_offsets(wire, (topic, partition), committed=committed).offset


def epoch_end(
    wire: RawClient, leader_epoch: int, *, epoch: int = -1, place: Place = ("t", 0)
) -> EpochEndOffset:
    """Return the end of a leader epoch by OffsetForLeaderEpoch; `epoch` is the one that the client knows."""
    partition = OffsetForLeaderPartition(
        partition=place[1], leader_epoch=leader_epoch, current_leader_epoch=epoch
    )
    topic = OffsetForLeaderTopic(topic=place[0], partitions=[partition])
    return wire.call(OffsetForLeaderEpochRequest(topics=[topic]), 4).topics[0].partitions[0]


def delete_records_request(
    topic: str, partition: int, *offsets: int, timeout_ms: int = 5000
) -> DeleteRecordsRequest:
    """Return a request with the partition once for each offset."""
    partitions = [DeleteRecordsPartition(partition_index=partition, offset=offset) for offset in offsets]
    topics = [DeleteRecordsTopic(name=topic, partitions=partitions)]
    return DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms)


def deleted(response: DeleteRecordsResponse) -> tuple[int, str]:
    """Return the low watermark and the error of the first partition."""
    result = response.topics[0].partitions[0]
    return result.low_watermark, error_name(result.error_code)


def error_name(code: int) -> str:
    """Return the name of an error's class, or "none"."""
    return for_code(code).__name__ if code else "none"


def producers_of(wire: RawClient, topic: str = "t", partition: int = 0) -> dict[int, ProducerState]:
    """Return the active producers of DescribeProducers by producer id."""
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[partition])])
    described = wire.call(request, 0).topics[0].partitions[0]
    assert described.error_code == 0
    return {one.producer_id: one for one in described.active_producers}


def marker_request(
    producer_id: int,
    *,
    committed: bool,
    epoch: int = 0,
    topic: str = "t",
    partition: int = 0,
    coordinator_epoch: int = 0,
    transaction_version: int = 0,
) -> WriteTxnMarkersRequest:
    """Return the request of a transaction coordinator with one marker."""
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=producer_id,
                producer_epoch=epoch,
                transaction_result=committed,
                topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
                coordinator_epoch=coordinator_epoch,
                transaction_version=transaction_version,
            )
        ]
    )


def mark(
    wire: RawClient, producer_id: int, *, committed: bool, version: int = 2, **options: int | str
) -> int:
    """Write a marker as a coordinator does. Return the error code of its partition."""
    request = marker_request(producer_id, committed=committed, **options)  # type: ignore[arg-type]
    return wire.call(request, version).markers[0].topics[0].partitions[0].error_code
