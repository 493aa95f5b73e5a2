"""New topics and partitions: validation with Kafka's messages, and the resulting records.

Pure functions over the controller's state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from pykafka2.broker.base.image import (
    INTERNAL_TOPICS,
    METADATA_TOPIC,
    TopicImage,
    check_topic_name,
    collision,
)
from pykafka2.broker.config.configs import BrokerConfig, TopicConfig
from pykafka2.broker.controller.assignments import check_assignment, new_partition, placed
from pykafka2.broker.controller.new_topic import DEFAULT, NewTopic
from pykafka2.broker.controller.records import PartitionSet, Record
from pykafka2.broker.controller.state import State
from pykafka2.errors import (
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopicException,
    PolicyViolation,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)

MAX_PARTITIONS_PER_REQUEST: Final = 10_000


def new_topic(state: State, config: BrokerConfig, new: NewTopic, topic_id: bytes) -> TopicImage:
    """Return the topic as it would be created. Raise if the request is invalid."""
    check_topic_name(new.name)
    if new.name == METADATA_TOPIC:
        raise InvalidRequest(f"Creation of internal topic {METADATA_TOPIC} is prohibited.")
    if new.name in state.topics:
        raise TopicAlreadyExists(f"Topic '{new.name}' already exists.")
    alike = collision(new.name, state.topics)
    if alike is not None:
        raise InvalidTopicException(f"Topic '{new.name}' collides with existing topic: {alike}")
    topic_config = TopicConfig(new.configs, config)
    replicas = _assigned(state, new) if new.assignment else _placed(state, config, new)
    partitions = tuple(new_partition(state, assigned) for assigned in replicas)
    return TopicImage(new.name, topic_id, partitions, topic_config, new.name in INTERNAL_TOPICS)


def _placed(state: State, config: BrokerConfig, new: NewTopic) -> list[tuple[int, ...]]:
    if new.replication_factor < DEFAULT or new.replication_factor == 0:
        raise InvalidReplicationFactor(
            "Replication factor must be larger than 0, or -1 to use the default value."
        )
    if new.partitions < DEFAULT or new.partitions == 0:
        raise InvalidPartitions("Number of partitions was set to an invalid non-positive value.")
    count = config.int("num.partitions") if new.partitions == DEFAULT else new.partitions
    factor = new.replication_factor
    if factor == DEFAULT:
        factor = config.int("default.replication.factor")
        if factor == DEFAULT:
            factor = min(3, len(state.brokers))
    return placed(state, count, factor)


def _assigned(state: State, new: NewTopic) -> list[tuple[int, ...]]:
    for field, number in (("replication factor", new.replication_factor), ("numPartitions", new.partitions)):
        if number != DEFAULT:
            raise InvalidRequest(
                f"A manual partition assignment was specified, but {field} was not set to -1."
            )
    replicas = [tuple(assigned) for _, assigned in sorted(new.assignment.items())]
    factor = None
    for assigned in replicas:
        check_assignment(assigned, state.brokers, factor)
        factor = len(assigned)
    if sorted(new.assignment) != list(range(len(new.assignment))):
        raise InvalidReplicaAssignment("partitions should be a consecutive 0-based integer sequence")
    return replicas


def check_size(count: int) -> None:
    """Raise `PolicyViolation` if a request adds too many partitions."""
    if count > MAX_PARTITIONS_PER_REQUEST:
        raise PolicyViolation("Excessively large number of partitions per request.")


def added_partitions(
    state: State,
    name: str,
    count: int,
    assignments: Sequence[Sequence[int]] | None,
    charge: Callable[[int], object] | None = None,
) -> list[Record]:
    """Return the records that add partitions to a topic (CreatePartitions). Raise if that is invalid.

    `charge` is called with the number of new partitions, and can reject them.
    """
    topic = state.topics.get(name)
    if topic is None:
        raise UnknownTopicOrPartition
    known = len(topic.partitions)
    if count == known:
        raise InvalidPartitions(f"Topic already has {known} partition(s).")
    if count < known:
        raise InvalidPartitions(
            f"The topic {name} currently has {known} partition(s); {count} would not be an increase."
        )
    factor = len(topic.partitions[0].replicas)
    if assignments is not None and len(assignments) != count - known:
        raise InvalidReplicaAssignment(
            f"Attempted to add {count - known} additional partition(s), but only {len(assignments)} "
            "assignment(s) were specified."
        )
    if charge is not None:
        charge(count - known)
    if assignments is None:
        replicas = placed(state, count - known, factor)
    else:
        replicas = [tuple(assigned) for assigned in assignments]
        for assigned in replicas:
            check_assignment(assigned, state.brokers, factor)
    return [
        PartitionSet(name, number, new_partition(state, assigned))
        for number, assigned in enumerate(replicas, known)
    ]
