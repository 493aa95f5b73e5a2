"""Assignors in living groups: what members tell the leader reaches its assignor, and the answer reaches
them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pykafka2 import Assignment, Assignor, ClusterMetadata, KafkaConsumer, LastAssignment, MemberSubscription
from pykafka2.errors import AssignorFailed
from pykafka2.testing import QUICK, KafkaCluster, Simulation, Topic
from tests.consumer.group.life import Group
from tests.gate import rest_in_gate

pytestmark = pytest.mark.slow


class ByWeight(Assignor):
    """The member with the largest user data gets all partitions; each one records its assignment."""

    def __init__(self, weight: int = 0) -> None:
        self.weight = weight
        self.calls: list[tuple[Assignment, int]] = []
        self.last: list[LastAssignment | None] = []

    @property
    def name(self) -> str:
        return "by-weight"

    def user_data(self, topics: frozenset[str], last: LastAssignment | None) -> bytes:
        self.last.append(last)
        return self.weight.to_bytes(2, "big")

    def assign(
        self, cluster: ClusterMetadata, members: Mapping[str, MemberSubscription]
    ) -> Mapping[str, Assignment]:
        heaviest = max(members, key=lambda member: members[member].user_data or b"")
        everything = [one for topic in cluster.partitions for one in cluster.topic_partitions(topic)]
        return {heaviest: Assignment(tuple(everything), b"you have it all")}

    def on_assignment(self, assignment: Assignment, generation: int) -> None:
        self.calls.append((assignment, generation))


class Fails(ByWeight):
    def assign(
        self, cluster: ClusterMetadata, members: Mapping[str, MemberSubscription]
    ) -> Mapping[str, Assignment]:
        raise LookupError("no idea")


def test_custom_assignor_receives_the_user_data_of_members(simulation: Simulation) -> None:
    group = Group(simulation)
    light, heavy = ByWeight(1), ByWeight(7)
    first = group.member("a", partition_assignment_strategy=[light])
    group.settle()
    assert len(first.owned) == 6
    second = group.member("b", partition_assignment_strategy=[heavy])
    group.settle()
    assert (len(first.owned), len(second.owned)) == (0, 6)
    (assigned, first_generation), *_, (nothing, _) = light.calls
    assert (len(assigned.partitions), assigned.user_data) == (6, b"you have it all")
    assert nothing == Assignment()
    assert light.last[0] is None
    assert LastAssignment(assigned.partitions, first_generation) in light.last


def test_exception_of_a_custom_assignor_is_raised_by_poll(simulation: Simulation) -> None:
    group = Group(simulation)
    member = group.member("a", partition_assignment_strategy=Fails)
    group.turn_until(lambda: bool(member.errors), 10)
    assert isinstance(member.errors[0], AssignorFailed)
    assert "assignor 'by-weight': assign() raised LookupError('no idea')" in str(member.errors[0])


@pytest.mark.gate
def test_sticky_group_returns_partitions_to_their_former_owners(simulation: Simulation) -> None:
    group = Group(simulation, partition_assignment_strategy="sticky")
    first = group.member("a")
    group.settle()
    group.member("b")
    group.settle()
    kept = set(first.owned)
    assert len(kept) == 3
    third = group.member("c")
    group.settle()
    assert len(first.owned) == 2
    assert first.owned < kept
    third.consumer.close()
    group.members.remove(third)
    group.settle()
    assert len(first.owned) == 3
    assert len(first.owned & kept) >= 2


def owned(simulation: Simulation, cluster: KafkaCluster, strategy: str) -> dict[str, list[int]]:
    """Partitions of the members in racks a and b once all are assigned."""
    members: dict[str, KafkaConsumer] = {
        rack: simulation.consumer(
            cluster, "orders", group_id="g", client_rack=rack, partition_assignment_strategy=strategy
        )
        for rack in "ab"
    }
    for _ in range(200):
        for consumer in members.values():
            consumer.poll(timeout_ms=50)
        if all(len(consumer.assignment()) == 2 for consumer in members.values()):
            break
    return {
        rack: sorted(one.partition for one in consumer.assignment()) for rack, consumer in members.items()
    }


@pytest.mark.parametrize("strategy", rest_in_gate(["range", "sticky", "cooperative-sticky"]))
def test_members_are_assigned_partitions_in_their_racks(simulation: Simulation, strategy: str) -> None:
    topic = Topic(assignment=[[1], [0], [0], [1]])
    cluster = simulation.cluster(brokers=2, racks=["a", "b"], topics={"orders": topic}, config=QUICK)
    assert owned(simulation, cluster, strategy) == {"a": [1, 2], "b": [0, 3]}
