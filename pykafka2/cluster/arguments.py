"""Checks the topics and partitions that callers pass.

Any thread; pure.  A name that cannot be encoded would fail every request that lists the wanted topics, and
with it the client of all threads that share it.  It is therefore rejected at the call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pykafka2.errors import IllegalArgument, InvalidTopicException
from pykafka2.option_fields import INT32_MAX
from pykafka2.types import ConsumerRecord, TopicPartition

# The longest string of the protocol; brokers reject names above 249.
LONGEST_NAME_BYTES = 2**15 - 1
# The maximum length of an invalid argument in an error.
LONGEST_SHOWN = 200


def instead(given: object) -> str:
    """Describe an invalid argument; shows only the type of values that can contain data or secrets."""
    for part in given if isinstance(given, list | tuple | set | frozenset) else [given]:
        if isinstance(part, ConsumerRecord | Mapping):
            kind = type(part).__name__
            return f"a {kind}" if part is given else f"a {type(given).__name__} with a {kind} in it"
    shown = repr(given)
    return shown if len(shown) <= LONGEST_SHOWN else f"{shown[:LONGEST_SHOWN]}..."


def checked_topic(topic: object) -> str:
    """Return the topic.

    Raises IllegalArgument if it is not a str, InvalidTopicException if a request cannot contain it.
    """
    if not isinstance(topic, str):
        raise IllegalArgument(f"a topic must be a str, not {instead(topic)}")
    if not topic.isascii() or len(topic) > LONGEST_NAME_BYTES:
        size = len(topic.encode("utf-8", "surrogatepass"))
        has_surrogates = size != len(topic.encode("utf-8", "ignore"))
        if has_surrogates or size > LONGEST_NAME_BYTES:
            raise InvalidTopicException(f"topic {topic[:50]!r}: the name is too long, or not Unicode text")
    return topic


def checked_partition(partition: object) -> TopicPartition:
    """Return a `TopicPartition`, or a tuple of topic and number, as a `TopicPartition`.

    Raises TypeError for other types, ValueError for an invalid number, and the errors of `checked_topic`.
    """
    if not isinstance(partition, tuple) or len(partition) != 2:
        meant = "; for a list write f(*partitions)" if isinstance(partition, list | set) else ""
        raise TypeError(
            f"a partition must be a TopicPartition(topic, number), not {instead(partition)}{meant}"
        )
    topic, number = partition
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError(f"a partition's number must be an int, not {number!r}")
    if not 0 <= number <= INT32_MAX:
        raise ValueError(f"a partition's number must be from 0 to {INT32_MAX}, not {number!r}")
    return TopicPartition(checked_topic(topic), number)


def checked_partitions(partitions: Iterable[object]) -> list[TopicPartition]:
    """Return the partitions. Raises the errors of `checked_partition`, and TypeError if it is not a list."""
    if isinstance(partitions, TopicPartition | str) or not isinstance(partitions, Iterable):
        meant = partitions if isinstance(partitions, TopicPartition) else TopicPartition("orders", 0)
        raise TypeError(f"partitions must be a list, such as [{meant!r}], not {instead(partitions)}")
    return [checked_partition(partition) for partition in partitions]
