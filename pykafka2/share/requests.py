"""The requests of a share session, and the results in their responses.

A request has partitions to read, and acknowledgements as runs of offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from typing import Any

from pykafka2.errors import KafkaError, UnknownServerError, error_or_none
from pykafka2.protocol.messages.share_fetch import (
    AcknowledgePartition,
    AcknowledgeTopic,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeRequestAcknowledgementBatch,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchRequestAcknowledgementBatch,
    ShareFetchResponsePartitionData,
)
from pykafka2.share.lock import Lock, Place
from pykafka2.share.options import ShareConsumerOptions
from pykafka2.share.records import AcknowledgeType


def fetch_request(
    options: ShareConsumerOptions,
    member_id: str,
    epoch: int,
    wanted: Set[Place],
    known: Set[Place],
    locks: Iterable[Lock],
    *,
    most_records: int,
    waits: bool,
) -> ShareFetchRequest:
    """Return a request for records of the wanted partitions that carries acknowledgements.

    It names the changes of the partitions that the broker has in the session (`known`). If `waits`, the
    broker waits for records.
    """
    batches = _batches(locks, ShareFetchRequestAcknowledgementBatch)
    topics: dict[bytes, list[FetchPartition]] = {}
    for topic_id, number in sorted((wanted - known) | batches.keys()):
        topics.setdefault(topic_id, []).append(
            FetchPartition(
                partition_index=number, acknowledgement_batches=batches.get((topic_id, number), [])
            )
        )
    forgotten: dict[bytes, list[int]] = {}
    for topic_id, number in sorted(known - wanted):
        forgotten.setdefault(topic_id, []).append(number)
    return ShareFetchRequest(
        group_id=options.group_id,
        member_id=member_id,
        share_session_epoch=epoch,
        max_wait_ms=int(options.fetch_max_wait * 1000) if waits else 0,
        min_bytes=options.fetch_min_bytes,
        max_bytes=options.fetch_max_bytes,
        max_records=most_records,
        batch_size=most_records,
        share_acquire_mode=1 if options.is_strict else 0,
        topics=[FetchTopic(topic_id=topic, partitions=parts) for topic, parts in topics.items()],
        forgotten_topics_data=[
            ForgottenTopic(topic_id=topic, partitions=numbers) for topic, numbers in forgotten.items()
        ],
    )


def acknowledge_request(
    options: ShareConsumerOptions,
    member_id: str,
    epoch: int,
    locks: list[Lock],
    renewals: list[Lock],
) -> ShareAcknowledgeRequest:
    """Return a request with acknowledgements and automatic renewals."""
    batches = _batches(locks, ShareAcknowledgeRequestAcknowledgementBatch, renewals)
    topics: dict[bytes, list[AcknowledgePartition]] = {}
    for (topic_id, number), of_place in sorted(batches.items()):
        topics.setdefault(topic_id, []).append(
            AcknowledgePartition(partition_index=number, acknowledgement_batches=of_place)
        )
    return ShareAcknowledgeRequest(
        group_id=options.group_id,
        member_id=member_id,
        share_session_epoch=epoch,
        is_renew_ack=bool(renewals) or any(lock.type == AcknowledgeType.RENEW for lock in locks),
        topics=[AcknowledgeTopic(topic_id=topic, partitions=parts) for topic, parts in topics.items()],
    )


Errors = dict[Place, KafkaError | None]
"""The result of each partition's acknowledgements."""


def errors_in(response: ShareAcknowledgeResponse) -> Errors:
    """Return the results of a response."""
    return {
        (topic.topic_id, data.partition_index): error_or_none(data.error_code, data.error_message)
        for topic in response.responses
        for data in topic.partitions
    }


def results(locks: Iterable[Lock], errors: Errors) -> Iterator[tuple[list[Lock], KafkaError | None]]:
    """Yield the locks of each partition that was sent, with their result."""
    by_place: dict[Place, list[Lock]] = {}
    for lock in locks:
        by_place.setdefault(lock.place, []).append(lock)
    for place, of_place in by_place.items():
        yield of_place, errors[place] if place in errors else UnknownServerError("no result")


def acquired_in(data: ShareFetchResponsePartitionData) -> list[tuple[int, int, int]]:
    """Return first offset, last offset and delivery count of each acquired range, in order."""
    ranges = sorted(data.acquired_records, key=lambda one: one.first_offset)
    return [(one.first_offset, one.last_offset, one.delivery_count) for one in ranges]


def _batches(locks: Iterable[Lock], batch: Any, renewals: Iterable[Lock] = ()) -> dict[Place, list[Any]]:
    """Return acknowledgement batches by partition: runs of offsets, each with one type or one per offset."""
    types: dict[Place, dict[int, int]] = {}
    for lock in locks:
        types.setdefault(lock.place, {}).update(dict.fromkeys(lock.offsets, int(lock.type)))
    for lock in renewals:
        of_place = types.setdefault(lock.place, {})
        for offset in lock.offsets:
            of_place.setdefault(offset, int(AcknowledgeType.RENEW))
    return {
        place: [
            batch(
                first_offset=first,
                last_offset=first + len(run) - 1,
                acknowledge_types=run[:1] if len(set(run)) == 1 else run,
            )
            for first, run in _runs(by_offset)
        ]
        for place, by_offset in types.items()
    }


def _runs(by_offset: dict[int, int]) -> Iterator[tuple[int, list[int]]]:
    """Yield the first offset of each run of offsets without a gap, and their types."""
    offsets = sorted(by_offset)
    types = [by_offset[offset] for offset in offsets]
    start = 0
    if offsets[-1] - offsets[0] + 1 != len(offsets):
        for index in range(1, len(offsets)):
            if offsets[index] != offsets[index - 1] + 1:
                yield offsets[start], types[start:index]
                start = index
    yield offsets[start], types[start:]
