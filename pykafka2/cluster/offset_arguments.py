"""Checks the offsets that a caller commits, alone or within a transaction.

Any thread; pure.  A value that a request cannot carry would fail later on the IO thread, with whatever else
depends on that request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pykafka2.cluster.arguments import checked_partition, instead
from pykafka2.errors import IllegalArgument, InvalidTopicException
from pykafka2.option_fields import INT32_MAX, INT64_MAX, sendable_text
from pykafka2.types import ConsumerRecord, OffsetAndMetadata, TopicPartition

NO_EPOCH = -1

GivenOffsets = Mapping[TopicPartition, "OffsetAndMetadata | int"]
"""Offsets to commit: of the next record to read, by partition."""


def checked_offsets(offsets: object) -> dict[TopicPartition, OffsetAndMetadata]:
    """Returns the offsets as our own types; kafka-python's OffsetAndMetadata is accepted as well.

    Raises IllegalArgument (a TypeError and a ValueError) that names the partition.
    """
    if not isinstance(offsets, Mapping):
        meant = ""
        if callable(offsets):
            meant = "; write callback=..."
        elif isinstance(offsets, ConsumerRecord):
            meant = "; write {TopicPartition(record.topic, record.partition): record.offset + 1}"
        raise IllegalArgument(
            "offsets must be a dict {TopicPartition: OffsetAndMetadata or int}, "
            f"not {instead(offsets)}{meant}"
        )
    return dict(_checked(partition, given) for partition, given in offsets.items())


def _checked(key: object, given: object) -> tuple[TopicPartition, OffsetAndMetadata]:
    try:
        partition = checked_partition(key)
    except (TypeError, ValueError, InvalidTopicException) as error:
        raise IllegalArgument(f"offsets has the key {instead(key)}: {error}") from None
    offset, metadata, epoch = _parts(partition, given)
    if not _is_integer(offset) or not 0 <= offset <= INT64_MAX:
        raise IllegalArgument(
            f"{partition}: an offset must be an integer from 0 to {INT64_MAX}, not {offset!r}"
        )
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
    return partition, OffsetAndMetadata(offset, metadata or "", epoch)


def _parts(partition: TopicPartition, given: object) -> tuple[Any, Any, Any]:
    """The offset, metadata and leader epoch, not yet checked."""
    if _is_integer(given):
        return given, "", NO_EPOCH
    if hasattr(given, "offset") and hasattr(given, "metadata"):
        return given.offset, given.metadata, getattr(given, "leader_epoch", None)
    meant = "; write record.offset + 1" if isinstance(given, ConsumerRecord) else ""
    raise IllegalArgument(
        f"{partition}: an offset must be an int or OffsetAndMetadata, not {instead(given)}{meant}"
    )


def _is_integer(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)
