"""Checks the topics and partitions that callers pass.

Any thread; pure.  A name that cannot be written down would spoil every request that lists the topics wanted,
and with it the client for all who share it: so it is refused where it comes in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pykafka2.errors import IllegalArgument, InvalidTopicException
from pykafka2.option_fields import INT32_MAX
from pykafka2.types import ConsumerRecord, TopicPartition

# What a string of the wire can hold; the brokers say what they think of names above 249.
LONGEST_NAME_BYTES = 2**15 - 1
# Of what was given instead, in an error.
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
    """The topic.

    Raises `IllegalArgument` for what is no str, `InvalidTopicException` for what no broker could be asked
    about.
    """
    if not isinstance(topic, str):
        raise IllegalArgument(f"a topic is named by a str, not {instead(topic)}")
    if not topic.isascii() or len(topic) > LONGEST_NAME_BYTES:
        size = len(topic.encode("utf-8", "surrogatepass"))
        has_surrogates = size != len(topic.encode("utf-8", "ignore"))
        if has_surrogates or size > LONGEST_NAME_BYTES:
            raise InvalidTopicException(f"topic {topic[:50]!r}: it is too long, or not Unicode text")
    return topic


def checked_partition(partition: object) -> TopicPartition:
    """A `TopicPartition`, or a tuple of topic and number, as a `TopicPartition`.

    Raises `TypeError` for anything else, `ValueError` for no legal number, and what `checked_topic` raises.
    """
    if not isinstance(partition, tuple) or len(partition) != 2:
        meant = "; give them one by one: f(*partitions)" if isinstance(partition, list | set) else ""
        raise TypeError(
            f"a partition is named by TopicPartition(topic, number), not {instead(partition)}{meant}"
        )
    topic, number = partition
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError(f"the partitions of a topic have whole numbers, not {number!r}")
    if not 0 <= number <= INT32_MAX:
        raise ValueError(f"partitions count from 0 to {INT32_MAX}, not {number!r}")
    return TopicPartition(checked_topic(topic), number)


def checked_partitions(partitions: Iterable[object]) -> list[TopicPartition]:
    """Each of them.  Raises as `checked_partition`, and `TypeError` for one alone, or a topic alone."""
    if isinstance(partitions, TopicPartition | str) or not isinstance(partitions, Iterable):
        meant = partitions if isinstance(partitions, TopicPartition) else TopicPartition("orders", 0)
        raise TypeError(f"partitions are given as a list, such as [{meant!r}], not {instead(partitions)}")
    return [checked_partition(partition) for partition in partitions]
