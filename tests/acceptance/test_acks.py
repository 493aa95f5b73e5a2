"""The wait of each `acks`: none, for the leader, for all replicas in sync."""

from __future__ import annotations

from pykafka2.testing import KafkaCluster, Simulation


def held_back(simulation: Simulation, acks: int | str) -> tuple[KafkaCluster, list[bool], int]:
    """Followers stand still, one record is sent, and they go on: whether it was done before and after, and
    its offset."""
    cluster = simulation.cluster(brokers=3, topics={"orders": 1})
    producer = simulation.producer(cluster, acks=acks, linger_ms=0, client_id="p")
    producer.partitions_for("orders")
    cluster.controls.pause_followers()
    delivery = producer.send("orders", b"v")
    simulation.run_for(5)
    done = [delivery.done()]
    cluster.controls.resume_followers()
    simulation.run_for(5)
    done.append(delivery.done())
    return cluster, done, delivery.result(0).offset


def test_acks_0_completes_when_sent_without_a_response(simulation: Simulation) -> None:
    cluster, done, offset = held_back(simulation, 0)
    assert (done, offset) == ([True, True], -1)
    [entry] = cluster.history.entries("Produce", client_id="p")
    assert entry.response is None
    assert cluster.log("orders", 0).values() == [b"v"]


def test_acks_1_is_done_when_the_leader_has_it(simulation: Simulation) -> None:
    _, done, offset = held_back(simulation, 1)
    assert (done, offset) == ([True, True], 0)


def test_acks_all_is_done_when_the_followers_have_it(simulation: Simulation) -> None:
    _, done, offset = held_back(simulation, "all")
    assert (done, offset) == ([False, True], 0)
