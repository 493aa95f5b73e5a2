"""The classic group's state machine, on a broker, over the wire, in virtual time.

Every state meets every event: each either moves the group legally or is refused with its one code, and the
group stays.  The table is that of tests/broker/coordinators/groups/classic/test_classic_group.py; here it
runs on a broker.
"""

from __future__ import annotations

import pytest

from pykafka2 import errors
from pykafka2.broker.coordinators.groups.classic.state import GroupState
from pykafka2.errors import RebalanceInProgress
from pykafka2.protocol.messages.group import SyncGroupRequest
from pykafka2.testing.simulation import Simulation
from tests.broker.coordinators.groups.classic.test_classic_group import EVENTS, WALK
from tests.broker.support.bench import ClusterBench, subscription

EMPTY, PREPARING, COMPLETING, STABLE, DEAD = GroupState
SESSION = 600.0


def bring_to(bench: ClusterBench, state: GroupState) -> tuple[str, int]:
    """A group in a state: a member that is in it (or was), and its generation."""
    member, other = bench.stable(2, session=SESSION)
    if state is EMPTY:
        bench.leave(member, other)
    elif state in (PREPARING, COMPLETING):
        bench.join(member, session=SESSION)  # the leader: a rebalance
        if state is COMPLETING:
            bench.join(other, session=SESSION)
            bench.advance(0.05)
    assert bench.group.state == state.value
    return member, bench.group.epoch


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("state", [EMPTY, PREPARING, COMPLETING, STABLE])
def test_every_event_in_every_state(simulation: Simulation, state: GroupState) -> None:
    bench = ClusterBench(simulation)
    for event, happen in EVENTS.items():
        bench.group_id = f"{state.value}-{event}"
        member, generation = bring_to(bench, state)
        code = happen(bench, member, generation)
        bench.advance(0.05)
        group = bench.shard.groups.get(bench.group_id)
        assert (code, None if group is None else group.state) == WALK[state, event], event


def test_a_loop_of_rebalances_ends_when_its_cause_is_healed(simulation: Simulation) -> None:
    """SyncGroup fails again and again, so members join again and again; then it is healed."""
    bench = ClusterBench(simulation)
    bench.stable(1)
    rule = bench.cluster.controls.fail_next(SyncGroupRequest, RebalanceInProgress, times=1_000_000)
    ids = [*bench.group.members, bench.member_id()]

    def rebalance(number: int) -> list[int]:
        """All members join with their owned partitions, and sync. Returns the error codes of the syncs."""
        news = {"range": subscription(*["orders", "refunds"][: 1 + number % 2])}
        joins = [bench.join(one, protocols=news) for one in ids]
        bench.advance(1.0)
        assert all(join.response is not None and join.response.error_code == 0 for join in joins)
        everybody = {one: one.encode() for one in ids}
        replies = [bench.sync(one, bench.group.epoch, everybody) for one in ids]
        bench.advance(0.1)
        return [-1 if reply.response is None else reply.response.error_code for reply in replies]

    for number in range(5):
        assert rebalance(number) == [errors.RebalanceInProgress.code, errors.RebalanceInProgress.code]
    assert (bench.group.epoch, bench.group.state) == (6, "CompletingRebalance")
    assert rule.fired == 10
    bench.cluster.controls.clear()
    assert rebalance(5) == [0, 0]
    for _ in range(20):
        bench.advance(3.0)
        assert [bench.heartbeat(one, 7) for one in ids] == [0, 0]
    assert (bench.group.epoch, bench.group.state) == (7, "Stable")
