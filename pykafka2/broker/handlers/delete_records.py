"""DeleteRecords: advances log starts; responds once all live replicas have followed.

Meanwhile the connection's next request waits, as with every API except Produce.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.broker.handlers.registry import handles, refuses
from pykafka2.broker.replication.purgatory import DeleteResult
from pykafka2.protocol.messages.topics import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from pykafka2.broker.base.image import Key
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext

NO_LOW_WATERMARK = -1


@handles(DeleteRecordsRequest, 0, 2)
def handle(services: Services, context: RequestContext, request: DeleteRecordsRequest, now: float) -> None:
    offsets = {
        (topic.name, partition.partition_index): partition.offset
        for topic in request.topics
        for partition in topic.partitions
    }

    def on_done(done: dict[Key, DeleteResult]) -> None:
        if not context.is_complete:
            services.respond_with(context, lambda: _response(done))

    deadline = now + request.timeout_ms / 1000.0
    operation = services.replicas.log_manager.delete_records(offsets, deadline, on_done, now)
    if operation is not None:
        context.abandon = lambda at: services.replicas.deletes.discard(operation)


def _response(done: dict[Key, DeleteResult]) -> DeleteRecordsResponse:
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


@refuses(DeleteRecordsRequest)
def refuse(request: DeleteRecordsRequest, code: int) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    DeleteRecordsPartitionResult(
                        partition_index=partition.partition_index,
                        low_watermark=NO_LOW_WATERMARK,
                        error_code=code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
