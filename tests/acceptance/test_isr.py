"""A follower paused for 30 virtual seconds leaves the ISR and comes back when it has caught up; one
that is always slightly behind stays.
"""

from __future__ import annotations

from pykafka2.testing import KafkaCluster, Simulation
from tests.broker.support.leaders import append, ends, marks

KEY = ("t", 0)
LAG = 30.0  # replica.lag.time.max.ms, Kafka's default


def cluster_of(simulation: Simulation) -> tuple[KafkaCluster, int, int]:
    """A cluster, and the leader and the followers of the partition."""
    cluster: KafkaCluster = simulation.cluster(brokers=2, topics={"t": 1})
    simulation.run_for(1)
    leader = cluster.partition(*KEY).leader
    return cluster, leader, 1 - leader


def isr(cluster: KafkaCluster) -> set[int]:
    return set(cluster.partition(*KEY).isr)


def test_paused_follower_leaves_the_isr_after_the_lag_time_and_returns(simulation: Simulation) -> None:
    cluster, leader, follower = cluster_of(simulation)
    cluster.controls.pause_followers(brokers=[follower])
    simulation.run_for(1)
    append(cluster, KEY, b"a")
    simulation.run_for(LAG - 2)
    assert isr(cluster) == {leader, follower}
    assert marks(cluster, KEY)[leader] == 0, "what it has not got is not safe"
    simulation.run_for(LAG / 2 + 2)  # the leader looks twice in the lag time
    assert isr(cluster) == {leader}
    assert marks(cluster, KEY)[leader] == 1, "no request waits for it any more"
    append(cluster, KEY, b"b")
    cluster.controls.resume_followers()
    assert simulation.wait_until(lambda: isr(cluster) == {leader, follower}, 2)
    assert ends(cluster, KEY) == [2, 2]


def test_a_follower_joins_only_at_the_high_watermark(simulation: Simulation) -> None:
    cluster, leader, follower = cluster_of(simulation)
    cluster.controls.shrink_isr(KEY, follower)
    for number in range(50):
        append(cluster, KEY, b"%d" % number)
    # Each fetch brings little, over a slow link: it is on its way for a while.
    cluster.controls.delay_link(leader, follower, 0.4, one_way=True)
    cluster.broker(follower).fetchers._partition_max_bytes = 1
    cluster.controls.resume_followers()
    for _ in range(10):
        simulation.run_for(1)
        behind = ends(cluster, KEY)[follower] < 50
        assert not (behind and follower in isr(cluster))
    assert ends(cluster, KEY)[follower] < 50, "or the test has not seen it on its way"
    assert simulation.wait_until(lambda: follower in isr(cluster), 60)
    assert ends(cluster, KEY)[follower] == 50


def test_follower_that_fetches_and_never_catches_up_leaves_the_isr(simulation: Simulation) -> None:
    """Each of its fetches brings one batch over a slow link, and the leader takes more than that."""
    cluster, leader, follower = cluster_of(simulation)
    cluster.controls.delay_link(leader, follower, 0.4, one_way=True)
    cluster.broker(follower).fetchers._partition_max_bytes = 1
    state = cluster.broker(leader).replicas.replicas[KEY].followers[follower]
    fetched_at: set[float] = set()
    for number in range(int(1.5 * LAG) + 2):
        for part in range(10):
            append(cluster, KEY, b"%d %d" % (number, part))
        simulation.run_for(1)
        fetched_at.add(state.last_fetch_at)
        if number < LAG - 2:
            assert isr(cluster) == {leader, follower}, f"after {number} s"
    assert isr(cluster) == {leader}
    assert len(fetched_at) > LAG, "it has not stopped fetching"
    assert ends(cluster, KEY)[follower] > 10, "nor copying"


def test_follower_slightly_behind_stays_in_the_isr(simulation: Simulation) -> None:
    """Its fetches come half a second late; the leader has written on by then, every time."""
    cluster, leader, follower = cluster_of(simulation)
    cluster.controls.delay_link(leader, follower, 0.25)
    simulation.run_for(2)
    replica = cluster.broker(leader).replicas.replicas[KEY]
    state = replica.followers[follower]
    never_level = True
    for number in range(300):
        append(cluster, KEY, b"%d" % number)
        simulation.run_for(0.2)
        never_level = never_level and state.log_end_offset < replica.log.log_end_offset
        assert isr(cluster) == {leader, follower}, f"after {number / 5} seconds"
    assert never_level
    assert simulation.now > 2 * LAG


def test_restarted_replica_does_not_hold_the_high_watermark_until_it_fetches(simulation: Simulation) -> None:
    """It was level just before it went; as one outside of the ISR that is alive it would hold the high
    watermark back for the lag time if its former fetches counted.
    """
    cluster: KafkaCluster = simulation.cluster(
        brokers=3, topics={"t": 1}, config={"default.replication.factor": 3}
    )
    simulation.run_for(1)
    controller = cluster.controller.id
    leader, gone = (number for number in range(3) if number != controller)
    cluster.controls.move_leader(KEY, leader)
    append(cluster, KEY, b"a")
    simulation.run_for(1)
    assert marks(cluster, KEY)[leader] == 1
    cluster.controls.crash_broker(gone)
    cluster.controls.cut_link(leader, gone)
    cluster.controls.restart_broker(gone)
    simulation.run_for(1)
    assert cluster.broker(controller).image.is_alive(gone)
    assert isr(cluster) == {leader, controller}
    append(cluster, KEY, b"b")
    simulation.run_for(1)
    assert marks(cluster, KEY)[leader] == 2
