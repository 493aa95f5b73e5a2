"""Migration of groups between the protocols, up and down, with consumers of both in one group.

The steps are those of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from pykafka2.broker.coordinators.groups.classic.state import ClassicGroup
from pykafka2.broker.coordinators.settings import GroupSettings, MigrationPolicy
from pykafka2.errors import NotEnoughReplicas
from pykafka2.protocol.messages.consumer_group import ConsumerGroupDescribeRequest
from pykafka2.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from pykafka2.protocol.messages.group import JoinGroupResponse, LeaveGroupRequest, MemberIdentity
from tests.broker.support.bench import GROUP, ORDERS, Bench, ShardBench, answer, assigned, code
from tests.error_codes import (
    COORDINATOR_NOT_AVAILABLE,
    FENCED_INSTANCE_ID,
    GROUP_ID_NOT_FOUND,
    ILLEGAL_GENERATION,
    INCONSISTENT_GROUP_PROTOCOL,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
)

ALL = range(6)
MakeBench = Callable[..., Bench]


def metadata_of(*, topics: Iterable[str] = ("orders",), owned: Iterable[int] = ()) -> dict[str, bytes]:
    """Return the metadata of a classic consumer under its one protocol."""
    subscription = ConsumerProtocolSubscription(
        topics=list(topics),
        owned_partitions=[ConsumerProtocolSubscriptionTopicPartition(topic="orders", partitions=list(owned))],
    )
    return {"range": b"\0\1" + subscription.encode(1)}


def assignment_of(partitions: Iterable[int], user_data: bytes | None = None) -> bytes:
    """Return an assignment of orders as a classic leader encodes it."""
    topic = ConsumerProtocolAssignmentTopicPartition(topic="orders", partitions=list(partitions))
    assignment = ConsumerProtocolAssignment(assigned_partitions=[topic], user_data=user_data)
    return b"\0\1" + assignment.encode(1)


class Old:
    """A classic consumer with its generation and partitions."""

    def __init__(self, bench: Bench, instance: str | None = None) -> None:
        self.bench = bench
        self.instance = instance
        self.member_id = "" if instance is not None else bench.member_id()
        self.generation = -1
        self.owned: list[int] = []

    def join(self, owned: Iterable[int] | None = None) -> JoinGroupResponse:
        metadata = metadata_of(owned=self.owned if owned is None else owned)
        response = answer(self.bench.join(self.member_id, instance=self.instance, protocols=metadata))
        if response.error_code == 0:
            self.member_id, self.generation = response.member_id, response.generation_id
        return response

    def sync(self) -> int:
        response = self.bench.sync(
            self.member_id, self.generation, instance=self.instance, protocol="range"
        ).response
        assert response is not None
        if not response.error_code:
            topics = ConsumerProtocolAssignment.decode(
                response.assignment[2:], 1, allow_trailing=True
            ).assigned_partitions
            self.owned = [partition for topic in topics for partition in topic.partitions]
        return response.error_code

    def heartbeat(self) -> int:
        return self.bench.heartbeat(self.member_id, self.generation, self.instance)


@pytest.fixture
def bench() -> ShardBench:
    return ShardBench(GroupSettings(consumer_assignment_interval=0.0))


def old_group(bench: Bench, data: bytes | None = None) -> Old:
    """Make a stable classic group of one consumer with all partitions."""
    old = Old(bench)
    bench.join(old.member_id, protocols=metadata_of())
    bench.advance(3.0)
    old.generation, old.owned = 1, list(ALL)
    bench.sync(old.member_id, 1, {old.member_id: assignment_of(ALL) if data is None else data})
    return old


def test_first_new_consumer_upgrades_the_group_and_waits_for_revocation(bench: ShardBench) -> None:
    old = old_group(bench)
    response = bench.beat("new", 0)
    assert (response.error_code, response.member_epoch, assigned(response)) == (0, 2, {})
    assert bench.describe().error_code == GROUP_ID_NOT_FOUND
    assert bench.consumer().members[old.member_id].epoch == 1
    assert old.heartbeat() == REBALANCE_IN_PROGRESS, "it must join the new generation"
    assert bench.commit(member=old.member_id, generation=1) == 0
    assert bench.commit(member=old.member_id, generation=1, version=5) == 0
    assert bench.commit(member=old.member_id, generation=2) == ILLEGAL_GENERATION
    joined = old.join()
    assert (joined.generation_id, joined.leader, joined.members, joined.protocol_name) == (1, "", [], "range")
    assert old.sync() == 0
    assert old.owned == [0, 1, 2]
    assert old.heartbeat() == REBALANCE_IN_PROGRESS, "it must join again with its revoked partitions"
    assert assigned(bench.beat("new", 2)) is None
    assert old.join().generation_id == 2
    assert old.sync() == 0
    assert old.heartbeat() == 0
    assert assigned(bench.beat("new", 2)) == {ORDERS: [3, 4, 5]}
    assert bench.consumer().state.value == "Stable"


def test_classic_consumer_joins_an_upgraded_group(bench: ShardBench) -> None:
    bench.beat("new", 0)
    old = Old(bench)
    assert old.join().generation_id == 3
    assert old.sync() == 0
    assert old.owned == []
    assert old.heartbeat() == 0, "its partitions are not revoked yet"
    bench.beat("new", 2, owned={ORDERS: list(ALL)})
    bench.beat("new", 2, owned={ORDERS: [0, 1, 2]})
    assert old.heartbeat() == REBALANCE_IN_PROGRESS
    old.join()
    assert old.sync() == 0
    assert old.owned == [3, 4, 5]


def test_old_join_versions_get_a_member_id_in_an_upgraded_group(bench: ShardBench) -> None:
    bench.beat("new", 0)
    response = answer(bench.join(version=3, protocols=metadata_of()))
    assert (response.error_code, response.generation_id, response.protocol_name) == (0, 3, "range")


def test_join_with_another_protocol_type_is_rejected_in_an_upgraded_group(bench: ShardBench) -> None:
    bench.beat("new", 0)
    Old(bench).join()
    for options in ({"kind": "connect"}, {"protocols": {"sticky": metadata_of()["range"]}}):
        assert code(bench.join(**options)) == INCONSISTENT_GROUP_PROTOCOL


def test_leave_of_the_last_new_consumer_downgrades_the_group(bench: ShardBench) -> None:
    old = old_group(bench)
    bench.beat("new", 0)
    bench.commit(7, member=old.member_id, generation=1)
    assert bench.beat("new", -1).error_code == 0
    group = bench.classic()
    assert (group.state.value, group.generation, list(group.members)) == (
        "PreparingRebalance",
        2,
        [old.member_id],
    )
    assert bench.committed() == 7
    old.join()
    assert bench.classic().generation == 3
    bench.reload()
    assert bench.classic().state.value == "Stable"


def test_session_timeout_of_the_last_new_consumer_downgrades_the_group(bench: ShardBench) -> None:
    old = old_group(bench)
    bench.beat("new", 0)
    for _ in range(8):
        bench.advance(5.0)
        old.join()
        old.sync()
    bench.advance(5.0)
    assert list(bench.classic().members) == [old.member_id]


def test_silent_classic_member_times_out_after_the_upgrade(bench: ShardBench) -> None:
    old_group(bench)
    bench.beat("new", 0)
    bench.advance(10.0)
    assert set(bench.consumer().members) == {"new"}


def test_group_is_not_downgraded_while_a_new_consumer_is_left(bench: ShardBench) -> None:
    old = old_group(bench)
    bench.beat("a", 0)
    bench.beat("b", 0)
    bench.beat("a", -1)
    assert set(bench.consumer().members) == {old.member_id, "b"}
    bench.leave(old.member_id)
    assert set(bench.consumer().members) == {"b"}


@pytest.mark.parametrize("policy", list(MigrationPolicy))
def test_migration_policy_decides_the_allowed_direction(
    make_bench: MakeBench, policy: MigrationPolicy
) -> None:
    bench = make_bench({"group.consumer.migration.policy": policy.value})
    old = old_group(bench)
    up = policy in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)
    assert bench.beat("new", 0).error_code == (0 if up else GROUP_ID_NOT_FOUND)
    assert old.member_id in (bench.consumer() if up else bench.classic()).members
    bench.group_id = "other"
    bench.beat("new", 0)
    Old(bench).join()
    bench.beat("new", -1)
    down = policy in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)
    assert isinstance(bench.shard.groups["other"], ClassicGroup) is down


@pytest.mark.parametrize("data", [b"xx", assignment_of(ALL, b"my own")])
def test_group_with_an_unreadable_assignment_is_not_upgraded(bench: ShardBench, data: bytes) -> None:
    old = old_group(bench, data)
    assert bench.beat("new", 0).error_code == GROUP_ID_NOT_FOUND
    assert old.heartbeat() == 0


def test_pending_join_gets_rebalance_in_progress_on_upgrade(bench: ShardBench) -> None:
    old_group(bench)
    second = bench.member_id()
    waiting = bench.join(second, protocols=metadata_of())
    assert not waiting.is_done
    bench.beat("new", 0)
    assert code(waiting) == REBALANCE_IN_PROGRESS


def test_upgrade_with_a_failed_append_is_reverted(bench: ShardBench) -> None:
    old = old_group(bench)
    bench.log.fails_with = NotEnoughReplicas()
    assert bench.beat("new", 0).error_code == COORDINATOR_NOT_AVAILABLE
    bench.log.fails_with = None
    assert bench.classic().state.value == "Stable"
    assert old.heartbeat() == 0


def test_mixed_groups_continue_under_the_next_coordinator(bench: ShardBench) -> None:
    old = old_group(bench)
    bench.beat("new", 0)
    bench.reload()
    assert old.heartbeat() == REBALANCE_IN_PROGRESS
    old.join()
    assert old.sync() == 0
    assert old.owned == [0, 1, 2]
    described = bench.call(
        ConsumerGroupDescribeRequest(group_ids=[GROUP], include_authorized_operations=False)
    ).groups[0]
    assert sorted((one.member_id == "new", one.member_type) for one in described.members) == [
        (False, 0),
        (True, 1),
    ]


def test_classic_member_that_does_not_join_or_sync_in_time_is_removed(bench: ShardBench) -> None:
    old = old_group(bench)
    bench.beat("new", 0)
    for _ in range(12):
        assert old.heartbeat() == REBALANCE_IN_PROGRESS
        bench.advance(5.0)
        bench.beat("new", 2)
    assert set(bench.consumer().members) == {"new"}, "60 s are its rebalance timeout"
    other = Old(bench)
    other.join()
    for _ in range(12):
        other.heartbeat()
        bench.advance(5.0)
        bench.beat("new", bench.consumer().members["new"].epoch)
    assert set(bench.consumer().members) == {"new"}, "it joined and never synced"


def test_classic_member_that_joins_and_syncs_in_time_stays(bench: ShardBench) -> None:
    old = old_group(bench)
    bench.beat("new", 0)
    assert old.heartbeat() == REBALANCE_IN_PROGRESS
    for second in range(0, 150, 5):
        bench.advance(5.0)
        bench.beat("new", 2)
        if second == 30:
            old.join()
        if second == 40:
            old.sync()
            old.join()
            old.sync()
        old.heartbeat()
    assert set(bench.consumer().members) == {"new", old.member_id}


def test_silent_members_time_out_after_a_downgrade(bench: ShardBench) -> None:
    old_group(bench)
    bench.beat("new", 0)
    bench.beat("new", -1)
    bench.advance(10.0)
    assert bench.classic().state.value == "Empty"


def test_classic_member_keeps_partitions_that_no_other_member_reads(bench: ShardBench) -> None:
    old = old_group(bench)
    bench.beat("new", 0, topics=["refunds"])
    assert bench.consumer().targets[old.member_id] == {ORDERS: frozenset(ALL)}
    assert old.heartbeat() == REBALANCE_IN_PROGRESS
    assert old.join().generation_id == 2
    assert old.sync() == 0
    assert old.owned == list(ALL)


def test_static_member_changes_its_protocol_without_leaving(bench: ShardBench) -> None:
    bench.beat("new", 0)
    old = Old(bench, "one")
    assert old.join().error_code == 0
    response = bench.beat("old-as-new", 0, instance="one")
    assert response.error_code == 0
    assert set(bench.consumer().members) == {"new", "old-as-new"}
    assert old.heartbeat() == FENCED_INSTANCE_ID
    assert bench.consumer().members["old-as-new"].classic is None
    stranger = Old(bench, "one")
    assert stranger.join().error_code == 0
    assert set(bench.consumer().members) == {"new", stranger.member_id}


def test_classic_requests_of_new_or_unknown_members_are_rejected(bench: ShardBench) -> None:
    old = old_group(bench)
    bench.beat("new", 0)
    assert bench.heartbeat("new", 2) == UNKNOWN_MEMBER_ID
    assert bench.heartbeat("stranger", 1) == UNKNOWN_MEMBER_ID
    assert bench.heartbeat(old.member_id, 5) == ILLEGAL_GENERATION
    assert bench.sync(old.member_id, 1, protocol="sticky").response.error_code == INCONSISTENT_GROUP_PROTOCOL  # type: ignore[union-attr]
    assert bench.sync(old.member_id, 1, kind=None).response.error_code == INCONSISTENT_GROUP_PROTOCOL  # type: ignore[union-attr]
    assert bench.sync(old.member_id, 1, protocol="range").response.error_code == REBALANCE_IN_PROGRESS  # type: ignore[union-attr]
    request = LeaveGroupRequest(
        group_id=GROUP,
        members=[
            MemberIdentity(member_id="stranger"),
            MemberIdentity(member_id="", group_instance_id="none"),
            MemberIdentity(member_id="m", group_instance_id="none"),
        ],
    )
    assert [one.error_code for one in bench.call(request).members] == [
        UNKNOWN_MEMBER_ID,
        UNKNOWN_MEMBER_ID,
        UNKNOWN_MEMBER_ID,
    ]
    assert bench.leave(old.member_id, version=2).error_code == 0
