"""Groups of KIP-848 over the wire and in virtual time: epochs, assignments, migration, configurations."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka2.broker.base.image import BROKER_RESOURCE, GROUP_RESOURCE
from pykafka2.protocol.messages.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from pykafka2.protocol.messages.consumer_group import ConsumerGroupDescribeRequest
from pykafka2.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
)
from pykafka2.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignmentTopicPartition as TopicAssignment,
)
from pykafka2.testing.simulation import Simulation
from tests.broker.support.bench import ClusterBench, assigned, code
from tests.error_codes import (
    FENCED_MEMBER_EPOCH,
    MEMBER_ID_REQUIRED,
    STALE_MEMBER_EPOCH,
    UNKNOWN_MEMBER_ID,
    UNRELEASED_INSTANCE_ID,
    UNSUPPORTED_ASSIGNOR,
    UNSUPPORTED_VERSION,
)


def test_a_commit_does_not_stand_for_a_heartbeat_in_the_new_protocol(bench: ClusterBench) -> None:
    """Commits of KIP-848 members do not re-arm their sessions."""
    bench.beat("one", 0)
    for number in range(8):
        bench.advance(5.0)
        assert bench.commit(number, member="one", generation=2) == 0
    bench.advance(5.5)
    assert bench.commit(9, member="one", generation=2) == UNKNOWN_MEMBER_ID
    assert bench.group.members == {}


# -- KIP-848 ------------------------------------------------------------------------------------------


def test_partition_is_assigned_only_after_its_owner_revoked_it(bench: ClusterBench) -> None:
    topic = bench.cluster.controller.image.topics["orders"].id
    first = bench.beat("one", 0)
    assert (first.error_code, first.member_epoch, assigned(first)) == (0, 2, {topic: [0, 1, 2, 3, 4, 5]})
    bench.advance(1.0)  # group.consumer.assignment.interval.ms
    second = bench.beat("two", 0)
    assert (second.error_code, second.member_epoch, assigned(second)) == (0, 3, {})
    told = assigned(bench.beat("one", 2))
    assert told == {topic: [0, 1, 2]}
    assert assigned(bench.beat("two", 3)) is None  # not given up yet
    assert bench.group.state == "Reconciling"
    answer = bench.beat("one", 2, owned=told)
    assert (answer.error_code, answer.member_epoch) == (0, 3)
    assert assigned(bench.beat("two", 3)) == {topic: [3, 4, 5]}
    assert (bench.group.kind, bench.group.state) == ("consumer", "Stable")


def test_epochs_join_leave_and_fence(bench: ClusterBench) -> None:
    assert bench.beat("one", 0).member_epoch == 2
    assert bench.beat("one", 7).error_code == FENCED_MEMBER_EPOCH
    assert bench.beat("nobody", 3).error_code == UNKNOWN_MEMBER_ID
    left = bench.beat("one", -1)
    assert (left.error_code, left.member_epoch) == (0, -1)
    assert bench.beat("one", 2).error_code == UNKNOWN_MEMBER_ID
    assert bench.beat("two", 0, assignor="best").error_code == UNSUPPORTED_ASSIGNOR


def test_a_static_member_leaves_for_a_while(bench: ClusterBench) -> None:
    joined = bench.beat("one", 0, instance="i")
    assert bench.beat("two", 0, instance="i").error_code == UNRELEASED_INSTANCE_ID
    assert bench.beat("one", -2, instance="i").member_epoch == -2
    back = bench.beat("two", 0, instance="i")
    assert (back.error_code, assigned(back)) == (0, assigned(joined))
    assert list(bench.group.members) == ["two"]


def test_a_silent_member_is_out_after_the_session_timeout(bench: ClusterBench) -> None:
    bench.beat("one", 0)
    bench.advance(44.0)
    assert list(bench.group.members) == ["one"]
    bench.advance(1.5)
    assert bench.group.members == {}


@pytest.mark.parametrize(
    "options",
    [{"config": {"group.coordinator.rebalance.protocols": "classic"}}, {"features": {"group.version": 0}}],
)
def test_the_new_protocol_can_be_off(simulation: Simulation, options: dict[str, Any]) -> None:
    bench = ClusterBench(simulation, **options)
    assert bench.beat("one", 0).error_code == UNSUPPORTED_VERSION
    request = ConsumerGroupDescribeRequest(group_ids=["billing"], include_authorized_operations=False)
    assert bench.call(request).groups[0].error_code == UNSUPPORTED_VERSION
    assert code(bench.join()) == MEMBER_ID_REQUIRED


def alter(bench: ClusterBench, kind: int, name: str, configs: dict[str, str]) -> None:
    """Set configurations, as an administrator does."""
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            IncrementalAlterConfigsRequestAlterableConfig(name=name, config_operation=0, value=value)
            for name, value in configs.items()
        ],
    )
    answer = bench.call(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
    assert answer.responses[0].error_code == 0, answer


def test_the_interval_between_assignments_can_be_changed_while_brokers_run(bench: ClusterBench) -> None:
    """group.consumer.assignment.interval.ms is dynamic (KIP-1263); a group's own goes before it."""
    assert bench.beat("one", 0).member_epoch == 2
    assert bench.beat("two", 0).member_epoch == 2  # its target has to wait
    alter(bench, BROKER_RESOURCE, "", {"group.consumer.assignment.interval.ms": "0"})
    assert bench.beat("three", 0).member_epoch == 4
    alter(bench, GROUP_RESOURCE, "billing", {"consumer.assignment.interval.ms": "5000"})
    assert bench.beat("four", 0).member_epoch == 4


def test_group_config_overrides_the_broker_config(bench: ClusterBench) -> None:
    """consumer.session.timeout.ms and its like, set on a GROUP resource; they act at the next heartbeat."""
    assert bench.beat("one", 0).heartbeat_interval_ms == 5000
    alter(
        bench,
        GROUP_RESOURCE,
        "billing",
        {"consumer.session.timeout.ms": "60000", "consumer.heartbeat.interval.ms": "10000"},
    )
    assert bench.beat("one", 2).heartbeat_interval_ms == 10000
    bench.advance(55.0)
    assert list(bench.group.members) == ["one"]
    bench.advance(6.0)
    assert bench.group.members == {}


def test_a_group_and_its_epochs_move_with_the_coordinator(simulation: Simulation) -> None:
    bench = ClusterBench(simulation, brokers=3)
    bench.beat("one", 0)
    before = bench.group
    bench.reload()
    assert bench.group == before
    assert bench.beat("one", 2).error_code == 0
    request = ConsumerGroupDescribeRequest(group_ids=["billing"], include_authorized_operations=True)
    described = bench.call(request).groups[0]
    assert described.authorized_operations == 3400  # READ, DELETE, DESCRIBE and the two of configs
    assert (described.error_code, described.group_epoch, len(described.members)) == (0, 2, 1)


def test_a_pattern_is_resolved_by_the_coordinator(bench: ClusterBench) -> None:
    """Subscriptions by RE2 patterns (KIP-848): here by Python's `re`, of a bounded length."""
    topics = bench.cluster.controller.image.topics
    joined = bench.beat("one", 0, regex="ord.*|nothing")
    assert joined.error_code == 0
    bench.advance(1.0)
    got = assigned(joined) or assigned(bench.beat("one", joined.member_epoch))
    assert got is not None
    assert got == {topics["orders"].id: [0, 1, 2, 3, 4, 5]}


def test_commits_and_fetches_name_the_members_epoch(bench: ClusterBench) -> None:
    bench.beat("one", 0)
    assert bench.commit(5, member="one", generation=2) == 0
    bench.beat("one", 2, topics=["refunds"])  # the group's epoch goes up
    bench.advance(1.1)
    assert bench.beat("one", 2, owned={}).member_epoch == 3
    assert bench.commit(6, member="one", generation=2) == STALE_MEMBER_EPOCH
    assert bench.commit(6, member="one", generation=4) == STALE_MEMBER_EPOCH
    assert bench.commit(6, member="one", generation=3) == 0
    assert bench.fetch(member="one", epoch=2).error_code == STALE_MEMBER_EPOCH
    assert bench.fetch(member="nobody", epoch=1).error_code == UNKNOWN_MEMBER_ID
    assert bench.committed(member="one", epoch=3) == 6
    assert bench.committed() == 6


@pytest.mark.parametrize(
    ("policy", "upgrades"),
    [("bidirectional", True), ("upgrade", True), ("downgrade", False), ("disabled", False)],
)
def test_a_group_changes_its_protocol_as_the_policy_allows(
    simulation: Simulation, policy: str, upgrades: bool
) -> None:
    bench = ClusterBench(simulation, config={"group.consumer.migration.policy": policy})
    member = bench.member_id()
    bench.join(member)
    bench.advance(3.1)
    everything = TopicAssignment(topic="orders", partitions=list(range(6)))
    assignment = b"\0\0" + ConsumerProtocolAssignment(assigned_partitions=[everything]).encode(0)
    bench.sync(member, 1, {member: assignment})
    answer = bench.beat("new", 0)
    assert (answer.error_code == 0) is upgrades
    assert bench.group.kind == ("consumer" if upgrades else "classic")
    assert member in bench.group.members


def test_an_empty_group_changes_its_protocol_under_any_policy(simulation: Simulation) -> None:
    bench = ClusterBench(simulation, config={"group.consumer.migration.policy": "disabled"})
    assert bench.commit(5) == 0
    assert bench.beat("new", 0).error_code == 0
    assert (bench.group.kind, bench.committed()) == ("consumer", 5)
    bench.beat("new", -1)
    assert code(bench.join(version=1)) is None
    assert bench.group.kind == "classic"
