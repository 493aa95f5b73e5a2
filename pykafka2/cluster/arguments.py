"""Checks the topics and partitions that callers pass.

Any thread; pure. One name that cannot be encoded would break every metadata request of the client, so it is
rejected before it is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pykafka2.errors import IllegalArgument, InvalidTopicException
from pykafka2.option_fields import INT32_MAX
from pykafka2.types import ConsumerRecord, TopicPartition

# The longest string of the protocol; brokers themselves reject names above 249 characters.
LONGEST_NAME_BYTES = 2**15 - 1
# Characters of an invalid argument that an error message shows.
LONGEST_SHOWN = 200


def describe_argument(value: object) -> str:
    """Describe an invalid argument; shows only the type of values that can contain data or secrets."""
    for part in value if isinstance(value, list | tuple | set | frozenset) else [value]:
        if isinstance(part, ConsumerRecord | Mapping):
            kind = type(part).__name__
            return f"a {kind}" if part is value else f"a {type(value).__name__} that contains a {kind}"
    shown = repr(value)
    return shown if len(shown) <= LONGEST_SHOWN else f"{shown[:LONGEST_SHOWN]}..."


def checked_topic(topic: object) -> str:
    """Return the topic.

    Raise IllegalArgument if it is not a str, InvalidTopicException if no request can carry the name.
    """
    if not isinstance(topic, str):
        raise IllegalArgument(f"a topic must be a str, not {describe_argument(topic)}")
    if not topic.isascii() or len(topic) > LONGEST_NAME_BYTES:
        size = len(topic.encode("utf-8", "surrogatepass"))
        has_surrogates = size != len(topic.encode("utf-8", "ignore"))
        if has_surrogates or size > LONGEST_NAME_BYTES:
            raise InvalidTopicException(f"topic {topic[:50]!r}: the name is too long, or not valid Unicode")
    return topic


def checked_timeout(timeout: Any, meaning_of_none: str = "no limit") -> float | None:
    """Return the number of seconds, or None. Raise IllegalArgument for other values."""
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if timeout is None or (is_number and timeout == timeout):  # nan is unequal to itself
        return timeout  # type: ignore[no-any-return]
    raise IllegalArgument(f"timeout={timeout!r}: must be a number of seconds, or None for {meaning_of_none}")


def checked_partition(partition: object) -> TopicPartition:
    """Return a `TopicPartition`, or a tuple of topic and partition number, as a `TopicPartition`.

    Raise TypeError for any other type, ValueError if the number is out of range, and the errors of
    `checked_topic`.
    """
    if not isinstance(partition, tuple) or len(partition) != 2:
        hint = "; pass each as an argument: f(*partitions)" if isinstance(partition, list | set) else ""
        raise TypeError(
            f"a partition must be TopicPartition(topic, number), not {describe_argument(partition)}{hint}"
        )
    topic, number = partition
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError(f"a partition number must be an int, not {number!r}")
    if not 0 <= number <= INT32_MAX:
        raise ValueError(f"a partition number must be from 0 to {INT32_MAX}, not {number!r}")
    return TopicPartition(checked_topic(topic), number)


def checked_partitions(partitions: Iterable[object]) -> list[TopicPartition]:
    """Return the partitions as a list.

    Raise the errors of `checked_partition`, and TypeError for a single partition or topic.
    """
    if isinstance(partitions, TopicPartition | str) or not isinstance(partitions, Iterable):
        example = partitions if isinstance(partitions, TopicPartition) else TopicPartition("orders", 0)
        raise TypeError(
            f"partitions must be a list, such as [{example!r}], not {describe_argument(partitions)}"
        )
    return [checked_partition(partition) for partition in partitions]
