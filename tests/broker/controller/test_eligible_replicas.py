"""Eligible leader replicas (KIP-966): elections as Kafka's PartitionChangeBuilder makes them."""

from __future__ import annotations

import attrs
import pytest

from pykafka2.broker.base.features import ELR_VERSION, METADATA_VERSION
from pykafka2.broker.base.image import Endpoint, PartitionImage
from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.controller import Controller, IsrChange, NewTopic
from pykafka2.broker.controller.control.brokers import Registration, process_heartbeat, register
from pykafka2.broker.controller.control.configs import ConfigChange, Operation, configured
from pykafka2.broker.controller.metadata.log import MetadataLog
from pykafka2.broker.controller.partition_changes import elect, eligible_after
from pykafka2.clock import SeededEntropy
from pykafka2.errors import InvalidConfig, name_of
from pykafka2.protocol.messages.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from pykafka2.protocol.messages.metadata import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from pykafka2.testing.cluster import KafkaCluster, Topic
from tests.broker.controller.metadata.metadata_changes import new_state
from tests.connections import LiveCluster

Ids = tuple[int, ...]
ENDPOINTS = (Endpoint("PLAINTEXT", "host", 9092),)
BROKER, TOPIC = 4, 2
TWO = {"min.insync.replicas": "2"}


def partition(isr: Ids, leader: int, elr: Ids = (), last: Ids = ()) -> PartitionImage:
    return PartitionImage((0, 1, 2), isr, leader, 5, 7, elr=elr, last_known_elr=last)


@pytest.mark.parametrize(
    ("isr", "min_isr", "lost", "expected"),
    [
        ((0, 1), 2, -1, ()),
        ((0,), 2, -1, (1, 2)),
        ((), 2, -1, (0, 1, 2)),
        ((), 1, -1, (0, 1, 2)),
        ((0,), 2, 2, (1,)),
        ((0,), 1, -1, ()),
        ((0, 1, 2), 9, -1, ()),  # limited to the number of replicas
        ((0,), None, -1, ()),
    ],
)
def test_replicas_that_left_a_small_isr_are_eligible(
    isr: Ids, min_isr: int | None, lost: int, expected: Ids
) -> None:
    for elr in ((2,), (2, 7)):  # broker 7 has left the replicas
        assert eligible_after(partition((0, 1), 0, elr=elr), isr, min_isr, lost) == expected


ELECTIONS: dict[str, tuple[PartitionImage, Ids, dict[str, object], PartitionImage | None]] = {
    "the ISR is alive": (partition((0, 1), 0), (0, 1, 2), {}, None),
    "the leader fails, the ISR is large enough": (
        partition((0, 1, 2), 0),
        (1, 2),
        {},
        partition((1, 2), 1),
    ),
    "a follower fails, the ISR becomes small": (partition((0, 1), 0), (0,), {}, partition((0,), 0, (1,))),
    "the last in sync fails": (partition((0,), 0, (1,)), (2,), {}, partition((), -1, (0, 1), (0,))),
    "an eligible one is elected from an empty ISR": (
        partition((), -1, (0, 1), (0,)),
        (1, 2),
        {},
        partition((1,), 1, (0,)),
    ),
    "the preferred eligible one is elected": (
        partition((), -1, (0, 1), (0,)),
        (0, 1, 2),
        {},
        partition((0,), 0, (1,)),
    ),
    "one that is in neither is not": (partition((), -1, (0, 1), (0,)), (2,), {}, None),
    "unless the election is unclean": (
        partition((), -1, (0, 1), (0,)),
        (2,),
        {"unclean": True},
        partition((2,), 2),
    ),
    "the last in sync was lost": (partition((0,), 0), (), {"lost": 0}, partition((), -1, (), (0,))),
    "the last leader is elected if nothing else is left": (
        partition((), -1, (), (0,)),
        (0, 1, 2),
        {},
        partition((0,), 0),
    ),
    "and no other": (partition((), -1, (), (0,)), (1, 2), {}, None),
    "not while others are eligible": (partition((), -1, (1,), (0,)), (0,), {}, None),
    "not if several led before": (partition((), -1, (), (0, 1)), (0, 1), {}, None),
    "the first that led stays known": (partition((0,), 0, (), (2,)), (), {}, partition((), -1, (0,), (2,))),
    "a lost one is not eligible": (
        partition((), -1, (0, 1), (0,)),
        (),
        {"lost": 1},
        partition((), -1, (0,), (0,)),
    ),
    "a lost follower leaves a large ISR": (
        partition((0, 1, 2), 0),
        (0, 1, 2),
        {"lost": 2},
        partition((0, 1), 0),
    ),
}


@pytest.mark.parametrize("name", ELECTIONS)
def test_leader_is_elected_as_by_kafka(name: str) -> None:
    before, alive, options, expected = ELECTIONS[name]
    after = elect(before, alive.__contains__, min_isr=2, **{"unclean": False, **options})  # type: ignore[arg-type]
    if expected is None:
        assert after is before
        return
    moves = before.leader != expected.leader
    assert after == attrs.evolve(expected, leader_epoch=5 + moves, partition_epoch=8)


class World:
    """A controller with three brokers, and a topic with min.insync.replicas=2 that broker 0 leads."""

    def __init__(self) -> None:
        config = BrokerConfig()
        self.controller = Controller(
            0, MetadataLog(new_state(config)), config, SeededEntropy(1), lambda image, changed: None
        )
        self.starts = 0
        for broker in range(3):
            self.start(broker, clean=True)
        self.controller.create_topic(NewTopic("t", assignment={0: (0, 1, 2)}, configs=TWO))

    def start(self, broker: int, *, clean: bool) -> None:
        self.starts += 1
        known = self.controller.image.brokers.get(broker)
        epoch = -1 if known is None or not clean else known.epoch
        incarnation = bytes([self.starts] * 16)
        register(self.controller, Registration(broker, ENDPOINTS, None, incarnation, (), epoch))
        epoch = self.controller.image.brokers[broker].epoch
        end = self.controller.log.end_offset
        process_heartbeat(self.controller, broker, epoch, end, want_fence=False, want_shut_down=False)

    def stop(self, *brokers: int) -> None:
        for broker in brokers:
            self.controller.fence_broker(broker)

    def shrink_to(self, *isr: int) -> None:
        image, topic_id = self.partition, self.controller.image.topics["t"].id
        epochs = {broker: self.controller.image.brokers[broker].epoch for broker in isr}
        change = IsrChange(topic_id, 0, image.leader_epoch, image.partition_epoch, epochs)
        assert self.controller.alter_partitions(image.leader, [change]) == [None]

    @property
    def partition(self) -> PartitionImage:
        return self.controller.partition("t", 0)

    @property
    def state(self) -> tuple[int, Ids, Ids]:
        image = self.partition
        return image.leader, image.isr, image.elr


def test_leader_is_elected_from_the_eligible_replicas_after_clean_stops() -> None:
    world = World()
    world.stop(2, 1)
    assert world.state == (0, (0,), (1,))
    world.stop(0)
    assert world.state == (-1, (), (0, 1))
    world.start(2, clean=True)
    assert world.state == (-1, (), (0, 1)), "it misses records"
    world.start(1, clean=True)
    assert world.state == (1, (1,), (0,))


def test_unclean_restart_makes_an_eligible_replica_ineligible() -> None:
    world = World()
    world.stop(2, 1, 0)
    world.start(1, clean=False)
    assert world.state == (-1, (), (0,))
    world.start(0, clean=True)
    assert world.state == (0, (0,), ())


def test_last_leader_leads_again_if_all_eligible_replicas_were_restarted_uncleanly() -> None:
    world = World()
    world.stop(2, 1, 0)
    for broker in (1, 2):
        world.start(broker, clean=False)
    assert world.partition.last_known_elr == (0,)
    world.start(0, clean=False)
    assert world.state == (0, (0,), ())
    assert world.partition.last_known_elr == ()


def test_live_broker_that_restarts_uncleanly_leaves_the_isr() -> None:
    world = World()
    world.start(0, clean=False)
    assert world.state == (1, (1, 2), ())
    world.start(2, clean=False)
    assert world.state == (1, (1,), ()), "it is not eligible"


def test_isr_change_of_the_leader_makes_replicas_eligible_until_the_isr_is_large_again() -> None:
    world = World()
    world.shrink_to(0, 1)
    assert world.state == (0, (0, 1), ())
    world.shrink_to(0)
    assert world.state == (0, (0,), (1,))
    world.shrink_to(0, 2)
    assert world.state == (0, (0, 2), ())


@pytest.mark.parametrize(
    ("resource", "name"), [(TOPIC, "t"), (BROKER, "")], ids=["of the topic", "of all brokers"]
)
def test_change_of_min_insync_replicas_clears_eligible_replicas(resource: int, name: str) -> None:
    world = World()
    world.shrink_to(0)
    changes = [ConfigChange("min.insync.replicas", Operation.SET, "3")]
    world.controller.write(configured(world.controller, resource, name, changes))
    assert world.state == (0, (0,), ())


@pytest.mark.parametrize(
    ("name", "operation", "words"),
    [
        ("1", Operation.SET, "Broker-level min.insync.replicas cannot be altered while ELR is enabled."),
        ("", Operation.DELETE, "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."),
    ],
)
def test_min_insync_replicas_stays_equal_on_all_brokers(name: str, operation: Operation, words: str) -> None:
    world = World()
    set_for_all = [ConfigChange("min.insync.replicas", Operation.SET, "1")]
    world.controller.write(configured(world.controller, BROKER, "", set_for_all))
    with pytest.raises(InvalidConfig, match=words):
        configured(world.controller, BROKER, name, [ConfigChange("min.insync.replicas", operation, "2")])


@pytest.mark.parametrize(
    "features", [{ELR_VERSION: 0}, {METADATA_VERSION: 22}], ids=["disabled", "records without the fields"]
)
def test_without_eligible_replicas_the_last_one_stays_in_the_isr(features: dict[str, int]) -> None:
    with KafkaCluster(2, features=features, topics={"t": Topic(1, 2)}) as cluster:
        cluster.controls.crash_broker(1)
        cluster.wait_until(lambda: cluster.partition("t", 0).isr == (0,))
        cluster.controls.crash_broker(0)
        cluster.controls.restart_broker(1)
        cluster.wait_until(lambda: not cluster.controller.image.brokers[1].is_fenced)
        image = cluster.controller.image.topics["t"].partitions[0]
        assert (image.leader, image.isr, image.elr) == (-1, (0,), ())


WITHOUT_ELIGIBLE: dict[str, tuple[PartitionImage, Ids, bool, PartitionImage | None]] = {
    "the ISR is alive": (partition((0, 1), 0), (0, 1, 2), True, None),
    "the leader fails": (partition((0, 1), 0), (1, 2), True, partition((1,), 1)),
    "the last in sync fails": (partition((0,), 0), (2,), False, partition((0,), -1)),
    "unclean election of a replica that is alive": (partition((0,), 0), (2,), True, partition((2,), 2)),
    "unclean election of the preferred replica": (partition((2,), -1), (0, 1), True, partition((0,), 0)),
    "the last in sync is preferred to another": (partition((2,), -1), (0, 2), True, partition((2,), 2)),
    "no replica is alive": (partition((0,), 0), (), True, partition((0,), -1)),
}


@pytest.mark.parametrize("name", WITHOUT_ELIGIBLE)
def test_leader_is_elected_as_by_kafka_without_eligible_replicas(name: str) -> None:
    before, alive, unclean, expected = WITHOUT_ELIGIBLE[name]
    after = elect(before, alive.__contains__, unclean=unclean)
    if expected is None:
        assert after is before
        return
    moves = before.leader != expected.leader
    assert after == attrs.evolve(expected, leader_epoch=5 + moves, partition_epoch=8)


@pytest.mark.parametrize("release", ["4.0", "3.9", "2.8"])
def test_unclean_election_of_an_older_release_leads_from_a_replica_outside_the_isr(release: str) -> None:
    config = {"unclean.leader.election.enable": True}
    with KafkaCluster(2, as_version=release, config=config, topics={"t": Topic(1, 2)}) as cluster:
        cluster.controls.crash_broker(1)
        assert cluster.wait_until(lambda: cluster.partition("t", 0).isr == (0,))
        cluster.controls.crash_broker(0)
        cluster.controls.restart_broker(1)
        assert cluster.wait_until(lambda: cluster.partition("t", 0).leader == 1)
        image = cluster.controller.image.topics["t"].partitions[0]
        assert (image.isr, image.elr, image.last_known_elr) == ((1,), (), ())


@pytest.mark.kafka(brokers=3, topics={"t": Topic(1, 3)}, config={"min.insync.replicas": 2})
def test_describe_topic_partitions_returns_eligible_replicas(
    live: LiveCluster,
) -> None:
    cluster, wire = live.cluster, live.connect()

    def described() -> tuple[int, list[int], list[int] | None]:
        names = [TopicRequest(name="t")]
        response = wire.call(DescribeTopicPartitionsRequest(topics=names), 0)
        (found,) = response.topics[0].partitions
        return found.leader_id, found.isr_nodes, found.eligible_leader_replicas

    if cluster.partition("t", 0).leader != 0:
        cluster.controls.move_leader("t", 0, 0)
    for broker in (2, 1):
        cluster.controls.stop_broker(broker)
    cluster.wait_until(lambda: described() == (0, [0], [1]))
    config = IncrementalAlterConfigsRequestAlterableConfig(
        name="min.insync.replicas", config_operation=Operation.SET, value="1"
    )
    for name, error in (("1", "INVALID_REQUEST"), ("0", "INVALID_CONFIG"), ("", "NONE")):
        resource = IncrementalAlterConfigsRequestAlterConfigsResource(
            resource_type=BROKER, resource_name=name, configs=[config]
        )
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        (result,) = wire.call(request, 1).responses
        assert name_of(result.error_code) == error, name
    cluster.wait_until(lambda: described() == (0, [0], []))
