"""Requests that wait for replicas, and errors that come at once.

Apache Kafka 4.3.1 responds the same; the scenarios are in tests/conformance/behaviour, on_changes.py and
on_leadership.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka2.protocol.messages.fetch import FetchRequest
from pykafka2.protocol.messages.topics import DeleteRecordsPartitionResult, DeleteRecordsRequest
from pykafka2.testing.cluster import KafkaCluster
from pykafka2.testing.simulation import Simulation
from tests.broker.support.data_requests import (
    data_of,
    delete_records_request,
    deleted,
    error_name,
    fetch_request,
)
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
        return (
            self.wire.call(delete_records_request(*KEY, offset, timeout_ms=timeout_ms), 2)
            .topics[0]
            .partitions[0]
        )

    def close(self) -> None:
        for wire in self.wires:
            wire.close()


@pytest.fixture
def scene(simulation: Simulation) -> Iterator[Scene]:
    scene = Scene(simulation)
    yield scene
    scene.close()


def test_topic_deletion_completes_a_waiting_delete_records(scene: Scene) -> None:
    append(scene.cluster, KEY, b"a")
    scene.simulation.run_for(1)
    scene.cluster.controls.pause_followers()
    scene.simulation.run_for(1)
    scene.wire.send(delete_records_request(*KEY, 1, timeout_ms=60_000), 2)
    scene.simulation.run_for(5)
    assert not scene.wire.has_response()
    scene.cluster.delete_topic("t")
    assert deleted(scene.wire.receive(DeleteRecordsRequest, 2)[1]) == (-1, "UnknownTopicOrPartition")


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
    assert [(one.low_watermark, error_name(one.error_code)) for one in found] == answers
    scene.close()


@pytest.mark.gate
def test_partition_twice_in_delete_records_has_one_result_for_its_last_offset(scene: Scene) -> None:
    append(scene.cluster, KEY, b"a")
    append(scene.cluster, KEY, b"b")
    scene.simulation.run_for(1)
    (topic,) = scene.wire.call(delete_records_request(*KEY, 2, 1, timeout_ms=5000), 2).topics
    assert [(one.low_watermark, one.error_code) for one in topic.partitions] == [(1, 0)]


def test_fetch_above_the_high_watermark_returns_at_once(scene: Scene) -> None:
    """The response is empty, without an error; Kafka waits only at the high watermark."""
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
    """Epoch 1 has no records, so a fetch with it diverges; the deleted offset has priority."""
    append(scene.cluster, KEY, b"a")
    append(scene.cluster, KEY, b"b")
    scene.simulation.run_for(1)
    for leader in (1 - scene.leader, scene.leader):
        scene.cluster.controls.move_leader(KEY, leader)
        scene.simulation.run_for(2)
    append(scene.cluster, KEY, b"c")
    scene.simulation.run_for(1)
    diverged = data_of(scene.wire.call(fetch_request(*KEY, 0, last_fetched_epoch=1), 12))
    assert (diverged.diverging_epoch.epoch, diverged.diverging_epoch.end_offset) == (0, 2)
    assert scene.delete(1, 5000).error_code == 0
    gone = data_of(scene.wire.call(fetch_request(*KEY, 0, last_fetched_epoch=1), 12))
    assert error_name(gone.error_code) == "OffsetOutOfRange"
    assert gone.diverging_epoch.end_offset == -1


def test_fetch_of_an_unknown_replica_at_the_current_epoch_gets_unknown_leader_epoch(
    simulation: Simulation,
) -> None:
    """It can have learned of a reassignment before the leader."""
    scene = Scene(simulation, brokers=3)
    unknown_replica = 77
    for epoch, error in ((-1, "NotLeaderOrFollower"), (0, "UnknownLeaderEpoch")):
        request: FetchRequest = fetch_request(*KEY, 0, epoch=epoch)
        request.replica_id = unknown_replica
        assert error_name(data_of(scene.wire.call(request, 12)).error_code) == error
    scene.close()
