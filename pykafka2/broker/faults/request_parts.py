"""Topics and partitions of a request, for any API.

Used by fault rules and the history. Requests are searched by their declared fields, so new APIs are covered;
topics named by id are looked up in the image. Stateless.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pykafka2.broker.base.image import ClusterImage
from pykafka2.protocol.declared import resolved_fields
from pykafka2.protocol.struct import Struct

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
