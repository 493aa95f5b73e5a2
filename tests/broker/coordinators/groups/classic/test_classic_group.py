"""Classic groups: the state table, every request in every state, and each promise by example."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pykafka2.broker.coordinators.groups.classic.state import LEGAL_MOVES, ClassicGroup, GroupState
from pykafka2.broker.coordinators.settings import GroupSettings
from pykafka2.errors import IllegalTransition, MessageTooLarge, NotEnoughReplicas
from pykafka2.protocol.messages.group import HeartbeatRequest, LeaveGroupRequest, MemberIdentity
from pykafka2.protocol.messages.group_admin import ListGroupsRequest
from tests.broker.support.bench import GROUP, Bench, ClusterBench, ShardBench, answer, code, subscription
from tests.error_codes import (
    COORDINATOR_NOT_AVAILABLE,
    FENCED_INSTANCE_ID,
    GROUP_ID_NOT_FOUND,
    GROUP_MAX_SIZE_REACHED,
    ILLEGAL_GENERATION,
    INCONSISTENT_GROUP_PROTOCOL,
    INVALID_GROUP_ID,
    INVALID_SESSION_TIMEOUT,
    MEMBER_ID_REQUIRED,
    NON_EMPTY_GROUP,
    NOT_COORDINATOR,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
    UNKNOWN_SERVER_ERROR,
)

EMPTY, PREPARING, COMPLETING, STABLE, DEAD = GroupState
MakeBench = Callable[..., Bench]


@pytest.mark.parametrize("state", list(GroupState))
@pytest.mark.parametrize("to", list(GroupState))
def test_group_state_changes_follow_the_table_or_raise(state: GroupState, to: GroupState) -> None:
    group = ClassicGroup("g")
    group.state = state
    if to in LEGAL_MOVES[state]:
        group.move_to(to, 5)
        assert (group.previous_state, group.state, group.changed_ms) == (state, to, 5)
    else:
        with pytest.raises(IllegalTransition):
            group.move_to(to, 5)
        assert group.state is state


def test_group_passes_all_states_from_first_join_to_deletion(bench: Bench) -> None:
    member = bench.member_id()
    seen = [bench.classic().state]
    bench.join(member)
    seen.append(bench.classic().state)
    bench.advance(3.1)
    seen.append(bench.classic().state)
    bench.sync(member, 1, {member: b"all"})
    seen.append(bench.classic().state)
    bench.leave(member)
    seen.append(bench.classic().state)
    assert seen == [EMPTY, PREPARING, COMPLETING, STABLE, EMPTY]
    assert bench.classic().generation == 2
    assert bench.delete_group() == 0
    assert bench.shard.groups == {}
    assert bench.describe().group_state == "Dead"


def in_state(state: GroupState) -> tuple[ShardBench, str, int]:
    """Return a group in this state, a present or former member, and the generation."""
    bench = ShardBench()
    member, other = bench.stable(2, session=600.0)
    if state is EMPTY:
        bench.leave(member, other)
    elif state in (PREPARING, COMPLETING):
        bench.join(member, session=600.0)  # the leader: a rebalance
        if state is COMPLETING:
            bench.join(other, session=600.0)
    assert bench.classic().state is state
    return bench, member, bench.classic().generation


# (state, event) -> error code, next state.  Rebalances begin again with a member's changed subscription.
EVENTS: dict[str, Callable[[ShardBench, str, int], int | None]] = {
    "heartbeat": lambda bench, member, generation: bench.heartbeat(member, generation),
    "heartbeat of old generation": lambda bench, member, generation: bench.heartbeat(member, generation - 1),
    "heartbeat of stranger": lambda bench, member, generation: bench.heartbeat("stranger", generation),
    "leave": lambda bench, member, generation: bench.leave(member).members[0].error_code,
    "commit": lambda bench, member, generation: bench.commit(member=member, generation=generation),
    "commit from outside": lambda bench, member, generation: bench.commit(),
    "sync": lambda bench, member, generation: code(bench.sync(member, generation, {member: b"x"})),
    "sync of old generation": lambda bench, member, generation: code(bench.sync(member, generation - 1)),
    "new id": lambda bench, member, generation: code(bench.join()),
    "rejoin with other topics": lambda bench, member, generation: code(
        bench.join(member, protocols={"range": subscription("refunds")})
    ),
    "join of other type": lambda bench, member, generation: code(bench.join(kind="connect")),
    "delete": lambda bench, member, generation: bench.delete_group(),
    "rebalance timeout": lambda bench, member, generation: bench.advance(60.0),
}
WALK: dict[tuple[GroupState, str], tuple[int | None, GroupState | None]] = {
    (EMPTY, "heartbeat"): (UNKNOWN_MEMBER_ID, EMPTY),
    (EMPTY, "heartbeat of old generation"): (UNKNOWN_MEMBER_ID, EMPTY),
    (EMPTY, "heartbeat of stranger"): (UNKNOWN_MEMBER_ID, EMPTY),
    (EMPTY, "leave"): (UNKNOWN_MEMBER_ID, EMPTY),
    (EMPTY, "commit"): (UNKNOWN_MEMBER_ID, EMPTY),
    (EMPTY, "commit from outside"): (0, EMPTY),
    (EMPTY, "sync"): (UNKNOWN_MEMBER_ID, EMPTY),
    (EMPTY, "sync of old generation"): (UNKNOWN_MEMBER_ID, EMPTY),
    (EMPTY, "new id"): (MEMBER_ID_REQUIRED, EMPTY),
    (EMPTY, "rejoin with other topics"): (UNKNOWN_MEMBER_ID, EMPTY),
    (EMPTY, "join of other type"): (MEMBER_ID_REQUIRED, EMPTY),
    (EMPTY, "delete"): (0, None),
    (EMPTY, "rebalance timeout"): (None, EMPTY),
    (PREPARING, "heartbeat"): (REBALANCE_IN_PROGRESS, PREPARING),
    (PREPARING, "heartbeat of old generation"): (ILLEGAL_GENERATION, PREPARING),
    (PREPARING, "heartbeat of stranger"): (UNKNOWN_MEMBER_ID, PREPARING),
    (PREPARING, "leave"): (0, PREPARING),
    (PREPARING, "commit"): (0, PREPARING),
    (PREPARING, "commit from outside"): (UNKNOWN_MEMBER_ID, PREPARING),
    (PREPARING, "sync"): (REBALANCE_IN_PROGRESS, PREPARING),
    (PREPARING, "sync of old generation"): (ILLEGAL_GENERATION, PREPARING),
    (PREPARING, "new id"): (MEMBER_ID_REQUIRED, PREPARING),
    (PREPARING, "rejoin with other topics"): (None, PREPARING),
    (PREPARING, "join of other type"): (INCONSISTENT_GROUP_PROTOCOL, PREPARING),
    (PREPARING, "delete"): (NON_EMPTY_GROUP, PREPARING),
    (PREPARING, "rebalance timeout"): (None, COMPLETING),
    (COMPLETING, "heartbeat"): (0, COMPLETING),
    (COMPLETING, "heartbeat of old generation"): (ILLEGAL_GENERATION, COMPLETING),
    (COMPLETING, "heartbeat of stranger"): (UNKNOWN_MEMBER_ID, COMPLETING),
    (COMPLETING, "leave"): (0, PREPARING),
    (COMPLETING, "commit"): (REBALANCE_IN_PROGRESS, COMPLETING),
    (COMPLETING, "commit from outside"): (UNKNOWN_MEMBER_ID, COMPLETING),
    (COMPLETING, "sync"): (0, STABLE),
    (COMPLETING, "sync of old generation"): (ILLEGAL_GENERATION, COMPLETING),
    (COMPLETING, "new id"): (MEMBER_ID_REQUIRED, COMPLETING),
    (COMPLETING, "rejoin with other topics"): (None, PREPARING),
    (COMPLETING, "join of other type"): (INCONSISTENT_GROUP_PROTOCOL, COMPLETING),
    (COMPLETING, "delete"): (NON_EMPTY_GROUP, COMPLETING),
    (COMPLETING, "rebalance timeout"): (None, EMPTY),
    (STABLE, "heartbeat"): (0, STABLE),
    (STABLE, "heartbeat of old generation"): (ILLEGAL_GENERATION, STABLE),
    (STABLE, "heartbeat of stranger"): (UNKNOWN_MEMBER_ID, STABLE),
    (STABLE, "leave"): (0, PREPARING),
    (STABLE, "commit"): (0, STABLE),
    (STABLE, "commit from outside"): (UNKNOWN_MEMBER_ID, STABLE),
    (STABLE, "sync"): (0, STABLE),
    (STABLE, "sync of old generation"): (ILLEGAL_GENERATION, STABLE),
    (STABLE, "new id"): (MEMBER_ID_REQUIRED, STABLE),
    (STABLE, "rejoin with other topics"): (None, PREPARING),
    (STABLE, "join of other type"): (INCONSISTENT_GROUP_PROTOCOL, STABLE),
    (STABLE, "delete"): (NON_EMPTY_GROUP, STABLE),
    (STABLE, "rebalance timeout"): (None, STABLE),
}


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("state", [EMPTY, PREPARING, COMPLETING, STABLE])
def test_every_event_in_every_state(state: GroupState, event: str) -> None:
    bench, member, generation = in_state(state)
    code = EVENTS[event](bench, member, generation)
    group = bench.shard.groups.get(GROUP)
    assert (code, None if group is None else group.state) == WALK[state, event]


# -- single rules -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(4, 10))
def test_new_member_must_join_with_the_assigned_member_id(bench: Bench, version: int) -> None:
    refused = answer(bench.join(version=version))
    assert (refused.error_code, refused.member_id.startswith("client-")) == (MEMBER_ID_REQUIRED, True)
    assert bench.classic().pending_join == {refused.member_id}
    joined = bench.join(refused.member_id, version=version)
    assert list(bench.classic().members) == [refused.member_id]
    bench.advance(3.0)
    assert code(joined) == 0


def test_unused_member_id_expires_with_the_session_timeout(bench: Bench) -> None:
    late = bench.member_id(session=10.0)
    bench.advance(9.5)
    assert bench.classic().pending_join == {late}
    bench.advance(1.0)
    assert bench.classic().pending_join == set()
    assert code(bench.join(late)) == UNKNOWN_MEMBER_ID


def test_rebalance_waits_for_pending_member_ids(shard_bench: ShardBench) -> None:
    (leader,) = shard_bench.stable(1)
    pending = shard_bench.member_id()
    rejoined = shard_bench.join(leader)
    assert rejoined.response is None
    joined = shard_bench.join(pending)
    assert [code(one) for one in (rejoined, joined)] == [0, 0]


def test_old_versions_join_without_a_member_id(bench: Bench) -> None:
    joins = [bench.join(version=version) for version in range(4)]
    bench.advance(6.5)
    first = answer(joins[0])
    for join in joins:
        assert (answer(join).error_code, answer(join).generation_id) == (0, 1)
        assert answer(join).leader == first.member_id
    assert len(bench.classic().members) == 4


def test_the_first_rebalance_waits_for_the_initial_delay(bench: Bench) -> None:
    joined = bench.join(bench.member_id())
    bench.advance(2.8)
    assert not joined.is_done
    bench.advance(0.3)
    assert answer(joined).generation_id == 1


def test_the_initial_delay_grows_with_each_join_up_to_the_rebalance_timeout(bench: Bench) -> None:
    joins = [bench.join(bench.member_id(rebalance=7.0), rebalance=7.0)]
    for _ in range(3):
        bench.advance(1.9)
        joins.append(bench.join(bench.member_id(rebalance=7.0), rebalance=7.0))
    bench.advance(0.7)
    assert not any(join.is_done for join in joins), "6.4 s have passed"
    bench.advance(0.8)
    assert all(join.is_done for join in joins), "7 s is the rebalance timeout"
    assert bench.classic().generation == 1


def test_members_within_the_initial_delay_share_one_generation(shard_bench: ShardBench) -> None:
    """Three members join in the initial delay: generation 1. A fourth one starts generation 2."""
    ids = [shard_bench.member_id() for _ in range(3)]
    joins = [shard_bench.join(one) for one in ids]
    shard_bench.advance(6.0)
    assert [join.response.generation_id for join in joins if join.response] == [1, 1, 1]
    fourth = shard_bench.join(shard_bench.member_id())
    assert shard_bench.classic().state is PREPARING
    for one in ids:
        shard_bench.join(one)
    assert answer(fourth).generation_id == 2


def test_session_timeouts_have_bounds(bench: Bench) -> None:
    for session, expected in (
        (5.999, INVALID_SESSION_TIMEOUT),
        (6.0, MEMBER_ID_REQUIRED),
        (1800.0, MEMBER_ID_REQUIRED),
        (1800.001, INVALID_SESSION_TIMEOUT),
    ):
        assert code(bench.join(session=session)) == expected


def test_empty_group_id_is_rejected() -> None:
    assert code(ShardBench().join(group_id="")) == INVALID_GROUP_ID


def test_join_without_a_common_protocol_is_rejected(shard_bench: ShardBench) -> None:
    shard_bench.stable(1, protocols={"range": subscription("orders"), "sticky": b""})
    refused = answer(shard_bench.join(protocols={"roundrobin": b""}))
    assert refused.error_code == INCONSISTENT_GROUP_PROTOCOL
    assert code(shard_bench.join(protocols={"sticky": b"", "roundrobin": b""})) == MEMBER_ID_REQUIRED


def test_protocol_with_most_votes_is_chosen(shard_bench: ShardBench) -> None:
    a, b, c = {"x": b"1", "y": b"1"}, {"y": b"2", "x": b"2"}, {"y": b"3", "z": b"3", "x": b"3"}
    ids = [shard_bench.member_id(protocols=one) for one in (a, b, c)]
    joins = [shard_bench.join(one, protocols=said) for one, said in zip(ids, (a, b, c), strict=True)]
    shard_bench.advance(6.0)
    leader = answer(joins[0])
    assert leader.protocol_name == "y"
    assert [(one.member_id, one.metadata) for one in leader.members] == [
        (ids[0], b"1"),
        (ids[1], b"2"),
        (ids[2], b"3"),
    ]


def test_sync_with_another_protocol_is_rejected(shard_bench: ShardBench) -> None:
    (member,) = shard_bench.stable(1)
    assert code(shard_bench.sync(member, 1, kind="connect")) == INCONSISTENT_GROUP_PROTOCOL
    assert code(shard_bench.sync(member, 1, protocol="sticky")) == INCONSISTENT_GROUP_PROTOCOL
    assert code(shard_bench.sync(member, 1)) == 0
    assert code(shard_bench.sync(member, 1, kind=None)) == INCONSISTENT_GROUP_PROTOCOL, (
        "since version 5 it must be said"
    )
    assert code(shard_bench.sync(member, 1, kind=None, version=4)) == 0


def test_a_full_group_takes_no_more(make_bench: MakeBench) -> None:
    bench = make_bench({"group.max.size": 2})
    ids = bench.stable(2)
    refused = answer(bench.join())
    assert (refused.error_code, refused.member_id) == (GROUP_MAX_SIZE_REACHED, "")
    assert bench.heartbeat(ids[0], 1) == 0


def test_group_max_size_applies_to_members_of_a_rebalance() -> None:
    bench = ShardBench(GroupSettings(max_size=2))
    ids = [bench.member_id() for _ in range(3)]
    joins = [bench.join(one) for one in ids]
    assert code(joins[2]) == GROUP_MAX_SIZE_REACHED
    bench.advance(6.0)
    assert [code(join) for join in joins] == [0, 0, GROUP_MAX_SIZE_REACHED]


def test_static_member_rejoins_without_a_rebalance(make_bench: MakeBench) -> None:
    bench = make_bench(brokers=3)
    first, second = bench.join(instance="a"), bench.join(instance="b")
    bench.advance(6.5)
    old = answer(second).member_id
    bench.settle([answer(first).member_id, old], 1)
    back = answer(bench.join(instance="b"))
    assert back.error_code == 0
    assert back.generation_id == 1
    assert back.member_id not in ("", old)
    assert bench.classic().state is STABLE
    assert bench.heartbeat(old, 1, "b") == FENCED_INSTANCE_ID
    assert bench.commit(1, member=old, generation=1, instance="b") == FENCED_INSTANCE_ID
    assert bench.heartbeat(old, 1) == UNKNOWN_MEMBER_ID
    assert bench.heartbeat(back.member_id, 1, "b") == 0
    synced = answer(bench.sync(back.member_id, 1, instance="b"))
    assert synced.assignment == old.encode(), "it keeps its partitions"
    bench.reload()
    assert bench.heartbeat(back.member_id, 1, "b") == 0, "the new id is in the log"


@pytest.mark.parametrize("version", [5, 8, 9])
def test_rejoining_static_leader_does_not_assign(shard_bench: ShardBench, version: int) -> None:
    old = shard_bench.static(version=version)
    back = answer(shard_bench.join(instance="a", version=version))
    if version >= 9:
        assert (back.leader, back.skip_assignment, len(back.members)) == (back.member_id, True, 1)
    else:
        assert (back.leader, len(back.members)) == (old, 0)
    assert shard_bench.classic().leader == back.member_id


def test_changed_protocols_of_a_static_member_rebalance(bench: Bench) -> None:
    bench.static(protocols={"range": b"", "sticky": b""})
    bench.join(instance="a", protocols={"sticky": b""})
    bench.advance(0.1)
    assert (bench.classic().state, bench.classic().generation) == (COMPLETING, 2)


def test_static_member_rejoining_during_a_rebalance_fences_its_old_request(shard_bench: ShardBench) -> None:
    waiting = shard_bench.join(instance="a")
    back = shard_bench.join(instance="a")
    assert code(waiting) == FENCED_INSTANCE_ID
    shard_bench.advance(6.0)
    assert code(back) == 0


def test_static_member_rejoining_before_the_sync_starts_another_rebalance(shard_bench: ShardBench) -> None:
    a, b = shard_bench.join(instance="a"), shard_bench.join(instance="b")
    shard_bench.advance(6.0)
    waiting = shard_bench.sync(answer(b).member_id, 1, instance="b")
    shard_bench.join(instance="b")
    assert code(waiting) == FENCED_INSTANCE_ID
    assert shard_bench.classic().state is PREPARING
    shard_bench.join(answer(a).member_id, instance="a")
    assert shard_bench.classic().generation == 2


def test_static_members_stay_while_their_session_lasts(shard_bench: ShardBench) -> None:
    member = shard_bench.static(session=100.0)
    other = shard_bench.join(shard_bench.member_id())
    shard_bench.advance(60.0)
    assert code(other) == 0
    assert member in shard_bench.classic().members
    assert answer(other).leader == answer(other).member_id, "the leader is a member that joined"


def test_failed_append_reverts_the_rejoin_of_a_static_member(shard_bench: ShardBench) -> None:
    old = shard_bench.static()
    shard_bench.log.fails_with = NotEnoughReplicas()
    assert code(shard_bench.join(instance="a")) == COORDINATOR_NOT_AVAILABLE
    assert shard_bench.heartbeat(old, 1, "a") == 0


def test_member_that_does_not_sync_within_the_rebalance_timeout_is_removed(bench: Bench) -> None:
    ids = [bench.member_id(session=600.0) for _ in range(2)]
    joins = [bench.join(one, session=600.0) for one in ids]
    bench.advance(6.5)
    assert all(join.is_done for join in joins)
    waiting = bench.sync(ids[1], 1)
    bench.advance(59.0)
    assert not waiting.is_done
    bench.advance(61.0)
    assert code(waiting) == REBALANCE_IN_PROGRESS
    assert ids[0] not in bench.classic().members


def test_member_that_does_not_sync_in_a_stable_group_is_removed(bench: Bench) -> None:
    ids = [bench.member_id(session=300.0, rebalance=20.0) for _ in range(2)]
    for one in ids:
        bench.join(one, session=300.0, rebalance=20.0)
    bench.advance(6.5)
    assert code(bench.sync(ids[0], 1, {ids[0]: b"x"})) == 0
    assert bench.classic().state is STABLE
    bench.advance(20.5)
    assert list(bench.classic().members) == [ids[0]]
    assert bench.heartbeat(ids[0], 1) == REBALANCE_IN_PROGRESS


def test_join_completes_at_the_rebalance_timeout_without_missing_members(bench: Bench) -> None:
    ids = bench.stable(3, session=600.0)
    joins = [bench.join(one, session=600.0) for one in ids[:2]]
    bench.advance(59.5)
    assert not any(join.is_done for join in joins)
    bench.advance(1.0)
    assert [code(join) for join in joins] == [0, 0]
    assert list(bench.classic().members) == ids[:2]
    assert bench.heartbeat(ids[2], 1) == UNKNOWN_MEMBER_ID


def test_join_completes_at_once_when_all_members_rejoined(bench: Bench) -> None:
    ids = bench.stable(3)
    joins = [bench.join(one) for one in ids]
    bench.advance(0.1)
    assert [code(join) for join in joins] == [0, 0, 0]


def test_superseded_join_of_a_member_gets_rebalance_in_progress(shard_bench: ShardBench) -> None:
    ids = shard_bench.stable(2)
    first = shard_bench.join(ids[0])
    shard_bench.join(ids[0])
    assert code(first) == REBALANCE_IN_PROGRESS


def test_pending_joins_and_syncs_get_not_coordinator_when_the_coordinator_moves(
    make_bench: MakeBench,
) -> None:
    bench = make_bench(brokers=3)
    leader, other = bench.stable(2, session=60.0)
    joining = bench.join(leader, session=60.0)
    group = bench.classic()
    bench.reload()
    assert code(joining) == NOT_COORDINATOR
    assert group.state is DEAD
    assert (bench.classic().state, bench.classic().generation) == (STABLE, 1), "as after the last rebalance"
    again = [bench.join(one, session=60.0) for one in (leader, other)]
    bench.advance(0.5)
    assert [code(one) for one in again] == [0, 0]
    syncing = bench.sync(other, 2)
    assert not syncing.is_done
    bench.reload()
    assert code(syncing) == NOT_COORDINATOR


def test_join_of_a_dead_group_gets_coordinator_not_available(shard_bench: ShardBench) -> None:
    """The group moves to another coordinator: members retry, and keep their member ids."""
    (member,) = shard_bench.stable(1)
    shard_bench.classic().move_to(DEAD, 0)
    for join in (shard_bench.join(member), shard_bench.join()):
        assert code(join) == COORDINATOR_NOT_AVAILABLE
    assert list(shard_bench.classic().members) == [member]


def test_stable_group_continues_under_its_new_coordinator_without_a_rebalance(make_bench: MakeBench) -> None:
    """The new coordinator loads generation, members and offsets."""
    bench = make_bench(brokers=3)
    ids = bench.stable(3)
    assert bench.commit(7, member=ids[0], generation=1) == 0
    described = bench.describe()
    bench.advance(9.0)
    bench.reload()
    assert bench.describe() == described
    bench.advance(9.0)
    assert [bench.heartbeat(one, 1) for one in ids] == [0, 0, 0], "each member has a full session again"
    assert bench.committed() == 7
    synced = answer(bench.sync(ids[2], 1))
    assert synced.assignment == ids[2].encode()
    assert bench.classic().generation == 1


def test_member_without_heartbeats_to_the_new_coordinator_is_removed(shard_bench: ShardBench) -> None:
    ids = shard_bench.stable(2)
    shard_bench.reload()
    shard_bench.advance(9.0)
    assert shard_bench.heartbeat(ids[0], 1) == 0
    shard_bench.advance(1.0)
    assert shard_bench.classic().state is PREPARING
    assert list(shard_bench.classic().members) == ids[:1]


def test_a_group_that_became_too_large_rebalances_when_loaded(shard_bench: ShardBench) -> None:
    shard_bench.stable(3)
    shard_bench.settings = GroupSettings(max_size=2)
    shard_bench.reload()
    assert shard_bench.classic().state is PREPARING


def test_only_the_leader_receives_the_members(bench: Bench) -> None:
    ids = [bench.member_id() for _ in range(3)]
    joins = [bench.join(one) for one in ids]
    bench.advance(6.5)
    responses = [join.response for join in joins if join.response]
    assert [len(one.members) for one in responses] == [3, 0, 0]
    assert {one.leader for one in responses} == {ids[0]}
    received = {one.member_id: one.metadata for one in responses[0].members}
    assert received == dict.fromkeys(ids, subscription("orders"))


def test_oldest_member_becomes_leader_when_the_leader_leaves(bench: Bench) -> None:
    ids = bench.stable(3)
    joins = [bench.join(one) for one in reversed(ids)]
    bench.advance(0.1)
    assert {join.response.leader for join in joins if join.response} == {ids[0]}
    bench.settle(ids, 2)
    bench.leave(ids[0])
    joins = [bench.join(one) for one in reversed(ids[1:])]
    bench.advance(0.1)
    assert {join.response.leader for join in joins if join.response} == {ids[1]}


def test_commit_extends_the_session_of_a_classic_member(bench: Bench) -> None:
    (member,) = bench.stable(1)
    for _ in range(10):
        bench.advance(5.0)
        assert bench.commit(member=member, generation=1) == 0
    bench.advance(9.5)
    assert member in bench.classic().members
    bench.advance(1.0)
    assert bench.classic().state is EMPTY
    assert bench.commit(9, member=member, generation=1) == UNKNOWN_MEMBER_ID


def test_member_without_heartbeats_is_removed_after_its_session_timeout(shard_bench: ShardBench) -> None:
    ids = shard_bench.stable(2)
    shard_bench.advance(9.0)
    assert shard_bench.heartbeat(ids[0], 1) == 0
    shard_bench.advance(1.0)
    assert shard_bench.heartbeat(ids[0], 1) == REBALANCE_IN_PROGRESS
    assert list(shard_bench.classic().members) == [ids[0]]


def test_member_waiting_for_a_rebalance_does_not_time_out(shard_bench: ShardBench) -> None:
    ids = shard_bench.stable(2, session=10.0)
    waiting = shard_bench.join(ids[0])
    shard_bench.heartbeat(ids[1], 1)
    for _ in range(6):
        shard_bench.advance(9.0)
        shard_bench.heartbeat(ids[1], 1)
    shard_bench.advance(6.0)
    assert code(waiting) == 0


def test_new_member_without_a_completed_join_is_removed_after_five_minutes(shard_bench: ShardBench) -> None:
    shard_bench.stable(1, session=1800.0, rebalance=1000.0)
    waiting = shard_bench.join(shard_bench.member_id(session=1800.0), session=1800.0)
    shard_bench.advance(299.0)
    assert not waiting.is_done
    shard_bench.advance(1.0)
    assert code(waiting) == UNKNOWN_MEMBER_ID


def test_unchanged_rejoin_rebalances_only_from_the_leader(shard_bench: ShardBench) -> None:
    ids = shard_bench.stable(2)
    again = answer(shard_bench.join(ids[1]))
    assert (again.error_code, again.generation_id, again.members) == (0, 1, [])
    shard_bench.join(ids[0])
    assert shard_bench.classic().state is PREPARING


def test_failed_append_of_an_assignment_starts_a_rebalance(shard_bench: ShardBench) -> None:
    ids = shard_bench.stable(2)
    shard_bench.join(ids[0])
    shard_bench.join(ids[1])
    follower = shard_bench.sync(ids[1], 2)
    shard_bench.log.fails_with = MessageTooLarge()
    leader = shard_bench.sync(ids[0], 2, {ids[0]: b"x"})
    assert (code(follower), code(leader)) == (UNKNOWN_SERVER_ERROR, UNKNOWN_SERVER_ERROR)
    assert shard_bench.classic().state is PREPARING


def test_assignment_is_returned_only_after_its_commit(shard_bench: ShardBench) -> None:
    ids = shard_bench.stable(2)
    shard_bench.join(ids[0])
    shard_bench.join(ids[1])
    shard_bench.log.commits_at_once = False
    syncs = [shard_bench.sync(ids[1], 2), shard_bench.sync(ids[0], 2, {ids[1]: b"mine"})]
    assert not any(sync.is_done for sync in syncs)
    shard_bench.runtime.on_high_watermark(len(shard_bench.log.entries))
    assert [sync.response.assignment for sync in syncs if sync.response] == [b"mine", b""]


def test_leave_group_has_an_error_code_for_each_member(shard_bench: ShardBench) -> None:
    ids = shard_bench.stable(3)
    assert [one.error_code for one in shard_bench.leave(ids[0], "stranger").members] == [0, UNKNOWN_MEMBER_ID]
    assert shard_bench.leave(ids[1], version=2).error_code == 0
    assert shard_bench.leave(ids[1], version=0).error_code == UNKNOWN_MEMBER_ID


def test_leave_of_a_missing_group_gets_unknown_member_id(shard_bench: ShardBench) -> None:
    assert [one.error_code for one in shard_bench.leave("m").members] == [UNKNOWN_MEMBER_ID]
    assert shard_bench.leave("m", version=1).error_code == UNKNOWN_MEMBER_ID


def test_leave_group_removes_static_members_by_instance_id(shard_bench: ShardBench) -> None:
    shard_bench.join(instance="a")
    shard_bench.advance(3.0)
    request = LeaveGroupRequest(
        group_id=GROUP,
        members=[
            MemberIdentity(member_id="", group_instance_id="a"),
            MemberIdentity(member_id="", group_instance_id="b"),
        ],
    )
    assert [one.error_code for one in shard_bench.call(request).members] == [0, UNKNOWN_MEMBER_ID]
    assert shard_bench.classic().state is EMPTY


def test_describe_groups_returns_member_metadata_only_in_stable_groups(shard_bench: ShardBench) -> None:
    ids = shard_bench.stable(1)
    group = shard_bench.describe()
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("Stable", "consumer", "range")
    assert [(one.member_id, one.member_metadata, one.member_assignment) for one in group.members] == [
        (ids[0], subscription("orders"), ids[0].encode())
    ]
    shard_bench.join(shard_bench.member_id())
    group = shard_bench.describe()
    assert (group.group_state, group.protocol_data) == ("PreparingRebalance", "")
    assert [(one.member_metadata, one.member_assignment) for one in group.members] == [
        (b"", ids[0].encode()),
        (b"", b""),
    ]


@pytest.mark.parametrize("version", range(7))
def test_an_unknown_group_is_dead_and_since_version_6_not_found(bench: Bench, version: int) -> None:
    group = bench.describe(version=version)
    expected = (GROUP_ID_NOT_FOUND, "Group billing not found.") if version >= 6 else (0, None)
    assert (group.group_state, group.error_code, group.error_message) == ("Dead", *expected)


def test_groups_with_members_are_not_deleted(make_bench: MakeBench) -> None:
    bench = make_bench(brokers=3)
    (member,) = bench.stable(1)
    assert bench.delete_group() == NON_EMPTY_GROUP
    bench.leave(member)
    bench.commit(3)
    assert bench.delete_group() == 0
    assert bench.delete_group() == GROUP_ID_NOT_FOUND
    assert bench.committed() == -1
    bench.reload()
    assert bench.shard.groups == {}
    assert bench.shard.offsets.committed == {}


def test_listing_filters_by_state_and_type(shard_bench: ShardBench) -> None:
    shard_bench.stable(1)
    shard_bench.commit(1, group_id="simple")
    shard_bench.beat("m", 0, group_id="modern")

    def listed(version: int = 5, **filters: list[str]) -> list[tuple[str, str, str, str]]:
        groups = shard_bench.call(ListGroupsRequest(**filters), version).groups
        return [(one.group_id, one.protocol_type, one.group_state, one.group_type) for one in groups]

    everything = [
        ("billing", "consumer", "Stable", "classic"),
        ("modern", "consumer", "Stable", "consumer"),
        ("simple", "", "Empty", "classic"),
    ]
    assert listed() == everything
    assert listed(states_filter=["stable"]) == everything[:2]
    assert listed(types_filter=["consumer"]) == everything[1:2]
    assert listed(states_filter=["Empty", "Dead"], types_filter=["classic"]) == everything[2:]


def test_leaving_member_does_not_end_the_initial_rebalance_delay(shard_bench: ShardBench) -> None:
    """The delay is for members that join later, so members that leave do not change it."""
    joined = shard_bench.join(shard_bench.member_id())
    other = shard_bench.member_id()
    shard_bench.advance(1.0)
    assert [one.error_code for one in shard_bench.leave(other).members] == [0]
    third = shard_bench.join(shard_bench.member_id(rebalance=60.0), rebalance=60.0)
    gone = next(one for one in shard_bench.classic().members.values() if one.awaiting_join is third)
    assert [one.error_code for one in shard_bench.leave(gone.id).members] == [0]
    assert not joined.is_done
    shard_bench.advance(5.0)
    assert code(joined) == 0


def test_expiring_member_id_does_not_end_the_initial_delay(shard_bench: ShardBench) -> None:
    late = shard_bench.member_id(session=6.0)
    shard_bench.advance(5.0)
    joined = shard_bench.join(shard_bench.member_id())
    shard_bench.advance(1.5)
    assert late not in shard_bench.classic().pending_join
    assert not joined.is_done, "three seconds have not gone by"
    shard_bench.advance(1.5)
    assert code(joined) == 0


def test_fenced_join_response_names_its_member(shard_bench: ShardBench) -> None:
    """A later response has the member id of its request; one after LeaveGroup has none."""
    waiting = shard_bench.join(instance="a")
    (old,) = shard_bench.classic().members
    shard_bench.join(instance="a")
    assert (answer(waiting).error_code, answer(waiting).member_id) == (FENCED_INSTANCE_ID, old)
    (new,) = shard_bench.classic().members.values()
    left = new.awaiting_join
    assert left is not None
    shard_bench.leave(new.id)
    assert (answer(left).error_code, answer(left).member_id) == (UNKNOWN_MEMBER_ID, "")


def test_invalid_requests_of_members_get_their_error_codes(bench: Bench) -> None:
    leader, other = bench.stable(2)
    assert bench.heartbeat(leader, 0) == ILLEGAL_GENERATION
    assert code(bench.sync(leader, 2)) == ILLEGAL_GENERATION
    assert bench.heartbeat("stranger", 1) == UNKNOWN_MEMBER_ID
    assert code(bench.sync("stranger", 1)) == UNKNOWN_MEMBER_ID
    assert code(bench.join("stranger")) == UNKNOWN_MEMBER_ID
    assert code(bench.join(protocols={"other": b""})) == INCONSISTENT_GROUP_PROTOCOL
    assert code(bench.join(kind="connect")) == INCONSISTENT_GROUP_PROTOCOL
    assert code(bench.join(leader)) is None  # a rebalance, as the leader rejoins
    assert bench.heartbeat(other, 1) == REBALANCE_IN_PROGRESS
    assert code(bench.sync(other, 1)) == REBALANCE_IN_PROGRESS


def test_join_of_a_closed_connection_expires_without_affecting_other_members(
    cluster_bench: ClusterBench,
) -> None:
    """The join continues without its client, whose session expires; other members are not affected."""
    bench = cluster_bench
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


def test_every_version_of_classic_group_requests_is_served(bench: Bench) -> None:
    (member,) = bench.stable(1, session=600.0)
    for version in range(5):
        request = HeartbeatRequest(group_id="billing", generation_id=1, member_id=member)
        assert bench.call(request, version).error_code == 0
    for version in range(6):
        sync = answer(bench.sync(member, 1, version=version))
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
        error = gone.error_code or (gone.members[0].error_code if version >= 3 else 0)
        assert error == (0 if version == 0 else UNKNOWN_MEMBER_ID)
