"""Brokers stop, crash, come back and bounce; coordinators move, groups resume."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pykafka2.testing.cluster import KafkaCluster
from pykafka2.testing.simulation import Simulation
from tests.broker.support.bench import A_MOMENT, ClusterBench
from tests.error_codes import NOT_COORDINATOR
from tests.gate import rest_in_gate

ENDS: dict[str, Callable[[KafkaCluster, int], None]] = {
    "stopped": lambda cluster, broker: cluster.controls.stop_broker(broker),
    "crashed": lambda cluster, broker: cluster.controls.crash_broker(broker),
    "bounced": lambda cluster, broker: cluster.controls.restart_broker(broker),
}


@pytest.mark.gate
@pytest.mark.parametrize("end", rest_in_gate(ENDS))
def test_a_group_resumes_when_its_coordinators_broker_is(simulation: Simulation, end: str) -> None:
    bench = ClusterBench(simulation, brokers=3)
    members = bench.stable(2, session=60.0)
    assert bench.commit(7, member=members[0], generation=1) == 0
    first = bench.coordinator

    ENDS[end](bench.cluster, first)
    bench.idle.clear()
    bench.advance(10.0)  # a crash is noticed when the broker's session ends
    bench.find((first + 1) % 3)
    assert [bench.heartbeat(one, 1) for one in members] == [0, 0], "no member has to join again"
    assert (bench.committed(), bench.group.state, bench.group.epoch) == (7, "Stable", 1)
    assert bench.commit(8, member=members[1], generation=1) == 0

    if end != "bounced":
        assert bench.coordinator != first
        bench.cluster.controls.restart_broker(first)
        bench.advance(1.0)
    bench.cluster.controls.move_coordinator("billing", first)
    bench.moved(first)
    assert bench.find((first + 1) % 3) == first, "and back"
    assert [bench.heartbeat(one, 1) for one in members] == [0, 0]
    assert bench.committed() == 8


def test_pending_join_gets_not_coordinator_when_its_broker_stops(simulation: Simulation) -> None:
    """A controlled shutdown moves the coordinator first: a pending JoinGroup gets NOT_COORDINATOR."""
    bench = ClusterBench(simulation, brokers=3)
    leader, other = bench.stable(2, session=60.0)
    waiting = bench.join(leader, session=60.0)
    assert not waiting.is_done
    bench.cluster.controls.stop_broker(bench.coordinator)
    bench.advance(A_MOMENT)
    assert waiting.response is not None
    assert waiting.response.error_code == NOT_COORDINATOR
    bench.idle.clear()
    bench.find((bench.coordinator + 1) % 3)
    bench.advance(0.1)
    again = [bench.join(one, session=60.0) for one in (leader, other)]
    bench.advance(0.2)
    assert [one.response and one.response.generation_id for one in again] == [2, 2]
