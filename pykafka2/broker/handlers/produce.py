"""Produce: appends batches on the leader, and responds once the replicas required by acks have them.

acks=1 responds at once, acks=0 never (an error closes the connection), acks=all once the high watermark
has passed the batch. Until then the request waits in the purgatory, and the connection's next request can be
processed. Versions 0 to 2 are rejected, as in Kafka 4.

A batch of a million records takes a second to check, and all requests of a broker share one thread, so the
request is queued again after each slice: a step of decompression, or some records. Its connection's next
request waits, and nothing is appended before every batch of the request is checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pykafka2.broker.handlers.api import api
from pykafka2.broker.handlers.authorization import (
    Checked,
    Verdict,
    code_of,
    each_topic,
)
from pykafka2.broker.handlers.metadata import leader_endpoints, leader_hint
from pykafka2.broker.handlers.produce_variants import DuplicatePartitions, Verifications, verify
from pykafka2.broker.log.record_validation import SLICE, RecordsRejected, RecordValidation
from pykafka2.broker.replication.purgatory import ProduceResult
from pykafka2.broker.server.responses import Refusal
from pykafka2.errors import BrokerError, TransactionalIdAuthorizationFailed, UnknownTopicId
from pykafka2.protocol.acl_terms import Operation, ResourceType
from pykafka2.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from pykafka2.records.batch import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    COUNT,
    COUNT_AT,
    HEADER_BYTES,
    TRANSACTIONAL_FLAG,
    Buffer,
)

if TYPE_CHECKING:
    from pykafka2.broker.base.image import Key
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext


FIRST_VERSION_WITH_IDS = 13
FIRST_VERSION_WITH_LEADERS = 10
NO_ACKS, LEADER_ONLY, ALL_REPLICAS = 0, 1, -1
FLAGS_AT = ATTRIBUTES_AT + 1  # the low byte of a batch's attributes
MAX_UNSLICED_RECORDS = 10 * SLICE
"""The batches of a request with more records than this are checked in slices."""
MAX_UNSLICED_BYTES = 1 << 20
"""A batch of more bytes is checked in slices, whatever number of records its header claims."""

WRITE_EACH_TOPIC = each_topic(Operation.WRITE)

Validations = dict["Key", RecordValidation]
"""The validations of large batches, in slices, by partition."""


def check_produce(checked: Checked) -> Verdict:
    """Check WRITE on each topic, and on the transactional id if there are transactional batches."""
    request, access = checked.request, checked.access
    name = request.transactional_id
    if (
        name is not None
        and is_transactional(request)
        and not access.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name)
    ):
        return TransactionalIdAuthorizationFailed.code
    verdict = WRITE_EACH_TOPIC(checked)
    if request.acks == NO_ACKS:
        if verdict is not None:
            return code_of(ResourceType.TOPIC)  # there is no response: the connection closes
        checked.context.closes_without_response = checked.request is not request
    return verdict


@api(ProduceRequest, 3, 13, access=check_produce, refusal=Refusal(blank={"base_offset": -1}))
def handle(
    services: Services, context: RequestContext, request: ProduceRequest, now: float
) -> ProduceResponse | None:
    if _has_one_plain_batch(request):
        return _append_one_batch(services, context, request, now)
    duplicates = None
    if _has_duplicates(request):
        duplicates = DuplicatePartitions(request, context.version)
        request = duplicates.request
    if not is_transactional(request):
        return _check_and_append(services, context, request, {}, duplicates, now)

    def proceed(verifications: Verifications, at: float) -> None:
        services.respond_with(
            context, lambda: _check_and_append(services, context, request, verifications, duplicates, at)
        )

    verify(services, context, request, proceed, now)
    return None


def _has_one_plain_batch(request: ProduceRequest) -> bool:
    """Return whether there is one batch that needs no verification or slices. Called for each request."""
    topics = request.topic_data
    if len(topics) != 1 or len(topics[0].partition_data) != 1:
        return False
    records = topics[0].partition_data[0].records
    return (
        records is not None
        and HEADER_BYTES <= len(records) <= MAX_UNSLICED_BYTES
        and not records[FLAGS_AT] & (TRANSACTIONAL_FLAG | CODEC_MASK)
        and COUNT.unpack_from(records, COUNT_AT)[0] <= SLICE
    )


def _append_one_batch(
    services: Services, context: RequestContext, request: ProduceRequest, now: float
) -> ProduceResponse | None:
    """Do what `_append_and_respond` does for a request with one batch.

    A batch that is appended, and for which no replica is missing, gets its response without a wait.
    """
    (topic,) = request.topic_data
    (data,) = topic.partition_data
    error = _resolve_topic_id(services, context, topic)
    key = _key(context, topic, data)
    if error is not None:
        result = ProduceResult(error)
    else:
        result = services.replicas.append(
            key,
            data.records,
            acks=request.acks,
            version=context.version,
            client_id=context.client_id,
            now=now,
            now_ms=services.clock.wall_ms(),
        )
        is_complete = request.acks == LEADER_ONLY or (
            request.acks == ALL_REPLICAS and services.replicas.is_replicated(key, result)
        )
        if is_complete and result.error is None and not context.is_complete:
            return _response(services, context, request, {key: result})
    return _acknowledge(services, context, request, {key: result}, None, now)


def _has_duplicates(request: ProduceRequest) -> bool:
    """Return whether a partition is named more than once."""
    topics = request.topic_data
    if len(topics) > 1 and len({(topic.name, topic.topic_id) for topic in topics}) < len(topics):
        return True
    for topic in topics:
        data = topic.partition_data
        if len(data) > 1 and len({entry.index for entry in data}) < len(data):
            return True
    return False


def is_transactional(request: ProduceRequest) -> bool:
    """Return whether any batch is transactional. Read one byte for each partition."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if records is not None and len(records) > FLAGS_AT and records[FLAGS_AT] & TRANSACTIONAL_FLAG:
                return True
    return False


def _check_and_append(
    services: Services,
    context: RequestContext,
    request: ProduceRequest,
    verifications: Verifications,
    duplicates: DuplicatePartitions | None,
    now: float,
) -> ProduceResponse | None:
    if not _may_take_long(request):
        return _append_and_respond(services, context, request, verifications, {}, duplicates, now)

    def append(validations: Validations, at: float) -> ProduceResponse | None:
        return _append_and_respond(services, context, request, verifications, validations, duplicates, at)

    batches = [
        (_key(context, topic, data), data.records or b"")
        for topic in request.topic_data
        if _resolve_topic_id(services, context, topic) is None
        for data in topic.partition_data
    ]
    return check_in_slices(services, context, batches, append, now)


def _may_take_long(request: ProduceRequest) -> bool:
    """Return True if a batch is large or compressed, or all have many records.

    A few compressed bytes can hold millions of headers.
    """
    total = 0
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if records is None or len(records) < HEADER_BYTES:
                continue
            if records[FLAGS_AT] & CODEC_MASK or len(records) > MAX_UNSLICED_BYTES:
                return True
            count: int = COUNT.unpack_from(records, COUNT_AT)[0]
            total += max(count, 0)
            if count > SLICE or total > MAX_UNSLICED_RECORDS:
                return True
    return False


def _append_and_respond(
    services: Services,
    context: RequestContext,
    request: ProduceRequest,
    verifications: Verifications,
    validations: Validations,
    duplicates: DuplicatePartitions | None,
    now: float,
) -> ProduceResponse | None:
    results = _append(services, context, request, verifications, validations, now)
    return _acknowledge(services, context, request, results, duplicates, now)


def _acknowledge(
    services: Services,
    context: RequestContext,
    request: ProduceRequest,
    results: dict[Key, ProduceResult],
    duplicates: DuplicatePartitions | None,
    now: float,
) -> ProduceResponse | None:
    """Return the response once the replicas required by acks have the batches.

    None if it is sent later or not at all.
    """
    settled = results if duplicates is None else _with_duplicates(context, duplicates, results)
    if context.is_complete:
        return None  # its connection is closed; the batch stays appended
    if request.acks == NO_ACKS:
        if any(result.error is not None for result in settled.values()):
            context.close()
        else:
            context.no_response()
        return None
    if request.acks != ALL_REPLICAS or all(result.error is not None for result in results.values()):
        return _response(services, context, request, settled)

    def on_done(done: dict[Key, ProduceResult]) -> None:
        if duplicates is not None:
            done = _with_duplicates(context, duplicates, done)
        if not context.is_complete:
            services.respond_with(context, lambda: _response(services, context, request, done))

    operation = services.replicas.await_replicas(results, now + request.timeout_ms / 1000.0, on_done, now)
    if operation is not None:
        context.abandon = lambda at: services.replicas.produces.discard(operation)
        context.local_processed()
    return None


def _append(
    services: Services,
    context: RequestContext,
    request: ProduceRequest,
    verifications: Verifications,
    validations: Validations,
    now: float,
) -> dict[Key, ProduceResult]:
    """Append all batches. `verifications` has a guard or an error for each verified partition."""
    results: dict[Key, ProduceResult] = {}
    now_ms = services.clock.wall_ms()
    for topic in request.topic_data:
        error = _resolve_topic_id(services, context, topic)
        for data in topic.partition_data:
            key = _key(context, topic, data)
            verified = verifications.get(key) if verifications else None
            if error is not None:
                results[key] = ProduceResult(error)
                continue
            if isinstance(verified, BrokerError):
                results[key] = ProduceResult(verified)
                continue
            results[key] = services.replicas.append(
                key,
                data.records,
                acks=request.acks,
                version=context.version,
                client_id=context.client_id,
                now=now,
                now_ms=now_ms,
                guard=verified,
                validation=validations.get(key) if validations else None,
            )
    return results


def _with_duplicates(
    context: RequestContext, duplicates: DuplicatePartitions, results: dict[Key, ProduceResult]
) -> dict[Key, ProduceResult]:
    """Return the results of a request that names a partition more than once."""
    return {
        (key := _key(context, topic, data)): duplicates.result_of(data, results[key])
        for topic in duplicates.request.topic_data
        for data in topic.partition_data
    }


def _resolve_topic_id(
    services: Services, context: RequestContext, topic: TopicProduceData
) -> BrokerError | None:
    """Set the name of a topic that is requested by id (since version 13).

    Return an error if it is unknown.
    """
    if context.version >= FIRST_VERSION_WITH_IDS:
        name = services.image.topic_names.get(topic.topic_id)
        if name is None:
            return UnknownTopicId()
        topic.name = name
    return None


def _key(context: RequestContext, topic: TopicProduceData, data: PartitionProduceData) -> Key:
    """Return the key of a partition in the results: the id replaces the name of an unknown topic."""
    if context.version >= FIRST_VERSION_WITH_IDS and not topic.name:
        return topic.topic_id.hex(), data.index
    return topic.name, data.index


def _response(
    services: Services, context: RequestContext, request: ProduceRequest, results: dict[Key, ProduceResult]
) -> ProduceResponse:
    leaders: list[int] = []
    topics = [
        TopicProduceResponse(
            name=topic.name,
            topic_id=topic.topic_id,
            partition_responses=[
                _partition(services, context.version, key, results[key], leaders)
                for key in (_key(context, topic, data) for data in topic.partition_data)
            ],
        )
        for topic in request.topic_data
    ]
    if not leaders:
        return ProduceResponse(responses=topics)
    nodes = leader_endpoints(services, context, leaders, NodeEndpoint)
    return ProduceResponse(responses=topics, node_endpoints=nodes)


def _partition(
    services: Services, version: int, key: Key, result: ProduceResult, leaders: list[int]
) -> PartitionProduceResponse:
    if result.error is None:
        return PartitionProduceResponse(
            index=key[1],
            base_offset=result.base_offset,
            log_append_time_ms=result.log_append_time,
            log_start_offset=result.log_start_offset,
        )
    partition_response = PartitionProduceResponse(
        index=key[1],
        error_code=result.error.code or 0,
        # Set if it was appended, and only the replicas did not follow in time.
        base_offset=result.base_offset,
        log_append_time_ms=result.log_append_time,
        log_start_offset=result.log_start_offset,
        error_message=str(result.error),
    )
    if isinstance(result.error, RecordsRejected):
        partition_response.record_errors = [
            BatchIndexAndErrorMessage(batch_index=record.index, batch_index_error_message=record.message)
            for record in result.error.record_errors
        ]
    leader = leader_hint(services, key, result.error)
    if leader is not None and version >= FIRST_VERSION_WITH_LEADERS:
        partition_response.current_leader = LeaderIdAndEpoch(
            leader_id=leader.leader, leader_epoch=leader.leader_epoch
        )
        leaders.append(leader.leader)
    return partition_response


def check_in_slices(
    services: Services,
    context: RequestContext,
    batches: list[tuple[Key, Buffer]],
    append: Callable[[Validations, float], ProduceResponse | None],
    now: float,
) -> ProduceResponse | None:
    """Validate these batches in slices, then call `append` with the validations.

    Return what `append` returns, or None if it is called later.
    """
    now_ms = services.clock.wall_ms()
    validations: Validations = {}
    for key, records in batches:
        validation = services.replicas.start_validation(key, records, context.version, now_ms)
        if validation is not None:
            validations[key] = validation
    unfinished = list(validations.values())

    def advance(at: float) -> ProduceResponse | None:
        if unfinished and services.open_validations.advance(unfinished[-1]):
            unfinished.pop()
        if not unfinished:
            return append(validations, at)
        services.resume_later(context, advance)
        return None

    return advance(now)
