"""New topics: what may be asked for, and the records that make it so (rules 71 and 72)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from pykafka2.errors import (
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidTopicException,
    TopicAlreadyExists,
)
from pykafka2.testing.configs import BrokerConfig, TopicConfig
from pykafka2.testing.controller.state import State
from pykafka2.testing.image import NO_LEADER, PartitionImage, TopicImage
from pykafka2.testing.placement import place
from pykafka2.testing.topic_names import INTERNAL_TOPICS, check_topic_name, collision

DEFAULT: Final = -1


@attrs.define(frozen=True)
class NewTopic:
    """What is asked for: -1 takes the brokers' default; `assignment` replaces both numbers."""

    name: str
    partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    configs: Mapping[str, object] = attrs.field(factory=dict)
    assignment: Mapping[int, tuple[int, ...]] = attrs.field(factory=dict)


def new_topic(state: State, config: BrokerConfig, new: NewTopic, topic_id: bytes, start: int) -> TopicImage:
    """The topic as it would be, or raises why it cannot be; `start` is where placement begins."""
    check_topic_name(new.name)
    if new.name in state.topics:
        raise TopicAlreadyExists(f"Topic '{new.name}' already exists.")
    alike = collision(new.name, state.topics)
    if alike is not None:
        raise InvalidTopicException(f"Topic '{new.name}' collides with existing topic: {alike}")
    replicas = _assigned(state, new) if new.assignment else _placed(state, config, new, start)
    topic_config = TopicConfig(new.configs, config)
    partitions = tuple(new_partition(state, assigned) for assigned in replicas)
    return TopicImage(new.name, topic_id, partitions, topic_config, new.name in INTERNAL_TOPICS)


def new_partition(state: State, replicas: tuple[int, ...]) -> PartitionImage:
    """A partition on these replicas, led by the first that may."""
    isr = tuple(replica for replica in replicas if state.image.is_eligible(replica))
    return PartitionImage(replicas, isr or replicas[:1], isr[0] if isr else NO_LEADER)


def _placed(state: State, config: BrokerConfig, new: NewTopic, start: int) -> list[tuple[int, ...]]:
    count = config.int("num.partitions") if new.partitions == DEFAULT else new.partitions
    if count <= 0:
        raise InvalidPartitions("Number of partitions was set to an invalid non-positive value.")
    alive = sorted(broker.id for broker in state.brokers.values() if not broker.is_fenced)
    factor = new.replication_factor
    if factor == DEFAULT:
        factor = config.int("default.replication.factor")
        if factor == DEFAULT:
            factor = min(3, len(state.brokers))
    if factor <= 0:
        raise InvalidReplicationFactor("Replication factor must be larger than 0.")
    if factor > len(alive):
        raise InvalidReplicationFactor(
            f"Unable to replicate the partition {factor} time(s): The target replication factor of "
            f"{factor} cannot be reached because only {len(alive)} broker(s) are registered."
        )
    return place(alive, count, factor, start)


def _assigned(state: State, new: NewTopic) -> list[tuple[int, ...]]:
    if new.partitions != DEFAULT or new.replication_factor != DEFAULT:
        raise InvalidReplicaAssignment(
            "with a manual assignment neither partitions nor replication factor may be given"
        )
    if sorted(new.assignment) != list(range(len(new.assignment))):
        raise InvalidReplicaAssignment("partitions should be a consecutive 0-based integer sequence")
    replicas = [tuple(new.assignment[partition]) for partition in range(len(new.assignment))]
    for assigned in replicas:
        if not assigned or len(set(assigned)) != len(assigned) or len(assigned) != len(replicas[0]):
            raise InvalidReplicaAssignment(f"replicas {list(assigned)} are not a legal assignment")
        unknown = [replica for replica in assigned if replica not in state.brokers]
        if unknown:
            raise InvalidReplicaAssignment(
                f"The manual partition assignment includes broker {unknown[0]}, "
                "but no such broker is registered."
            )
    return replicas
