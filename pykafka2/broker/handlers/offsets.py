"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords: offsets in the leader's log.

An offset by timestamp is looked up in short steps: first the batch, then the record in it.
OffsetForLeaderEpoch returns the end of an epoch (KIP-320). DeleteRecords advances log starts and responds
once all live replicas have followed; meanwhile the connection's next request waits, as with every API except
Produce.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from pykafka2.broker.handlers.api import api
from pykafka2.broker.handlers.authorization import Checked, each_topic
from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.broker.log.record_validation import SLICE, RecordSizes
from pykafka2.broker.replication.purgatory import DeleteResult
from pykafka2.broker.server.responses import REFUSAL, Refusal
from pykafka2.compression import MAX_OUTPUT_BYTES
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
from pykafka2.protocol.acl_terms import Operation
from pykafka2.protocol.messages.offsets import (
    EpochEndOffset,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from pykafka2.protocol.messages.topics import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from pykafka2.records.batch import RecordBatch, open_in_steps
from pykafka2.types import READ_COMMITTED

if TYPE_CHECKING:
    from pykafka2.broker.base.image import Key
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.replication.replica import Replica
    from pykafka2.broker.server.request_context import RequestContext


NO_LOW_WATERMARK = -1


@api(
    DeleteRecordsRequest,
    0,
    2,
    access=each_topic(Operation.DELETE),
    refusal=Refusal(blank={"low_watermark": NO_LOW_WATERMARK}),
)
def handle_delete_records(
    services: Services, context: RequestContext, request: DeleteRecordsRequest, now: float
) -> None:
    offsets = {
        (topic.name, partition.partition_index): partition.offset
        for topic in request.topics
        for partition in topic.partitions
    }

    def on_done(done: dict[Key, DeleteResult]) -> None:
        if not context.is_complete:
            services.respond_with(context, lambda: _deleted_records(done))

    deadline = now + request.timeout_ms / 1000.0
    operation = services.replicas.log_manager.delete_records(offsets, deadline, on_done, now)
    if operation is not None:
        context.abandon = lambda at: services.replicas.deletes.discard(operation)


def _deleted_records(done: dict[Key, DeleteResult]) -> DeleteRecordsResponse:
    """Return the response with each partition once, however often it was named."""
    topics: dict[str, DeleteRecordsTopicResult] = {}
    for (name, index), result in done.items():
        topic = topics.setdefault(name, DeleteRecordsTopicResult(name=name, partitions=[]))
        topic.partitions.append(
            DeleteRecordsPartitionResult(
                partition_index=index,
                low_watermark=result.low_watermark,
                error_code=(result.error.code or 0) if result.error else 0,
            )
        )
    return DeleteRecordsResponse(topics=list(topics.values()))


class OffsetAtTime(NamedTuple):
    """A record's offset, timestamp and leader epoch; all -1 if no record was found."""

    offset: int
    timestamp: int
    leader_epoch: int


NOTHING = OffsetAtTime(-1, -1, -1)


def first_at(log: PartitionLog, timestamp: int, max_record_bytes: int | None = None) -> Steps[OffsetAtTime]:
    """Return the first record with a timestamp of at least `timestamp` (milliseconds), in short steps.

    Raise `InvalidRecord` if a record of a compressed batch before it is larger than `max_record_bytes`.
    """
    from pykafka2.records.decoder import STILL_READING, decode_tuples

    where = str(log)
    for batch in _batches_from(log, timestamp):
        if batch is None:
            yield 0
            continue
        body = bytes((yield from open_in_steps(batch, where, False, MAX_OUTPUT_BYTES)))
        rows = decode_tuples(batch, where, keeps_headers=False, buffer=body)
        has_limit = max_record_bytes is not None and batch.codec_id
        sizes = RecordSizes(body, max_record_bytes or 0) if has_limit else None
        for count, row in enumerate(rows, 1):
            if row is STILL_READING or not count % SLICE:
                yield len(body)
            if row is STILL_READING:
                continue
            if sizes is not None:
                sizes.check(1)
            offset, at, _, _, _ = row
            if at >= timestamp and offset >= log.log_start_offset:
                return OffsetAtTime(offset, at, batch.partition_leader_epoch)
    return NOTHING


def _batches_from(log: PartitionLog, timestamp: int) -> Iterator[RecordBatch | None]:
    """Iterate over batches with such a record, and None for the end of a step; skips segments without one."""
    for segment in [*log.segments]:  # segments can be deleted between two steps
        if segment.largest_timestamp >= timestamp:
            start = max(log.log_start_offset, segment.offset_before(timestamp))
            for count, batch in enumerate(segment.iterate(start), 1):
                if batch.max_timestamp >= timestamp:
                    yield batch
                elif not count % SLICE:
                    yield None


def latest(log: PartitionLog, max_record_bytes: int | None = None) -> Steps[OffsetAtTime]:
    """Return the first record with the largest timestamp (KIP-734), in short steps."""
    largest = max(segment.largest_timestamp for segment in log.segments)
    found = NOTHING if largest < 0 else (yield from first_at(log, largest, max_record_bytes))
    if found is not NOTHING or largest < 0:
        return found
    # That record was removed: by compaction, or because the log starts after it.
    largest = -1
    for count, batch in enumerate(log.batches(log.log_start_offset), 1):
        if batch.count:
            largest = max(largest, batch.max_timestamp)
        if not count % SLICE:
            yield 0
    return NOTHING if largest < 0 else (yield from first_at(log, largest, max_record_bytes))


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


@api(ListOffsetsRequest, 1, 11, access=each_topic(Operation.DESCRIBE))
def handle_list_offsets(
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
            except (BrokerError, CorruptData) as error:
                # Corrupt: appended by its header alone (without log.validate=strict).
                known = error if isinstance(error, BrokerError) else UnknownServerError()
                partitions.append(
                    REFUSAL.entry(ListOffsetsPartitionResponse, partition, context.version, known)
                )
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
    time, limit = partition.timestamp, replica.batch_rules.max_record_bytes
    found = yield from latest(log, limit) if time == MAX_TIMESTAMP else first_at(log, time, limit)
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


def _is_follower(checked: Checked) -> bool:
    return checked.access.may_on_cluster(Operation.CLUSTER_ACTION, notes=False)


@api(OffsetForLeaderEpochRequest, 2, 4, access=each_topic(Operation.DESCRIBE, unless=_is_follower), oldest=0)
def handle_offset_for_leader_epoch(
    services: Services, context: RequestContext, request: OffsetForLeaderEpochRequest, now: float
) -> OffsetForLeaderEpochResponse:
    topics = []
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            try:
                replica = services.replicas.leader_of(
                    (topic.topic, partition.partition), partition.current_leader_epoch
                )
            except BrokerError as error:
                partitions.append(EpochEndOffset(error_code=error.code or 0, partition=partition.partition))
                continue
            end = replica.log.end_of_epoch(partition.leader_epoch)
            partitions.append(
                EpochEndOffset(
                    partition=partition.partition, leader_epoch=end.epoch, end_offset=end.end_offset
                )
            )
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions))
    return OffsetForLeaderEpochResponse(topics=topics)
