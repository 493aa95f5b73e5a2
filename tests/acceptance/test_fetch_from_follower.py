"""A consumer with a rack is sent to the replica in that rack, which serves it up to its own high
watermark (KIP-392).

The broker's part, by raw requests: our consumer has no `client_rack` yet.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import pytest

from pykafka2 import errors
from pykafka2.protocol.messages.fetch import FetchRequest, PartitionData
from pykafka2.records.batch import batches
from pykafka2.testing import KafkaCluster, Simulation
from tests.broker.support.data_requests import data_of, fetch_request
from tests.broker.support.leaders import append, marks
from tests.broker.support.raw_client import RawClient

KEY = ("t", 0)
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class Scene:
    """Three brokers in racks a, b and c, one partition of three replicas, a connection to each broker."""

    def __init__(self, simulation: Simulation, selector: str | None = RACK_AWARE) -> None:
        self.simulation = simulation
        config = {"replica.selector.class": selector} if selector else {}
        self.cluster: KafkaCluster = simulation.cluster(
            brokers=3, topics={"t": 1}, racks=["a", "b", "c"], config=config
        )
        simulation.run_for(1)
        self.wires = [RawClient(broker.address, simulation=simulation) for broker in self.cluster.brokers]
        self.leader = self.cluster.partition(*KEY).leader
        self.near, self.other = (broker for broker in range(3) if broker != self.leader)
        for number in range(3):
            append(self.cluster, KEY, b"%d" % number)
        simulation.run_for(1)

    def close(self) -> None:
        for wire in self.wires:
            wire.close()

    def rack(self, broker: int) -> str:
        return "abc"[broker]

    def fetch(
        self, broker: int, offset: int = 0, *, rack: str = "", version: int = 12, max_wait_ms: int = 0
    ) -> PartitionData:
        request = fetch_request(*KEY, offset, max_wait_ms=max_wait_ms)
        request.rack_id = rack
        return data_of(self.wires[broker].call(request, version))


def offsets(data: PartitionData) -> list[int]:
    assert data.error_code == 0
    return [one.base_offset for one in batches(data.records or b"")]


@pytest.fixture
def scene(simulation: Simulation) -> Iterator[Scene]:
    made = Scene(simulation)
    yield made
    made.close()


def test_the_leader_names_the_replica_in_the_consumers_rack_and_sends_no_records(scene: Scene) -> None:
    for broker in (scene.near, scene.other):
        started = scene.simulation.now
        data = scene.fetch(scene.leader, rack=scene.rack(broker), max_wait_ms=10_000)
        assert (data.preferred_read_replica, offsets(data), data.high_watermark) == (broker, [], 3)
        assert scene.simulation.now - started < 1, "it does not wait for anything"
        assert offsets(scene.fetch(broker, rack=scene.rack(broker))) == [0, 1, 2]


@pytest.mark.parametrize("rack", ["", "z", "the leader's"])
def test_without_a_replica_nearer_the_leader_serves(scene: Scene, rack: str) -> None:
    data = scene.fetch(scene.leader, rack=scene.rack(scene.leader) if len(rack) > 1 else rack)
    assert (data.preferred_read_replica, offsets(data)) == (-1, [0, 1, 2])


def test_the_follower_serves_up_to_its_own_high_watermark(scene: Scene) -> None:
    cluster = scene.cluster
    cluster.controls.pause_followers(KEY, brokers=[scene.near])
    scene.simulation.run_for(1)
    cluster.controls.shrink_isr(KEY, scene.near)
    append(cluster, KEY, b"3")
    scene.simulation.run_for(2)
    assert marks(cluster, KEY)[scene.leader] == 4
    data = scene.fetch(scene.near, rack=scene.rack(scene.near))
    assert (offsets(data), data.high_watermark) == ([0, 1, 2], 3)
    assert offsets(scene.fetch(scene.near, 3, rack=scene.rack(scene.near))) == []
    # What it does not have it cannot place: the consumer goes back to the leader.
    assert scene.fetch(scene.near, 4, rack=scene.rack(scene.near)).error_code == errors.OffsetOutOfRange.code


def test_records_that_it_has_copied_above_its_high_watermark_are_not_served(scene: Scene) -> None:
    """Another member of the ISR stands still: what only two of three have may yet be lost."""
    cluster = scene.cluster
    cluster.controls.pause_followers(KEY, brokers=[scene.other])
    scene.simulation.run_for(1)
    for value in (b"3", b"4"):
        append(cluster, KEY, value)
    scene.simulation.run_for(2)
    view = cluster.partition(*KEY)
    assert set(view.isr) == {0, 1, 2}
    near = view.replicas[scene.near]
    assert (near.log_end_offset, near.high_watermark) == (5, 3)
    assert offsets(scene.fetch(scene.near, rack=scene.rack(scene.near))) == [0, 1, 2]
    data = scene.fetch(scene.near, 3, rack=scene.rack(scene.near), max_wait_ms=500)
    assert (offsets(data), data.high_watermark) == ([], 3)
    cluster.controls.resume_followers()
    scene.simulation.run_for(2)
    assert offsets(scene.fetch(scene.near, 3, rack=scene.rack(scene.near))) == [3, 4]


def test_replica_out_of_sync_or_without_the_offset_is_not_preferred(scene: Scene) -> None:
    cluster = scene.cluster
    cluster.controls.pause_followers(KEY, brokers=[scene.near])
    scene.simulation.run_for(1)
    append(cluster, KEY, b"3")
    rack = scene.rack(scene.near)
    assert scene.fetch(scene.leader, 3, rack=rack).preferred_read_replica == scene.near
    assert scene.fetch(scene.leader, 4, rack=rack).preferred_read_replica == -1, "it is at 3"
    cluster.controls.shrink_isr(KEY, scene.near)
    assert scene.fetch(scene.leader, 0, rack=rack).preferred_read_replica == -1
    cluster.controls.expand_isr(KEY, scene.near)
    assert scene.fetch(scene.leader, 0, rack=rack).preferred_read_replica == scene.near


def test_fenced_replica_or_one_without_the_first_records_is_not_preferred(scene: Scene) -> None:
    rack, broker = scene.rack(scene.near), scene.cluster.brokers[scene.leader]
    with scene.cluster.lock:
        broker.replicas.replicas[KEY].followers[scene.near].log_start_offset = 2
    preferred = [scene.fetch(scene.leader, offset, rack=rack).preferred_read_replica for offset in (1, 2)]
    assert preferred == [-1, scene.near]
    with scene.cluster.lock:  # the broker is fenced, but still in the ISR
        fenced = attrs.evolve(broker.image.brokers[scene.near], is_fenced=True)
        hosted = broker.replicas.hosted
        hosted.image = attrs.evolve(broker.image, brokers={**broker.image.brokers, scene.near: fenced})
    assert scene.fetch(scene.leader, 2, rack=rack).preferred_read_replica == -1


def test_a_stopped_one_is_not_preferred(scene: Scene) -> None:
    scene.cluster.controls.stop_broker(scene.near)
    data = scene.fetch(scene.leader, rack=scene.rack(scene.near))
    assert (data.preferred_read_replica, offsets(data)) == (-1, [0, 1, 2])


def test_a_long_poll_at_the_follower_ends_when_its_high_watermark_moves(scene: Scene) -> None:
    request = fetch_request(*KEY, 3, max_wait_ms=30_000)
    request.rack_id = scene.rack(scene.near)
    scene.wires[scene.near].send(request, 12)
    scene.simulation.run_for(2)
    assert not scene.wires[scene.near].has_response()
    append(scene.cluster, KEY, b"3")
    started = scene.simulation.now
    assert offsets(data_of(scene.wires[scene.near].receive(FetchRequest, 12)[1])) == [3]
    assert scene.simulation.now - started < 1, "one fetch later: within replica.fetch.wait.max.ms"


def test_older_clients_and_clusters_without_a_selector_read_from_the_leader(
    scene: Scene, simulation: Simulation
) -> None:
    data = scene.fetch(scene.leader, rack=scene.rack(scene.near), version=10)
    assert offsets(data) == [0, 1, 2]
    rejected = scene.fetch(scene.near, rack=scene.rack(scene.near), version=10)
    assert rejected.error_code == errors.NotLeaderOrFollower.code
    with Simulation(seed=4) as other:
        plain = Scene(other, selector=None)
        data = plain.fetch(plain.leader, rack=plain.rack(plain.near))
        assert (data.preferred_read_replica, offsets(data)) == (-1, [0, 1, 2])
        plain.close()
