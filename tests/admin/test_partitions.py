"""Partitions added, leaders elected, replicas moved: two topics, three brokers, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka2 import NewTopic, TopicPartition
from pykafka2.admin.outcomes import ItemsFailed
from pykafka2.admin.values import NewPartitions, PartitionReassignment
from pykafka2.errors import (
    IllegalArgument,
    InvalidPartitions,
    InvalidReplicaAssignment,
    NoReassignmentInProgress,
    PreferredLeaderNotAvailable,
    UnknownTopicOrPartition,
)
from pykafka2.testing import Simulation
from tests.admin.worlds import World

ORDERS = [TopicPartition("orders", number) for number in range(2)]
PAYMENTS = TopicPartition("payments", 0)


@pytest.fixture
def world(simulation: Simulation) -> Iterator[World]:
    world = World(simulation, brokers=3, topics={})
    world.admin.create_topics(
        [
            NewTopic("orders", assignment={0: [0, 1], 1: [1, 2]}),
            NewTopic("payments", assignment={0: [2, 0]}),
        ]
    )
    world.admin.wait_for_topics(["orders", "payments"])
    yield world
    world.close()


def replicas_of(world: World, partition: TopicPartition) -> tuple[int, ...]:
    described = world.admin.describe_topics([partition.topic])[partition.topic]
    return described.partitions[partition.partition].replicas


def test_partitions_are_added(world: World) -> None:
    added = world.admin.create_partitions({"orders": 4, "payments": NewPartitions(3, [[0, 1], [1, 2]])})
    assert list(added) == ["orders", "payments"]
    described = world.admin.describe_topics(["orders", "payments"])
    assert len(described["orders"].partitions) == 4
    assert [one.replicas for one in described["payments"].partitions] == [(2, 0), (0, 1), (1, 2)]


def test_partitions_that_cannot_be_added_have_their_own_errors(world: World) -> None:
    outcomes = world.admin.create_partitions(
        {"orders": 2, "none": 3, "payments": 2, "other": NewPartitions(2, [[9]])}, raise_errors=False
    )
    assert isinstance(outcomes.errors["orders"], InvalidPartitions)
    assert isinstance(outcomes.errors["none"], UnknownTopicOrPartition)
    assert outcomes["payments"] is None
    with pytest.raises(ItemsFailed, match="InvalidReplicaAssignment"):
        world.admin.create_partitions({"payments": NewPartitions(3, [[9, 8]])})
    world.admin.create_partitions({"payments": 5}, validate_only=True)
    assert len(world.admin.describe_topics(["payments"])["payments"].partitions) == 2


@pytest.mark.parametrize("totals", [["orders"], {"orders": 0}, {"orders": "3"}, {"orders": True}, {"": 3}])
def test_invalid_totals_are_refused(world: World, totals: object) -> None:
    with pytest.raises(IllegalArgument):
        world.admin.create_partitions(totals)  # type: ignore[arg-type]


def test_preferred_leaders_are_elected(simulation: Simulation, world: World) -> None:
    world.cluster.controls.stop_broker(0)
    simulation.wait_until(lambda: world.cluster.partition("orders", 0).leader == 1)
    with pytest.raises(ItemsFailed, match="PreferredLeaderNotAvailable"):
        world.admin.elect_leaders([ORDERS[0]])
    world.cluster.controls.restart_broker(0)
    simulation.wait_until(lambda: 0 in world.cluster.partition("orders", 0).isr)
    missing = TopicPartition("none", 0)
    outcomes = world.admin.elect_leaders([*ORDERS, missing], raise_errors=False)
    assert [outcomes[partition] for partition in ORDERS] == [True, False]
    assert isinstance(outcomes.errors[missing], UnknownTopicOrPartition)
    assert world.cluster.partition("orders", 0).leader == 0


def test_leaders_of_all_partitions_are_elected(simulation: Simulation, world: World) -> None:
    assert len(world.admin.elect_leaders()) == 0
    world.cluster.controls.stop_broker(0)
    simulation.wait_until(lambda: world.cluster.partition("orders", 0).leader == 1)
    world.cluster.controls.restart_broker(0)
    simulation.wait_until(lambda: 0 in world.cluster.partition("orders", 0).isr)
    assert dict(world.admin.elect_leaders()) == {ORDERS[0]: True}


def test_unclean_election_takes_a_replica_that_is_out_of_sync(simulation: Simulation, world: World) -> None:
    world.cluster.controls.stop_broker(1)
    simulation.wait_until(lambda: world.cluster.partition("orders", 0).isr == (0,))
    world.cluster.controls.stop_broker(0)
    simulation.wait_until(lambda: world.cluster.partition("orders", 0).leader == -1)
    world.cluster.controls.restart_broker(1)
    admin = world.new_admin("second", bootstrap_servers=world.cluster.brokers[2].address)
    simulation.sleep(3)
    outcomes = admin.elect_leaders([ORDERS[0]], raise_errors=False)
    assert isinstance(outcomes.errors[ORDERS[0]], PreferredLeaderNotAvailable)
    assert admin.elect_leaders([ORDERS[0]], unclean=True)[ORDERS[0]] is True
    assert world.cluster.partition("orders", 0).leader == 1
    admin.close()


def test_partitions_are_moved(simulation: Simulation, world: World) -> None:
    world.fill("orders", [3, 3])
    world.cluster.controls.pause_broker(2)
    moved = world.admin.alter_partition_reassignments({ORDERS[0]: [2, 1]}, timeout=20)
    assert list(moved) == [ORDERS[0]]
    listed = world.admin.list_partition_reassignments(timeout=20)
    assert listed == {ORDERS[0]: PartitionReassignment((2, 1, 0), (2,), (0,))}
    assert world.admin.list_partition_reassignments([ORDERS[0]], timeout=20) == listed
    assert world.admin.list_partition_reassignments([ORDERS[1]], timeout=20) == {}
    world.cluster.controls.resume_broker(2)
    simulation.wait_until(lambda: not world.admin.list_partition_reassignments())
    assert replicas_of(world, ORDERS[0]) == (2, 1)


def test_reassignment_is_cancelled(simulation: Simulation, world: World) -> None:
    world.cluster.controls.pause_broker(2)
    world.admin.alter_partition_reassignments({ORDERS[0]: [2, 1]}, timeout=20)
    world.admin.alter_partition_reassignments({ORDERS[0]: None}, timeout=20)
    assert world.admin.list_partition_reassignments(timeout=20) == {}
    world.cluster.controls.resume_broker(2)
    assert sorted(replicas_of(world, ORDERS[0])) == [0, 1]


def test_reassignments_that_are_rejected_have_their_own_errors(world: World) -> None:
    outcomes = world.admin.alter_partition_reassignments(
        {ORDERS[0]: None, ORDERS[1]: [7], PAYMENTS: [0, 1], TopicPartition("none", 0): [1]},
        raise_errors=False,
    )
    assert {str(one): type(error) for one, error in outcomes.errors.items()} == {
        "orders-0": NoReassignmentInProgress,
        "orders-1": InvalidReplicaAssignment,
        "none-0": UnknownTopicOrPartition,
    }
    assert outcomes[PAYMENTS] is None
    with pytest.raises(ItemsFailed, match="InvalidReplicationFactor"):
        world.admin.alter_partition_reassignments(
            {ORDERS[1]: [0, 1, 2]}, allow_replication_factor_change=False
        )
    with pytest.raises(IllegalArgument, match="orders-0"):
        world.admin.alter_partition_reassignments({ORDERS[0]: "12"})
