"""The controller by itself: elections, epochs, images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs
import pytest

from pykafka2.broker.base.image import UNASSIGNED, ClusterImage, Endpoint, PartitionImage, TopicImage
from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.controller import Controller, IsrChange, NewTopic
from pykafka2.broker.controller.control.brokers import Registration, register
from pykafka2.broker.controller.metadata.log import SNAPSHOT_AFTER, MetadataLog
from pykafka2.broker.controller.metadata.records import quota_record
from pykafka2.clock import SeededEntropy
from pykafka2.errors import (
    BrokerError,
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidReplicaAssignment,
    InvalidRequest,
    InvalidUpdateVersion,
    NotController,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from pykafka2.protocol.struct import MetadataRecord
from tests.broker.controller.metadata.metadata_changes import allocated, new_state


class Published:
    """A controller with three brokers and a topic, and the images that it published."""

    def __init__(self, **configs: object) -> None:
        self.images: list[tuple[ClusterImage, Mapping[str, TopicImage | None]]] = []
        self.controller = Controller(
            0,
            MetadataLog(new_state()),
            BrokerConfig(),
            SeededEntropy(1),
            lambda image, changed: self.images.append((image, changed)),
        )
        for broker in range(3):
            self.controller.register_broker(broker, "host", 9092 + broker, None)
        self.controller.create_topic(NewTopic("t", assignment={0: (0, 1, 2)}, configs=configs))

    @property
    def partition(self) -> PartitionImage:
        return self.controller.partition("t", 0)


@pytest.fixture
def published() -> Published:
    return Published()


def test_every_change_is_published_with_a_higher_version(published: Published) -> None:
    versions = [image.version for image, _ in published.images]
    assert versions == sorted(set(versions))
    image, changed = published.images[-1]
    assert set(changed) == {"t"}
    assert image.topic_by_id(image.topics["t"].id) is image.topics["t"]


def test_first_live_replica_in_the_isr_becomes_the_leader(published: Published) -> None:
    def expected(isr: tuple[int, ...], leader: int, leader_epoch: int, epoch: int) -> PartitionImage:
        unassigned = (UNASSIGNED,) * 3
        image = PartitionImage((0, 1, 2), isr, leader, leader_epoch, epoch, directories=unassigned)
        return image if isr else attrs.evolve(image, elr=(1,), last_known_elr=(1,))

    published.controller.fence_broker(0)
    assert published.partition == expected((1, 2), 1, 1, 1)
    published.controller.fence_broker(2)
    # The loss of a follower starts no new leader epoch.
    assert published.partition == expected((1,), 1, 1, 2)
    published.controller.fence_broker(1)
    assert published.partition == expected((), -1, 2, 3)


def test_registered_broker_gets_a_new_epoch_and_leads_only_if_in_the_isr(published: Published) -> None:
    before = published.controller.image.brokers[0].epoch
    for broker in (0, 2, 1):
        published.controller.fence_broker(broker)
    assert published.controller.register_broker(0, "host", 9092, None) > before
    assert published.partition.leader == -1
    published.controller.register_broker(1, "host", 9093, None)
    assert (published.partition.leader, published.partition.isr) == (1, (1,))


def test_repeated_registration_of_an_incarnation_keeps_its_epoch(published: Published) -> None:
    """A broker repeats its registration after a lost response; a new epoch would fence it."""
    controller = published.controller
    first = Registration(7, (Endpoint("PLAINTEXT", "host", 9099),), "rack", b"i" * 16)
    epoch = register(controller, first)
    broker, count = controller.image.brokers[7], len(published.images)
    assert register(controller, first) == epoch
    assert controller.image.brokers[7] is broker
    assert len(published.images) == count, "nothing has changed"
    assert register(controller, attrs.evolve(first, incarnation_id=b"j" * 16)) > epoch


def test_fencing_a_fenced_or_unknown_broker_changes_nothing(published: Published) -> None:
    published.controller.fence_broker(0)
    count = len(published.images)
    published.controller.fence_broker(0)
    published.controller.fence_broker(9)
    assert len(published.images) == count


def test_unclean_leader_election_if_it_is_enabled() -> None:
    published = Published(**{"unclean.leader.election.enable": True})
    published.controller.fence_broker(1)
    published.controller.fence_broker(2)
    published.controller.fence_broker(0)
    published.controller.register_broker(2, "host", 9094, None)
    assert (published.partition.leader, published.partition.isr) == (2, (2,))


def test_isr_change_needs_the_current_epochs_and_live_replicas(published: Published) -> None:
    controller = published.controller

    topic_id = controller.image.topics["t"].id

    def change(
        leader: int, partition_epoch: int, *isr: int, epoch: int = 0, topic: bytes = topic_id, number: int = 0
    ) -> type[BrokerError] | None:
        (refusal,) = controller.alter_partitions(
            leader, [IsrChange(topic, number, epoch, partition_epoch, dict.fromkeys(isr, -1))]
        )
        return None if refusal is None else type(refusal)

    # A newer epoch shows that another broker is the controller.
    assert change(0, 5, 0, 1) is NotController
    assert change(0, 0, 0, 1, epoch=1) is NotController
    assert change(1, 0, 0, 1) is InvalidRequest
    assert change(0, 0, 1, 2) is InvalidRequest
    assert change(0, 0, 0, 7) is InvalidRequest
    assert change(0, 0, 0, 1, number=1) is UnknownTopicOrPartition
    assert change(0, 0, 0, 1, topic=bytes(16)) is UnknownTopicId
    assert sorted(published.partition.isr) == [0, 1, 2]
    assert change(0, 0, 2, 0) is None
    # In the order of the request.
    assert (published.partition.isr, published.partition.partition_epoch) == ((2, 0), 1)
    assert change(0, 0, 0, 1, 2) is InvalidUpdateVersion
    controller.fence_broker(1)
    assert change(0, 1, 0, 1, 2) is IneligibleReplica
    controller.register_broker(1, "host", 9093, None)
    stale = IsrChange(topic_id, 0, 0, 1, {0: -1, 1: 1, 2: -1})
    assert [type(refusal) for refusal in controller.alter_partitions(0, [stale])] == [IneligibleReplica]
    assert change(0, 1, 0, 1, 2) is None
    controller.move_leader("t", 0, 2)
    assert change(0, 2, 0, 1, 2) is FencedLeaderEpoch


def test_isr_changes_of_many_partitions_are_published_once(published: Published) -> None:
    controller = published.controller
    controller.create_topic(NewTopic("many", assignment=dict.fromkeys(range(50), (0, 1))))
    count = len(published.images)
    topic_id = controller.image.topics["many"].id
    changes = [IsrChange(topic_id, number, 0, 0, {0: -1}) for number in range(50)]
    assert controller.alter_partitions(0, [*changes, changes[0]])[:50] == [None] * 50
    assert len(published.images) == count + 1
    assert {partition.isr for partition in controller.image.topics["many"].partitions} == {(0,)}


def test_move_leader_accepts_only_live_replicas(published: Published) -> None:
    controller = published.controller
    moved = controller.move_leader("t", 0, 2)
    assert (moved.leader, moved.leader_epoch, moved.isr) == (2, 1, (0, 1, 2))
    with pytest.raises(InvalidReplicaAssignment, match="not a replica"):
        controller.move_leader("t", 0, 7)
    controller.fence_broker(0)
    with pytest.raises(IneligibleReplica):
        controller.move_leader("t", 0, 0)


def test_recreated_topic_has_a_new_id(published: Published) -> None:
    before = published.controller.image.topics["t"].id
    published.controller.delete_topic("t")
    assert published.controller.image.topic_by_id(before) is None
    after = published.controller.create_topic(NewTopic("t", 1, 1)).id
    assert after != before
    with pytest.raises(UnknownTopicOrPartition):
        published.controller.delete_topic("nosuch")


def test_leaders_stay_balanced_over_many_topics(published: Published) -> None:
    for number in range(30):
        published.controller.create_topic(NewTopic(f"topic-{number}", 1, 2))
    leaders = [topic.partitions[0].leader for topic in published.controller.image.topics.values()][1:]
    assert {leaders.count(broker) for broker in range(3)} == {10}


def test_new_controller_continues_with_the_metadata_and_fences_the_old_one(published: Published) -> None:
    old = published.controller
    old.move_leader("t", 0, 2)
    old.allocate_producer_ids()
    image = old.image
    new = Controller(1, old.log, BrokerConfig(), SeededEntropy(2), lambda image, changed: None)
    assert new.epoch == old.epoch + 1
    for name in ("brokers", "topics", "topic_names", "features"):
        assert getattr(new.image, name) == getattr(image, name), name
    assert new.image.version > image.version
    before = old.log.end_offset
    for change in (lambda: old.delete_topic("t"), lambda: old.fence_broker(0), old.allocate_producer_ids):
        with pytest.raises(NotController, match="controller epoch 1 has ended"):
            change()
    assert old.log.end_offset == before
    assert new.allocate_producer_ids() == range(1000, 2000)


def test_long_metadata_log_begins_with_a_snapshot(published: Published) -> None:
    controller = published.controller
    for block in range(3):
        controller.write([allocated(number) for number in range(block * 6000, (block + 1) * 6000)])
    assert controller.log.length < SNAPSHOT_AFTER
    assert controller.log.end_offset > 18_000
    assert controller.state.next_producer_id == 17_999


def test_quotas_of_many_entities_are_copied_once_per_replay() -> None:
    state = new_state()
    first, second, third = [(("client-id", name),) for name in "abc"]
    state.replay([quota_record(first, "producer_byte_rate", 1.0)], 0)
    before = state.image.quotas

    def records() -> Iterator[MetadataRecord]:
        yield quota_record(second, "producer_byte_rate", 2.0)
        copy = state.quotas
        yield quota_record(third, "producer_byte_rate", 3.0)
        yield quota_record(third, "consumer_byte_rate", 4.0)
        yield quota_record(second, "producer_byte_rate", None)
        # A copy for each record would hold the cluster's lock for seconds with thousands of entities.
        assert state.quotas is copy

    state.replay(records(), 1)
    assert state.image.quotas == {
        first: {"producer_byte_rate": 1.0},
        third: {"producer_byte_rate": 3.0, "consumer_byte_rate": 4.0},
    }
    assert before == {first: {"producer_byte_rate": 1.0}}, "an older image keeps its quotas"
