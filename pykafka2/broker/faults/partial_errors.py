"""Errors for some topics and partitions of a request, while the rest is handled normally.

A rule that rejects partition 3 must not hide what the same request does to partition 4. The rejected
partitions of a Produce are removed before it is handled. A Fetch reads everything and its response is
changed, so that its session stays consistent. Other APIs are rejected as a whole. Requests are searched by
their declared fields, so new APIs are covered; topics named by id are looked up in the image. Access requires
the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from typing import Any

from pykafka2.broker.base.image import ClusterImage
from pykafka2.broker.faults.client_links import Target
from pykafka2.broker.replication.fetch import SESSION_ERROR_CODES
from pykafka2.broker.server.request_context import RequestContext
from pykafka2.broker.server.responses import Refusing
from pykafka2.protocol.declared import resolved_fields
from pykafka2.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from pykafka2.protocol.messages.produce import ProduceRequest, ProduceResponse, TopicProduceData
from pykafka2.protocol.struct import Response, Struct

# Field names for a topic's name and a partition's number.
NAMES = ("name", "topic", "topic_name")
NUMBERS = ("index", "partition", "partition_index")
PARTITION_LISTS = ("partition_data", "partitions", "partition_indexes")
# Arrays of structs that contain topics.
OUTER_LISTS = ("topic_data", "topics", "groups", "transactions", "markers", "v3_and_below_topics")


def partitions_of(request: Struct, image: ClusterImage) -> Iterator[tuple[str, int | None]]:
    """Return each topic of a request with each of its partitions, or None for a whole topic."""
    for field in resolved_fields(type(request)):
        if field.array and field.name in OUTER_LISTS:
            for part in getattr(request, field.name) or ():
                yield from _of_part(part, image)


def _of_part(part: Any, image: ClusterImage) -> Iterator[tuple[str, int | None]]:
    if isinstance(part, str):
        yield part, None
        return
    name = topic_name(part, image)
    if name is None:
        yield from partitions_of(part, image)  # a group, a transaction, a marker
        return
    numbers = [number for number in map(_number_of, _partitions(part)) if number is not None]
    if numbers:
        yield from ((name, number) for number in numbers)
    else:
        yield name, None


def topic_name(part: Struct, image: ClusterImage) -> str | None:
    """Return the topic of a part of a message, by its name or id; None if it has none."""
    for name in NAMES:
        value = getattr(part, name, None)
        if isinstance(value, str) and value:
            return value
    topic_id = getattr(part, "topic_id", None)
    known = image.topic_by_id(topic_id) if topic_id else None
    return None if known is None else known.name


def _partitions(part: Struct) -> list[Any]:
    for name in PARTITION_LISTS:
        value = getattr(part, name, None)
        if value:
            return list(value)
    return []


def _number_of(partition: Any) -> int | None:
    if isinstance(partition, int):
        return partition
    for name in NUMBERS:
        value = getattr(partition, name, None)
        if isinstance(value, int):
            return value
    return None


Named = tuple[str, int | None]
Merge = Callable[[Response], Response]


def named_partitions(target: Target, context: RequestContext) -> Iterator[Named]:
    """Return the partitions of a request, including those of its fetch session that it does not name."""
    request = context.request
    yield from partitions_of(request, target.image)
    if isinstance(request, FetchRequest) and request.session_id and request.session_epoch > 0:
        yield from target.in_fetch_session(request.session_id)


def refuse_some(
    is_meant: Callable[[Named], bool],
    code: int,
    target: Target,
    context: RequestContext,
    apis: Mapping[int, Refusing],
) -> Merge | None:
    """Prepare a request without the rejected partitions.

    Return a function that adds the errors to its response, or None if the whole request must be rejected.
    """
    request = context.request
    if isinstance(request, FetchRequest) and code not in SESSION_ERROR_CODES:
        rejected = [named for named in dict.fromkeys(named_partitions(target, context)) if is_meant(named)]
        impatient = copy(request)
        impatient.max_wait_ms = 0
        context.request = impatient
        return lambda response: _with_fetch_errors(response, rejected, code, target)
    if isinstance(request, ProduceRequest) and request.acks != 0:
        return _without_some(request, is_meant, code, target, context, apis)
    return None


def _without_some(
    request: ProduceRequest,
    is_meant: Callable[[Named], bool],
    code: int,
    target: Target,
    context: RequestContext,
    apis: Mapping[int, Refusing],
) -> Merge | None:
    kept: list[TopicProduceData] = []
    refused: list[TopicProduceData] = []
    for topic in request.topic_data:
        name = topic_name(topic, target.image) or ""
        for chosen, is_refused in ((kept, False), (refused, True)):
            data = [part for part in topic.partition_data if is_meant((name, part.index)) is is_refused]
            if data:
                subset = copy(topic)
                subset.partition_data = data
                chosen.append(subset)
    if not kept:
        return None
    rest, others = copy(request), copy(request)
    rest.topic_data, others.topic_data = kept, refused
    refusal = apis[context.api_key].refusal(others, context.version, code)
    context.request = rest

    def merge(response: Response) -> Response:
        if isinstance(response, ProduceResponse) and isinstance(refusal, ProduceResponse):
            known = {(topic.name, topic.topic_id): topic for topic in response.responses}
            for topic in refusal.responses:
                same = known.get((topic.name, topic.topic_id))
                if same is None:
                    response.responses.append(topic)
                else:
                    same.partition_responses += topic.partition_responses
        return response

    return merge


def _with_fetch_errors(response: Response, rejected: list[Named], code: int, target: Target) -> Response:
    if not isinstance(response, FetchResponse) or response.error_code:
        return response
    existing: dict[Named, PartitionData] = {}
    topics: dict[str, FetchableTopicResponse] = {}
    for topic in response.responses:
        name = topic_name(topic, target.image) or ""
        topics[name] = topic
        existing.update({(name, partition.partition_index): partition for partition in topic.partitions})
    for name, number in rejected:
        if number is None:
            continue
        refused = PartitionData(partition_index=number, error_code=code, high_watermark=-1, records=b"")
        if name not in topics:
            known = target.image.topics.get(name)
            topic_id = known.id if known is not None else b"\0" * 16
            topics[name] = FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=[])
            response.responses.append(topics[name])
        partitions = topics[name].partitions
        old = existing.get((name, number))
        if old is None:
            partitions.append(refused)
        else:
            partitions[partitions.index(old)] = refused
    return response
