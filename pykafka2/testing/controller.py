"""The controller: which topics there are, where their replicas live, who leads them.

One for the cluster, in the process (step 2 elects one among the brokers; brokers already reach it only
through the calls named after Kafka's messages).  Every change makes a new `ClusterImage`, handed to all
live brokers at once.  All calls come under the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import attrs

from pykafka2.clock import Entropy
from pykafka2.errors import (
    BrokerError,
    IneligibleReplica,
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidTopicException,
    InvalidUpdateVersion,
    NotLeaderOrFollower,
    TopicAlreadyExists,
    TopicDeletionDisabled,
    UnknownTopicOrPartition,
)
from pykafka2.testing.configs import BrokerConfig, TopicConfig
from pykafka2.testing.features import LATEST
from pykafka2.testing.image import NO_LEADER, BrokerImage, ClusterImage, PartitionImage, TopicImage
from pykafka2.testing.placement import place
from pykafka2.testing.topic_names import INTERNAL_TOPICS, check_topic_name, collision

PRODUCER_ID_BLOCK: Final = 1000

Publish = Callable[[ClusterImage, "Mapping[str, TopicImage | None]"], None]
"""Told the new image and the topics that changed (None: deleted)."""


@attrs.define(frozen=True)
class NewTopic:
    """What is asked for: -1 takes the brokers' default; `assignment` replaces both numbers."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, object] = attrs.field(factory=dict)
    assignment: Mapping[int, tuple[int, ...]] = attrs.field(factory=dict)


@attrs.define(frozen=True)
class IsrChange:
    """What a leader wants a partition's ISR to be, as of a partition epoch."""

    topic: str
    partition: int
    partition_epoch: int
    isr: frozenset[int]


class Controller:
    """Decides and publishes."""

    def __init__(
        self,
        cluster_id: str,
        config: BrokerConfig,
        entropy: Entropy,
        publish: Publish,
        features: Mapping[str, int] = LATEST,
    ) -> None:
        self._config = config
        self._entropy = entropy
        self._publish = publish
        self._brokers: dict[int, BrokerImage] = {}
        self._topics: dict[str, TopicImage] = {}
        self._broker_epochs = 0
        self._next_producer_id = 0
        self._next_leader = 0
        self.image = ClusterImage(0, cluster_id, -1, {}, {}, {}, features)

    # ------------------------------------------------------------------ brokers

    def register_broker(self, broker_id: int, host: str, port: int, rack: str | None) -> int:
        """A broker has started; its broker epoch.  Partitions that waited for it get a leader."""
        self._broker_epochs += 1
        self._brokers[broker_id] = BrokerImage(
            broker_id, host, port, rack, self._broker_epochs, is_fenced=False
        )
        self._reelect(lambda partition: partition.leader == NO_LEADER)
        return self._broker_epochs

    def broker_is_gone(self, broker_id: int) -> None:
        """A broker's session has ended: it is fenced, its leaderships move (rules 68 and 74)."""
        broker = self._brokers.get(broker_id)
        if broker is None or broker.is_fenced:
            return
        self._brokers[broker_id] = attrs.evolve(broker, is_fenced=True)
        self._reelect(lambda partition: broker_id in partition.isr or partition.leader == broker_id)

    def _reelect(self, affected: Callable[[PartitionImage], bool]) -> None:
        changed: dict[str, TopicImage] = {}
        for topic in self._topics.values():
            unclean = bool(topic.config.get("unclean.leader.election.enable"))
            partitions = tuple(
                self._elect(partition, unclean=unclean) if affected(partition) else partition
                for partition in topic.partitions
            )
            if partitions != topic.partitions:
                changed[topic.name] = attrs.evolve(topic, partitions=partitions)
        self._apply(changed)

    def _elect(self, partition: PartitionImage, *, unclean: bool) -> PartitionImage:
        """Drop fenced replicas from the ISR and find a leader among the rest (never the last one out)."""
        alive = tuple(replica for replica in partition.isr if self._is_alive(replica))
        isr = alive or partition.isr
        if partition.leader in alive:
            leader = partition.leader
        else:
            candidates = [replica for replica in partition.replicas if replica in alive]
            if not candidates and unclean:
                candidates = [replica for replica in partition.replicas if self._is_alive(replica)]
                isr = tuple(candidates[:1]) or isr
            leader = candidates[0] if candidates else NO_LEADER
        if leader == partition.leader and isr == partition.isr:
            return partition
        return _moved(partition, leader, isr)

    # ------------------------------------------------------------------ topics

    def create_topic(self, new: NewTopic, *, validate_only: bool = False) -> TopicImage:
        """Create a topic, or raise why not (rules 71 and 72)."""
        check_topic_name(new.name)
        if new.name in self._topics:
            raise TopicAlreadyExists(f"Topic '{new.name}' already exists.")
        alike = collision(new.name, self._topics)
        if alike is not None:
            raise InvalidTopicException(f"Topic '{new.name}' collides with existing topic: {alike}")
        replicas = self._assigned(new) if new.assignment else self._placed(new)
        config = TopicConfig(new.configs, self._config)
        if config.given.get("remote.storage.enable") == "true":
            raise InvalidConfig("remote.storage.enable needs tiered storage, which this broker has not")
        partitions = tuple(self._new_partition(assigned) for assigned in replicas)
        topic_id = self._entropy.token_bytes(16)
        topic = TopicImage(new.name, topic_id, partitions, config, new.name in INTERNAL_TOPICS)
        if not validate_only:
            self._next_leader += len(partitions)
            self._apply({topic.name: topic})
        return topic

    def delete_topic(self, name: str) -> None:
        if not self._config.get("delete.topic.enable"):
            raise TopicDeletionDisabled
        if name not in self._topics:
            raise UnknownTopicOrPartition(f"there is no topic {name!r}")
        self._apply({name: None})

    def _placed(self, new: NewTopic) -> list[tuple[int, ...]]:
        count = self._config.int("num.partitions") if new.partitions == -1 else new.partitions
        if count <= 0:
            raise InvalidPartitions("Number of partitions was set to an invalid non-positive value.")
        alive = sorted(broker.id for broker in self._brokers.values() if not broker.is_fenced)
        factor = new.replication_factor
        if factor == -1:
            factor = self._config.int("default.replication.factor")
            if factor == -1:
                factor = min(3, len(self._brokers))
        if factor <= 0:
            raise InvalidReplicationFactor("Replication factor must be larger than 0.")
        if factor > len(alive):
            raise InvalidReplicationFactor(
                f"Unable to replicate the partition {factor} time(s): The target replication factor of "
                f"{factor} cannot be reached because only {len(alive)} broker(s) are registered."
            )
        return place(alive, count, factor, self._next_leader)

    def _assigned(self, new: NewTopic) -> list[tuple[int, ...]]:
        if new.partitions != -1 or new.replication_factor != -1:
            raise InvalidReplicaAssignment(
                "with a manual assignment neither partitions nor replication factor may be given"
            )
        if sorted(new.assignment) != list(range(len(new.assignment))):
            raise InvalidReplicaAssignment("partitions should be a consecutive 0-based integer sequence")
        replicas = [tuple(new.assignment[partition]) for partition in range(len(new.assignment))]
        for assigned in replicas:
            if not assigned or len(set(assigned)) != len(assigned) or len(assigned) != len(replicas[0]):
                raise InvalidReplicaAssignment(f"replicas {list(assigned)} are not a legal assignment")
            unknown = [replica for replica in assigned if replica not in self._brokers]
            if unknown:
                raise InvalidReplicaAssignment(
                    f"The manual partition assignment includes broker {unknown[0]}, "
                    "but no such broker is registered."
                )
        return replicas

    def _new_partition(self, replicas: tuple[int, ...]) -> PartitionImage:
        isr = tuple(replica for replica in replicas if self._is_alive(replica))
        return PartitionImage(replicas, isr or replicas[:1], isr[0] if isr else NO_LEADER)

    # ------------------------------------------------------------------ partitions

    def alter_partitions(self, leader: int, changes: Iterable[IsrChange]) -> list[BrokerError | None]:
        """A leader changes ISRs (AlterPartition, rule 66); for each change why it was refused, or None."""
        refusals: list[BrokerError | None] = []
        changed: dict[str, dict[int, PartitionImage]] = {}
        for change in changes:
            try:
                altered = self._altered(leader, change)
            except BrokerError as error:
                refusals.append(error)
                continue
            refusals.append(None)
            changed.setdefault(change.topic, {})[change.partition] = altered
        if changed:
            self._apply({topic: self._with(topic, partitions) for topic, partitions in changed.items()})
        return refusals

    def _altered(self, leader: int, change: IsrChange) -> PartitionImage:
        image = self.partition(change.topic, change.partition)
        where = f"{change.topic}-{change.partition}"
        if image.leader != leader:
            raise NotLeaderOrFollower(f"broker {leader} does not lead {where}")
        if image.partition_epoch != change.partition_epoch:
            raise InvalidUpdateVersion(f"{where} is at partition epoch {image.partition_epoch}")
        fenced = [replica for replica in change.isr if not self._is_alive(replica)]
        if fenced:
            raise IneligibleReplica(f"broker {fenced[0]} is fenced")
        ordered = tuple(replica for replica in image.replicas if replica in change.isr)
        return attrs.evolve(image, isr=ordered, partition_epoch=image.partition_epoch + 1)

    def move_leader(self, topic: str, partition: int, to: int) -> PartitionImage:
        """Let another replica lead; one that is not in sync becomes the whole ISR (an unclean election)."""
        image = self.partition(topic, partition)
        if to not in image.replicas:
            raise InvalidReplicaAssignment(
                f"broker {to} has no replica of {topic}-{partition}; those are on {list(image.replicas)}"
            )
        if not self._is_alive(to):
            raise IneligibleReplica(f"broker {to} is not running")
        changed = _moved(image, to, image.isr if to in image.isr else (to,))
        self._apply({topic: self._with(topic, {partition: changed})})
        return changed

    def partition(self, topic: str, partition: int) -> PartitionImage:
        image = self.image.partition(topic, partition)
        if image is None:
            raise UnknownTopicOrPartition(f"there is no partition {topic}-{partition}")
        return image

    def _with(self, topic: str, changed: Mapping[int, PartitionImage]) -> TopicImage:
        image = self._topics[topic]
        partitions = tuple(changed.get(number, known) for number, known in enumerate(image.partitions))
        return attrs.evolve(image, partitions=partitions)

    # ------------------------------------------------------------------ the rest

    def allocate_producer_ids(self) -> range:
        """A block of producer ids, never given out again (AllocateProducerIds, rule 36)."""
        first = self._next_producer_id
        self._next_producer_id += PRODUCER_ID_BLOCK
        return range(first, first + PRODUCER_ID_BLOCK)

    def _is_alive(self, broker_id: int) -> bool:
        broker = self._brokers.get(broker_id)
        return broker is not None and not broker.is_fenced

    def _apply(self, changed: Mapping[str, TopicImage | None]) -> None:
        """Make and publish the image with these topics changed (None: deleted)."""
        topics = self._topics = dict(self._topics)
        names = dict(self.image.topic_names)
        for name, topic in changed.items():
            if topic is None:
                names.pop(topics.pop(name).id, None)
            else:
                topics[name] = topic
                names[topic.id] = name
        alive = [broker.id for broker in self._brokers.values() if not broker.is_fenced]
        self.image = ClusterImage(
            self.image.version + 1,
            self.image.cluster_id,
            # Clients may ask any broker for anything (rule 69), so any live one serves as "the controller".
            min(alive, default=-1),
            dict(self._brokers),
            topics,
            names,
            self.image.features,
        )
        self._publish(self.image, changed)


def _moved(partition: PartitionImage, leader: int, isr: tuple[int, ...]) -> PartitionImage:
    """A change of leader begins a new leader epoch; a change of the ISR alone does not."""
    bump = leader != partition.leader
    return attrs.evolve(
        partition,
        leader=leader,
        isr=isr,
        leader_epoch=partition.leader_epoch + bump,
        partition_epoch=partition.partition_epoch + 1,
    )
