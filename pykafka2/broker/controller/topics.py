"""New topics and partitions: validation with Kafka's messages, placement, and the resulting records.

Pure functions over the controller's state and the registered brokers. As in Kafka's StripedReplicaPlacer,
successive partitions get leaders round-robin over the live brokers, and each round shifts the followers by
one more, so that the load of a lost broker spreads over all others. A partition's replicas use as many racks
as possible. Within a rack live brokers come first; fenced ones get replicas only if there are too few others.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Final
from zlib import crc32

import attrs

from pykafka2.broker.base.image import (
    INTERNAL_TOPICS,
    METADATA_TOPIC,
    UNASSIGNED,
    BrokerImage,
    TopicImage,
    check_topic_name,
    collision,
)
from pykafka2.broker.config.configs import BrokerConfig, TopicConfig
from pykafka2.broker.controller.metadata.image import MetadataImage
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
from pykafka2.protocol.messages.metadata_records import PartitionRecord


@attrs.define(frozen=True)
class Host:
    """A broker that can host replicas."""

    id: int
    rack: str | None = None
    is_live: bool = True


def first_host(seed: int | str) -> int:
    """Return the host at which a cluster with that seed starts."""
    return seed if isinstance(seed, int) else crc32(seed.encode())


def place(
    hosts: Sequence[Host], partitions: int, replication_factor: int, start: int
) -> list[tuple[int, ...]]:
    """Return the replicas of each partition, the preferred leader first.

    `start` is the first leader's position.

    Require at least one live host, and as many hosts as replicas.
    """
    live = _striped([host for host in hosts if host.is_live])
    others = _striped([host for host in hosts if not host.is_live])
    by_rack = len({host.rack for host in hosts}) > 1
    count = len(live)
    placed: list[tuple[int, ...]] = []
    for partition in range(partitions):
        leader = (start + partition) % count
        # The number of completed rounds shifts the followers.
        shift = (partition // count) % max(count - 1, 1)
        # Only racks make a difference beyond as many followers as are needed.
        first = count - 1 if by_rack else min(count, replication_factor) - 1
        followers = [live[(leader + 1 + (shift + n) % (count - 1)) % count] for n in range(first)]
        followers += others
        if by_rack:
            followers = _spread(live[leader], followers, replication_factor - 1)
        chosen = (live[leader], *followers[: replication_factor - 1])
        placed.append(tuple(host.id for host in chosen))
    return placed


def _striped(hosts: Sequence[Host]) -> list[Host]:
    """Return one host of each rack in turn; racks are sorted by name, hosts by id."""
    racks: dict[str, list[Host]] = {}
    for host in sorted(hosts, key=lambda host: (host.rack or "", host.id)):
        racks.setdefault(host.rack or "", []).append(host)
    depth = max(map(len, racks.values()), default=0)
    return [rack[level] for level in range(depth) for rack in racks.values() if level < len(rack)]


def _spread(leader: Host, candidates: Sequence[Host], count: int) -> list[Host]:
    """Return `count` candidates, each from one of the racks used least so far."""
    used: dict[str | None, int] = {leader.rack: 1}
    left = list(candidates)
    chosen: list[Host] = []
    for _ in range(count):
        best = min(left, key=lambda host: used.get(host.rack, 0))
        left.remove(best)
        used[best.rack] = used.get(best.rack, 0) + 1
        chosen.append(best)
    return chosen


def check_assignment(replicas: Sequence[int], brokers: Container[int], factor: int | None = None) -> None:
    """Raise `InvalidReplicaAssignment` unless a partition can have these replicas.

    `factor` is the number of replicas of the topic's other partitions.
    """
    if not replicas:
        raise InvalidReplicaAssignment("The manual partition assignment includes an empty replica list.")
    for replica in sorted(replicas):
        if replica not in brokers:
            raise InvalidReplicaAssignment(
                f"The manual partition assignment includes broker {replica}, "
                "but no such broker is registered."
            )
    duplicate = next((replica for replica in sorted(replicas) if replicas.count(replica) > 1), None)
    if duplicate is not None:
        raise InvalidReplicaAssignment(
            f"The manual partition assignment includes the broker {duplicate} more than once."
        )
    if factor is not None and len(replicas) != factor:
        raise InvalidReplicaAssignment(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this "
            f"is not consistent with previous partitions, which have {factor} replica(s)."
        )


def new_partitions(
    state: MetadataImage, topic_id: bytes, first: int, placed: Iterable[Sequence[int]]
) -> list[PartitionRecord]:
    """Return records of partitions from number `first` on, each led by the first eligible of its replicas.

    Raise if none is eligible.
    """
    eligible = {broker_id for broker_id in state.brokers if state.image.is_eligible(broker_id)}
    directories = {broker_id: only_directory(broker) for broker_id, broker in state.brokers.items()}
    partitions = []
    for number, replicas in enumerate(placed, first):
        isr = [replica for replica in replicas if replica in eligible]
        if not isr:
            raise InvalidReplicaAssignment(
                "All brokers specified in the manual partition assignment "
                f"for {list(replicas)} are fenced or in controlled shutdown."
            )
        partitions.append(
            PartitionRecord(
                partition_id=number,
                topic_id=topic_id,
                replicas=[*replicas],
                isr=isr,
                removing_replicas=[],
                adding_replicas=[],
                leader=isr[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=[directories[replica] for replica in replicas],
            )
        )
    return partitions


def only_directory(broker: BrokerImage | None) -> bytes:
    """Return the log directory of a broker with a single one.

    As in Kafka, new replicas there are in it; any other broker reports its choice.
    """
    if broker is None or len(broker.directories) != 1:
        return UNASSIGNED
    return broker.directories[0]


def placed(state: MetadataImage, partitions: int, factor: int) -> list[tuple[int, ...]]:
    """Place new partitions on brokers; live brokers lead, continuing the round-robin of earlier topics."""
    hosts = [
        Host(broker.id, broker.rack, state.image.is_eligible(broker.id)) for broker in state.brokers.values()
    ]
    if not any(host.is_live for host in hosts):
        raise InvalidReplicationFactor(
            f"Unable to replicate the partition {factor} time(s): All brokers are currently fenced or have "
            "all their log directories cordoned."
        )
    if factor > len(hosts):
        raise InvalidReplicationFactor(
            f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} "
            f"cannot be reached because only {len(hosts)} broker(s) are registered or some brokers have all "
            "their log directories cordoned."
        )
    return place(hosts, partitions, factor, state.next_host)


DEFAULT: Final = -1


@attrs.define(frozen=True)
class NewTopic:
    """A request for a topic: -1 uses the brokers' default; `assignment` replaces both numbers."""

    name: str
    partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    configs: Mapping[str, object] = attrs.field(factory=dict)
    assignment: Mapping[int, tuple[int, ...]] = attrs.field(factory=dict)


MAX_PARTITIONS_PER_REQUEST: Final = 10_000


def new_topic(
    state: MetadataImage, config: BrokerConfig, new: NewTopic, topic_id: bytes
) -> tuple[TopicImage, list[PartitionRecord]]:
    """Return a topic as it would be created, and its partitions. Raise if the request is invalid."""
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
    topic = TopicImage(new.name, topic_id, (), topic_config, new.name in INTERNAL_TOPICS)
    return topic, new_partitions(state, topic_id, 0, replicas)


def _placed(state: MetadataImage, config: BrokerConfig, new: NewTopic) -> list[tuple[int, ...]]:
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


def _assigned(state: MetadataImage, new: NewTopic) -> list[tuple[int, ...]]:
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
    state: MetadataImage,
    name: str,
    count: int,
    assignments: Sequence[Sequence[int]] | None,
    charge: Callable[[int], object] | None = None,
) -> list[PartitionRecord]:
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
    return new_partitions(state, topic.id, known, replicas)
