"""Log directories in the metadata: assignments by brokers, and directories that fail (KIP-858)."""

from __future__ import annotations

import pytest

from pykafka2.broker.base.image import LOST, MIGRATING, UNASSIGNED, Endpoint, PartitionImage, is_online
from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.controller import Controller, IsrChange, NewTopic
from pykafka2.broker.controller.control.brokers import Registration, process_heartbeat, register
from pykafka2.broker.controller.metadata.log import MetadataLog
from pykafka2.clock import SeededEntropy
from pykafka2.errors import IneligibleReplica, NotLeaderOrFollower, UnknownTopicId, UnknownTopicOrPartition
from pykafka2.protocol.messages.metadata_records import FenceBrokerRecord
from tests.broker.controller.metadata.metadata_changes import new_state

ENDPOINTS = (Endpoint("PLAINTEXT", "host", 9092),)
DIRECTORIES = {broker: (bytes([broker + 1, 1] * 8), bytes([broker + 1, 2] * 8)) for broker in range(3)}
FIRST, SECOND = DIRECTORIES[0]


def register_again(
    controller: Controller, broker: int, incarnation: int, directories: tuple[bytes, ...]
) -> None:
    """Register a broker, which was shut down cleanly if it was registered before."""
    known = controller.image.brokers.get(broker)
    epoch = -1 if known is None else known.epoch
    incarnation_id = bytes([incarnation] * 16)
    register(controller, Registration(broker, ENDPOINTS, None, incarnation_id, directories, epoch))


class DirectoryBench:
    """A controller with three brokers of two directories each, and a topic of one partition, led by 0."""

    def __init__(self, *, directories: int = 2) -> None:
        self.directories = directories
        self.controller = Controller(
            0,
            MetadataLog(new_state()),
            BrokerConfig(),
            SeededEntropy(1),
            lambda image, changed: None,
        )
        for broker in range(3):
            self.register(broker)
        self.controller.create_topic(NewTopic("t", assignment={0: (0, 1, 2)}))
        self.topic_id = self.controller.image.topics["t"].id

    def register(self, broker: int, incarnation: int = 1) -> None:
        directories = DIRECTORIES[broker][: self.directories]
        register_again(self.controller, broker, incarnation, directories)
        self.heartbeat(broker)

    def heartbeat(self, broker: int, *failed: bytes) -> None:
        process_heartbeat(
            self.controller,
            broker,
            self.controller.image.brokers[broker].epoch,
            self.controller.log.end_offset,
            want_fence=False,
            want_shut_down=False,
            failed=failed,
        )

    def assign(self, broker: int, directory: bytes) -> None:
        assert self.controller.assign_directories(broker, [(self.topic_id, 0, directory)]) == [None]

    @property
    def partition(self) -> PartitionImage:
        return self.controller.image.topics["t"].partitions[0]


@pytest.mark.parametrize(
    ("directory", "online", "expected"),
    [
        (FIRST, (FIRST, SECOND), True),
        (FIRST, (SECOND,), False),
        (FIRST, (), True),
        (UNASSIGNED, (SECOND,), True),
        (MIGRATING, (SECOND,), True),
        (LOST, (SECOND,), False),
    ],
)
def test_directory_is_online_as_in_kafka(directory: bytes, online: tuple[bytes, ...], expected: bool) -> None:
    assert is_online(directory, online) is expected


def test_replica_on_a_broker_with_one_directory_is_in_it_without_a_report() -> None:
    bench = DirectoryBench(directories=1)
    assert bench.partition.directories == tuple(DIRECTORIES[broker][0] for broker in range(3))
    assert DirectoryBench().partition.directories == (UNASSIGNED,) * 3


def test_reported_directory_is_stored_with_a_new_partition_epoch() -> None:
    bench = DirectoryBench()
    bench.assign(0, FIRST)
    assert bench.partition.directory_of(0) == FIRST
    assert bench.partition.partition_epoch == 1
    bench.assign(0, FIRST)
    assert bench.partition.partition_epoch == 1
    bench.assign(0, SECOND)
    assert bench.partition.directory_of(0) == SECOND
    assert (bench.partition.leader, bench.partition.leader_epoch) == (0, 0)


def test_failed_directory_moves_the_leader_and_shrinks_the_isr() -> None:
    bench = DirectoryBench()
    for broker in range(3):
        bench.assign(broker, DIRECTORIES[broker][0])
    bench.heartbeat(0, SECOND)
    assert bench.partition.leader == 0
    bench.heartbeat(2, DIRECTORIES[2][0])
    assert (bench.partition.leader, bench.partition.isr) == (0, (0, 1))
    assert bench.controller.image.brokers[0].directories == (FIRST,)
    bench.register(0, incarnation=2)
    bench.heartbeat(0, FIRST)
    image = bench.controller.image
    assert (bench.partition.leader, bench.partition.isr) == (1, (1,))
    assert image.brokers[0].directories == (SECOND,)
    assert not image.brokers[0].is_fenced
    assert [image.is_online(bench.partition, broker) for broker in range(3)] == [False, True, False]


def test_replica_of_a_failed_directory_cannot_join_the_isr_or_lead() -> None:
    bench = DirectoryBench()
    bench.assign(0, FIRST)
    bench.heartbeat(0, FIRST)
    change = IsrChange(
        bench.topic_id,
        0,
        bench.partition.leader_epoch,
        bench.partition.partition_epoch,
        dict.fromkeys(range(3), -1),
    )
    [error] = bench.controller.alter_partitions(1, [change])
    assert isinstance(error, IneligibleReplica)
    with pytest.raises(IneligibleReplica):
        bench.controller.move_leader("t", 0, 0)
    bench.register(0, incarnation=2)
    bench.controller.move_leader("t", 0, 0)
    assert bench.partition.leader == 0


def test_last_replica_in_sync_is_eligible_until_its_directory_is_back() -> None:
    bench = DirectoryBench()
    bench.assign(0, FIRST)
    for broker in (1, 2):
        bench.controller.fence_broker(broker)
    bench.heartbeat(0, FIRST)
    assert (bench.partition.leader, bench.partition.isr, bench.partition.elr) == (-1, (), (0,))
    for broker in (1, 2):
        bench.heartbeat(broker)
    assert (bench.partition.leader, bench.partition.isr, bench.partition.elr) == (-1, (), (0,))
    bench.register(0, incarnation=2)
    assert (bench.partition.leader, bench.partition.isr) == (0, (0,))


@pytest.mark.parametrize("directory", [LOST, bytes([9] * 16)])
def test_report_of_a_directory_that_does_not_work_moves_the_leader(directory: bytes) -> None:
    bench = DirectoryBench()
    bench.assign(0, directory)
    assert (bench.partition.leader, bench.partition.isr) == (1, (1, 2))


@pytest.mark.parametrize("directories", [(FIRST, SECOND), (SECOND,)])
def test_leader_of_before_a_start_leads_again_if_its_directory_works(directories: tuple[bytes, ...]) -> None:
    bench = DirectoryBench()
    bench.assign(0, FIRST)
    state = bench.controller.state
    fenced = [FenceBrokerRecord(id=broker.id, epoch=broker.epoch) for broker in state.brokers.values()]
    state.replay(fenced, state.image.version)  # as at a start of all brokers
    before = bench.partition
    for broker in range(3):
        known = directories if broker == 0 else DIRECTORIES[broker]
        register_again(bench.controller, broker, 9, known)
    works = FIRST in directories
    assert (bench.partition.isr, bench.partition.elr) == (((0, 1, 2), ()) if works else ((), (0, 1, 2)))
    for broker in range(3):
        bench.heartbeat(broker)
    assert bench.partition.leader == (0 if works else 1)
    assert bench.partition.isr == ((0, 1, 2) if works else (1,))
    assert bench.partition.leader_epoch == before.leader_epoch + (1 if works else 2)


def test_last_directory_of_a_broker_stays_registered() -> None:
    bench = DirectoryBench(directories=1)
    bench.heartbeat(0, FIRST)
    assert bench.controller.image.brokers[0].directories == (FIRST,)


def test_invalid_assignments_are_rejected_one_by_one() -> None:
    bench = DirectoryBench()
    bench.controller.create_topic(NewTopic("other", assignment={0: (1, 2)}))
    other = bench.controller.image.topics["other"].id
    refusals = bench.controller.assign_directories(
        0, [(bytes(16), 0, FIRST), (bench.topic_id, 7, FIRST), (other, 0, FIRST), (bench.topic_id, 0, FIRST)]
    )
    assert [type(refusal) for refusal in refusals] == [
        UnknownTopicId,
        UnknownTopicOrPartition,
        NotLeaderOrFollower,
        type(None),
    ]
    assert bench.partition.directory_of(0) == FIRST
