"""Which acknowledged records may be lost: acks, min.insync.replicas, what had been copied, which election."""

from __future__ import annotations

from itertools import product

import pytest

from pykafka2.errors import KafkaError
from pykafka2.testing import KafkaCluster, Simulation, Topic

FOLLOWING, ALONE = "the ISR is whole", "the leader is the ISR"


def outcome(
    simulation: Simulation, acks: int | str, min_in_sync: int, replicas: str, *, unclean: bool
) -> tuple[bool, bool]:
    """The leader dies with a record that no follower has copied: was it acknowledged, and does it survive?"""
    configs = {"min.insync.replicas": min_in_sync, "unclean.leader.election.enable": unclean}
    cluster: KafkaCluster = simulation.cluster(brokers=3, topics={"orders": Topic(1, 3, configs)})
    producer = simulation.producer(
        cluster, acks=acks, linger_ms=0, request_timeout_ms=2000, delivery_timeout_ms=4000
    )
    producer.send("orders", b"copied").result(10)
    simulation.run_for(1)
    cluster.controls.pause_followers()
    if replicas == ALONE:
        leader = cluster.partition("orders", 0).leader
        cluster.controls.shrink_isr(("orders", 0), *({0, 1, 2} - {leader}))
        simulation.run_for(1)
        assert len(cluster.partition("orders", 0).isr) == 1
    delivery = producer.send("orders", b"tail")
    simulation.run_for(1)
    was_acknowledged = delivery.done() and delivery.succeeded()
    leader = cluster.partition("orders", 0).leader
    cluster.controls.crash_broker(leader, lose_unreplicated=False)  # its disk survives
    cluster.controls.resume_followers()
    simulation.run_for(20)
    cluster.controls.restart_broker(leader)
    simulation.run_for(30)
    was_acknowledged = was_acknowledged or delivery.succeeded()
    try:
        producer.close(timeout=10)
    except KafkaError:
        assert not was_acknowledged
    values = cluster.log("orders", 0).values()
    assert values[0] == b"copied", "only what was not copied may go"
    return was_acknowledged, b"tail" in values


def may_lose(acks: int | str, min_in_sync: int, replicas: str, *, unclean: bool) -> bool:
    if replicas == FOLLOWING or min_in_sync == 2:
        # A follower in sync, or an eligible one (KIP-966), is elected cleanly and has not copied it yet.
        return acks != "all"
    return unclean


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize(
    ("acks", "min_in_sync", "replicas", "unclean"),
    list(product((0, 1, "all"), (1, 2), (FOLLOWING, ALONE), (False, True))),
)
def test_an_acknowledged_record_is_lost_in_these_cells_and_no_others(
    simulation: Simulation, acks: int | str, min_in_sync: int, replicas: str, unclean: bool
) -> None:
    was_acknowledged, is_there = outcome(simulation, acks, min_in_sync, replicas, unclean=unclean)
    is_lost = was_acknowledged and not is_there
    assert is_lost == may_lose(acks, min_in_sync, replicas, unclean=unclean)
    if acks != "all":
        assert was_acknowledged
