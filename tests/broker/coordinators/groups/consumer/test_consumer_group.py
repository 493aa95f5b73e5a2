"""KIP-848: epochs, assignment by the coordinator, step-by-step reconciliation, static members, patterns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka2.broker.coordinators.groups.consumer.state import ConsumerGroupState, MemberState
from pykafka2.broker.coordinators.runtime import Entry
from pykafka2.broker.coordinators.settings import GroupSettings, TopicTable
from pykafka2.protocol.messages.consumer_group import ConsumerGroupDescribeRequest
from pykafka2.testing.simulation import Simulation
from tests.broker.support.admin_requests import BROKER, SET, alter
from tests.broker.support.admin_requests import GROUP as GROUP_CONFIGS
from tests.broker.support.bench import GROUP, ORDERS, REFUNDS, Bench, ClusterBench, ShardBench, assigned, code
from tests.error_codes import (
    FENCED_INSTANCE_ID,
    FENCED_MEMBER_EPOCH,
    GROUP_ID_NOT_FOUND,
    GROUP_MAX_SIZE_REACHED,
    INVALID_REGULAR_EXPRESSION,
    INVALID_REQUEST,
    MEMBER_ID_REQUIRED,
    NON_EMPTY_GROUP,
    UNKNOWN_MEMBER_ID,
    UNRELEASED_INSTANCE_ID,
    UNSUPPORTED_ASSIGNOR,
    UNSUPPORTED_VERSION,
)

AT_ONCE = {"group.consumer.assignment.interval.ms": 0}
MakeBench = Callable[..., Bench]
ALL = [0, 1, 2, 3, 4, 5]


@pytest.fixture
def shard_bench() -> ShardBench:
    return ShardBench(config=AT_ONCE)


@pytest.fixture
def bench(make_bench: MakeBench) -> Bench:
    return make_bench(AT_ONCE)


def test_member_at_epoch_0_joins_and_gets_all_partitions(bench: Bench) -> None:
    response = bench.beat("a", 0)
    assert (response.error_code, response.member_id, response.member_epoch) == (0, "a", 2)
    assert response.heartbeat_interval_ms == 5000
    assert assigned(response) == {bench.topic_id("orders"): ALL}
    assert assigned(bench.beat("a", 2)) is None, "nothing new"
    assert bench.consumer().state is ConsumerGroupState.STABLE


def test_version_0_member_gets_a_member_id(shard_bench: ShardBench) -> None:
    response = shard_bench.beat("", 0, version=0)
    assert response.member_id == "0001"
    assert shard_bench.beat("", 0, version=1).error_code == INVALID_REQUEST


def test_partition_is_assigned_only_after_its_owner_revoked_it(bench: Bench) -> None:
    orders = bench.topic_id("orders")
    bench.beat("a", 0)
    second = bench.beat("b", 0)
    assert (second.member_epoch, assigned(second)) == (3, {})
    assert bench.consumer().members["b"].state is MemberState.UNRELEASED_PARTITIONS
    first = bench.beat("a", 2, owned={orders: ALL})
    assert (first.member_epoch, assigned(first)) == (2, {orders: [0, 1, 2]}), "at its old epoch still"
    assert bench.consumer().state is ConsumerGroupState.RECONCILING
    assert assigned(bench.beat("b", 3)) is None
    assert assigned(bench.beat("a", 2)) is None, "it has not revoked them yet"
    done = bench.beat("a", 2, owned={orders: [0, 1, 2]})
    assert done.member_epoch == 3
    assert assigned(bench.beat("b", 3)) == {orders: [3, 4, 5]}
    assert bench.consumer().state is ConsumerGroupState.STABLE


def test_member_that_does_not_revoke_in_its_rebalance_timeout_is_fenced(shard_bench: ShardBench) -> None:
    shard_bench.beat("a", 0, rebalance=20.0)
    shard_bench.beat("b", 0)
    shard_bench.beat("a", 2)
    assert shard_bench.consumer().members["a"].state is MemberState.UNREVOKED_PARTITIONS
    shard_bench.advance(19.9)
    assert shard_bench.beat("a", 2).error_code == 0
    shard_bench.advance(0.1)
    assert shard_bench.beat("a", 2).error_code == UNKNOWN_MEMBER_ID
    assert assigned(shard_bench.beat("b", 3)) == {ORDERS: ALL}


def test_a_silent_member_is_out_after_the_session_timeout(bench: Bench) -> None:
    bench.beat("a", 0)
    bench.beat("b", 0)
    bench.advance(29.5)
    bench.beat("b", 3)
    bench.advance(16.0)
    assert list(bench.consumer().members) == ["b"]
    response = bench.beat("b", 3)
    assert (response.member_epoch, assigned(response)) == (4, {bench.topic_id("orders"): ALL})


def test_heartbeat_with_epoch_minus_1_leaves_the_group(bench: Bench) -> None:
    bench.beat("a", 0)
    assert bench.beat("stranger", 3).error_code == UNKNOWN_MEMBER_ID
    response = bench.beat("a", -1)
    assert (response.error_code, response.member_epoch) == (0, -1)
    assert bench.consumer().state is ConsumerGroupState.EMPTY
    assert bench.beat("a", 2).error_code == UNKNOWN_MEMBER_ID
    assert bench.beat("a", -1).error_code == UNKNOWN_MEMBER_ID
    assert bench.beat("a", -1, group_id="none").error_code == GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(
    ("epoch", "owned", "code"),
    [(4, [0], FENCED_MEMBER_EPOCH), (0, None, 0), (2, [0, 1, 2], 0), (1, [0], FENCED_MEMBER_EPOCH)],
)
def test_heartbeat_is_accepted_only_at_the_current_or_previous_epoch(
    bench: Bench, epoch: int, owned: list[int] | None, code: int
) -> None:
    orders = bench.topic_id("orders")
    bench.beat("a", 0)
    bench.beat("b", 0)
    bench.beat("a", 2, owned={orders: [0, 1, 2]})
    assert bench.consumer().members["a"].epoch == 3
    response = bench.beat("a", epoch, owned=None if owned is None else {orders: owned})
    assert response.error_code == code


def test_previous_epoch_is_accepted_only_with_a_subset_of_the_owned_partitions(
    shard_bench: ShardBench,
) -> None:
    """The response with the new epoch can be lost, but a member with more partitions is behind."""
    shard_bench.beat("a", 0)
    shard_bench.beat("b", 0)
    shard_bench.beat("a", 2, owned={ORDERS: [0, 1, 2]})
    assert shard_bench.beat("a", 2, owned={ORDERS: [0, 1, 2, 3]}).error_code == FENCED_MEMBER_EPOCH
    assert shard_bench.beat("a", 2).error_code == FENCED_MEMBER_EPOCH


@pytest.mark.parametrize(
    "options",
    [
        {"epoch": -3},
        {"epoch": -2},
        {"instance": ""},
        {"rebalance": -0.001},
        {"owned": {ORDERS: [1]}},
        {"group_id": ""},
    ],
)
def test_inconsistent_heartbeats_are_invalid_requests(
    shard_bench: ShardBench, options: dict[str, object]
) -> None:
    epoch = options.pop("epoch", 0)
    assert shard_bench.beat("a", epoch, **options).error_code == INVALID_REQUEST  # type: ignore[arg-type]


def test_unknown_assignors_are_refused(bench: Bench) -> None:
    assert bench.beat("a", 0, assignor="sticky").error_code == UNSUPPORTED_ASSIGNOR
    assert bench.beat("a", 0, assignor="range").error_code == 0
    described = bench.call(
        ConsumerGroupDescribeRequest(group_ids=[GROUP], include_authorized_operations=False)
    )
    assert described.groups[0].assignor_name == "range"


def test_heartbeat_to_a_missing_group_gets_group_id_not_found(shard_bench: ShardBench) -> None:
    assert shard_bench.beat("a", 2).error_code == GROUP_ID_NOT_FOUND
    assert shard_bench.shard.groups == {}


def test_a_full_group_takes_no_more() -> None:
    bench = ShardBench(GroupSettings(consumer_max_size=1))
    assert bench.beat("a", 0).error_code == 0
    assert bench.beat("b", 0).error_code == GROUP_MAX_SIZE_REACHED
    assert bench.beat("a", 2).error_code == 0


def test_static_member_gets_its_partitions_back_after_a_temporary_leave(bench: Bench) -> None:
    orders = bench.topic_id("orders")
    bench.beat("a", 0, instance="one")
    bench.beat("b", 0, instance="two")
    bench.beat("a", 2, owned={orders: [0, 1, 2]}, instance="one")
    bench.beat("b", 3, instance="two")
    epoch = bench.consumer().epoch
    assert bench.beat("a", -2, instance="one").member_epoch == -2
    assert bench.consumer().members["a"].epoch == -2
    assert assigned(bench.beat("b", 3, instance="two")) is None
    back = bench.beat("a2", 0, instance="one")
    assert (back.member_epoch, assigned(back)) == (epoch, {orders: [0, 1, 2]})
    assert bench.consumer().epoch == epoch, "no rebalance"
    assert set(bench.consumer().members) == {"a2", "b"}
    assert bench.beat("a", epoch, instance="one").error_code == FENCED_INSTANCE_ID


def test_static_member_that_leaves_temporarily_has_revoked_its_partitions(shard_bench: ShardBench) -> None:
    shard_bench.beat("a", 0, instance="one")
    shard_bench.beat("b", 0)
    assert assigned(shard_bench.beat("a", 2, instance="one")) == {ORDERS: [0, 1, 2]}
    assert assigned(shard_bench.beat("b", 3)) is None, "it has not revoked the others yet"
    shard_bench.beat("a", -2, instance="one")
    assert assigned(shard_bench.beat("b", 3)) == {ORDERS: [3, 4, 5]}


def test_instance_id_in_use_gets_unreleased_instance_id(bench: Bench) -> None:
    bench.beat("a", 0, instance="one")
    assert bench.beat("b", 0, instance="one").error_code == UNRELEASED_INSTANCE_ID
    assert bench.beat("b", 2, instance="other").error_code == UNKNOWN_MEMBER_ID


def test_absent_static_member_is_removed_after_its_session_timeout(shard_bench: ShardBench) -> None:
    shard_bench.beat("a", 0, instance="one")
    shard_bench.beat("a", -2, instance="one")
    shard_bench.advance(45.0)
    assert shard_bench.consumer().members == {}


def test_changed_subscription_revokes_partitions(shard_bench: ShardBench) -> None:
    shard_bench.beat("a", 0, topics=["orders", "refunds"])
    response = shard_bench.beat("a", 2, topics=["refunds"], owned={ORDERS: ALL, REFUNDS: [0, 1, 2]})
    assert assigned(response) == {REFUNDS: [0, 1, 2]}
    assert shard_bench.beat("a", 2, owned={REFUNDS: [0, 1, 2]}).member_epoch == 3


def test_new_partitions_are_assigned_at_the_next_heartbeat(shard_bench: ShardBench) -> None:
    shard_bench.beat("a", 0)
    shard_bench.runtime.carry_out(
        shard_bench.shard.on_topics(TopicTable({"orders": (ORDERS, 8)})), shard_bench.now
    )
    response = shard_bench.beat("a", 2)
    assert (response.member_epoch, assigned(response)) == (3, {ORDERS: [*ALL, 6, 7]})


def test_partitions_of_a_deleted_topic_are_revoked(shard_bench: ShardBench) -> None:
    shard_bench.beat("a", 0, topics=["orders", "refunds"])
    shard_bench.runtime.carry_out(
        shard_bench.shard.on_topics(TopicTable({"orders": (ORDERS, 6)})), shard_bench.now
    )
    assert assigned(shard_bench.beat("a", 2, owned={ORDERS: ALL, REFUNDS: [0, 1, 2]})) == {ORDERS: ALL}


def test_assignments_are_computed_at_most_once_per_interval() -> None:
    bench = ShardBench(GroupSettings(consumer_assignment_interval=1.0))
    bench.beat("a", 0)
    response = bench.beat("b", 0)
    assert (response.member_epoch, assigned(response)) == (2, {})
    assert bench.consumer().state is ConsumerGroupState.ASSIGNING
    bench.advance(1.0)
    assert bench.beat("b", 2).member_epoch == 3


def test_interval_of_0_assigns_at_once_also_if_the_wall_clock_jumped_back(shard_bench: ShardBench) -> None:
    shard_bench.beat("a", 0)
    shard_bench.now -= 60.0
    assert shard_bench.beat("b", 0).member_epoch == 3


def test_commits_do_not_extend_the_session_of_a_consumer_group_member(bench: Bench) -> None:
    """Commits of KIP-848 members do not re-arm their sessions."""
    bench.beat("one", 0)
    for number in range(8):
        bench.advance(5.0)
        assert bench.commit(number, member="one", generation=2) == 0
    bench.advance(5.5)
    assert bench.commit(9, member="one", generation=2) == UNKNOWN_MEMBER_ID
    assert bench.consumer().members == {}


@pytest.mark.parametrize(
    "options",
    [{"config": {"group.coordinator.rebalance.protocols": "classic"}}, {"features": {"group.version": 0}}],
)
def test_disabled_consumer_protocol_gets_unsupported_version(
    simulation: Simulation, options: dict[str, Any]
) -> None:
    bench = ClusterBench(simulation, **options)
    assert bench.beat("one", 0).error_code == UNSUPPORTED_VERSION
    request = ConsumerGroupDescribeRequest(group_ids=["billing"], include_authorized_operations=False)
    assert bench.call(request).groups[0].error_code == UNSUPPORTED_VERSION
    assert code(bench.join()) == MEMBER_ID_REQUIRED


def configure(bench: ClusterBench, kind: int, name: str, configs: dict[str, str]) -> None:
    """Set the configs of a resource."""
    changes = [(option, SET, value) for option, value in configs.items()]
    assert alter(bench.wire(0), kind, name, *changes) == ("NONE", None)


def test_the_interval_between_assignments_can_be_changed_while_brokers_run(
    cluster_bench: ClusterBench,
) -> None:
    """group.consumer.assignment.interval.ms is dynamic (KIP-1263); a group's own takes precedence."""
    bench = cluster_bench
    assert bench.beat("one", 0).member_epoch == 2
    assert bench.beat("two", 0).member_epoch == 2  # its target has to wait
    configure(bench, BROKER, "", {"group.consumer.assignment.interval.ms": "0"})
    assert bench.beat("three", 0).member_epoch == 4
    configure(bench, GROUP_CONFIGS, "billing", {"consumer.assignment.interval.ms": "5000"})
    assert bench.beat("four", 0).member_epoch == 4


def test_group_config_overrides_the_broker_config(cluster_bench: ClusterBench) -> None:
    """consumer.session.timeout.ms and the like of a GROUP resource take effect at the next heartbeat."""
    bench = cluster_bench
    assert bench.beat("one", 0).heartbeat_interval_ms == 5000
    configure(
        bench,
        GROUP_CONFIGS,
        "billing",
        {"consumer.session.timeout.ms": "60000", "consumer.heartbeat.interval.ms": "10000"},
    )
    assert bench.beat("one", 2).heartbeat_interval_ms == 10000
    bench.advance(55.0)
    assert list(bench.group.members) == ["one"]
    bench.advance(6.0)
    assert bench.group.members == {}


def test_authorized_operations_of_a_consumer_group(cluster_bench: ClusterBench) -> None:
    cluster_bench.beat("a", 0)
    request = ConsumerGroupDescribeRequest(group_ids=[GROUP], include_authorized_operations=True)
    (group,) = cluster_bench.call(request).groups
    assert group.authorized_operations == 3400  # READ, DELETE, DESCRIBE and the two of configs


# -- patterns -----------------------------------------------------------------------------------------


def test_regex_subscription_matches_present_and_later_topics(shard_bench: ShardBench) -> None:
    assert assigned(shard_bench.beat("a", 0, regex="ord.*")) == {ORDERS: ALL}
    topics = TopicTable({"orders": (ORDERS, 6), "ordinary": (REFUNDS, 1)})
    shard_bench.runtime.carry_out(shard_bench.shard.on_topics(topics), shard_bench.now)
    assert assigned(shard_bench.beat("a", 2)) == {ORDERS: ALL, REFUNDS: [0]}
    shard_bench.reload()
    assert shard_bench.consumer().regexes == {"ord.*": frozenset({"orders", "ordinary"})}


def test_regex_matches_whole_topic_names(shard_bench: ShardBench) -> None:
    assert assigned(shard_bench.beat("a", 0, regex="order")) == {}


def test_regex_and_topic_names_are_combined(bench: Bench) -> None:
    response = bench.beat("a", 0, regex="order.", topics=["refunds"])
    assert assigned(response) == {bench.topic_id("orders"): ALL, bench.topic_id("refunds"): [0, 1, 2]}


def test_invalid_regex_is_rejected(shard_bench: ShardBench) -> None:
    assert shard_bench.beat("a", 0, regex="(").error_code == INVALID_REGULAR_EXPRESSION
    assert shard_bench.shard.groups == {}


def test_unused_regex_is_removed(shard_bench: ShardBench) -> None:
    shard_bench.beat("a", 0, regex="ord.*")
    shard_bench.beat("b", 0, regex="ref.*")
    shard_bench.beat("a", -1)
    assert set(shard_bench.consumer().regexes) == {"ref.*"}
    shard_bench.beat("b", 3, regex="", topics=["orders"])
    assert shard_bench.consumer().regexes == {}


# -- coordinators, other protocols --------------------------------------------------------------------


def test_group_continues_under_its_next_coordinator(make_bench: MakeBench) -> None:
    bench = make_bench(AT_ONCE, brokers=3)
    orders = bench.topic_id("orders")
    bench.beat("a", 0)
    bench.beat("b", 0)
    bench.beat("a", 2)
    bench.reload()
    assert bench.consumer().members["a"].state is MemberState.UNREVOKED_PARTITIONS
    assert bench.beat("a", 2, owned={orders: [0, 1, 2]}).member_epoch == 3
    assert assigned(bench.beat("b", 3)) == {orders: [3, 4, 5]}
    bench.reload()
    bench.advance(43.5)
    assert len(bench.consumer().members) == 2
    bench.advance(2.0)
    assert bench.consumer().members == {}


def test_rebalance_timeout_continues_under_the_next_coordinator(shard_bench: ShardBench) -> None:
    shard_bench.beat("a", 0, rebalance=20.0)
    shard_bench.beat("b", 0)
    shard_bench.beat("a", 2)
    shard_bench.reload()
    shard_bench.advance(20.0)
    assert set(shard_bench.consumer().members) == {"b"}


def test_deleted_group_leaves_no_record_in_the_compacted_log(shard_bench: ShardBench) -> None:
    shard_bench.beat("a", 0)
    shard_bench.beat("a", -1)
    shard_bench.member_id()
    assert shard_bench.delete_group() == 0
    last = {one.key: one for one in shard_bench.log.entries if isinstance(one, Entry)}
    shard_bench.log.entries[:] = last.values()
    shard_bench.log.commit_all()
    shard_bench.reload()
    assert shard_bench.shard.groups == {}, "from the compacted log either"


def test_empty_groups_change_their_protocol(make_bench: MakeBench) -> None:
    """The migration policy applies only to groups with members."""
    bench = make_bench({"group.consumer.migration.policy": "disabled"}, brokers=3)
    bench.commit(5)
    assert bench.beat("a", 0).error_code == 0
    bench.reload()
    assert bench.consumer().epoch == 2
    assert bench.committed() == 5
    bench.beat("a", -1)
    member = bench.member_id()
    bench.join(member)
    bench.reload()
    assert bench.classic().state.value == "Empty"
    assert bench.committed() == 5


def test_groups_with_members_are_not_deleted(shard_bench: ShardBench) -> None:
    shard_bench.beat("a", 0)
    assert shard_bench.delete_group() == NON_EMPTY_GROUP
    shard_bench.beat("a", -1)
    assert shard_bench.delete_group() == 0
    shard_bench.reload()
    assert shard_bench.shard.groups == {}


def test_empty_group_is_removed_with_its_last_offset() -> None:
    settings = GroupSettings(offsets_retention=600.0, offsets_retention_check_interval=10.0)
    bench = ShardBench(settings)
    bench.beat("a", 0)
    bench.commit(5, member="a", generation=2)
    bench.beat("a", -1)
    bench.advance(590.0)
    assert bench.committed() == 5
    bench.advance(20.0)
    assert bench.shard.groups == {}


def test_consumer_group_describe_returns_assignments_and_targets(shard_bench: ShardBench) -> None:
    shard_bench.beat("a", 0)
    shard_bench.beat("b", 0, instance="two")
    request = ConsumerGroupDescribeRequest(group_ids=[GROUP, "none"], include_authorized_operations=False)
    group, unknown = shard_bench.call(request).groups
    assert (unknown.error_code, unknown.error_message) == (GROUP_ID_NOT_FOUND, "Group none not found.")
    assert (group.group_state, group.group_epoch, group.assignment_epoch, group.assignor_name) == (
        "Reconciling",
        3,
        3,
        "uniform",
    )
    a, b = group.members
    assert [one.partitions for one in a.assignment.topic_partitions] == [ALL]
    assert [one.partitions for one in a.target_assignment.topic_partitions] == [[0, 1, 2]]
    assert (b.instance_id, b.member_epoch, b.subscribed_topic_names) == ("two", 3, ["orders"])
    assert b.assignment.topic_partitions == []
    assert b.target_assignment.topic_partitions[0].topic_name == "orders"
    shard_bench.beat("a", 2)
    (group,) = shard_bench.call(request).groups[:1]
    assert [one.partitions for one in group.members[0].assignment.topic_partitions] == [ALL], "not revoked"
    assert shard_bench.describe().error_message == "Group billing is not a classic group."
