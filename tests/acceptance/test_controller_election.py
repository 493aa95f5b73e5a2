"""The active controller is killed, paused, cut off: exactly one new one comes, its epoch is one higher, and
the old one, when it wakes up late, is refused.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pykafka2.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from pykafka2.testing.cluster import KafkaCluster
from pykafka2.testing.simulation import Simulation
from tests.broker.support.leaders import append
from tests.broker.support.raw_client import RawClient

SESSION = 9.0
KEY = ("t", 0)


def cut_off(cluster: KafkaCluster) -> None:
    for other in (1, 2):
        cluster.controls.cut_link(0, other)


ENDS: dict[str, tuple[Callable[[KafkaCluster], None], Callable[[KafkaCluster], None]]] = {
    "killed": (
        lambda cluster: cluster.controls.crash_broker(0, unnoticed=True),
        lambda cluster: cluster.controls.restart_broker(0),
    ),
    "paused": (
        lambda cluster: cluster.controls.pause_broker(0),
        lambda cluster: cluster.controls.resume_broker(0),
    ),
    "cut off": (cut_off, lambda cluster: cluster.controls.heal()),
}


def elections(cluster: KafkaCluster) -> list[tuple[object, object]]:
    """The elected controller and its epoch."""
    events = cluster.events.events("controller")
    return [(one.facts["broker"], one.facts["epoch"]) for one in events if "event" not in one.facts]


def active(cluster: KafkaCluster) -> list[int]:
    """The brokers that believe they are the controller."""
    return [broker.id for broker in cluster.brokers if broker.is_running and broker.controller_node.is_active]


@pytest.mark.parametrize("how", ENDS)
def test_exactly_one_other_controller_is_elected_with_the_next_epoch(
    simulation: Simulation, how: str
) -> None:
    """Four stages: elected, gone, another one elected, the old one back."""
    end, mend = ENDS[how]
    cluster = simulation.cluster(brokers=3, topics={"t": 3})
    simulation.run_for(1)
    assert (cluster.controller.id, cluster.controller.epoch) == (0, 1)
    image = cluster.controller.image
    end(cluster)
    ended = simulation.now
    simulation.run_for(SESSION - 2.5)  # the last contact may be two seconds old
    assert cluster.controller.epoch == 1
    simulation.wait_until(lambda: cluster.controller.epoch == 2, 20)
    assert simulation.now - ended <= SESSION + 1.0
    assert cluster.controller.id in (1, 2)
    # The log was replayed: nothing is lost, and what the new one publishes is the full state.
    simulation.run_for(SESSION + 1)
    new = cluster.controller.image
    assert new.brokers[0].is_fenced
    assert new.topics["t"].id == image.topics["t"].id
    assert all(partition.leader in (1, 2) for partition in new.topics["t"].partitions)
    assert all(cluster.brokers[one].image is new for one in (1, 2))
    cluster.create_topic("after", 1, 2)
    mend(cluster)
    simulation.run_for(5)
    assert active(cluster) == [cluster.controller.id]
    assert cluster.controller.epoch == 2
    assert elections(cluster) == [(0, 1), (cluster.controller.id, 2)]
    assert not cluster.controller.image.brokers[0].is_fenced
    assert cluster.brokers[0].image is cluster.controller.image
    assert "after" in cluster.topics()


def test_an_old_controller_that_wakes_up_late_changes_nothing(simulation: Simulation) -> None:
    """A request that it had taken before it slept is made by the new one; its own attempts are refused."""
    cluster = simulation.cluster(brokers=3, topics={"t": 1})
    simulation.run_for(1)
    old = cluster.brokers[0].controller_node.active
    assert old is not None
    cluster.controls.pause_broker(0)
    wire = RawClient(cluster.brokers[1].address, simulation=simulation)
    asleep = RawClient(cluster.brokers[0].address, simulation=simulation)

    def request(name: str) -> CreateTopicsRequest:
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
        return CreateTopicsRequest(topics=[topic], timeout_ms=60_000)

    wire.send(request("forwarded"), 7)
    asleep.send(request("direct"), 7)
    # Broker 1 forwarded it to the sleeper; when another is elected it asks that one.
    (result,) = wire.receive(CreateTopicsRequest, 7)[1].topics
    assert result.error_code == 0
    assert cluster.controller.epoch == 2
    refused: list[int] = []
    check = cluster.controller.log.check

    def watch(epoch: int) -> None:
        if epoch != cluster.controller.epoch:
            refused.append(epoch)
        check(epoch)

    cluster.controller.log.check = watch  # type: ignore[method-assign]
    created = cluster.controller.image.topics["forwarded"].id
    cluster.controls.resume_broker(0)
    (late,) = asleep.receive(CreateTopicsRequest, 7)[1].topics
    # The old controller was refused by the log and handed the request on.
    assert refused
    assert set(refused) == {1}
    assert late.error_code == 0
    simulation.run_for(3)
    assert cluster.topics() == ["direct", "forwarded", "t"]
    assert cluster.controller.image.topics["forwarded"].id == created
    assert active(cluster) == [cluster.controller.id]
    wire.close()
    asleep.close()


@pytest.mark.gate
def test_many_elections_one_after_another(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=3, topics={"t": 1}, controller=2)
    simulation.run_for(1)
    for epoch in range(1, 8):
        assert cluster.controller.epoch == epoch
        killed = cluster.controller.id
        cluster.controls.crash_broker(killed)
        assert cluster.controller.epoch == epoch + 1
        assert active(cluster) == [cluster.controller.id] != [killed]
        cluster.create_topic(f"topic-{epoch}")
        cluster.controls.restart_broker(killed)
        simulation.run_for(1)
    append(cluster, KEY, b"a")
    simulation.run_for(2)
    assert cluster.partition(*KEY).high_watermark == 1
    epochs = [epoch for _, epoch in elections(cluster)]
    assert epochs == list(range(1, 9))


def test_the_controller_is_moved_by_hand(simulation: Simulation) -> None:
    """Choice of the controller at start and later."""
    cluster = simulation.cluster(brokers=3, controller=1)
    assert (cluster.controller.id, cluster.controller.epoch) == (1, 1)
    cluster.controls.move_controller(2)
    assert (cluster.controller.id, cluster.controller.epoch) == (2, 2)
    assert active(cluster) == [2]
    cluster.create_topic("t")


@pytest.mark.gate
def test_controller_without_a_majority_resigns(simulation: Simulation) -> None:
    """Three islands: no broker has a majority, so there is no controller until the links are restored."""
    cluster = simulation.cluster(brokers=3, topics={"t": 3})
    simulation.run_for(1)
    image = cluster.controller.image
    for one, other in ((0, 1), (0, 2), (1, 2)):
        cluster.controls.cut_link(one, other)
    simulation.run_for(SESSION - 2.5)
    assert cluster.controller.id == 0
    simulation.run_for(20)
    assert (cluster.controller.id, cluster.controller.epoch) == (-1, 1)
    assert active(cluster) == []
    assert cluster.controller.image is image, "and it changed nothing while it was alone"
    cluster.controls.heal()
    simulation.run_for(2)
    assert cluster.controller.epoch == 2
    assert active(cluster) == [cluster.controller.id]
    assert not any(broker.is_fenced for broker in cluster.controller.image.brokers.values())


def test_with_two_brokers_apart_the_controller_stays(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=2, topics={"t": 2})
    simulation.run_for(1)
    cluster.controls.cut_link(0, 1)
    simulation.run_for(30)
    assert (cluster.controller.id, cluster.controller.epoch) == (0, 1)
    assert cluster.controller.image.brokers[1].is_fenced
    cluster.controls.heal()
    simulation.run_for(2)
    assert not cluster.controller.image.brokers[1].is_fenced
