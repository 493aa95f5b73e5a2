"""What callers give to `send_offsets_to_transaction`, checked before the transaction hears of it.

Callers' threads; pure.  What a request could not carry would fail on the IO thread, and the transaction with
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pykafka2.cluster.arguments import checked_partition
from pykafka2.errors import IllegalArgument, InvalidTopicException
from pykafka2.option_fields import INT32_MAX, INT64_MAX, Because, sendable_text
from pykafka2.types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

NO_EPOCH = -1


def checked_offsets(offsets: Any) -> dict[TopicPartition, OffsetAndMetadata]:
    """The offsets as our own types; kafka-python's, which have the same fields, are taken as well.

    Raises IllegalArgument that names the entry.
    """
    if not isinstance(offsets, Mapping):
        raise IllegalArgument(
            f"offsets={offsets!r}: send_offsets_to_transaction takes a dict of TopicPartition to "
            "OffsetAndMetadata"
        )
    return {_partition(place): _offset(place, what) for place, what in offsets.items()}


def _partition(place: Any) -> TopicPartition:
    try:
        return checked_partition(place)
    except (TypeError, ValueError, InvalidTopicException) as error:
        raise IllegalArgument(f"offsets has the key {place!r}; it takes a TopicPartition: {error}") from None


def _offset(place: object, what: Any) -> OffsetAndMetadata:
    offset, metadata = getattr(what, "offset", None), getattr(what, "metadata", None)
    epoch = getattr(what, "leader_epoch", None)
    entry = f"offsets[{place!r}]={what!r}"
    if not isinstance(offset, int) or isinstance(offset, bool) or not isinstance(metadata, str | None):
        raise IllegalArgument(
            f"{entry}: it takes OffsetAndMetadata(offset, metadata), the offset being that of the next "
            "record to read"
        )
    if not _is_whole(offset, 0, INT64_MAX):
        raise IllegalArgument(f"{entry}: an offset is 0 or more, and of 64 bits")
    if epoch is not None and not _is_whole(epoch, NO_EPOCH, INT32_MAX):
        raise IllegalArgument(f"{entry}: leader_epoch is a whole number, or -1 for none")
    metadata = _sendable(f"offsets[{place!r}].metadata", metadata or "")
    return OffsetAndMetadata(offset, metadata, NO_EPOCH if epoch is None else epoch)


def checked_group(group: Any) -> ConsumerGroupMetadata:
    """Who commits; a group's name alone stands for a consumer that assigns its partitions itself.

    Raises IllegalArgument that names the field.
    """
    fields = ("group_id", "generation_id", "member_id", "group_instance_id")
    if isinstance(group, str):
        group = ConsumerGroupMetadata(group)
    if not all(hasattr(group, name) for name in fields) or not isinstance(group.group_id, str):
        raise IllegalArgument(
            f"group_metadata={group!r}: send_offsets_to_transaction takes a ConsumerGroupMetadata "
            "(consumer.group_metadata(), of a consumer with group_id) or the name of the group"
        )
    if not _is_whole(group.generation_id, -1, INT32_MAX):
        raise IllegalArgument(f"group_metadata={group!r}: generation_id is a whole number, or -1 for none")
    if not isinstance(group.member_id, str) or not isinstance(group.group_instance_id, str | None):
        raise IllegalArgument(f"group_metadata={group!r}: member_id and group_instance_id are strings")
    for name in ("group_id", "member_id", "group_instance_id"):
        _sendable(f"group_metadata.{name}", getattr(group, name) or "")
    return ConsumerGroupMetadata(*(getattr(group, name) for name in fields))


def _is_whole(number: Any, lowest: int, highest: int) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and lowest <= number <= highest


def _sendable(name: str, text: str) -> str:
    try:
        return sendable_text(text)
    except Because as error:
        raise IllegalArgument(f"{name}: {error}") from None
