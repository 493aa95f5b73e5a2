"""How requests that wait for replicas end, and what is said at once.

As Apache Kafka 4.3.1 answers; the scenarios are behaviour/on_changes.py and on_leadership.py in conformance/.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka2.errors import for_code
from pykafka2.protocol.messages.fetch import FetchRequest
from pykafka2.protocol.messages.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from pykafka2.protocol.messages.produce import ProduceRequest
from pykafka2.protocol.messages.topics import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pykafka2.testing.cluster import KafkaCluster
from pykafka2.testing.simulation import Simulation
from tests.broker.support.batches import NOW_MS, batch
from tests.broker.support.data_requests import data_of, fetch_request, partition_of, produce_request
from tests.broker.support.leaders import append
from tests.broker.support.raw_client import RawClient

KEY = ("t", 0)
TRANSACTIONAL = 0x10


class Scene:
    """Two simulated brokers, and a wire to the leader of t-0."""

    def __init__(self, simulation: Simulation, brokers: int = 2, **config: object) -> None:
        self.simulation = simulation
        self.cluster: KafkaCluster = simulation.cluster(brokers=brokers, topics={"t": 1}, config=config)
        self.leader = self.cluster.partition(*KEY).leader
        self.wires: list[RawClient] = []
        self.wire = self.connect(self.leader)

    def connect(self, broker: int) -> RawClient:
        self.wires.append(RawClient(self.cluster.broker(broker).address, simulation=self.simulation))
        return self.wires[-1]

    def delete(self, offset: int, timeout_ms: int) -> DeleteRecordsPartitionResult:
        return self.wire.call(deletion(offset, timeout_ms=timeout_ms), 2).topics[0].partitions[0]

    def close(self) -> None:
        for wire in self.wires:
            wire.close()


def deletion(*offsets: int, timeout_ms: int) -> DeleteRecordsRequest:
    asked = [DeleteRecordsPartition(partition_index=0, offset=offset) for offset in offsets]
    return DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name="t", partitions=asked)], timeout_ms=timeout_ms
    )


@pytest.fixture
def scene(simulation: Simulation) -> Iterator[Scene]:
    scene = Scene(simulation)
    yield scene
    scene.close()


def name(code: int) -> str:
    return for_code(code).__name__ if code else "none"


def test_a_deleted_topic_ends_the_wait_of_a_produce(scene: Scene) -> None:
    scene.cluster.controls.pause_followers()
    scene.wire.send(produce_request(*KEY, batch(), timeout_ms=60_000), 12)
    scene.simulation.run_for(5)
    assert not scene.wire.has_response()
    scene.cluster.delete_topic("t")
    answer = partition_of(scene.wire.receive(ProduceRequest, 12)[1])
    assert name(answer.error_code) == "UnknownTopicOrPartition"


def test_a_deleted_topic_ends_the_wait_of_a_deletion(scene: Scene) -> None:
    append(scene.cluster, KEY, b"a")
    scene.simulation.run_for(1)
    scene.cluster.controls.pause_followers()
    scene.simulation.run_for(1)
    scene.wire.send(deletion(1, timeout_ms=60_000), 2)
    scene.simulation.run_for(5)
    assert not scene.wire.has_response()
    scene.cluster.delete_topic("t")
    answer = scene.wire.receive(DeleteRecordsRequest, 2)[1].topics[0].partitions[0]
    assert (answer.low_watermark, name(answer.error_code)) == (-1, "UnknownTopicOrPartition")


@pytest.mark.parametrize(
    ("brokers", "answers"), [(1, [(1, "none"), (2, "none")]), (2, [(0, "RequestTimedOut")] * 2)]
)
def test_delete_records_without_a_timeout_returns_finished_and_timed_out_partitions(
    simulation: Simulation, brokers: int, answers: list[tuple[int, str]]
) -> None:
    scene = Scene(simulation, brokers)
    for value in (b"a", b"b"):
        append(scene.cluster, KEY, value)
    simulation.run_for(1)
    scene.cluster.controls.pause_followers()
    simulation.run_for(1)
    found = [scene.delete(offset, timeout_ms) for offset, timeout_ms in ((1, 0), (2, -1))]
    assert [(one.low_watermark, name(one.error_code)) for one in found] == answers
    scene.close()


def test_a_partition_named_twice_is_answered_once_by_its_last_offset(scene: Scene) -> None:
    append(scene.cluster, KEY, b"a")
    append(scene.cluster, KEY, b"b")
    scene.simulation.run_for(1)
    (topic,) = scene.wire.call(deletion(2, 1, timeout_ms=5000), 2).topics
    assert [(one.low_watermark, one.error_code) for one in topic.partitions] == [(1, 0)]


def test_fetch_above_the_readable_end_is_answered_at_once(scene: Scene) -> None:
    """Kafka waits only where a reader has read all it may; above that it says so, empty and without error."""
    scene.cluster.controls.pause_followers()
    append(scene.cluster, KEY, b"a")
    append(scene.cluster, KEY, b"b")
    scene.simulation.run_for(1)
    assert scene.cluster.partition(*KEY).high_watermark < 2
    before = scene.simulation.now
    data = data_of(scene.wire.call(fetch_request(*KEY, 2, max_wait_ms=60_000), 12))
    assert (data.error_code, bytes(data.records or b"")) == (0, b"")
    assert scene.simulation.now - before < 1


def test_fetch_below_the_log_start_gets_offset_out_of_range_before_divergence(scene: Scene) -> None:
    """Epoch 1 wrote nothing, so a reader who names it has parted; that its offset is gone comes first."""
    append(scene.cluster, KEY, b"a")
    append(scene.cluster, KEY, b"b")
    scene.simulation.run_for(1)
    for leader in (1 - scene.leader, scene.leader):
        scene.cluster.controls.move_leader(KEY, leader)
        scene.simulation.run_for(2)
    append(scene.cluster, KEY, b"c")
    scene.simulation.run_for(1)
    parted = data_of(scene.wire.call(fetch_request(*KEY, 0, last_fetched_epoch=1), 12))
    assert (parted.diverging_epoch.epoch, parted.diverging_epoch.end_offset) == (0, 2)
    assert scene.delete(1, 5000).error_code == 0
    gone = data_of(scene.wire.call(fetch_request(*KEY, 0, last_fetched_epoch=1), 12))
    assert name(gone.error_code) == "OffsetOutOfRange"
    assert gone.diverging_epoch.end_offset == -1


def list_offsets(wire: RawClient, *, isolation_level: int = 0, replica_id: int = -1) -> tuple[int, str]:
    asked = ListOffsetsPartition(partition_index=0, timestamp=-1)
    topics = [ListOffsetsTopic(name="t", partitions=[asked])]
    request = ListOffsetsRequest(replica_id=replica_id, isolation_level=isolation_level, topics=topics)
    answer = wire.call(request, 7).topics[0].partitions[0]
    return answer.offset, name(answer.error_code)


def test_an_open_transaction_does_not_hide_the_end_from_a_new_leader(simulation: Simulation) -> None:
    """Its high watermark has reached its epoch: that the last stable offset has not does not matter."""
    scene = Scene(simulation, **{"transaction.partition.verification.enable": False})
    records = batch(producer_id=7, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL)
    broker = scene.cluster.broker(scene.leader)
    with scene.cluster.lock:
        done = broker.replicas.append(
            KEY, records, acks=1, version=11, client_id=None, now=simulation.now, now_ms=NOW_MS
        )
    assert done.error is None
    simulation.run_for(2)
    scene.cluster.controls.move_leader(KEY, 1 - scene.leader)
    simulation.run_for(2)
    wire = scene.connect(1 - scene.leader)
    assert list_offsets(wire) == (1, "none")
    assert list_offsets(wire, isolation_level=1) == (0, "none")
    # Any replica tells who debugs; others are sent to the leader.
    assert list_offsets(scene.wire, replica_id=-2) == (1, "none")
    assert list_offsets(scene.wire) == (-1, "NotLeaderOrFollower")
    scene.close()


def test_fetch_of_an_unknown_replica_at_the_current_epoch_gets_unknown_leader_epoch(
    simulation: Simulation,
) -> None:
    """It may have heard of a reassignment before the leader did."""
    scene = Scene(simulation, brokers=3)
    stranger = 77
    for epoch, error in ((-1, "NotLeaderOrFollower"), (0, "UnknownLeaderEpoch")):
        request: FetchRequest = fetch_request(*KEY, 0, epoch=epoch)
        request.replica_id = stranger
        assert name(data_of(scene.wire.call(request, 12)).error_code) == error
    scene.close()
