"""Classic groups over the wire and in virtual time.

The shards' own tests (tests/broker/coordinators) go through every branch; here a running broker keeps
each promise: handlers, logs, replicas and timers included.  Versions follow Apache Kafka 4.3.1.
"""

from __future__ import annotations

import pytest

from pykafka2.protocol.messages import group as messages
from pykafka2.protocol.messages.group_admin import ListGroupsRequest
from pykafka2.testing.simulation import Simulation
from tests.broker.support.bench import ClusterBench, code, subscription
from tests.error_codes import (
    FENCED_INSTANCE_ID,
    GROUP_MAX_SIZE_REACHED,
    ILLEGAL_GENERATION,
    INCONSISTENT_GROUP_PROTOCOL,
    INVALID_SESSION_TIMEOUT,
    MEMBER_ID_REQUIRED,
    NOT_COORDINATOR,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
)

# -- joining ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(4, 10))
def test_new_member_must_join_with_the_assigned_member_id(bench: ClusterBench, version: int) -> None:
    reply = bench.join(version=version)
    assert code(reply) == MEMBER_ID_REQUIRED
    assert reply.response is not None
    assert reply.response.member_id.startswith("client-")
    joined = bench.join(reply.response.member_id, version=version)
    bench.advance(3.0)
    assert code(joined) == 0


@pytest.mark.parametrize("version", range(4))
def test_old_versions_join_at_once(bench: ClusterBench, version: int) -> None:
    joined = bench.join(version=version)
    bench.advance(3.1)
    assert joined.response is not None
    assert (joined.response.error_code, joined.response.generation_id) == (0, 1)
    assert joined.response.leader == joined.response.member_id


def test_an_id_that_is_not_used_expires_with_the_session_timeout(bench: ClusterBench) -> None:
    member = bench.member_id(session=10.0)
    bench.advance(11.0)
    assert code(bench.join(member)) == UNKNOWN_MEMBER_ID


def test_the_first_rebalance_waits_and_longer_while_members_come(bench: ClusterBench) -> None:
    first = bench.join(bench.member_id())
    bench.advance(2.5)
    second = bench.join(bench.member_id())
    bench.advance(2.5)
    assert not first.is_done  # prolonged: somebody came within the first three seconds
    bench.advance(1.5)
    assert (code(first), code(second)) == (0, 0)
    assert bench.group.epoch == 1


def test_the_wait_ends_at_the_rebalance_timeout(bench: ClusterBench) -> None:
    began = bench.now
    first = bench.join(bench.member_id(), rebalance=7.0)
    late = []
    while not first.is_done:
        late.append(bench.join(bench.member_id(), rebalance=7.0))
        bench.advance(1.0)
    assert 6.9 < bench.now - began < 8.2
    assert {code(one) for one in late[:-2]} == {0}


def test_a_new_group_passes_the_states_in_order(bench: ClusterBench) -> None:
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


def test_invalid_requests_of_members_get_their_error_codes(bench: ClusterBench) -> None:
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
def test_session_timeouts_have_bounds(bench: ClusterBench, seconds: float, expected: int) -> None:
    assert code(bench.join(session=seconds)) == expected


def test_a_full_group_takes_no_more(simulation: Simulation) -> None:
    bench = ClusterBench(simulation, config={"group.max.size": 2, "group.min.session.timeout.ms": 1})
    bench.stable(2, session=0.5)
    assert code(bench.join()) == GROUP_MAX_SIZE_REACHED


def test_static_member_rejoins_without_a_rebalance(bench: ClusterBench) -> None:
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


def test_member_that_does_not_sync_in_time_is_removed(bench: ClusterBench) -> None:
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


def test_a_join_ends_once_when_all_are_there_or_at_the_rebalance_timeout(bench: ClusterBench) -> None:
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


def test_pending_joins_and_syncs_get_not_coordinator_when_the_coordinator_moves(
    simulation: Simulation,
) -> None:
    """Pending JoinGroup and SyncGroup are answered NOT_COORDINATOR; members come again."""
    bench = ClusterBench(simulation, brokers=3)
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


def test_stable_group_continues_under_its_new_coordinator_without_a_rebalance(simulation: Simulation) -> None:
    """The new coordinator loads generation, members and offsets."""
    bench = ClusterBench(simulation, brokers=3)
    members = bench.stable(3, session=60.0)
    assert bench.commit(11, member=members[2], generation=1) == 0
    before = bench.group
    bench.reload()
    assert bench.group == before
    assert [bench.heartbeat(one, 1) for one in members] == [0, 0, 0]
    assert bench.committed() == 11
    assert bench.group == before


def test_only_the_leader_receives_the_members(bench: ClusterBench) -> None:
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


def test_a_commit_keeps_a_members_session(bench: ClusterBench) -> None:
    """Heartbeats blocked, a commit every 5 s keeps the member; without it is out at its timeout."""
    (member,) = bench.stable(1, session=10.0)
    for number in range(6):
        bench.advance(5.0)
        assert bench.commit(number, member=member, generation=1) == 0
    assert list(bench.group.members) == [member]
    bench.advance(10.5)
    assert bench.group.members == {}
    assert bench.commit(9, member=member, generation=1) == UNKNOWN_MEMBER_ID


def test_join_of_a_closed_connection_expires_and_harms_no_other_member(bench: ClusterBench) -> None:
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


# -- every version ------------------------------------------------------------------------------------


def test_every_version_of_the_classic_calls_is_served(bench: ClusterBench) -> None:
    (member,) = bench.stable(1, session=600.0)
    for version in range(5):
        request = messages.HeartbeatRequest(group_id="billing", generation_id=1, member_id=member)
        assert bench.call(request, version).error_code == 0
    for version in range(6):
        sync = bench.sync(member, 1, version=version).response
        assert sync is not None
        assert (sync.error_code, sync.assignment) == (0, member.encode())
    for version in range(2, 10):
        assert bench.commit(version, member=member, generation=1, version=version) == 0
    for version in range(6):
        listed = bench.call(ListGroupsRequest(), version).groups
        assert [one.group_id for one in listed] == ["billing"]
    for version in range(7):
        described = bench.describe(version=version)
        assert (described.group_state, len(described.members)) == ("Stable", 1)
    for version in range(6):
        gone = bench.leave(member, version=version)
        code = gone.error_code or (gone.members[0].error_code if version >= 3 else 0)
        assert code == (0 if version == 0 else UNKNOWN_MEMBER_ID)
