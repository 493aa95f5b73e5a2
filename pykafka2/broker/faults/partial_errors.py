"""Errors for some topics and partitions of a request, while the rest is handled normally.

A rule that rejects partition 3 must not hide what the same request does to partition 4. The rejected
partitions of a Produce are removed before it is handled. A Fetch reads everything and its response is
changed, so that its session stays consistent. Other APIs are rejected as a whole. Requests are searched by
their declared fields, so new APIs are covered; topics named by id are looked up in the image. Access requires
the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from typing import Any

from pykafka2.broker.base.image import ClusterImage
from pykafka2.broker.faults.client_links import Target
from pykafka2.broker.replication.fetch import is_session_error
from pykafka2.broker.server.request_context import RequestContext
from pykafka2.broker.server.responses import PARTITION_NUMBERS, TOPIC_NAMES, Refusing
from pykafka2.protocol.declared import resolved_fields
from pykafka2.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pykafka2.protocol.messages.produce import ProduceRequest, TopicProduceData
from pykafka2.protocol.primitives import ZERO_UUID
from pykafka2.protocol.struct import Response, Struct

PARTITION_LISTS = ("partition_data", "partitions", "partition_indexes", "partition_responses")
# Arrays of topic names, and of structs that contain topics; other arrays of strings are of groups and such.
NAME_LISTS = ("topic_names",)
OUTER_LISTS = ("topic_data", "topics", "groups", "transactions", "markers", "v3_and_below_topics")


def partitions_of(request: Struct, image: ClusterImage) -> Iterator[tuple[str, int | None]]:
    """Return each topic of a request with each of its partitions, or None for a whole topic."""
    for field in resolved_fields(type(request)):
        if not field.array:
            continue
        if field.name in NAME_LISTS:
            yield from ((name, None) for name in getattr(request, field.name) or ())
        elif field.name in OUTER_LISTS and field.struct is not None:
            for part in getattr(request, field.name) or ():
                yield from _of_part(part, image)


def _of_part(part: Struct, image: ClusterImage) -> Iterator[tuple[str, int | None]]:
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
    for name in TOPIC_NAMES:
        value = getattr(part, name, None)
        if isinstance(value, str) and value:
            return value
    topic_id = getattr(part, "topic_id", None)
    known = image.topic_by_id(topic_id) if topic_id else None
    return None if known is None else known.name


def _partitions(part: Struct) -> list[Any]:
    for name in PARTITION_LISTS:
        value: list[Any] | None = getattr(part, name, None)
        if value:
            return value
    return []


def _number_of(partition: Any) -> int | None:
    if isinstance(partition, int):
        return partition
    for name in PARTITION_NUMBERS:
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
    rest: Any = copy(request)
    others: Any = copy(request)
    if isinstance(request, FetchRequest) and not is_session_error(code, context.version):
        rest.max_wait_ms = 0
        others.topics = _fetched(filter(is_meant, dict.fromkeys(named_partitions(target, context))), target)
    elif isinstance(request, ProduceRequest) and request.acks != 0:
        rest.topic_data = _produced(request, target, lambda named: not is_meant(named))
        others.topic_data = _produced(request, target, is_meant)
    else:
        return None
    context.request = rest
    refusal: Any = apis[context.api_key].refusal(others, context.version, code)
    return lambda response: _with_errors(response, refusal.responses, target.image)


def _produced(
    request: ProduceRequest, target: Target, is_chosen: Callable[[Named], bool]
) -> list[TopicProduceData]:
    """Return the chosen partitions of a Produce by topic."""
    topics = []
    for topic in request.topic_data:
        name = topic_name(topic, target.image) or ""
        data = [part for part in topic.partition_data if is_chosen((name, part.index))]
        if data:
            chosen = copy(topic)
            chosen.partition_data = data
            topics.append(chosen)
    return topics


def _fetched(partitions: Iterable[Named], target: Target) -> list[FetchTopic]:
    """Return these partitions by topic, as a Fetch names them."""
    topics: dict[str, FetchTopic] = {}
    for name, number in partitions:
        if number is None:
            continue
        known = target.image.topics.get(name)
        topic_id = ZERO_UUID if known is None else known.id
        topic = topics.setdefault(name, FetchTopic(topic=name, topic_id=topic_id, partitions=[]))
        topic.partitions.append(FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=0))
    return list(topics.values())


def _with_errors(response: Any, rejected: list[Any], image: ClusterImage) -> Any:
    """Add the rejected topics to a response; their partitions replace those that it has."""
    if getattr(response, "error_code", 0):
        return response
    known = {topic_name(topic, image) or topic.topic_id: topic for topic in response.responses}
    for topic in rejected:
        same = known.get(topic_name(topic, image) or topic.topic_id)
        if same is None:
            response.responses.append(topic)
            continue
        partitions = _partitions(same)
        places = {_number_of(partition): place for place, partition in enumerate(partitions)}
        for partition in _partitions(topic):
            place = places.get(_number_of(partition), len(partitions))
            partitions[place : place + 1] = [partition]
    return response
