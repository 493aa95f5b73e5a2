"""WriteTxnMarkers: a transaction coordinator has a leader write the markers that end a transaction (KIP-98).

A marker is appended as a separate batch; it responds once the replicas have it, as with acks=all. In a
partition of __consumer_offsets the group coordinator processes it, so that the transaction's offsets are
committed or dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from pykafka2.broker.coordinators.internal_topics import OFFSETS_TOPIC
from pykafka2.broker.coordinators.replay import Producer
from pykafka2.broker.log.partition_log import EndMarker
from pykafka2.broker.replication.purgatory import ProduceResult
from pykafka2.errors import NotLeaderOrFollower, UnknownTopicOrPartition
from pykafka2.protocol.messages.transaction import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from pykafka2.broker.base.image import Key
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext


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


def write_markers(
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


def refused(request: WriteTxnMarkersRequest, code: int) -> WriteTxnMarkersResponse:
    return _response(request, lambda marker, key: code)
