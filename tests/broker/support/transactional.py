"""Raw requests of transactional producers and read_committed readers, for tests of the broker's rules."""

from __future__ import annotations

from collections.abc import Sequence

from pykafka2.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from pykafka2.protocol.messages.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from pykafka2.protocol.messages.produce import PartitionProduceResponse, ProduceRequest
from pykafka2.protocol.messages.transaction import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from pykafka2.protocol.messages.transaction_admin import (
    DescribeProducersRequest,
    ProducerState,
    TopicRequest,
)
from pykafka2.records.batch import TRANSACTIONAL_FLAG, batches
from pykafka2.records.decoder import decode_tuples
from tests.testing.wire import Wire, batch, data_of, partition_of, produce_request

TV1_PRODUCE, TV2_PRODUCE = 11, 12
"""The Produce versions of clients that know transaction.version 1 and 2."""


def in_transaction(
    values: Sequence[bytes | None], producer_id: int, epoch: int = 0, sequence: int = 0, attributes: int = 0
) -> bytes:
    """A batch that is part of a transaction."""
    return batch(
        values,
        attributes=attributes | TRANSACTIONAL_FLAG,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


def transactional_produce(
    transactional_id: str | None, records: bytes, topic: str = "t", partition: int = 0, *, acks: int = -1
) -> ProduceRequest:
    request = produce_request(topic, partition, records, acks=acks)
    request.transactional_id = transactional_id
    return request


def write(
    wire: Wire,
    transactional_id: str | None,
    records: bytes,
    topic: str = "t",
    partition: int = 0,
    version: int = TV1_PRODUCE,
) -> PartitionProduceResponse:
    """Produce one batch and wait for the reply of its one partition."""
    return partition_of(
        wire.call(transactional_produce(transactional_id, records, topic, partition), version)
    )


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
    """What a coordinator would send."""
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


def mark(wire: Wire, producer_id: int, *, committed: bool, version: int = 2, **options: int | str) -> int:
    """Write a marker as its coordinator would; the code of its one partition."""
    request = marker_request(producer_id, committed=committed, **options)  # type: ignore[arg-type]
    return wire.call(request, version).markers[0].topics[0].partitions[0].error_code


def fetch_request(
    topic: str = "t", partition: int = 0, offset: int = 0, *, committed: bool = True, max_wait_ms: int = 0
) -> FetchRequest:
    asked = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=1 if committed else 0,
        topics=[FetchTopic(topic=topic, partitions=[asked])],
    )


def read(
    wire: Wire, topic: str = "t", partition: int = 0, offset: int = 0, *, committed: bool = True
) -> PartitionData:
    """Fetch one partition, as a read_committed or read_uncommitted reader."""
    return data_of(wire.call(fetch_request(topic, partition, offset, committed=committed), 12))


def visible(data: PartitionData) -> list[bytes | None]:
    """What a read_committed consumer shows of an answer: it skips what the list says is aborted."""
    waiting = sorted((one.first_offset, one.producer_id) for one in data.aborted_transactions or ())
    aborted: set[int] = set()
    values: list[bytes | None] = []
    for one in batches(memoryview(data.records or b"")):
        while waiting and waiting[0][0] <= one.base_offset:
            aborted.add(waiting.pop(0)[1])
        if one.is_control:
            aborted.discard(one.producer_id)
        elif not (one.is_transactional and one.producer_id in aborted):
            values += [value for _, _, _, value, _ in decode_tuples(one)]
    return values


def end_offset(wire: Wire, topic: str = "t", partition: int = 0, *, committed: bool = True) -> int:
    """What ListOffsets says is the end."""
    asked = ListOffsetsPartition(partition_index=partition, timestamp=-1)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=1 if committed else 0,
        topics=[ListOffsetsTopic(name=topic, partitions=[asked])],
    )
    return wire.call(request, 7).topics[0].partitions[0].offset


def producers_of(wire: Wire, topic: str = "t", partition: int = 0) -> dict[int, ProducerState]:
    """What DescribeProducers says, by producer id."""
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[partition])])
    described = wire.call(request, 0).topics[0].partitions[0]
    assert described.error_code == 0
    return {one.producer_id: one for one in described.active_producers}
