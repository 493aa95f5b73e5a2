"""Rare forms of a Produce: transactional batches, and repeated partitions.

A batch that would start a transaction in a partition waits until the coordinator has confirmed that the
partition is part of the transaction; since version 12 the request adds it (KIP-890). The connection's next
request waits behind it, so that batches keep their order.

A request can name a partition more than once. Kafka stores a request's batches in maps by partition: the last
valid batch is appended, and an invalid one determines the response regardless of the others. Each partition
has one result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pykafka2.broker.log.validation import single_batch
from pykafka2.broker.replication.purgatory import ProduceResult
from pykafka2.errors import (
    BrokerError,
    InvalidProducerIdMapping,
    InvalidTxnState,
    NotEnoughReplicas,
    TransactionalIdAuthorizationFailed,
    UnknownTopicId,
    UnknownTopicOrPartition,
    error_of,
)
from pykafka2.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka2.records.batch import HEADER_BYTES, RecordBatch

if TYPE_CHECKING:
    from pykafka2.broker.base.image import Key
    from pykafka2.broker.coordinators.transactions.verifier import Codes, Guards
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.log.producer_state import VerificationGuard
    from pykafka2.broker.server.request_context import RequestContext


Place = tuple[str, bytes, int]
"""A partition as named in the request: the topic's name or id, and the number."""


class DuplicatePartitions:
    """A request that names a partition more than once.

    `request` contains the batches to append, and `result_of` returns the result of a partition.
    """

    def __init__(self, request: ProduceRequest, version: int) -> None:
        chosen: dict[Place, PartitionProduceData] = {}
        refused: dict[Place, BrokerError] = {}
        for topic in request.topic_data:
            for data in topic.partition_data:
                place = (topic.name, topic.topic_id, data.index)
                error = _error_in(data, version)
                if error is None or place not in chosen:
                    chosen[place] = data
                if error is not None:
                    refused[place] = error
        self._refused = {id(chosen[place]): error for place, error in refused.items()}
        topics: dict[tuple[str, bytes], TopicProduceData] = {}
        for (name, topic_id, _), data in chosen.items():
            empty = TopicProduceData(name=name, topic_id=topic_id, partition_data=[])
            topics.setdefault((name, topic_id), empty).partition_data.append(data)
        self.request = ProduceRequest(
            transactional_id=request.transactional_id,
            acks=request.acks,
            timeout_ms=request.timeout_ms,
            topic_data=list(topics.values()),
        )

    def result_of(self, data: PartitionProduceData, result: ProduceResult) -> ProduceResult:
        """Return the result of one partition; an unknown topic takes precedence."""
        error = self._refused.get(id(data))
        if error is None or isinstance(result.error, UnknownTopicId | UnknownTopicOrPartition):
            return result
        return ProduceResult(error)


def _error_in(data: PartitionProduceData, version: int) -> BrokerError | None:
    try:
        single_batch(data.records, version)
    except BrokerError as error:
        return error
    return None


Verifications = dict["Key", "VerificationGuard | BrokerError"]
"""For each verified partition: the guard to append with, or the error."""


def verify(
    services: Services,
    context: RequestContext,
    request: ProduceRequest,
    proceed: Callable[[Verifications, float], None],
    now: float,
) -> None:
    """Verify with the coordinator, then call `proceed`; at once if nothing needs verification.

    Raise `TransactionalIdAuthorizationFailed` or `InvalidProducerIdMapping` to reject the whole request.
    """
    from pykafka2.broker.coordinators.transactions.verifier import (
        TransactionSupport,
        VerificationRequest,
        for_produce,
    )

    if request.transactional_id is None:
        # Transactional batches require authorization for the transactional id, and there is none.
        raise TransactionalIdAuthorizationFailed("transactional batches need a transactional id")
    batches = _transactional_batches(services, context, request)
    if len({(batch.producer_id, batch.producer_epoch) for batch in batches.values()}) > 1:
        raise InvalidProducerIdMapping("Transactional records contained more than one producer ID")
    if not batches:
        proceed({}, now)
        return
    first = next(iter(batches.values()))
    verification = VerificationRequest(
        request.transactional_id,
        first.producer_id,
        first.producer_epoch,
        {key: batch.base_sequence for key, batch in batches.items()},
        TransactionSupport.of_produce(context.version),
    )
    guards, errors = services.verifier.begin(verification)
    verifications: Verifications = {**errors}
    if not guards:
        proceed(verifications, now)
        return

    def on_codes(found: Guards, codes: Codes, at: float) -> None:
        for key, guard in found.items():
            code = for_produce(codes[key], verification.support)
            verifications[key] = _verification_error(code) if code else guard
        proceed(verifications, at)

    adds = verification.support is TransactionSupport.ADDS_PARTITIONS
    services.verifier.verify(verification, guards, on_codes, now, waits_for_end=adds)


def _verification_error(code: int) -> BrokerError:
    if code == InvalidTxnState.code:
        return InvalidTxnState("Partition was not added to the transaction")
    if code == NotEnoughReplicas.code:
        return NotEnoughReplicas("Unable to verify the partition has been added to the transaction")
    return error_of(code)


def _transactional_batches(
    services: Services, context: RequestContext, request: ProduceRequest
) -> dict[Key, RecordBatch]:
    """Return the headers of transactional batches for existing topics; validation comes later."""
    found: dict[Key, RecordBatch] = {}
    for topic in request.topic_data:
        known = services.image.topic_by_id(topic.topic_id)
        name = topic.name if known is None else known.name
        if name not in services.image.topics:
            continue
        for data in topic.partition_data:
            batch = _header(data)
            if batch is not None and batch.has_producer_id and batch.is_transactional:
                found[name, data.index] = batch
    return found


def _header(data: PartitionProduceData) -> RecordBatch | None:
    if data.records is None or len(data.records) < HEADER_BYTES:
        return None
    return RecordBatch(memoryview(data.records))
