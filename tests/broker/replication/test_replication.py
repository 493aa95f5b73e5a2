"""Replication, elections and the ISR, in virtual time: real followers, real fetches, links to cut."""

from __future__ import annotations

import pytest

from pykafka2.broker.replication.fetch import FetchInfo, FetchParams
from pykafka2.broker.replication.purgatory import ProduceResult
from pykafka2.errors import NotLeaderOrFollower
from pykafka2.testing.cluster import KafkaCluster, Topic
from pykafka2.testing.simulation import Simulation
from tests.broker.support.leaders import ends, marks, settled, try_append
from tests.gate import rest_in_gate

KEY = ("t", 0)


def replicated(simulation: Simulation) -> KafkaCluster:
    return settled(simulation, brokers=3, topics={"t": 1})


def append(cluster: KafkaCluster, *values: bytes, acks: int = 1, broker: int | None = None) -> ProduceResult:
    return try_append(cluster, KEY, *values, acks=acks, broker=broker)


def assert_equal_logs(cluster: KafkaCluster) -> None:
    """Assert that all replicas have the same bytes."""
    logs = [[bytes(one.buffer) for one in cluster.log(*KEY, broker=broker).batches()] for broker in range(3)]
    assert logs[0] == logs[1] == logs[2]


def test_high_watermark_waits_for_the_slowest_replica_in_the_isr(simulation: Simulation) -> None:
    cluster = replicated(simulation)
    leading = cluster.partition(*KEY).leader
    slow = (leading + 1) % 3
    cluster.controls.cut_link(leading, slow)
    append(cluster, b"a")
    simulation.run_for(5)
    assert cluster.partition(*KEY).high_watermark == 0
    cluster.controls.heal()
    simulation.run_for(1)
    assert marks(cluster, KEY) == [1, 1, 1]


def test_lagging_follower_leaves_the_isr_and_returns(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=3, topics={"t": 1}, config={"replica.lag.time.max.ms": 10_000})
    simulation.run_for(1)
    leading = cluster.partition(*KEY).leader
    slow = (leading + 1) % 3
    cluster.controls.pause_followers(brokers=[slow])
    append(cluster, b"a")
    simulation.run_for(8)
    assert slow in cluster.partition(*KEY).isr
    simulation.run_for(8)
    assert slow not in cluster.partition(*KEY).isr
    assert cluster.partition(*KEY).high_watermark == 1
    cluster.controls.resume_followers()
    simulation.run_for(2)
    assert cluster.partition(*KEY).isr == (0, 1, 2), "in the order of the leader's request"
    assert marks(cluster, KEY) == [1, 1, 1]


def test_an_idle_follower_stays_in_the_isr(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=3, topics={"t": 1}, config={"replica.lag.time.max.ms": 2000})
    simulation.run_for(60)
    assert sorted(cluster.partition(*KEY).isr) == [0, 1, 2]


def test_pause_followers_discards_the_waiting_fetches(simulation: Simulation) -> None:
    """A record appended after the pause is on the leader only."""
    cluster = replicated(simulation)  # the followers' fetches wait at the leader
    cluster.controls.pause_followers()
    append(cluster, b"the leader's own")
    simulation.run_for(2)
    assert sorted(ends(cluster, KEY)) == [0, 0, 1]
    cluster.controls.resume_followers()
    simulation.run_for(1)
    assert marks(cluster, KEY) == [1, 1, 1]
    # One partition alone, too.
    cluster.controls.pause_followers(KEY)
    append(cluster, b"again")
    simulation.run_for(2)
    assert sorted(ends(cluster, KEY)) == [1, 1, 2]
    cluster.controls.heal()
    simulation.run_for(1)
    assert marks(cluster, KEY) == [2, 2, 2]


def test_crash_loses_unreplicated_records(simulation: Simulation) -> None:
    cluster = replicated(simulation)
    append(cluster, b"safe")
    simulation.run_for(2)
    old = cluster.partition(*KEY).leader
    cluster.controls.pause_followers()
    simulation.run_for(1)
    append(cluster, b"tail")
    cluster.controls.crash_broker(old)
    assert cluster.log(*KEY, broker=old).values() == [b"safe"]


def test_leader_replaced_during_a_network_partition_truncates(simulation: Simulation) -> None:
    cluster = replicated(simulation)
    old = cluster.partition(*KEY).leader
    new = (old + 1) % 3
    cluster.controls.move_controller(new)  # so that the old leader does not learn of its replacement
    for other in {0, 1, 2} - {old}:
        cluster.controls.cut_link(old, other)
    append(cluster, b"lost")
    cluster.controls.move_leader(KEY, new)
    append(cluster, b"kept", broker=new)
    simulation.run_for(2)
    assert cluster.log(*KEY, broker=old).values() == [b"lost"]
    cluster.controls.heal()
    simulation.run_for(2)
    assert_equal_logs(cluster)
    assert cluster.log(*KEY).values() == [b"kept"]


def test_partition_has_no_leader_until_a_replica_in_sync_restarts(simulation: Simulation) -> None:
    cluster = replicated(simulation)
    append(cluster, b"a")
    simulation.run_for(2)
    for broker in range(3):
        cluster.controls.crash_broker(broker)
    view = cluster.partition(*KEY)
    assert view.leader == -1
    assert len(view.isr) == 1, "the last one in sync stays in the ISR"
    (last,) = view.isr
    other = (last + 1) % 3
    cluster.controls.restart_broker(other)
    simulation.run_for(1)
    assert cluster.partition(*KEY).leader == -1, "one that is not in sync must not lead"
    cluster.controls.restart_broker(last)
    simulation.run_for(1)
    assert cluster.partition(*KEY).leader == last
    assert cluster.log(*KEY).values() == [b"a"]
    assert sorted(cluster.partition(*KEY).isr) == sorted((last, other))


def test_stopped_broker_moves_its_leaderships_and_loses_no_record(simulation: Simulation) -> None:
    cluster = replicated(simulation)
    append(cluster, b"a")
    simulation.run_for(1)
    old = cluster.partition(*KEY).leader
    cluster.controls.stop_broker(old)
    assert cluster.partition(*KEY).leader not in (old, -1)
    assert cluster.log(*KEY).values() == [b"a"]
    cluster.controls.restart_broker(old)
    simulation.run_for(1)
    assert sorted(cluster.partition(*KEY).isr) == [0, 1, 2]


def test_fetch_from_before_a_follower_crash_is_ignored(simulation: Simulation) -> None:
    """A fetch sent before a crash that lost records must not acknowledge them."""
    cluster = replicated(simulation)
    leading = cluster.partition(*KEY).leader
    follower = (leading + 1) % 3
    cluster.controls.pause_followers()
    simulation.run_for(1)
    append(cluster, b"a")
    with cluster.lock:
        manager = cluster.brokers[leading].replicas
        epoch = cluster.brokers[follower].epoch
        item = FetchInfo("t", bytes(16), 0, 1, 1000, last_fetched_epoch=0)
        for stale, expected in ((epoch - 1, NotLeaderOrFollower), (epoch, type(None))):
            params = FetchParams(follower, [item], 1, 1000, replica_epoch=stale)
            results = manager.reader.fetch(params, 0.0, lambda late: None, simulation.now)
            assert isinstance(results, list)
            assert type(results[0].error) is expected
            known = manager.replicas[KEY].followers[follower].log_end_offset
            assert known == (0 if stale < epoch else 1)


def test_first_record_of_a_new_topic_is_replicated_without_the_wait_of_a_fetch(
    simulation: Simulation,
) -> None:
    """The follower's fetch, which waits for other partitions, ends when the leader gets a new one."""
    cluster = simulation.cluster(
        brokers=2,
        topics={"t": Topic(assignment=[[0, 1]])},
        config={"replica.fetch.wait.max.ms": 20_000, "replica.lag.time.max.ms": 60_000},
    )
    simulation.run_for(1)
    for name in ("new", "newer"):
        cluster.create_topic(name, assignment=[[0, 1]])
        try_append(cluster, (name, 0), b"x")
        simulation.run_for(1)
        assert marks(cluster, (name, 0))[0] == 1


def test_a_delayed_link_delays_and_keeps_the_order(simulation: Simulation) -> None:
    cluster = replicated(simulation)
    leading = cluster.partition(*KEY).leader
    for other in {0, 1, 2} - {leading}:
        cluster.controls.delay_link(leading, other, 0.5)
    simulation.run_for(2)
    for number in range(5):
        append(cluster, b"%d" % number)
    simulation.run_for(0.4)
    assert cluster.partition(*KEY).high_watermark == 0
    simulation.run_for(5)
    assert marks(cluster, KEY) == [5, 5, 5]
    assert_equal_logs(cluster)


@pytest.mark.parametrize("threads", ["shared", "separate"])
@pytest.mark.parametrize("seed", rest_in_gate(range(3)))
def test_records_below_the_high_watermark_survive_crashes_cuts_and_moves(seed: int, threads: str) -> None:
    """Append under crashes, cuts and moves: what was below the high watermark stays, replicas agree."""
    with Simulation(seed=seed) as simulation:
        cluster = simulation.cluster(
            brokers=3,
            topics={"t": Topic(configs={"min.insync.replicas": 2})},
            config={"threads": threads, "replica.lag.time.max.ms": 3000},
        )
        chance = simulation.runtime.entropy.random
        committed: list[bytes | None] = []
        for number in range(60):
            view = cluster.partition(*KEY)
            what = chance.choice(("append", "append", "append", "crash", "restart", "move", "cut", "heal"))
            running = [broker.id for broker in cluster.brokers if broker.is_running]
            if what == "append" and view.leader >= 0:
                append(cluster, b"%d" % number, acks=-1)
            elif what == "crash" and len(running) == 3:
                cluster.controls.crash_broker(chance.choice(running))
            elif what == "restart" and len(running) < 3:
                cluster.controls.restart_broker(({0, 1, 2} - set(running)).pop())
            elif what == "move":
                choices = [broker for broker in view.isr if broker in running]
                if choices:
                    cluster.controls.move_leader(KEY, chance.choice(choices))
            elif what == "cut":
                cluster.controls.cut_link(*chance.sample(range(3), 2))
            elif what == "heal":
                cluster.controls.heal()
            simulation.run_for(chance.random())
            view = cluster.partition(*KEY)
            if view.leader >= 0 and view.high_watermark > len(committed):
                committed = cluster.log(*KEY).values()[: view.high_watermark]
        cluster.controls.heal()
        for broker in cluster.brokers:
            if not broker.is_running:
                cluster.controls.restart_broker(broker.id)
        simulation.run_for(10)
        assert sorted(cluster.partition(*KEY).isr) == [0, 1, 2]
        assert cluster.log(*KEY).values()[: len(committed)] == committed
        assert len(committed) > 5
        assert len(set(marks(cluster, KEY))) == 1
        assert_equal_logs(cluster)
