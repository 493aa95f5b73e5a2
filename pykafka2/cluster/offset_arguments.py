"""Checks the offsets that a caller commits, alone or within a transaction.

Any thread; pure. A value that a request cannot carry would fail later on the IO thread, together with the
other partitions of that request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pykafka2.cluster.arguments import checked_partition, describe_argument
from pykafka2.errors import IllegalArgument, InvalidTopicException
from pykafka2.option_fields import INT32_MAX, INT64_MAX, sendable_text
from pykafka2.types import ConsumerRecord, OffsetAndMetadata, OffsetInTopic, TopicPartition

NO_EPOCH = -1

OffsetsToCommit = Mapping[TopicPartition, OffsetAndMetadata | int]
"""Offsets to commit by partition; each is the offset of the next record to read."""


def checked_offsets(offsets: object) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the offsets as our own types; kafka-python's OffsetAndMetadata is accepted as well, and
    aiokafka's pairs of offset and metadata.

    Raise IllegalArgument (a TypeError and a ValueError) that names the partition.
    """
    if not isinstance(offsets, Mapping):
        hint = ""
        if callable(offsets):
            hint = "; write callback=..."
        elif isinstance(offsets, ConsumerRecord):
            hint = "; write {TopicPartition(record.topic, record.partition): record.offset + 1}"
        raise IllegalArgument(
            "offsets must be {TopicPartition: OffsetAndMetadata or int}, "
            f"not {describe_argument(offsets)}{hint}"
        )
    return dict(_checked(partition, value) for partition, value in offsets.items())


def _checked(key: object, value: object) -> tuple[TopicPartition, OffsetAndMetadata]:
    try:
        partition = checked_partition(key)
    except (TypeError, ValueError, InvalidTopicException) as error:
        raise IllegalArgument(f"offsets has the key {describe_argument(key)}: {error}") from None
    offset, metadata, epoch = _parts(partition, value)
    if not _is_integer(offset) or not 0 <= offset <= INT64_MAX:
        raise IllegalArgument(f"{partition}: the offset must be an int from 0 to {INT64_MAX}, not {offset!r}")
    if not isinstance(metadata, str | None):
        raise IllegalArgument(f"{partition}: the metadata must be a str, not {metadata!r}")
    try:
        sendable_text(metadata or "")
    except ValueError as error:
        raise IllegalArgument(f"{partition}: the metadata {(metadata or '')[:50]!r}: {error}") from None
    if epoch is None:
        epoch = NO_EPOCH
    if not _is_integer(epoch):
        raise IllegalArgument(f"{partition}: the leader epoch must be an int, not {epoch!r}")
    if not NO_EPOCH <= epoch <= INT32_MAX:
        raise IllegalArgument(f"{partition}: the leader epoch must be from -1 to {INT32_MAX}, not {epoch!r}")
    checked = OffsetAndMetadata(offset, metadata or "", epoch)
    return partition, OffsetInTopic.of(checked, value.topic_id) if isinstance(
        value, OffsetInTopic
    ) else checked


def _parts(partition: TopicPartition, value: object) -> tuple[Any, Any, Any]:
    """Return the offset, metadata and leader epoch, unchecked."""
    if _is_integer(value):
        return value, "", NO_EPOCH
    if hasattr(value, "offset") and hasattr(value, "metadata"):
        return value.offset, value.metadata, getattr(value, "leader_epoch", None)
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], str):
        return value[0], value[1], NO_EPOCH
    hint = "; write record.offset + 1" if isinstance(value, ConsumerRecord) else ""
    shown = describe_argument(value)
    raise IllegalArgument(
        f"{partition}: the offset must be an OffsetAndMetadata or an int, not {shown}{hint}"
    )


def _is_integer(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)
