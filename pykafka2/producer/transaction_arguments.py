"""Checks the group that a caller passes to `send_offsets_to_transaction`.

Callers' threads; pure.  What a request could not carry would fail on the IO thread, and the transaction with
it.
"""

from __future__ import annotations

from typing import Any

from pykafka2.errors import IllegalArgument
from pykafka2.option_fields import INT32_MAX, Because, sendable_text
from pykafka2.types import ConsumerGroupMetadata


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
