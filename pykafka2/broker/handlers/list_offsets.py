"""ListOffsets: the log end, the log start, the latest timestamp, or the first offset for a timestamp."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pykafka2.broker.handlers.registry import handles, refuses
from pykafka2.broker.log.time_index import OffsetAtTime, first_at, latest
from pykafka2.compression.steps import Steps
from pykafka2.errors import (
    BrokerError,
    CorruptData,
    InvalidRequest,
    LeaderNotAvailable,
    OffsetNotAvailable,
    UnknownServerError,
    UnsupportedVersion,
)
from pykafka2.protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from pykafka2.types import READ_COMMITTED

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.replication.replica import Replica
    from pykafka2.broker.server.request_context import RequestContext

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -1, -2, -3, -4, -5, -6
FIRST_VERSIONS = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING: 11,
}
"""The first version that supports each negative timestamp (KIP-734, KIP-405, KIP-1005, KIP-1023)."""

CONSUMER, DEBUGGING_CONSUMER = -1, -2
"""Replica ids of consumers; for all others except CONSUMER the log reaches to its very end."""

FIRST_VERSION_WITH_LEADER_EPOCH = 4
NEVER = 0x7FFF
FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE = 5


@handles(ListOffsetsRequest, 1, 11)
def handle(
    services: Services, context: RequestContext, request: ListOffsetsRequest, now: float
) -> ListOffsetsResponse | None:
    steps = _in_steps(services, context, request)

    def advance(at: float) -> ListOffsetsResponse | None:
        if context.is_complete:
            return None  # its connection is gone
        try:
            next(steps)
        except StopIteration as end:
            response: ListOffsetsResponse = end.value
            return response
        services.resume_later(context, advance)
        return None

    return advance(now)


def _in_steps(
    services: Services, context: RequestContext, request: ListOffsetsRequest
) -> Steps[ListOffsetsResponse]:
    """Respond in short steps: a time is looked up in a batch that can hold millions of records."""
    knows_epochs = context.version >= FIRST_VERSION_WITH_LEADER_EPOCH
    topics = []
    for topic in request.topics:
        partitions = []
        count = Counter(partition.partition_index for partition in topic.partitions)
        for partition in {named.partition_index: named for named in topic.partitions}.values():
            try:
                if count[partition.partition_index] > 1:
                    raise InvalidRequest(f"{topic.name}-{partition.partition_index} is requested twice")
                found = yield from _find(services, context, request, topic.name, partition)
            except BrokerError as error:
                partitions.append(_failed(partition, error.code or 0))
                continue
            except CorruptData:
                # Appended by its header alone (without log.validate=strict), and the records cannot be
                # decoded.
                partitions.append(_failed(partition, UnknownServerError.code or 0))
                continue
            partitions.append(
                ListOffsetsPartitionResponse(
                    partition_index=partition.partition_index,
                    timestamp=found.timestamp,
                    offset=found.offset,
                    leader_epoch=found.leader_epoch if knows_epochs else -1,
                )
            )
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
    return ListOffsetsResponse(topics=topics)


def _find(
    services: Services,
    context: RequestContext,
    request: ListOffsetsRequest,
    topic: str,
    partition: ListOffsetsPartition,
) -> Steps[OffsetAtTime]:
    if partition.timestamp < 0 and context.version < FIRST_VERSIONS.get(partition.timestamp, NEVER):
        raise UnsupportedVersion(
            f"timestamp {partition.timestamp} is not supported in version {context.version}"
        )
    replica = _replica(services, request, topic, partition)
    log = replica.log
    upper = _upper(replica, request)
    if partition.timestamp == LATEST:
        _check_high_watermark(replica, request, context.version)
        return OffsetAtTime(upper, -1, replica.leader_epoch)
    if partition.timestamp in (EARLIEST, EARLIEST_LOCAL):
        return OffsetAtTime(log.log_start_offset, -1, log.epochs.epoch_at(log.log_start_offset))
    if partition.timestamp in (LATEST_TIERED, EARLIEST_PENDING):
        return OffsetAtTime(-1, -1, -1)
    time = partition.timestamp
    found = yield from latest(log) if time == MAX_TIMESTAMP else first_at(log, time)
    if not 0 <= found.offset < upper:
        _check_high_watermark(replica, request, context.version)
        return OffsetAtTime(-1, -1, -1)
    return found


def _replica(
    services: Services, request: ListOffsetsRequest, topic: str, partition: ListOffsetsPartition
) -> Replica:
    """Return the leader's replica; the debugging consumer can read from any replica."""
    key = (topic, partition.partition_index)
    if request.replica_id != DEBUGGING_CONSUMER:
        return services.replicas.leader_of(key, partition.current_leader_epoch)
    replica = services.replicas.replica_of(key)
    replica.check_epoch(partition.current_leader_epoch)
    return replica


def _upper(replica: Replica, request: ListOffsetsRequest) -> int:
    if request.replica_id != CONSUMER:
        return replica.log.log_end_offset
    if request.isolation_level == READ_COMMITTED:
        return replica.log.last_stable_offset
    return replica.log.high_watermark


def _check_high_watermark(replica: Replica, request: ListOffsetsRequest, version: int) -> None:
    """Raise if the high watermark of a new leader can be below offsets returned before (KIP-207)."""
    if request.replica_id == CONSUMER and replica.high_watermark < replica.leader_epoch_start:
        if version >= FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE:
            raise OffsetNotAvailable
        raise LeaderNotAvailable


def _failed(partition: ListOffsetsPartition, code: int) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=partition.partition_index, error_code=code)


@refuses(ListOffsetsRequest)
def refuse(request: ListOffsetsRequest, code: int) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name, partitions=[_failed(partition, code) for partition in topic.partitions]
            )
            for topic in request.topics
        ]
    )
