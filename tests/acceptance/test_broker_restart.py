"""A broker stops, returns, or registers again while its old registration lives: leaders
move, and it comes back as a follower.  Coordinators and groups: test_groups_during_broker_restart.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka2 import errors
from pykafka2.protocol.messages.broker_lifecycle import BrokerHeartbeatRequest
from pykafka2.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from pykafka2.testing.cluster import KafkaCluster
from pykafka2.testing.simulation import Simulation
from tests.broker.controller.test_brokers_and_controller import call_controller
from tests.broker.support.leaders import append, ends

KEY = ("t", 0)


def stop_and_start(cluster: KafkaCluster, broker: int, simulation: Simulation) -> None:
    cluster.controls.stop_broker(broker)
    simulation.run_for(3)
    cluster.controls.restart_broker(broker)


def crash_and_start(cluster: KafkaCluster, broker: int, simulation: Simulation) -> None:
    cluster.controls.crash_broker(broker)
    simulation.run_for(3)
    cluster.controls.restart_broker(broker)


def bounce(cluster: KafkaCluster, broker: int, simulation: Simulation) -> None:
    """Restart a broker before the controller notices that it was gone."""
    cluster.controls.crash_broker(broker, unnoticed=True)
    simulation.run_for(1)
    assert not cluster.controller.image.brokers[broker].is_fenced
    cluster.controls.restart_broker(broker)


WAYS: list[Callable[[KafkaCluster, int, Simulation], None]] = [stop_and_start, crash_and_start, bounce]


@pytest.mark.parametrize("way", WAYS)
def test_leaders_move_and_the_restarted_broker_returns_as_a_follower(
    simulation: Simulation, way: Callable[[KafkaCluster, int, Simulation], None]
) -> None:
    cluster = simulation.cluster(brokers=3, topics={"t": 3})
    simulation.run_for(1)
    broker = cluster.partition(*KEY).leader
    before = cluster.controller.image.brokers[broker]
    append(cluster, KEY, b"a")
    simulation.run_for(1)
    epoch = cluster.partition(*KEY).leader_epoch
    way(cluster, broker, simulation)
    after = cluster.controller.image.brokers[broker]
    assert after.epoch > before.epoch
    assert after.incarnation_id != before.incarnation_id
    assert not after.is_fenced
    view = cluster.partition(*KEY)
    assert view.leader != broker
    assert view.leader_epoch == epoch + 1
    append(cluster, KEY, b"b")
    simulation.run_for(3)
    assert ends(cluster, KEY) == [2, 2, 2]
    assert broker in cluster.partition(*KEY).isr


def test_the_old_registration_is_refused(simulation: Simulation) -> None:
    """Heartbeats and fetches of the epoch before (AlterPartition: test_brokers_and_controller.py)."""
    cluster = simulation.cluster(brokers=3, topics={"t": 1})
    simulation.run_for(1)
    leader = cluster.partition(*KEY).leader
    follower = next(one for one in range(3) if one not in (leader, cluster.controller.id))
    old = cluster.controller.image.brokers[follower].epoch
    bounce(cluster, follower, simulation)
    simulation.run_for(1)
    beat = BrokerHeartbeatRequest(
        broker_id=follower,
        broker_epoch=old,
        current_metadata_offset=99,
        want_fence=False,
        want_shut_down=False,
    )
    assert call_controller(cluster, simulation, follower, beat, 1).error_code == errors.StaleBrokerEpoch.code
    fetch = FetchRequest(
        replica_state=ReplicaState(replica_id=follower, replica_epoch=old),
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1000,
        topics=[
            FetchTopic(
                topic_id=cluster.controller.image.topics["t"].id,
                partitions=[
                    FetchPartition(
                        partition=0, current_leader_epoch=-1, fetch_offset=0, partition_max_bytes=1000
                    )
                ],
            )
        ],
    )
    answers: list[Any] = []
    cluster.links.call(
        follower, leader, fetch, 17, lambda got, at: answers.append(got), lambda e, at: None, simulation.now
    )
    simulation.run_for(1)
    (partition,) = answers[0].responses[0].partitions
    assert partition.error_code == errors.NotLeaderOrFollower.code
