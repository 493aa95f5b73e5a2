"""A leader is killed; the next comes from the ISR under a new epoch; the old tail is truncated."""

from __future__ import annotations

import pytest

from pykafka2.protocol.messages.metadata_records import ConfigRecord
from pykafka2.testing.cluster import KafkaCluster, Topic
from pykafka2.testing.simulation import Simulation
from tests.broker.support.leaders import append, marks

KEY = ("t", 0)


def cluster_of(simulation: Simulation, *, unclean: bool = False) -> KafkaCluster:
    """Three replicas, led by broker 0; the controller is none of them at first."""
    topic = Topic(replication_factor=3, configs={"unclean.leader.election.enable": unclean})
    cluster = simulation.cluster(brokers=4, topics={"t": topic})
    simulation.run_for(1)
    outside = next(one for one in range(4) if one not in cluster.partition(*KEY).replicas)
    cluster.controls.move_controller(outside)
    return cluster


def values(cluster: KafkaCluster) -> list[list[bytes | None]]:
    return [cluster.log(*KEY, broker=one).values() for one in cluster.partition(*KEY).replicas]


@pytest.mark.parametrize("unnoticed", [False, True])
def test_a_killed_leader_is_replaced_from_the_isr_and_truncates_on_its_return(
    simulation: Simulation, unnoticed: bool
) -> None:
    cluster = cluster_of(simulation)
    append(cluster, KEY, b"kept")
    simulation.run_for(2)
    before = cluster.partition(*KEY)
    others = [one for one in before.replicas if one != before.leader]
    cluster.controls.pause_followers(KEY, brokers=others)
    simulation.run_for(1)
    append(cluster, KEY, b"old tail")
    cluster.controls.crash_broker(before.leader, lose_unreplicated=False, unnoticed=unnoticed)
    simulation.run_for(10 if unnoticed else 0.1)
    after = cluster.partition(*KEY)
    assert after.leader in others
    assert after.leader_epoch == before.leader_epoch + 1
    cluster.controls.resume_followers()
    append(cluster, KEY, b"new tail")
    simulation.run_for(1)
    cluster.controls.restart_broker(before.leader)
    simulation.run_for(3)
    assert values(cluster) == [[b"kept", b"new tail"]] * 3
    assert set(cluster.partition(*KEY).isr) == set(before.isr)
    assert cluster.partition(*KEY).leader_epoch == before.leader_epoch + 1


@pytest.mark.parametrize("unclean", [False, True])
def test_unclean_only_when_it_is_enabled(simulation: Simulation, unclean: bool) -> None:
    cluster = cluster_of(simulation, unclean=unclean)
    append(cluster, KEY, b"everywhere")
    simulation.run_for(2)
    view = cluster.partition(*KEY)
    others = [one for one in view.replicas if one != view.leader]
    for one in others:
        cluster.controls.crash_broker(one)
    append(cluster, KEY, b"on one")
    simulation.run_for(1)
    assert cluster.partition(*KEY).isr == (view.leader,)
    assert cluster.partition(*KEY).high_watermark == 2
    cluster.controls.crash_broker(view.leader)
    for one in others:
        cluster.controls.restart_broker(one)
    simulation.run_for(30)
    if not unclean:
        assert cluster.partition(*KEY).leader == -1
        cluster.controls.restart_broker(view.leader)
        simulation.run_for(2)
        assert values(cluster) == [[b"everywhere", b"on one"]] * 3
        assert cluster.partition(*KEY).leader == view.leader
    else:
        assert cluster.partition(*KEY).leader in others
        append(cluster, KEY, b"another")
        cluster.controls.restart_broker(view.leader)
        simulation.run_for(3)
        # A committed record is gone: that is what the option says.
        assert values(cluster) == [[b"everywhere", b"another"]] * 3
        assert marks(cluster, KEY) == [2, 2, 2]


def test_unclean_election_allowed_later_happens_at_the_next_check(simulation: Simulation) -> None:
    cluster = cluster_of(simulation)
    view = cluster.partition(*KEY)
    others = [one for one in view.replicas if one != view.leader]
    for one in others:
        cluster.controls.crash_broker(one)
    append(cluster, KEY, b"on one")
    simulation.run_for(1)
    cluster.controls.crash_broker(view.leader)
    for one in others:
        cluster.controls.restart_broker(one)
    records = [
        ConfigRecord(resource_type=2, resource_name="t", name="unclean.leader.election.enable", value="true")
    ]
    cluster.controller.run("allow unclean elections", lambda active: active.write(records))
    assert cluster.partition(*KEY).leader == -1
    simulation.run_for(301)
    assert cluster.partition(*KEY).leader in others
