"""Coordinators, groups and their offsets, over the wire and in virtual time.

The shards' own tests (tests/broker/coordinators) go through every branch; here a running broker keeps
each promise: handlers, logs, replicas and timers included.  Versions follow Apache Kafka 4.3.1.
"""

from __future__ import annotations

from typing import Any

import pytest

from pykafka2.broker.base.image import BROKER_RESOURCE, GROUP_RESOURCE
from pykafka2.broker.coordinators.replay import Deferred
from pykafka2.protocol.messages import committed_offsets as offsets
from pykafka2.protocol.messages import group as messages
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
from pykafka2.protocol.messages.coordinator import FindCoordinatorRequest
from pykafka2.protocol.messages.group_admin import DeleteGroupsRequest, ListGroupsRequest
from pykafka2.testing.simulation import Simulation
from pykafka2.types import TopicPartition
from tests.broker.coordinators.bench import given, subscription
from tests.broker.group_bench import PARTITION, GroupBench
from tests.error_codes import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    FENCED_INSTANCE_ID,
    FENCED_MEMBER_EPOCH,
    GROUP_ID_NOT_FOUND,
    GROUP_MAX_SIZE_REACHED,
    GROUP_SUBSCRIBED_TO_TOPIC,
    ILLEGAL_GENERATION,
    INCONSISTENT_GROUP_PROTOCOL,
    INVALID_SESSION_TIMEOUT,
    MEMBER_ID_REQUIRED,
    NON_EMPTY_GROUP,
    NOT_COORDINATOR,
    OFFSET_METADATA_TOO_LARGE,
    REBALANCE_IN_PROGRESS,
    STALE_MEMBER_EPOCH,
    UNKNOWN_MEMBER_ID,
    UNRELEASED_INSTANCE_ID,
    UNSUPPORTED_ASSIGNOR,
    UNSUPPORTED_VERSION,
)


@pytest.fixture
def bench(simulation: Simulation) -> GroupBench:
    """A coordinator on a cluster of one broker, with Kafka's defaults."""
    return GroupBench(simulation)


def code(reply: Deferred[Any]) -> int | None:
    """The error code; None while it waits."""
    return None if reply.response is None else int(reply.response.error_code)


# -- who coordinates ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(7))
def test_every_version_finds_the_leader_of_the_keys_partition(simulation: Simulation, version: int) -> None:
    bench = GroupBench(simulation, brokers=3)
    leader = bench.cluster.partition(*PARTITION).leader
    wire = bench.wire(1)
    if version < 4:
        old = wire.call(FindCoordinatorRequest(key="billing", key_type=0), version)
        assert (old.error_code, old.node_id, old.host) == (0, leader, f"broker-{leader}")
    else:
        names = [f"group-{number}" for number in range(20)]
        answer = wire.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["billing", *names]), version)
        assert [one.key for one in answer.coordinators] == ["billing", *names]
        assert answer.coordinators[0].node_id == leader
        assert {one.node_id for one in answer.coordinators} == {0, 1, 2}
        assert [one.node_id for one in answer.coordinators[1:]] == [
            bench.cluster.coordinator(name) for name in names
        ]


def test_the_coordinator_follows_its_partitions_leader(simulation: Simulation) -> None:
    bench = GroupBench(simulation, brokers=3)
    assert bench.commit(5) == 0
    old, new = bench.coordinator, (bench.coordinator + 1) % 3
    bench.cluster.controls.hold_loading(new)
    bench.cluster.controls.move_coordinator("billing", new)
    assert bench.find(old) == new
    bench.coordinator = old
    assert bench.commit(6) == NOT_COORDINATOR
    bench.moved(new)
    assert bench.fetch().error_code == COORDINATOR_LOAD_IN_PROGRESS
    assert bench.commit(6) == COORDINATOR_LOAD_IN_PROGRESS
    bench.cluster.controls.release_loading()
    bench.advance(0.1)
    assert bench.committed() == 5


def test_a_crashed_coordinator_is_followed_by_another(simulation: Simulation) -> None:
    """The group's coordinator moves with the broker's end, and the group goes on."""
    bench = GroupBench(simulation, brokers=3)
    members = bench.stable(2, session=30.0)
    assert bench.commit(7, member=members[0], generation=1) == 0
    crashed = bench.coordinator
    bench.cluster.controls.crash_broker(crashed)
    bench.idle.clear()
    assert bench.find((crashed + 1) % 3) != crashed
    bench.advance(1.0)
    assert [bench.heartbeat(one, 1) for one in members] == [0, 0]
    assert (bench.committed(), bench.group.epoch, bench.group.state) == (7, 1, "Stable")
    bench.cluster.controls.restart_broker(crashed)
    bench.advance(1.0)
    assert [bench.heartbeat(one, 1) for one in members] == [0, 0]
    assert bench.group.epoch == 1


@pytest.mark.parametrize(
    ("key", "partition"),
    [("", 0), ("my-group", 12), ("\u8ba2\u5355", 9), ("\U0001f600", 49), ("polygenelubricants", 0)],
)
@pytest.mark.parametrize(("kind", "topic"), [(0, "__consumer_offsets"), (1, "__transaction_state")])
def test_keys_are_hashed_as_kafka_hashes_them(
    simulation: Simulation, key: str, partition: int, kind: int, topic: str
) -> None:
    """Goldens of kafka-clients 4.3.1 for 50 partitions; of groups and transactional ids alike."""
    bench = GroupBench(simulation, brokers=3)
    request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
    (found,) = bench.wire(0).call(request, 6).coordinators
    assert (found.error_code, found.node_id) == (0, bench.cluster.partition(topic, partition).leader)
    bench.cluster.controls.move_leader((topic, partition), (found.node_id + 1) % 3)
    (moved,) = bench.wire(0).call(request, 6).coordinators
    assert moved.node_id == (found.node_id + 1) % 3


def test_a_coordinator_that_cannot_commit_is_not_available(simulation: Simulation) -> None:
    """A write that the replicas do not take within offsets.commit.timeout.ms: the client looks elsewhere."""
    bench = GroupBench(simulation, brokers=3, config={"min.insync.replicas": 2})
    (member,) = bench.stable(1, session=60.0)
    assert bench.commit(1, member=member, generation=1) == 0
    bench.cluster.controls.pause_followers()
    asked = bench.ask(commit_of(2, member, 1), 9)
    assert not asked.is_done
    bench.advance(5.1)
    assert asked.response is not None
    assert asked.response.topics[0].partitions[0].error_code == COORDINATOR_NOT_AVAILABLE
    bench.cluster.controls.resume_followers()
    bench.advance(0.2)
    assert bench.committed() == 2, "it was appended, and is committed after all"


def commit_of(offset: int, member: str, generation: int) -> offsets.OffsetCommitRequest:
    asked = offsets.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=""
    )
    return offsets.OffsetCommitRequest(
        group_id="billing",
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[offsets.OffsetCommitRequestTopic(name="orders", partitions=[asked])],
    )


# -- joining ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(4, 10))
def test_a_new_member_is_given_an_id_first(bench: GroupBench, version: int) -> None:
    reply = bench.join(version=version)
    assert code(reply) == MEMBER_ID_REQUIRED
    assert reply.response is not None
    assert reply.response.member_id.startswith("client-")
    joined = bench.join(reply.response.member_id, version=version)
    bench.advance(3.0)
    assert code(joined) == 0


@pytest.mark.parametrize("version", range(4))
def test_old_versions_join_at_once(bench: GroupBench, version: int) -> None:
    joined = bench.join(version=version)
    bench.advance(3.1)
    assert joined.response is not None
    assert (joined.response.error_code, joined.response.generation_id) == (0, 1)
    assert joined.response.leader == joined.response.member_id


def test_an_id_that_is_not_used_expires_with_the_session_timeout(bench: GroupBench) -> None:
    member = bench.member_id(session=10.0)
    bench.advance(11.0)
    assert code(bench.join(member)) == UNKNOWN_MEMBER_ID


def test_the_first_rebalance_waits_and_longer_while_members_come(bench: GroupBench) -> None:
    first = bench.join(bench.member_id())
    bench.advance(2.5)
    second = bench.join(bench.member_id())
    bench.advance(2.5)
    assert not first.is_done  # prolonged: somebody came within the first three seconds
    bench.advance(1.5)
    assert (code(first), code(second)) == (0, 0)
    assert bench.group.epoch == 1


def test_the_wait_ends_at_the_rebalance_timeout(bench: GroupBench) -> None:
    began = bench.now
    first = bench.join(bench.member_id(), rebalance=7.0)
    late = []
    while not first.is_done:
        late.append(bench.join(bench.member_id(), rebalance=7.0))
        bench.advance(1.0)
    assert 6.9 < bench.now - began < 8.2
    assert {code(one) for one in late[:-2]} == {0}


def test_a_new_group_passes_the_states_in_order(bench: GroupBench) -> None:
    """And refuses to skip one: tests/broker/coordinators walks the table, tests/acceptance the events."""
    member = bench.member_id()
    seen = [bench.group.state]
    bench.join(member)
    seen.append(bench.group.state)
    bench.advance(3.1)
    seen.append(bench.group.state)
    bench.sync(member, 1, {member: b"all"})
    seen.append(bench.group.state)
    bench.leave(member)
    seen.append(bench.group.state)
    assert seen == ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Empty"]
    assert bench.delete_group() == 0
    assert bench.describe().group_state == "Dead"


def test_members_are_told_what_is_wrong(bench: GroupBench) -> None:
    leader, other = bench.stable(2)
    assert bench.heartbeat(leader, 0) == ILLEGAL_GENERATION
    assert code(bench.sync(leader, 2)) == ILLEGAL_GENERATION
    assert bench.heartbeat("stranger", 1) == UNKNOWN_MEMBER_ID
    assert code(bench.sync("stranger", 1)) == UNKNOWN_MEMBER_ID
    assert code(bench.join("stranger")) == UNKNOWN_MEMBER_ID
    assert code(bench.join(protocols={"other": b""})) == INCONSISTENT_GROUP_PROTOCOL
    assert code(bench.join(kind="connect")) == INCONSISTENT_GROUP_PROTOCOL
    assert code(bench.join(leader)) is None  # the leader's rejoin: a rebalance
    assert bench.heartbeat(other, 1) == REBALANCE_IN_PROGRESS
    assert code(bench.sync(other, 1)) == REBALANCE_IN_PROGRESS


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (5.999, INVALID_SESSION_TIMEOUT),
        (6, MEMBER_ID_REQUIRED),
        (1800, MEMBER_ID_REQUIRED),
        (1800.001, INVALID_SESSION_TIMEOUT),
    ],
)
def test_session_timeouts_have_bounds(bench: GroupBench, seconds: float, expected: int) -> None:
    assert code(bench.join(session=seconds)) == expected


def test_a_full_group_takes_no_more(simulation: Simulation) -> None:
    bench = GroupBench(simulation, config={"group.max.size": 2, "group.min.session.timeout.ms": 1})
    bench.stable(2, session=0.5)
    assert code(bench.join()) == GROUP_MAX_SIZE_REACHED


def test_a_static_member_comes_back_without_a_rebalance(bench: GroupBench) -> None:
    both = {"range": subscription("orders"), "sticky": subscription("orders")}
    join = bench.join(instance="i", protocols=both)
    bench.advance(3.1)
    assert join.response is not None
    old = join.response.member_id
    assert code(bench.sync(old, 1, {old: b"mine"}, instance="i")) == 0
    again = bench.join(instance="i", protocols=both).response
    assert again is not None
    assert (again.error_code, again.generation_id, bench.group.state) == (0, 1, "Stable")
    assert again.member_id != old
    synced = bench.sync(again.member_id, 1, instance="i").response
    assert synced is not None
    assert synced.assignment == b"mine"
    assert bench.heartbeat(old, 1, "i") == FENCED_INSTANCE_ID
    assert bench.commit(1, member=old, generation=1, instance="i") == FENCED_INSTANCE_ID
    # What it can do now is changed: everybody is asked anew.
    bench.join(instance="i", protocols={"sticky": b""})
    bench.advance(0.1)
    assert (bench.group.state, bench.group.epoch) == ("CompletingRebalance", 2)


def test_who_does_not_sync_in_time_is_out(bench: GroupBench) -> None:
    ids = [bench.member_id(session=300.0, rebalance=20.0) for _ in range(2)]
    joins = [bench.join(one, session=300.0, rebalance=20.0) for one in ids]
    bench.advance(6.5)
    assert [code(one) for one in joins] == [0, 0]
    leader = bench.group.leader
    assert leader is not None
    assert code(bench.sync(leader, 1, {leader: b"x"})) == 0
    assert bench.group.state == "Stable"
    bench.advance(20.5)
    assert list(bench.group.members) == [leader]
    assert bench.heartbeat(leader, 1) == REBALANCE_IN_PROGRESS


def test_a_join_ends_once_when_all_are_there_or_at_the_rebalance_timeout(bench: GroupBench) -> None:
    """By a timer that writes records, not by the purgatory."""
    leader, other = bench.stable(2, session=300.0, rebalance=30.0)
    first = bench.join(leader, session=300.0, rebalance=30.0)
    bench.advance(20.0)
    assert not first.is_done
    assert code(bench.join(other, session=300.0, rebalance=30.0)) == 0  # all are there
    bench.advance(0.1)
    assert (code(first), bench.group.epoch) == (0, 2)
    bench.settle([leader, other], 2)
    alone = bench.join(leader, session=300.0, rebalance=30.0)
    bench.advance(29.5)
    assert not alone.is_done
    bench.advance(1.0)
    assert (code(alone), list(bench.group.members)) == (0, [leader])


def test_who_waits_when_the_coordinator_moves_is_sent_on(simulation: Simulation) -> None:
    """Pending JoinGroup and SyncGroup are answered NOT_COORDINATOR; members come again."""
    bench = GroupBench(simulation, brokers=3)
    leader, other = bench.stable(2, session=60.0)
    joining = bench.join(leader, session=60.0)
    bench.reload()
    assert code(joining) == NOT_COORDINATOR
    assert (bench.group.state, bench.group.epoch) == ("Stable", 1)  # as of the last complete rebalance
    again = [bench.join(one, session=60.0) for one in (leader, other)]
    bench.advance(0.5)
    assert [code(one) for one in again] == [0, 0]
    syncing = bench.sync(other, 2)
    assert not syncing.is_done
    bench.reload()
    assert code(syncing) == NOT_COORDINATOR


def test_a_stable_group_goes_on_without_a_rebalance(simulation: Simulation) -> None:
    """The new coordinator loads generation, members and offsets."""
    bench = GroupBench(simulation, brokers=3)
    members = bench.stable(3, session=60.0)
    assert bench.commit(11, member=members[2], generation=1) == 0
    before = bench.group
    bench.reload()
    assert bench.group == before
    assert [bench.heartbeat(one, 1) for one in members] == [0, 0, 0]
    assert bench.committed() == 11
    assert bench.group == before


def test_the_leader_alone_is_told_of_the_members(bench: GroupBench) -> None:
    """The first accepted leads until it leaves."""
    ids = [bench.member_id() for _ in range(3)]
    joins = [bench.join(one) for one in ids]
    bench.advance(6.5)
    told = [reply.response for reply in joins]
    assert all(one is not None and one.leader == ids[0] for one in told)
    assert [len(one.members) for one in told if one is not None] == [3, 0, 0]
    assert told[0] is not None
    assert {one.member_id: one.metadata for one in told[0].members} == dict.fromkeys(
        ids, subscription("orders")
    )
    bench.settle(ids, 1)
    bench.leave(ids[0])
    for one in ids[1:]:
        bench.join(one)
    bench.advance(0.1)
    assert bench.group.leader == ids[1]


def test_a_commit_keeps_a_members_session(bench: GroupBench) -> None:
    """Heartbeats blocked, a commit every 5 s keeps the member; without it is out at its timeout."""
    (member,) = bench.stable(1, session=10.0)
    for number in range(6):
        bench.advance(5.0)
        assert bench.commit(number, member=member, generation=1) == 0
    assert list(bench.group.members) == [member]
    bench.advance(10.5)
    assert bench.group.members == {}
    assert bench.commit(9, member=member, generation=1) == UNKNOWN_MEMBER_ID


def test_a_commit_does_not_stand_for_a_heartbeat_in_the_new_protocol(bench: GroupBench) -> None:
    """Commits of KIP-848 members do not re-arm their sessions."""
    bench.beat("one", 0)
    for number in range(8):
        bench.advance(5.0)
        assert bench.commit(number, member="one", generation=2) == 0
    bench.advance(5.5)
    assert bench.commit(9, member="one", generation=2) == UNKNOWN_MEMBER_ID
    assert bench.group.members == {}


def test_what_waits_for_a_closed_connection_is_dropped(bench: GroupBench) -> None:
    """The join goes on without its asker, who is out at its session's end; nobody else is harmed."""
    leader, other = bench.stable(2, session=10.0)
    waiting = bench.join(leader)
    waiting.wire.close()
    bench.waiting.clear()
    bench.advance(0.1)
    assert bench.group.state == "PreparingRebalance"
    joined = bench.join(other)
    bench.advance(0.5)
    assert (code(joined), bench.group.epoch, len(bench.group.members)) == (0, 2, 2)
    assert bench.heartbeat(other, 2) == 0
    bench.advance(9.0)
    assert bench.heartbeat(other, 2) == 0
    bench.advance(1.5)
    assert list(bench.group.members) == [other]
    bench.cluster.check()


# -- offsets ------------------------------------------------------------------------------------------


def test_commits_without_a_generation_need_an_empty_group(bench: GroupBench) -> None:
    assert bench.commit(3) == 0
    ids = [bench.member_id() for _ in range(2)]
    for one in ids:
        bench.join(one)
    bench.advance(6.5)
    assert bench.group.state == "CompletingRebalance"
    assert bench.commit(4) == UNKNOWN_MEMBER_ID
    assert bench.commit(4, member=ids[0], generation=1) == REBALANCE_IN_PROGRESS
    bench.settle(ids, 1)
    assert bench.commit(4) == UNKNOWN_MEMBER_ID
    assert bench.commit(4, member=ids[0], generation=2) == ILLEGAL_GENERATION
    assert bench.commit(4, member=ids[0], generation=1) == 0
    assert bench.committed() == 4


def test_metadata_has_a_limit(bench: GroupBench) -> None:
    assert bench.commit(1, metadata="x" * 4096) == 0
    assert bench.commit(2, metadata="x" * 4097) == OFFSET_METADATA_TOO_LARGE
    assert bench.committed() == 1


@pytest.mark.parametrize("version", range(1, 10))
def test_what_nobody_committed_is_minus_one_without_an_error(bench: GroupBench, version: int) -> None:
    if version >= 8:
        group = bench.fetch([0, 5], version=version)
        assert group.error_code == 0
        assert [(one.committed_offset, one.error_code) for one in group.topics[0].partitions] == [(-1, 0)] * 2
        return
    asked = offsets.OffsetFetchRequestTopic(name="orders", partition_indexes=[0, 5])
    answer = bench.answer(offsets.OffsetFetchRequest(group_id="billing", topics=[asked]), version)
    assert answer.error_code == 0
    assert [(one.committed_offset, one.error_code) for one in answer.topics[0].partitions] == [(-1, 0)] * 2


def test_offsets_expire_after_their_retention_and_the_group_dies(simulation: Simulation) -> None:
    minutes = 30
    bench = GroupBench(simulation, config={"offsets.retention.minutes": minutes})
    (member,) = bench.stable(1)
    assert bench.commit(5, member=member, generation=1) == 0
    bench.leave(member)
    bench.advance(minutes * 60 - 30.0)
    assert bench.committed() == 5
    bench.advance(700.0)  # offsets.retention.check.interval.ms, and some
    assert bench.committed() == -1
    assert bench.describe().error_code == GROUP_ID_NOT_FOUND


def test_a_live_group_keeps_what_it_reads_and_loses_the_rest(simulation: Simulation) -> None:
    bench = GroupBench(simulation, config={"offsets.retention.minutes": 10})
    (member,) = bench.stable(1, session=1800.0)
    assert bench.commit(5, member=member, generation=1) == 0
    assert bench.commit(6, member=member, generation=1, topic="refunds") == 0
    bench.advance(1300.0)
    assert bench.group.offsets == {TopicPartition("orders", 0): 5}


def test_a_deleted_topic_takes_its_offsets_along(simulation: Simulation) -> None:
    bench = GroupBench(simulation, brokers=3)
    assert bench.commit(5) == 0
    assert bench.commit(6, topic="refunds") == 0
    bench.cluster.delete_topic("orders")
    bench.advance(0.2)
    assert bench.group.offsets == {TopicPartition("refunds", 0): 6}
    bench.reload()
    assert bench.group.offsets == {TopicPartition("refunds", 0): 6}


# -- administration -----------------------------------------------------------------------------------


def test_groups_with_members_and_offsets_in_use_stay(bench: GroupBench) -> None:
    (member,) = bench.stable(1)
    assert bench.commit(5, member=member, generation=1) == 0
    assert bench.delete_group() == NON_EMPTY_GROUP
    assert bench.delete_group("nobody") == GROUP_ID_NOT_FOUND

    def delete_offset(topic: str) -> tuple[int, int]:
        asked = offsets.OffsetDeleteRequestTopic(
            name=topic, partitions=[offsets.OffsetDeleteRequestPartition(partition_index=0)]
        )
        answer = bench.answer(offsets.OffsetDeleteRequest(group_id="billing", topics=[asked]))
        return answer.error_code, answer.topics[0].partitions[0].error_code

    assert delete_offset("orders") == (0, GROUP_SUBSCRIBED_TO_TOPIC)
    assert delete_offset("refunds") == (0, 0)
    bench.leave(member)
    assert delete_offset("orders") == (0, 0)
    assert bench.committed() == -1
    assert bench.delete_group() == 0


@pytest.mark.parametrize("version", range(7))
def test_an_unknown_group_is_dead_and_since_version_6_not_found(bench: GroupBench, version: int) -> None:
    group = bench.describe("nobody", version)
    assert (group.group_state, group.error_code) == ("Dead", GROUP_ID_NOT_FOUND if version >= 6 else 0)


def test_lists_and_descriptions_come_from_all_partitions(simulation: Simulation) -> None:
    bench = GroupBench(simulation, brokers=3)
    names = [f"g{number}" for number in range(12)]
    homes = {name: bench.cluster.coordinator(name) for name in names}
    for name in names:
        bench.moved(homes[name])
        assert bench.commit(1, group_id=name) == 0
    listed: list[str] = []
    for broker in range(3):
        answer = bench.wire(broker).call(ListGroupsRequest(states_filter=["Empty"]), 5)
        assert {one.group_type for one in answer.groups} == {"classic"}
        listed += [one.group_id for one in answer.groups]
    assert sorted(listed) == sorted(names)
    assert bench.wire(0).call(ListGroupsRequest(types_filter=["consumer"]), 5).groups == []
    answer = bench.wire(0).call(DeleteGroupsRequest(groups_names=names), 2)
    assert {one.group_id: one.error_code for one in answer.results} == {
        name: 0 if homes[name] == 0 else NOT_COORDINATOR for name in names
    }


# -- KIP-848 ------------------------------------------------------------------------------------------


def test_a_partition_is_given_out_only_after_its_owner_gave_it_up(bench: GroupBench) -> None:
    topic = bench.cluster.controller.image.topics["orders"].id
    first = bench.beat("one", 0)
    assert (first.error_code, first.member_epoch, given(first)) == (0, 2, {topic: [0, 1, 2, 3, 4, 5]})
    bench.advance(1.0)  # group.consumer.assignment.interval.ms
    second = bench.beat("two", 0)
    assert (second.error_code, second.member_epoch, given(second)) == (0, 3, {})
    told = given(bench.beat("one", 2))
    assert told == {topic: [0, 1, 2]}
    assert given(bench.beat("two", 3)) is None  # not given up yet
    assert bench.group.state == "Reconciling"
    answer = bench.beat("one", 2, owned=told)
    assert (answer.error_code, answer.member_epoch) == (0, 3)
    assert given(bench.beat("two", 3)) == {topic: [3, 4, 5]}
    assert (bench.group.kind, bench.group.state) == ("consumer", "Stable")


def test_epochs_join_leave_and_fence(bench: GroupBench) -> None:
    assert bench.beat("one", 0).member_epoch == 2
    assert bench.beat("one", 7).error_code == FENCED_MEMBER_EPOCH
    assert bench.beat("nobody", 3).error_code == UNKNOWN_MEMBER_ID
    left = bench.beat("one", -1)
    assert (left.error_code, left.member_epoch) == (0, -1)
    assert bench.beat("one", 2).error_code == UNKNOWN_MEMBER_ID
    assert bench.beat("two", 0, assignor="best").error_code == UNSUPPORTED_ASSIGNOR


def test_a_static_member_leaves_for_a_while(bench: GroupBench) -> None:
    joined = bench.beat("one", 0, instance="i")
    assert bench.beat("two", 0, instance="i").error_code == UNRELEASED_INSTANCE_ID
    assert bench.beat("one", -2, instance="i").member_epoch == -2
    back = bench.beat("two", 0, instance="i")
    assert (back.error_code, given(back)) == (0, given(joined))
    assert list(bench.group.members) == ["two"]


def test_a_silent_member_is_out_after_the_session_timeout(bench: GroupBench) -> None:
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
    bench = GroupBench(simulation, **options)
    assert bench.beat("one", 0).error_code == UNSUPPORTED_VERSION
    request = ConsumerGroupDescribeRequest(group_ids=["billing"], include_authorized_operations=False)
    assert bench.answer(request).groups[0].error_code == UNSUPPORTED_VERSION
    assert code(bench.join()) == MEMBER_ID_REQUIRED


def alter(bench: GroupBench, kind: int, name: str, configs: dict[str, str]) -> None:
    """Set configurations, as an administrator does."""
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            IncrementalAlterConfigsRequestAlterableConfig(name=name, config_operation=0, value=value)
            for name, value in configs.items()
        ],
    )
    answer = bench.answer(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
    assert answer.responses[0].error_code == 0, answer


def test_the_interval_between_assignments_can_be_changed_while_brokers_run(bench: GroupBench) -> None:
    """group.consumer.assignment.interval.ms is dynamic (KIP-1263); a group's own goes before it."""
    assert bench.beat("one", 0).member_epoch == 2
    assert bench.beat("two", 0).member_epoch == 2  # its target has to wait
    alter(bench, BROKER_RESOURCE, "", {"group.consumer.assignment.interval.ms": "0"})
    assert bench.beat("three", 0).member_epoch == 4
    alter(bench, GROUP_RESOURCE, "billing", {"consumer.assignment.interval.ms": "5000"})
    assert bench.beat("four", 0).member_epoch == 4


def test_a_groups_own_configuration_goes_before_the_brokers(bench: GroupBench) -> None:
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
    bench = GroupBench(simulation, brokers=3)
    bench.beat("one", 0)
    before = bench.group
    bench.reload()
    assert bench.group == before
    assert bench.beat("one", 2).error_code == 0
    request = ConsumerGroupDescribeRequest(group_ids=["billing"], include_authorized_operations=True)
    described = bench.answer(request).groups[0]
    assert described.authorized_operations == 3400  # READ, DELETE, DESCRIBE and the two of configs
    assert (described.error_code, described.group_epoch, len(described.members)) == (0, 2, 1)


def test_a_pattern_is_resolved_by_the_coordinator(bench: GroupBench) -> None:
    """Subscriptions by RE2 patterns (KIP-848): here by Python's `re`, of a bounded length."""
    topics = bench.cluster.controller.image.topics
    joined = bench.beat("one", 0, regex="ord.*|nothing")
    assert joined.error_code == 0
    bench.advance(1.0)
    got = given(joined) or given(bench.beat("one", joined.member_epoch))
    assert got is not None
    assert got == {topics["orders"].id: [0, 1, 2, 3, 4, 5]}


def test_commits_and_fetches_name_the_members_epoch(bench: GroupBench) -> None:
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
    bench = GroupBench(simulation, config={"group.consumer.migration.policy": policy})
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
    bench = GroupBench(simulation, config={"group.consumer.migration.policy": "disabled"})
    assert bench.commit(5) == 0
    assert bench.beat("new", 0).error_code == 0
    assert (bench.group.kind, bench.committed()) == ("consumer", 5)
    bench.beat("new", -1)
    assert code(bench.join(version=1)) is None
    assert bench.group.kind == "classic"


# -- every version ------------------------------------------------------------------------------------


def test_every_version_of_the_classic_calls_is_served(bench: GroupBench) -> None:
    (member,) = bench.stable(1, session=600.0)
    for version in range(5):
        request = messages.HeartbeatRequest(group_id="billing", generation_id=1, member_id=member)
        assert bench.answer(request, version).error_code == 0
    for version in range(6):
        sync = bench.sync(member, 1, version=version).response
        assert sync is not None
        assert (sync.error_code, sync.assignment) == (0, member.encode())
    for version in range(2, 10):
        assert bench.commit(version, member=member, generation=1, version=version) == 0
    for version in range(6):
        listed = bench.answer(ListGroupsRequest(), version).groups
        assert [one.group_id for one in listed] == ["billing"]
    for version in range(7):
        described = bench.describe(version=version)
        assert (described.group_state, len(described.members)) == ("Stable", 1)
    for version in range(6):
        gone = bench.leave(member, version=version)
        code = gone.error_code or (gone.members[0].error_code if version >= 3 else 0)
        assert code == (0 if version == 0 else UNKNOWN_MEMBER_ID)
