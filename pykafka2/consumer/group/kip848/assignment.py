"""A KIP-848 member's subscription, its target assignment, and the partitions they name.

Pure values and functions; used on both threads.  The coordinator names topics by their ids, so that a topic
that was deleted and made anew is another one (KIP-516).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from pykafka2.protocol.messages.consumer_group import (
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponseAssignment,
)
from pykafka2.types import TopicPartition

PartitionsById = Mapping[bytes, frozenset[int]]


@attrs.define(frozen=True)
class Wish:
    """A member's subscription."""

    topics: frozenset[str] = frozenset()
    pattern: str | None = None
    """A regular expression that the broker resolves (RE2's syntax), instead of topics."""


@attrs.define(frozen=True)
class Target:
    """The target assignment of the coordinator; `number` grows with each changed assignment."""

    number: int
    partitions: PartitionsById


@attrs.define(frozen=True)
class Owned:
    """The partitions that a member owns, as the caller's thread reports them.

    `number` is that of the target it stems from; without `is_whole` some of that target's topics are not
    known yet.
    """

    number: int
    partitions: PartitionsById
    is_whole: bool


@attrs.define(frozen=True)
class Resolved:
    """A target in names: the partitions with their topics' ids, and the ids that nobody knows yet."""

    partitions: Mapping[TopicPartition, bytes]
    unknown: frozenset[bytes]


def read_assignment(assignment: ConsumerGroupHeartbeatResponseAssignment | None) -> PartitionsById:
    """The assignment of an answer; numbers that no partition can have are left out."""
    found: dict[bytes, frozenset[int]] = {}
    for one in assignment.topic_partitions if assignment is not None else ():
        numbers = frozenset(number for number in one.partitions if number >= 0)
        if numbers:
            found[one.topic_id] = found.get(one.topic_id, frozenset()) | numbers
    return found


def written(partitions: PartitionsById) -> list[ConsumerGroupHeartbeatRequestTopicPartitions]:
    """Return the partitions in the form of a heartbeat."""
    return [
        ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=sorted(numbers))
        for topic_id, numbers in sorted(partitions.items())
    ]


def resolve(
    target: PartitionsById, name_of: Callable[[bytes], str | None], is_read: Callable[[str], bool]
) -> Resolved:
    """The target in names, as far as `name_of` knows them.

    Topics that are not read (any more) are left out: the coordinator has not heard of that yet.
    """
    partitions: dict[TopicPartition, bytes] = {}
    unknown = set()
    for topic_id, numbers in target.items():
        name = name_of(topic_id)
        if name is None:
            unknown.add(topic_id)
        elif is_read(name):
            partitions.update((TopicPartition(name, number), topic_id) for number in sorted(numbers))
    return Resolved(partitions, frozenset(unknown))


def by_id(partitions: Mapping[TopicPartition, bytes]) -> PartitionsById:
    """Partitions with their topics' ids, in the coordinator's form."""
    numbers: dict[bytes, set[int]] = {}
    for partition, topic_id in partitions.items():
        numbers.setdefault(topic_id, set()).add(partition.partition)
    return {topic_id: frozenset(some) for topic_id, some in numbers.items()}
