"""A KIP-848 member's subscription, target assignment and owned partitions.

Pure values and functions; used on both threads. The coordinator identifies topics by id, so a topic that was
deleted and created again is a different topic (KIP-516).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from pykafka2.protocol.messages.consumer_group import (
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponseAssignment,
)
from pykafka2.slotted import slotted
from pykafka2.types import TopicPartition

PartitionsById = Mapping[bytes, frozenset[int]]


@slotted(frozen=True)
class SubscribedTopics:
    """A member's subscription."""

    topics: frozenset[str] = frozenset()
    pattern: str | None = None
    """A regular expression in RE2 syntax that the broker resolves, instead of topics."""


@slotted(frozen=True)
class Target:
    """The target assignment of the coordinator; `number` grows with each changed assignment."""

    number: int
    partitions: PartitionsById


@attrs.define(frozen=True)
class Owned:
    """The partitions that a member owns, as the caller's thread reports them.

    `number` is the number of the target that was applied. `is_whole` is False while some names of the
    target's topics are unknown.
    """

    number: int
    partitions: PartitionsById
    is_whole: bool


@slotted(frozen=True)
class Resolved:
    """A target with topic names: the partitions with their topic ids, and the ids without a known name."""

    partitions: Mapping[TopicPartition, bytes]
    unknown: frozenset[bytes]


def read_assignment(assignment: ConsumerGroupHeartbeatResponseAssignment | None) -> PartitionsById:
    """Return the assignment of a response, without negative partition numbers."""
    found: dict[bytes, frozenset[int]] = {}
    for entry in assignment.topic_partitions if assignment is not None else ():
        numbers = frozenset(number for number in entry.partitions if number >= 0)
        if numbers:
            found[entry.topic_id] = found.get(entry.topic_id, frozenset()) | numbers
    return found


def written(partitions: PartitionsById) -> list[ConsumerGroupHeartbeatRequestTopicPartitions]:
    """Return the partitions in the format of a heartbeat."""
    return [
        ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=sorted(numbers))
        for topic_id, numbers in sorted(partitions.items())
    ]


def resolve(
    target: PartitionsById, name_of: Callable[[bytes], str | None], is_read: Callable[[str], bool]
) -> Resolved:
    """Return the target with topic names, as far as `name_of` knows them.

    Leave out topics that the consumer no longer subscribes to, because the coordinator can still assign
    them.
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
    """Return the partitions by topic id, the coordinator's format."""
    numbers: dict[bytes, set[int]] = {}
    for partition, topic_id in partitions.items():
        numbers.setdefault(topic_id, set()).add(partition.partition)
    return {topic_id: frozenset(some) for topic_id, some in numbers.items()}
