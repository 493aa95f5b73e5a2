"""Share groups over the wire in virtual time: members, sessions, partitions, offsets, moved coordinators."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka2 import errors
from pykafka2.protocol.messages import share_offsets
from pykafka2.protocol.messages.coordinator import FindCoordinatorRequest
from pykafka2.protocol.messages.group_admin import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from pykafka2.protocol.messages.share_group import ShareGroupDescribeRequest, ShareGroupHeartbeatRequest
from pykafka2.protocol.messages.topics import CreatePartitionsRequest, CreatePartitionsTopic
from pykafka2.testing import STANDARD_AUTHORIZER
from pykafka2.testing.simulation import Simulation
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import produce
from tests.broker.support.raw_client import RawClient
from tests.connections import LiveCluster

from .bench import GROUP, ShareGroupBench

ORDERS = [("orders", number) for number in range(4)]


def fill(bench: ShareGroupBench, topic: str, partition: int, records: int) -> None:
    leader = bench.cluster.partition(topic, partition).leader
    with RawClient(bench.cluster.broker(leader).address, simulation=bench.simulation) as wire:
        assert produce(wire, topic, partition, batch([b"x"] * records)).error_code == 0


@pytest.mark.gate
@pytest.mark.slow
def test_members_share_the_partitions_once_these_are_initialized(simulation: Simulation) -> None:
    bench = ShareGroupBench(simulation)
    first = bench.beat("a", "orders")
    assert (first.error_code, first.member_epoch, bench.assigned["a"]) == (0, 2, [])
    bench.settle()
    assert bench.assigned["a"] == ORDERS
    bench.beat("b", "orders")
    bench.settle()
    assert (len(bench.places("a")), len(bench.places("b"))) == (2, 2)
    assert sorted(bench.assigned["a"] + bench.assigned["b"]) == ORDERS
    # With more members than partitions several share one.
    for member in "cdef":
        bench.beat(member, "orders")
    bench.settle()
    assert {len(bench.places(member)) for member in "abcdef"} <= {1, 2}
    assert {place for member in "abcdef" for place in bench.assigned[member]} == set(ORDERS)
    described = bench.describe()
    assert (described.group_state, described.assignor_name, len(described.members)) == ("Stable", "simple", 6)
    view = bench.cluster.group(GROUP)
    assert (view.kind, view.state, view.protocol, len(view.members)) == ("share", "Stable", "simple", 6)


def test_two_groups_of_one_topic_are_independent(simulation: Simulation) -> None:
    bench = ShareGroupBench(simulation)
    other = ShareGroupHeartbeatRequest(
        group_id="other", member_id="a", member_epoch=0, subscribed_topic_names=["orders"]
    )
    bench.beat("a", "orders")
    coordinator = bench.cluster.coordinator("other")
    assert bench.call(other, 1, coordinator).error_code == 0
    bench.settle()
    assert bench.leave("a") == 0
    assert bench.cluster.group("other").members.keys() == {"a"}
    assert bench.cluster.group(GROUP).members == {}


@pytest.mark.gate
def test_member_without_heartbeats_is_removed_after_its_session_timeout(simulation: Simulation) -> None:
    session = {"group.share.session.timeout.ms": 6000, "group.share.min.session.timeout.ms": 6000}
    bench = ShareGroupBench(simulation, config=session)
    bench.beat("a", "orders")
    bench.beat("b", "orders")
    bench.settle()
    del bench.epochs["b"]
    for _ in range(2):
        simulation.run_for(3.0)
        bench.settle(1)
    assert bench.beat("b", epoch=3).error_code == errors.UnknownMemberId.code
    bench.settle()
    assert bench.assigned["a"] == ORDERS


@pytest.mark.gate
@pytest.mark.slow
def test_new_topic_and_new_partitions_are_assigned(simulation: Simulation) -> None:
    bench = ShareGroupBench(simulation)
    bench.beat("a", "orders", "late")
    bench.settle()
    assert bench.assigned["a"] == ORDERS
    more = CreatePartitionsTopic(name="orders", count=6, assignments=None)
    request = CreatePartitionsRequest(topics=[more], timeout_ms=1000, validate_only=False)
    assert bench.call(request, 3, 0).results[0].error_code == 0
    bench.settle()
    assert bench.places("a") == list(range(6))
    bench.cluster.create_topic("late", 1)
    bench.settle()
    assert bench.assigned["a"] == [("late", 0), *(("orders", number) for number in range(6))]
    # The leader chooses the start of a new topic; partitions that were added later start at 0.
    starts = {place: start for place, (start, _) in bench.offsets().items()}
    assert starts == {("late", 0): -1} | {("orders", number): -1 if number < 4 else 0 for number in range(6)}
    bench.cluster.delete_topic("late")
    bench.settle()
    assert ("late", 0) not in bench.assigned["a"]
    assert ("late", 0) not in bench.offsets()


@pytest.mark.gate
@pytest.mark.slow
def test_changed_subscription_replaces_the_partitions(simulation: Simulation) -> None:
    bench = ShareGroupBench(simulation)
    bench.beat("a", "orders")
    bench.beat("b", "orders")
    bench.settle()
    bench.beat("b", "refunds")
    bench.settle()
    assert bench.assigned["a"] == ORDERS
    assert bench.assigned["b"] == [("refunds", 0), ("refunds", 1)]


@pytest.mark.gate
@pytest.mark.slow
def test_group_survives_a_moved_and_a_crashed_coordinator(simulation: Simulation) -> None:
    bench = ShareGroupBench(simulation)
    bench.beat("a", "orders")
    bench.settle()
    before = bench.describe()
    bench.cluster.controls.move_coordinator(GROUP, (bench.coordinator() + 1) % 3)
    simulation.run_for(1.0)
    assert bench.describe() == before
    bench.restart_coordinator()
    assert bench.describe() == before
    assert bench.beat("a").error_code == 0
    bench.beat("b", "orders")
    bench.settle()
    assert sorted(bench.assigned["a"] + bench.assigned["b"]) == ORDERS


@pytest.mark.gate
@pytest.mark.slow
def test_sessions_of_members_time_out_at_the_next_coordinator_too(simulation: Simulation) -> None:
    bench = ShareGroupBench(simulation)
    bench.beat("a", "orders")
    bench.beat("b", "orders")
    bench.settle()
    bench.restart_coordinator()
    simulation.run_for(30.0)
    assert bench.beat("b").error_code == 0
    simulation.run_for(20.0)
    assert bench.beat("a").error_code == errors.UnknownMemberId.code
    assert bench.beat("b").error_code == 0


@pytest.mark.gate
@pytest.mark.slow
def test_epoch_before_the_current_one_is_accepted_and_no_other(simulation: Simulation) -> None:
    bench = ShareGroupBench(simulation)
    bench.beat("a", "orders")
    bench.settle()
    previous = bench.epochs["a"]
    bench.beat("b", "orders")
    bench.settle()
    current = bench.epochs["a"]
    assert current > previous
    codes = [bench.beat("a", epoch=epoch).error_code for epoch in (previous, current, current + 1)]
    assert codes == [0, 0, errors.FencedMemberEpoch.code]
    assert bench.beat("a", epoch=previous - 1).error_code == errors.FencedMemberEpoch.code


@pytest.mark.gate
@pytest.mark.slow
def test_member_gives_up_a_topic_before_the_next_assignment(simulation: Simulation) -> None:
    bench = ShareGroupBench(simulation, config={"group.share.assignment.interval.ms": 10_000})
    bench.beat("a", "orders", "refunds")
    for _ in range(3):
        simulation.run_for(11.0)
        bench.beat("a")
    assert {topic for topic, _ in bench.assigned["a"]} == {"orders", "refunds"}
    bench.beat("b", "refunds")
    epoch = bench.describe().assignment_epoch
    bench.beat("a", "refunds")
    assert bench.describe().assignment_epoch == epoch
    assert {topic for topic, _ in bench.assigned["a"]} == {"refunds"}


@pytest.mark.gate
@pytest.mark.slow
def test_group_without_members_has_nothing_left_to_assign(simulation: Simulation) -> None:
    bench = ShareGroupBench(simulation)
    bench.beat("a", "orders")
    bench.settle()
    bench.leave("a")
    described = bench.describe()
    assert (described.group_state, described.members) == ("Empty", [])
    assert described.assignment_epoch == described.group_epoch


@pytest.mark.gate
@pytest.mark.slow
def test_initialization_is_repeated_after_the_coordinator_was_lost(simulation: Simulation) -> None:
    """The group's record says that partitions are initializing, but the state topic could not be created."""
    bench = ShareGroupBench(simulation, config={"share.coordinator.state.topic.replication.factor": 3})
    lost = bench.cluster.controls
    for broker in (1, 2):
        lost.crash_broker(broker)  # too few brokers for the state topic
    simulation.run_for(12.0)
    bench.beat("a", "orders")
    bench.settle()
    assert bench.assigned["a"] == []
    for broker in (1, 2):
        lost.restart_broker(broker)
    for _ in range(12):
        simulation.run_for(4.0)
        bench.settle(1)
    assert bench.assigned["a"] == ORDERS


@pytest.mark.slow
def test_start_offsets_are_altered_described_and_deleted(simulation: Simulation) -> None:
    bench = ShareGroupBench(simulation)
    for partition in range(2):
        fill(bench, "orders", partition, 10)
    altered = bench.alter("orders", 3, 8, 0)
    assert [one.error_code for one in altered.responses[0].partitions] == [0, 0, 0]
    assert bench.offsets() == {("orders", 0): (3, 7), ("orders", 1): (8, 2), ("orders", 2): (0, 0)}
    assert bench.offsets("refunds") == {("refunds", 0): (-1, -1), ("refunds", 1): (-1, -1)}
    bench.beat("a", "orders")
    assert bench.alter("orders", 1).error_code == errors.NonEmptyGroup.code
    assert bench.delete_offsets("orders").error_code == errors.NonEmptyGroup.code
    bench.leave("a")
    deleted = bench.delete_offsets("orders", "refunds", "unknown")
    codes = {one.topic_name: one.error_code for one in deleted.responses}
    unknown = errors.UnknownTopicOrPartition.code
    assert codes == {"orders": 0, "refunds": unknown, "unknown": unknown}
    assert bench.offsets() == {}


@pytest.mark.gate
@pytest.mark.slow
def test_offsets_that_the_share_coordinator_rejects_can_be_changed_again(simulation: Simulation) -> None:
    bench = ShareGroupBench(simulation)

    def reject_next(api: str) -> None:
        bench.cluster.controls.rule(api=api, then="error:UNKNOWN_SERVER_ERROR", between_brokers=True, times=1)

    reject_next("InitializeShareGroupState")
    codes = [one.error_code for one in bench.alter("orders", 3, 8).responses[0].partitions]
    assert sorted(codes) == [errors.UnknownServerError.code, 0]
    assert bench.offsets() == {}
    assert [one.error_code for one in bench.alter("orders", 3, 8).responses[0].partitions] == [0, 0]
    reject_next("DeleteShareGroupState")
    (deleted,) = bench.delete_offsets("orders").responses
    assert deleted.error_code == errors.UnknownServerError.code
    assert bench.offsets() == {}
    (deleted,) = bench.delete_offsets("orders").responses
    assert deleted.error_code == 0


@pytest.mark.gate
@pytest.mark.slow
def test_deleted_group_takes_its_states_with_it(simulation: Simulation) -> None:
    bench = ShareGroupBench(simulation)
    bench.beat("a", "orders")
    bench.settle()
    assert bench.delete() == errors.NonEmptyGroup.code
    bench.leave("a")
    assert bench.offsets().keys() == set(ORDERS)
    assert bench.delete() == 0
    assert bench.describe().error_code == errors.GroupIdNotFound.code
    shards = [
        shard
        for broker in bench.cluster.running.brokers
        for shard in broker.coordinators.shares.shards.values()
    ]
    assert [shard.states for shard in shards if shard.states] == []
    assert bench.delete() == errors.GroupIdNotFound.code


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["group", "offsets"])
def test_member_that_joins_while_its_states_are_deleted_gets_new_ones(
    kind: str, simulation: Simulation
) -> None:
    bench = ShareGroupBench(simulation)
    bench.beat("a", "orders")
    bench.settle()
    bench.leave("a")
    rule = bench.cluster.controls.rule(api="DeleteShareGroupState", then="hold", between_brokers=True)
    topic = share_offsets.DeleteShareGroupOffsetsRequestTopic(topic_name="orders")
    request: Any = (
        DeleteGroupsRequest(groups_names=[GROUP])
        if kind == "group"
        else share_offsets.DeleteShareGroupOffsetsRequest(group_id=GROUP, topics=[topic])
    )
    version = 2 if kind == "group" else 0
    with RawClient(bench.cluster.broker(bench.coordinator()).address, simulation=simulation) as wire:
        wire.send(request, version)
        simulation.run_for(1.0)
        assert rule.fired
        bench.beat("a", "orders")
        bench.settle()
        assert bench.assigned["a"] == ORDERS
        bench.cluster.controls.clear()
        _, response = wire.receive(type(request), version)
    if kind == "group":
        assert response.results[0].error_code == errors.NonEmptyGroup.code
    bench.settle()
    assert bench.assigned["a"] == ORDERS
    shards = [
        shard
        for broker in bench.cluster.running.brokers
        for shard in broker.coordinators.shares.shards.values()
    ]
    assert sorted(key[2] for shard in shards for key in shard.states) == [0, 1, 2, 3]


@pytest.mark.gate
@pytest.mark.slow
def test_topic_that_is_deleted_while_the_coordinator_loads_is_dropped(simulation: Simulation) -> None:
    bench = ShareGroupBench(simulation)
    bench.beat("a", "orders", "refunds")
    bench.settle()
    new = (bench.coordinator() + 1) % 3
    bench.cluster.controls.hold_loading(new)
    bench.cluster.controls.move_coordinator(GROUP, new)
    bench.cluster.delete_topic("refunds")
    simulation.run_for(1.0)
    bench.cluster.controls.release_loading()
    bench.settle()
    assert bench.assigned["a"] == ORDERS
    epoch = bench.epochs["a"]
    bench.settle()
    assert bench.epochs["a"] == epoch, "without changes the epoch stays"
    assert bench.leave("a") == 0
    assert bench.delete() == 0


def states_of(bench: ShareGroupBench) -> Any:
    """Return which partitions of the group have a state, from its coordinator."""
    coordinators = bench.cluster.running.broker(bench.coordinator()).coordinators
    (group,) = (shard.groups[GROUP] for shard in coordinators.groups.shards.values() if GROUP in shard.groups)
    return group.states


@pytest.mark.gate
@pytest.mark.slow
def test_start_offsets_altered_after_a_failed_deletion_are_not_being_deleted(simulation: Simulation) -> None:
    bench = ShareGroupBench(simulation)
    bench.alter("orders", 3)
    bench.cluster.controls.rule(
        api="DeleteShareGroupState", then="error:UNKNOWN_SERVER_ERROR", between_brokers=True, times=1
    )
    bench.delete_offsets("orders")
    assert len(states_of(bench).deleting) == 1
    bench.alter("orders", 5)
    assert (len(states_of(bench).initialized), states_of(bench).deleting) == (1, frozenset())


def test_start_offset_of_a_negative_partition_is_rejected_without_a_trace(simulation: Simulation) -> None:
    bench = ShareGroupBench(simulation)
    entries = [
        share_offsets.AlterShareGroupOffsetsRequestPartition(partition_index=number, start_offset=1)
        for number in (-1, 0)
    ]
    topic = share_offsets.AlterShareGroupOffsetsRequestTopic(topic_name="orders", partitions=entries)
    altered = bench.call(share_offsets.AlterShareGroupOffsetsRequest(group_id=GROUP, topics=[topic]), 0)
    codes = {one.partition_index: one.error_code for one in altered.responses[0].partitions}
    assert codes == {-1: errors.UnknownTopicOrPartition.code, 0: 0}
    assert bench.offsets() == {("orders", 0): (1, -1)}
    assert bench.delete() == 0


@pytest.mark.gate
@pytest.mark.slow
def test_groups_are_listed_by_type_and_described_as_share_groups_only(simulation: Simulation) -> None:
    bench = ShareGroupBench(simulation)
    bench.beat("a", "orders")

    def listed(**filters: list[str]) -> list[tuple[str, str, str, str]]:
        request = ListGroupsRequest(
            states_filter=filters.get("states", []), types_filter=filters.get("types", [])
        )
        return [
            (one.group_id, one.group_type, one.group_state, one.protocol_type)
            for one in bench.call(request, 5).groups
        ]

    assert listed(types=["share"]) == listed(states=["stable"]) == [(GROUP, "share", "Stable", "share")]
    assert listed(types=["consumer"]) == listed(states=["Empty"]) == []
    described = bench.call(DescribeGroupsRequest(groups=[GROUP]), 6).groups[0]
    assert described.error_code == errors.GroupIdNotFound.code


@pytest.mark.gate
@pytest.mark.slow
def test_options_of_the_group_apply_within_the_brokers_bounds(simulation: Simulation) -> None:
    bench = ShareGroupBench(simulation, config={"group.share.min.heartbeat.interval.ms": 1000})
    assert bench.beat("a", "orders").heartbeat_interval_ms == 5000
    assert bench.configure(share_heartbeat_interval_ms=2000, share_session_timeout_ms=50_000) == 0
    assert bench.beat("a").heartbeat_interval_ms == 2000
    simulation.run_for(48.0)
    assert bench.beat("a").error_code == 0
    simulation.run_for(51.0)
    assert bench.beat("a").error_code == errors.UnknownMemberId.code
    invalid = errors.InvalidConfig.code
    assert bench.configure(share_session_timeout_ms=44_999) == invalid
    assert bench.configure(share_session_timeout_ms=60_001) == invalid
    assert bench.configure(share_delivery_count_limit=11) == invalid
    assert bench.configure(share_record_lock_duration_ms=14_999) == invalid
    assert bench.configure(share_partition_max_record_locks=4001) == invalid
    assert bench.configure(share_auto_offset_reset="by_duration:PT1H") == 0
    assert bench.configure(share_auto_offset_reset="by_duration:-PT1H") == invalid


def test_group_size_is_limited(simulation: Simulation) -> None:
    bench = ShareGroupBench(simulation, config={"group.share.max.size": 2})
    assert [bench.beat(member, "orders").error_code for member in "abc"] == [
        0,
        0,
        errors.GroupMaxSizeReached.code,
    ]
    assert bench.leave("a") == 0
    assert bench.beat("c", "orders").error_code == 0


def heartbeat(member: str = "m") -> ShareGroupHeartbeatRequest:
    return ShareGroupHeartbeatRequest(
        group_id="g", member_id=member, member_epoch=0, subscribed_topic_names=["t"]
    )


@pytest.mark.kafka(brokers=1, topics={"t": 1}, features={"share.version": 0})
def test_share_groups_need_the_finalized_feature(live: LiveCluster) -> None:
    wire = live.connect()
    assert wire.call(heartbeat(), 1).error_code == errors.UnsupportedVersion.code
    describe = ShareGroupDescribeRequest(group_ids=["g"], include_authorized_operations=False)
    assert wire.call(describe, 1).groups[0].error_code == errors.UnsupportedVersion.code


@pytest.mark.kafka(brokers=1, topics={"t": 1}, as_version="4.1")
def test_share_groups_as_4_1_are_disabled(live: LiveCluster) -> None:
    assert live.connect().call(heartbeat(), 1).error_code == errors.UnsupportedVersion.code


@pytest.mark.kafka(brokers=1, topics={"t": 1}, config={"authorizer.class.name": STANDARD_AUTHORIZER})
def test_share_groups_need_rights_on_group_topics_and_cluster(live: LiveCluster) -> None:
    from tests.broker.coordinators.share.bench import summary_request

    wire = live.connect()
    answers: list[Any] = [
        wire.call(heartbeat(), 1).error_code,
        wire.call(ShareGroupDescribeRequest(group_ids=["g"], include_authorized_operations=False), 1)
        .groups[0]
        .error_code,
        wire.call(summary_request("g", b"t" * 16, 0), 1).results[0].partitions[0].error_code,
    ]
    group, cluster = errors.GroupAuthorizationFailed.code, errors.ClusterAuthorizationFailed.code
    assert answers == [group, group, cluster]
    live.cluster.acls.allow("User:ANONYMOUS", "READ", group="g")
    assert wire.call(heartbeat(), 1).error_code == errors.TopicAuthorizationFailed.code
    live.cluster.acls.allow("User:ANONYMOUS", "DESCRIBE", topic="t")
    wire.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)
    live.wait_for(lambda: wire.call(heartbeat(), 1).error_code == 0)
    describe = ShareGroupDescribeRequest(group_ids=["g"], include_authorized_operations=False)
    (described,) = wire.call(describe, 1).groups
    assert (described.error_code, [member.member_id for member in described.members]) == (0, ["m"])
    live.controls.revoke_access("User:ANONYMOUS", "DESCRIBE", topic="t")
    (described,) = wire.call(describe, 1).groups
    assert (described.error_code, described.members) == (errors.TopicAuthorizationFailed.code, [])
