"""APIs of transactions: those of transaction coordinators, and those of leaders.

Requests for the coordinator are submitted to the shard of the transactional id's partition, which responds
once its records are committed (coordinators/transactions/). Any broker handles InitProducerId without a
transactional id. The versions are those of Apache Kafka 4.4.0. Coordinators are imported with the first
transaction.

WriteTxnMarkers is how a transaction coordinator has a leader write the markers that end a transaction
(KIP-98). A marker is appended as a separate batch, with a response once the replicas have it, as with
acks=all. In a partition of __consumer_offsets the group coordinator processes it, so that the transaction's
offsets are committed or dropped. DescribeProducers describes a partition's producers to clients (KIP-664).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs

from pykafka2.broker.base.image import check_topic_name
from pykafka2.broker.coordinators.internal_topics import OFFSETS_TOPIC
from pykafka2.broker.coordinators.replay import Producer
from pykafka2.broker.handlers.api import TRANSACTION_COORDINATOR, api, submit_to_transactions
from pykafka2.broker.handlers.authorization import (
    READ_EACH_TOPIC,
    READ_GROUP,
    WRITE_TRANSACTION,
    Checked,
    Verdict,
    code_of,
    each,
    in_turn,
    keep_described,
)
from pykafka2.broker.log.partition_log import EndMarker
from pykafka2.broker.replication.purgatory import ProduceResult
from pykafka2.errors import (
    BrokerError,
    ClusterAuthorizationFailed,
    InvalidRequest,
    NotLeaderOrFollower,
    OperationNotAttempted,
    TransactionalIdAuthorizationFailed,
    UnknownTopicOrPartition,
)
from pykafka2.protocol.acl_terms import Operation, ResourceType
from pykafka2.protocol.messages.transaction import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    InitProducerIdRequest,
    InitProducerIdResponse,
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from pykafka2.protocol.messages.transaction_admin import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from pykafka2.protocol.struct import Response

if TYPE_CHECKING:
    from pykafka2.broker.base.image import Key
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext


FIRST_ADD_PARTITIONS_OF_BROKERS = 4


def check_list_transactions(checked: Checked) -> Verdict:
    checked.amend(
        lambda response: keep_described(
            checked.access, response, "transaction_states", ResourceType.TRANSACTIONAL_ID, "transactional_id"
        )
    )
    return None


def hide_transactions_topics(checked: Checked) -> Verdict:
    """Remove the topics of a transaction that the client cannot describe."""
    access = checked.access

    def hide(response: Any) -> None:
        for transaction in response.transaction_states:
            transaction.topics = [
                topic
                for topic in transaction.topics
                if access.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.topic, notes=False)
            ]

    checked.amend(hide)
    return None


def check_init_producer_id(checked: Checked) -> Verdict:
    """Check WRITE on the transactional id; without one IDEMPOTENT_WRITE, or WRITE on any topic (KIP-679)."""
    name, access = checked.request.transactional_id, checked.access
    if name is not None:
        if not access.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name):
            return TransactionalIdAuthorizationFailed.code
        return None
    if access.rights.may_any(Operation.WRITE, ResourceType.TOPIC) or access.may_on_cluster(
        Operation.IDEMPOTENT_WRITE
    ):
        return None
    return ClusterAuthorizationFailed.code


def check_add_partitions(checked: Checked) -> Verdict:
    """Check WRITE on the transactional id and every topic; if one is denied, nothing is added.

    Since version 4 brokers send it.
    """
    request, access, image = checked.request, checked.access, checked.image
    if checked.version >= FIRST_ADD_PARTITIONS_OF_BROKERS:
        if access.may_on_cluster(Operation.CLUSTER_ACTION):
            return None
        return AddPartitionsToTxnResponse(error_code=ClusterAuthorizationFailed.code)
    if not access.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.v3_and_below_transactional_id):
        return TransactionalIdAuthorizationFailed.code
    topics = request.v3_and_below_topics
    refused = {
        topic.name for topic in topics if not access.may(Operation.WRITE, ResourceType.TOPIC, topic.name)
    }
    if not refused:
        return None

    def code_for(name: str, number: int) -> int:
        if name in refused:
            return code_of(ResourceType.TOPIC)
        is_known = image.partition(name, number) is not None
        return OperationNotAttempted.code if is_known else UnknownTopicOrPartition.code

    not_attempted = OperationNotAttempted.code
    response: Any = checked.services.responses.refusal_of(checked.context, request, not_attempted)
    for topic in response.results_by_topic_v3_and_below:
        for partition in topic.results_by_partition:
            partition.partition_error_code = code_for(topic.name, partition.partition_index)
    refusal: Response = response
    return refusal


def check_markers(checked: Checked) -> Verdict:
    """Check ALTER or CLUSTER_ACTION on the cluster."""
    access = checked.access
    if access.may_on_cluster(Operation.ALTER, notes=False) or access.may_on_cluster(Operation.CLUSTER_ACTION):
        return None
    return code_of(ResourceType.CLUSTER)


api(AddPartitionsToTxnRequest, 0, 5, at=TRANSACTION_COORDINATOR, access=check_add_partitions)
api(AddOffsetsToTxnRequest, 0, 4, at=TRANSACTION_COORDINATOR, access=in_turn(WRITE_TRANSACTION, READ_GROUP))
api(EndTxnRequest, 0, 5, at=TRANSACTION_COORDINATOR, access=WRITE_TRANSACTION)
api(ListTransactionsRequest, 0, 2, at=TRANSACTION_COORDINATOR, access=check_list_transactions)
api(
    DescribeTransactionsRequest,
    0,
    0,
    at=TRANSACTION_COORDINATOR,
    access=in_turn(
        each(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),
        hide_transactions_topics,
    ),
)


@api(InitProducerIdRequest, 0, 5, at=TRANSACTION_COORDINATOR, access=check_init_producer_id)
def handle_init_producer_id(
    services: Services, context: RequestContext, request: Any, now: float
) -> Response | None:
    if request.transactional_id == "":
        raise InvalidRequest("the transactional id must not be empty")
    if request.transactional_id is not None:
        submit_to_transactions(services, context, request, now)
        return None
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        raise InvalidRequest("the request must have both producer id and epoch, or neither")
    return InitProducerIdResponse(producer_id=services.next_producer_id(), producer_epoch=0)


@api(DescribeProducersRequest, 0, 0, access=READ_EACH_TOPIC)
def handle_describe_producers(
    services: Services, context: RequestContext, request: DescribeProducersRequest, now: float
) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[_described(services, topic.name, index) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def _described(services: Services, topic: str, index: int) -> PartitionResponse:
    try:
        check_topic_name(topic)
        producers = services.replicas.replica_of((topic, index)).log.producers
    except BrokerError as error:
        return PartitionResponse(partition_index=index, error_code=error.code or 0, active_producers=[])
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=_or_none(
                    producers.transactions.first_offset_of(producer.producer_id)
                ),
            )
            for producer in producers
        ],
    )


def _or_none(offset: int | None) -> int:
    return -1 if offset is None else offset


@attrs.define(eq=False)
class _Writing:
    """The markers of one request, until all of them are replicated."""

    context: RequestContext
    request: WriteTxnMarkersRequest
    results: list[dict[Key, ProduceResult]]
    unfinished: int

    def finish_one(self) -> None:
        self.unfinished -= 1
        if not self.unfinished and not self.context.is_complete:
            self.context.respond(_markers_response(self.request, self.results))


@api(WriteTxnMarkersRequest, 1, 2, access=check_markers, oldest=0)
def handle_write_txn_markers(
    services: Services, context: RequestContext, request: WriteTxnMarkersRequest, now: float
) -> WriteTxnMarkersResponse | None:
    if not request.markers:
        return WriteTxnMarkersResponse(markers=[])
    results = [_append(services, marker, now) for marker in request.markers]
    deadline = now + services.config.seconds("request.timeout.ms")
    writing = _Writing(context, request, results, len(results))
    for appended in results:
        services.replicas.await_replicas(appended, deadline, lambda done: writing.finish_one(), now)
    return None


def _append(services: Services, marker: WritableTxnMarker, now: float) -> dict[Key, ProduceResult]:
    """Append one producer's marker to all its partitions."""
    end = EndMarker(
        marker.producer_id,
        marker.producer_epoch,
        marker.transaction_result,
        marker.coordinator_epoch,
        marker.transaction_version,
    )
    results: dict[Key, ProduceResult] = {}
    now_ms = services.clock.wall_ms()
    for topic in marker.topics:
        for index in topic.partition_indexes:
            key = (topic.name, index)
            if key not in services.replicas.replicas:
                results[key] = ProduceResult(
                    UnknownTopicOrPartition(f"this broker has no replica of {key[0]}-{key[1]}")
                )
                continue
            if key[0] == OFFSETS_TOPIC and not services.coordinators.is_active(key):
                # The transaction coordinator does not expect errors of a group coordinator.
                results[key] = ProduceResult(
                    NotLeaderOrFollower(f"{key[0]}-{key[1]} is not loaded on this broker")
                )
                continue
            result = results[key] = services.replicas.append_marker(key, end, now, now_ms)
            if key[0] == OFFSETS_TOPIC and result.error is None:
                producer = Producer(end.producer_id, end.producer_epoch)
                groups = services.coordinators.groups
                groups.on_marker(key[1], producer, end.committed, result.required_offset, now)
    return results


def _markers_response(
    request: WriteTxnMarkersRequest, results: list[dict[Key, ProduceResult]]
) -> WriteTxnMarkersResponse:
    def code(marker: int, key: Key) -> int:
        error = results[marker][key].error
        return 0 if error is None else error.code or 0

    return _response(request, code)


def _response(request: WriteTxnMarkersRequest, code: Callable[[int, Key], int]) -> WriteTxnMarkersResponse:
    """Return the response with the code of each marker, by its number, in each partition."""
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(
                                partition_index=index, error_code=code(number, (topic.name, index))
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for number, marker in enumerate(request.markers)
        ]
    )
