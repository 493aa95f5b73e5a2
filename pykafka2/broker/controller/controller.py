"""The active controller: decides, writes to the metadata log, publishes.

Belongs to one controller epoch; once that has ended, every change raises `NotController` and changes nothing.
Access requires the cluster's lock; calls are serialized.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

import attrs

from pykafka2.broker.base.image import (
    NO_LEADER,
    TOPIC_RESOURCE,
    BrokerImage,
    ClusterImage,
    PartitionImage,
    TopicImage,
)
from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.controller.metadata.image import Changes
from pykafka2.broker.controller.metadata.log import MetadataLog
from pykafka2.broker.controller.metadata.records import (
    config_changes,
    partition_of,
    registration_changes,
)
from pykafka2.broker.controller.partition_changes import (
    NO_BROKER,
    changed,
    completed,
    elect,
    eligible_after,
    min_isr_of,
    moved,
)
from pykafka2.broker.controller.topics import NewTopic, new_topic
from pykafka2.clock import Entropy
from pykafka2.errors import (
    BrokerError,
    BrokerIdNotRegistered,
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidReplicaAssignment,
    InvalidRequest,
    InvalidUpdateVersion,
    NotController,
    NotLeaderOrFollower,
    TopicDeletionDisabled,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from pykafka2.protocol.messages.metadata_records import (
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from pykafka2.protocol.primitives import uuid_to_text
from pykafka2.protocol.struct import MetadataRecord


def assigned(partition: PartitionImage, broker_id: int, directory: bytes) -> PartitionImage:
    """Return the image with another directory of one replica, or the same object if it is known."""
    if partition.directory_of(broker_id) == directory:
        return partition
    directories = tuple(
        directory if replica == broker_id else partition.directory_of(replica)
        for replica in partition.replicas
    )
    return attrs.evolve(partition, directories=directories, partition_epoch=partition.partition_epoch + 1)


logger = logging.getLogger(__name__)

PRODUCER_ID_BLOCK: Final = 1000

Publish = Callable[[ClusterImage, Changes], None]
"""Callback: (new image, changed topics); None for a deleted topic."""


@attrs.define(frozen=True)
class IsrChange:
    """An ISR that a leader requests for a partition, with its leader epoch and partition epoch.

    `isr` maps replicas to broker epochs as the leader knows them (KIP-903), -1 if unknown.
    """

    topic_id: bytes
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: Mapping[int, int]


class Controller:
    """Decides and publishes in one controller epoch."""

    def __init__(
        self, controller_id: int, log: MetadataLog, config: BrokerConfig, entropy: Entropy, publish: Publish
    ) -> None:
        self.id = controller_id
        self.log = log
        self.config = config
        self._entropy = entropy
        self._publish = publish
        self.epoch = log.begin_epoch(controller_id)
        self.state = log.state

    def __repr__(self) -> str:
        return f"<controller {self.id} in epoch {self.epoch}>"

    @property
    def image(self) -> ClusterImage:
        return self.state.image

    def check(self) -> None:
        """Raise `NotController` if this controller's epoch has ended."""
        self.log.check(self.epoch)

    def publish_all(self) -> None:
        """Publish the whole state to every broker, as a new controller does."""
        self._publish(self.state.image, dict(self.state.topics))

    def write(self, records: Sequence[MetadataRecord]) -> None:
        """Write all of these records or, if this controller's epoch has ended, none (`NotController`)."""
        if records:
            changed_topics = self.log.append(records, self.epoch)
            self._publish(self.state.image, changed_topics)

    # ------------------------------------------------------------------ brokers

    def register_broker(self, broker_id: int, host: str, port: int, rack: str | None) -> int:
        """Register a broker that has started. Return its epoch; partitions without a leader can get one."""
        epoch = self.log.end_offset
        broker = BrokerImage(broker_id, host, port, rack, epoch, is_fenced=False)
        self.set_broker(broker)
        return epoch

    def fence_broker(self, broker_id: int) -> None:
        """Fence a broker whose session has expired; its leaderships move."""
        broker = self.state.brokers.get(broker_id)
        if broker is not None and (not broker.is_fenced or broker_id in self.leaders()):
            self.set_broker(attrs.evolve(broker, is_fenced=True))

    def leaders(self) -> set[int]:
        """Return the brokers that lead a partition. After a start of all brokers they can be fenced."""
        return {
            partition.leader for topic in self.state.topics.values() for partition in topic.partitions
        } - {NO_LEADER}

    def unregister_broker(self, broker_id: int) -> None:
        """Remove a broker's registration (UnregisterBroker); its leaderships move. It can register again."""
        if broker_id not in self.state.brokers:
            raise BrokerIdNotRegistered(f"Broker ID {broker_id} is not currently registered")
        self.fence_broker(broker_id)
        epoch = self.state.brokers[broker_id].epoch
        self.write([UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=epoch)])

    def set_broker(self, broker: BrokerImage) -> None:
        """Change a registration and the partitions that depend on it in one write."""
        may_lead = not broker.is_fenced and not broker.is_shutting_down

        def is_affected(partition: PartitionImage) -> bool:
            if may_lead:
                return partition.leader == NO_LEADER and broker.id in partition.replicas
            return broker.id in partition.isr or partition.leader == broker.id

        self.write([*self._registered(broker), *self._elections(is_affected, self._image_with(broker))])

    def _registered(self, broker: BrokerImage) -> list[MetadataRecord]:
        known = self.state.registrations.get(broker.id)
        return registration_changes(broker, known, self.state.supported)

    def return_broker(self, broker: BrokerImage) -> None:
        """Register a fenced broker again. If it leads partitions since before a start, they begin an epoch.

        Those in a log directory that has failed meanwhile get another leader.
        """
        image = self._image_with(broker)

        def is_lost(partition: PartitionImage) -> bool:
            return partition.leader == broker.id and not image.has_directory(partition, broker.id)

        begun = [
            changed(
                self.state,
                topic,
                number,
                attrs.evolve(
                    partition,
                    leader_epoch=partition.leader_epoch + 1,
                    partition_epoch=partition.partition_epoch + 1,
                ),
            )
            for topic in self.state.topics.values()
            for number, partition in enumerate(topic.partitions)
            if partition.leader == broker.id and not is_lost(partition)
        ]
        self.write([*self._registered(broker), *begun, *self._elections(is_lost, image)])

    def fail_directories(self, broker_id: int, failed: Collection[bytes]) -> None:
        """Take log directories of a broker offline: its replicas there leave the ISRs, and others lead.

        Directories that are not registered, or offline already, are ignored (KIP-858). So are the last ones:
        a broker without any is fenced.
        """
        broker = self.state.brokers[broker_id]
        left = tuple(directory for directory in broker.directories if directory not in failed)
        if not left or left == broker.directories:
            return
        logger.warning(
            "Log directories of broker %d are offline: %s",
            broker_id,
            ", ".join(uuid_to_text(directory) for directory in broker.directories if directory in failed),
        )
        new = attrs.evolve(broker, directories=left)

        def is_affected(partition: PartitionImage) -> bool:
            return broker_id in partition.isr and partition.directory_of(broker_id) in failed

        self.write([*self._elections(is_affected, self._image_with(new)), *self._registered(new)])

    def _image_with(self, broker: BrokerImage) -> ClusterImage:
        """Return the image with another registration of a broker."""
        return attrs.evolve(self.image, brokers={**self.image.brokers, broker.id: broker})

    def elect_leaderless(self) -> None:
        """Retry elections of partitions without a leader: unclean election can be enabled by now."""
        self.write(self._elections(lambda partition: partition.leader == NO_LEADER, self.image))

    def lose_broker(self, broker: BrokerImage) -> None:
        """Register a broker, fenced, that was shut down uncleanly: it can miss records that it had.

        It leaves the ISRs and the eligible leader replicas, as in Kafka.
        """

        def is_affected(partition: PartitionImage) -> bool:
            return broker.id in (*partition.isr, *partition.elr, partition.leader)

        elections = self._elections(is_affected, self._image_with(broker), lost=broker.id)
        self.write([*self._registered(broker), *elections])

    def _elections(
        self, is_affected: Callable[[PartitionImage], bool], image: ClusterImage, *, lost: int = NO_BROKER
    ) -> list[MetadataRecord]:
        """Return the records that update ISR and leader of the affected partitions."""
        records: list[MetadataRecord] = []
        for topic in self.state.topics.values():
            unclean = bool(topic.config.get("unclean.leader.election.enable"))
            min_isr = min_isr_of(topic, image)
            for number, partition in enumerate(topic.partitions):
                if is_affected(partition):
                    eligible = image.eligible_in(partition)
                    elected = elect(partition, eligible, unclean=unclean, min_isr=min_isr, lost=lost)
                    if elected is not partition:
                        records.append(changed(self.state, topic, number, elected))
        return records

    # ------------------------------------------------------------------ topics

    def create_topic(
        self, new: NewTopic, *, validate_only: bool = False, charge: Callable[[int], object] | None = None
    ) -> TopicImage:
        """Create a topic. Raise if it is invalid, or if `charge`, called with its partitions, raises."""
        topic, partitions = new_topic(self.state, self.config, new, self.new_id())
        if charge is not None:
            charge(len(partitions))
        if validate_only:
            return attrs.evolve(topic, partitions=tuple(map(partition_of, partitions)))
        options = config_changes(TOPIC_RESOURCE, topic.name, {}, topic.config.overrides)
        self.write([TopicRecord(name=topic.name, topic_id=topic.id), *options, *partitions])
        return self.state.topics[topic.name]

    def delete_topic(self, name: str, charge: Callable[[int], object] | None = None) -> None:
        """Delete a topic; `charge` is called with the number of its partitions, and can reject it."""
        if not self.config.get("delete.topic.enable"):
            raise TopicDeletionDisabled
        topic = self.state.topics.get(name)
        if topic is None:
            raise UnknownTopicOrPartition(f"topic {name!r} does not exist")
        if charge is not None:
            charge(len(topic.partitions))
        self.write([RemoveTopicRecord(topic_id=topic.id)])

    # ------------------------------------------------------------------ partitions

    def alter_partitions(self, leader: int, changes: Iterable[IsrChange]) -> list[BrokerError | None]:
        """Apply ISR changes of a leader (AlterPartition). Return for each why it was rejected, or None."""
        refusals: list[BrokerError | None] = []
        records: list[MetadataRecord] = []
        for change in changes:
            try:
                topic = self.state.image.topic_by_id(change.topic_id)
                if topic is None:
                    raise UnknownTopicId
                image = self._altered(leader, topic, change)
                records.append(changed(self.state, topic, change.partition, image))
            except BrokerError as error:
                refusals.append(error)
            else:
                refusals.append(None)
        self.write(records)
        return refusals

    def _altered(self, leader: int, topic: TopicImage, change: IsrChange) -> PartitionImage:
        # The order of the checks is that of Kafka's ReplicationControlManager.validateAlterPartitionData.
        image = self.partition(topic.name, change.partition)
        where = f"{topic.name}-{change.partition}"
        if change.leader_epoch > image.leader_epoch or change.partition_epoch > image.partition_epoch:
            raise NotController(
                f"{where} is at leader epoch {image.leader_epoch} here, older than the requester's"
            )
        if change.leader_epoch < image.leader_epoch:
            raise FencedLeaderEpoch(f"{where} is at leader epoch {image.leader_epoch}")
        if image.leader != leader:
            raise InvalidRequest(f"broker {leader} does not lead {where}")
        if image.partition_epoch != change.partition_epoch:
            raise InvalidUpdateVersion(f"{where} is at partition epoch {image.partition_epoch}")
        if leader not in change.isr or not set(change.isr) <= set(image.replicas):
            raise InvalidRequest(f"{sorted(change.isr)} cannot be in sync in {where}")
        for replica, epoch in sorted(change.isr.items()):
            if not self._may_be_in_sync(image, replica, epoch):
                raise IneligibleReplica(
                    f"broker {replica} is fenced, shutting down, has another epoch or a failed directory"
                )
        # In the leader's order, as in Kafka's controller: tools print it.
        isr, min_isr = tuple(change.isr), min_isr_of(topic, self.image)
        altered = attrs.evolve(
            image,
            isr=isr,
            elr=eligible_after(image, isr, min_isr),
            partition_epoch=image.partition_epoch + 1,
        )
        if not image.is_reassigned:
            return altered
        return completed(altered, self.image.eligible_in(altered), min_isr)

    def _may_be_in_sync(self, partition: PartitionImage, replica: int, epoch: int) -> bool:
        broker = self.state.brokers.get(replica)
        return broker is not None and self.image.may_lead(partition, replica) and epoch in (-1, broker.epoch)

    def assign_directories(
        self, broker_id: int, assignments: Iterable[tuple[bytes, int, bytes]]
    ) -> list[BrokerError | None]:
        """Store the log directories of a broker's replicas: topic id, partition, directory id (KIP-858).

        A replica in a directory that has failed leaves the ISR, and another one leads. Return for each the
        error that rejected it, or None.
        """
        refusals: list[BrokerError | None] = []
        records: list[MetadataRecord] = []
        for topic_id, number, directory in assignments:
            topic = self.state.image.topic_by_id(topic_id)
            if topic is None:
                refusals.append(UnknownTopicId())
                continue
            if not 0 <= number < len(topic.partitions):
                refusals.append(UnknownTopicOrPartition())
                continue
            known = topic.partitions[number]
            if broker_id not in known.replicas:
                refusals.append(NotLeaderOrFollower())
                continue
            refusals.append(None)
            image = assigned(known, broker_id, directory)
            if image is known:
                continue
            records.append(changed(self.state, topic, number, image))
            if not self.image.has_directory(image, broker_id):
                unclean = bool(topic.config.get("unclean.leader.election.enable"))
                eligible, min_isr = self.image.eligible_in(image), min_isr_of(topic, self.image)
                elected = elect(image, eligible, unclean=unclean, min_isr=min_isr)
                if elected is not image:
                    records.append(changed(self.state, topic, number, elected, before=image))
        self.write(records)
        return refusals

    def move_leader(self, topic: str, partition: int, to: int, *, unclean: bool = True) -> PartitionImage:
        """Make another replica the leader.

        If it is not in sync, it becomes the whole ISR, or is rejected.
        """
        image = self.partition(topic, partition)
        if to not in image.replicas:
            raise InvalidReplicaAssignment(
                f"broker {to} is not a replica of {topic}-{partition}, which has {list(image.replicas)}"
            )
        if not self.image.may_lead(image, to):
            raise IneligibleReplica(f"broker {to} is not running, or the log directory has failed")
        if to not in image.isr and not unclean:
            raise IneligibleReplica(f"broker {to} is not in the ISR {list(image.isr)} of {topic}-{partition}")
        after = moved(image, to, image.isr if to in image.isr else (to,))
        if to not in image.isr:
            after = attrs.evolve(after, elr=())
        if after.last_known_elr:
            after = attrs.evolve(after, last_known_elr=())
        self.write([changed(self.state, self.state.topics[topic], partition, after)])
        return after

    def partition(self, topic: str, partition: int) -> PartitionImage:
        image = self.image.partition(topic, partition)
        if image is None:
            raise UnknownTopicOrPartition(f"partition {topic}-{partition} does not exist")
        return image

    # ------------------------------------------------------------------ ids

    def new_id(self) -> bytes:
        """Return an id for a topic or an ACL."""
        return self._entropy.token_bytes(16)

    def allocate_producer_ids(self) -> range:
        """Return a block of producer ids that is never allocated again (AllocateProducerIds)."""
        first = self.state.next_producer_id
        self.write([ProducerIdsRecord(broker_id=NO_BROKER, next_producer_id=first + PRODUCER_ID_BLOCK)])
        return range(first, first + PRODUCER_ID_BLOCK)
