"""The coordinator of a group, over the wire and in virtual time: lookups, moves and crashes."""

from __future__ import annotations

import pytest

from pykafka2.protocol.messages.coordinator import FindCoordinatorRequest
from pykafka2.protocol.messages.group_admin import DeleteGroupsRequest, ListGroupsRequest
from pykafka2.testing.simulation import Simulation
from tests.broker.support.bench import GROUP, PARTITION, ClusterBench, answer, commit_code, commit_request
from tests.error_codes import COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR


@pytest.mark.parametrize("version", range(7))
def test_every_version_finds_the_leader_of_the_keys_partition(simulation: Simulation, version: int) -> None:
    bench = ClusterBench(simulation, brokers=3)
    leader = bench.cluster.partition(*PARTITION).leader
    wire = bench.wire(1)
    if version < 4:
        old = wire.call(FindCoordinatorRequest(key="billing", key_type=0), version)
        assert (old.error_code, old.node_id, old.host) == (0, leader, f"broker-{leader}")
    else:
        names = [f"group-{number}" for number in range(20)]
        response = wire.call(
            FindCoordinatorRequest(key_type=0, coordinator_keys=["billing", *names]), version
        )
        assert [one.key for one in response.coordinators] == ["billing", *names]
        assert response.coordinators[0].node_id == leader
        assert {one.node_id for one in response.coordinators} == {0, 1, 2}
        assert [one.node_id for one in response.coordinators[1:]] == [
            bench.cluster.coordinator(name) for name in names
        ]


def test_the_coordinator_follows_its_partitions_leader(simulation: Simulation) -> None:
    bench = ClusterBench(simulation, brokers=3)
    assert bench.commit(5) == 0
    old, new = bench.coordinator, (bench.coordinator + 1) % 3
    bench.cluster.controls.hold_loading(new)
    bench.cluster.controls.move_coordinator("billing", new)
    assert bench.find(old) == new
    bench.coordinator = old
    assert bench.commit(6) == NOT_COORDINATOR
    assert bench.fetch().error_code == NOT_COORDINATOR
    bench.moved(new)
    assert bench.fetch().error_code == COORDINATOR_LOAD_IN_PROGRESS
    assert bench.commit(6) == COORDINATOR_LOAD_IN_PROGRESS
    bench.cluster.controls.release_loading()
    bench.advance(0.1)
    assert bench.committed() == 5


def test_commit_without_replication_gets_coordinator_not_available(simulation: Simulation) -> None:
    """A write that is not replicated within offsets.commit.timeout.ms fails, so that the client retries."""
    bench = ClusterBench(simulation, brokers=3, config={"min.insync.replicas": 2})
    (member,) = bench.stable(1, session=60.0)
    assert bench.commit(1, member=member, generation=1) == 0
    bench.cluster.controls.pause_followers()
    commit = bench.send(commit_request(GROUP, 2, member=member, generation=1), 9)
    assert not commit.is_done
    bench.advance(5.1)
    assert commit_code(answer(commit)) == COORDINATOR_NOT_AVAILABLE
    bench.cluster.controls.resume_followers()
    bench.advance(0.2)
    assert bench.committed() == 2, "it was appended, and is committed after all"


def test_list_groups_returns_groups_of_all_led_partitions(simulation: Simulation) -> None:
    bench = ClusterBench(simulation, brokers=3)
    names = [f"g{number}" for number in range(12)]
    homes = {name: bench.cluster.coordinator(name) for name in names}
    for name in names:
        bench.moved(homes[name])
        assert bench.commit(1, group_id=name) == 0
    listed: list[str] = []
    for broker in range(3):
        response = bench.wire(broker).call(ListGroupsRequest(states_filter=["Empty"]), 5)
        assert {one.group_type for one in response.groups} == {"classic"}
        listed += [one.group_id for one in response.groups]
    assert sorted(listed) == sorted(names)
    assert bench.wire(0).call(ListGroupsRequest(types_filter=["consumer"]), 5).groups == []
    response = bench.wire(0).call(DeleteGroupsRequest(groups_names=names), 2)
    assert {one.group_id: one.error_code for one in response.results} == {
        name: 0 if homes[name] == 0 else NOT_COORDINATOR for name in names
    }
