"""Replicas are striped over racks, then brokers; live brokers first."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from pykafka2.broker.controller.topics import Host, place
from pykafka2.testing import KafkaCluster
from tests.broker.support.admin_requests import create, outcome, topic_of
from tests.broker.support.raw_client import RawClient


def spread(counts: Counter[int], hosts: int) -> int:
    """By how much the fullest of the hosts exceeds the emptiest."""
    return max(counts.values()) - (min(counts.values()) if len(counts) == hosts else 0)


def test_nine_partitions_of_three_replicas_on_three_brokers() -> None:
    with KafkaCluster(brokers=3) as cluster:
        cluster.create_topic("t", partitions=9, replication_factor=3)
        views = [cluster.partition("t", number) for number in range(9)]
    assert Counter(view.leader for view in views) == {0: 3, 1: 3, 2: 3}
    assert Counter(replica for view in views for replica in view.replicas) == {0: 9, 1: 9, 2: 9}


@pytest.mark.gate
@pytest.mark.slow
def test_a_thousand_random_shapes_keep_leader_counts_within_one() -> None:
    rng = random.Random(40)
    for _ in range(1000):
        brokers = rng.randint(1, 30)
        hosts = [Host(broker) for broker in rng.sample(range(1000), brokers)]
        partitions = rng.randint(1, 60)
        factor = rng.randint(1, brokers)
        placed = place(hosts, partitions, factor, start=rng.randrange(1000))
        assert len(placed) == partitions
        assert all(len(set(replicas)) == len(replicas) == factor for replicas in placed)
        assert spread(Counter(replicas[0] for replicas in placed), brokers) <= 1
        if partitions % brokers == 0:
            everywhere = Counter(replica for replicas in placed for replica in replicas)
            assert set(everywhere.values()) == {partitions * factor // brokers}


def test_the_load_of_a_lost_broker_is_spread_over_all_others() -> None:
    """The partitions that one broker leads have their next replica on each of the others as often."""
    for brokers in (3, 4, 5, 7):
        rounds = 2 * (brokers - 1)
        placed = place([Host(broker) for broker in range(brokers)], rounds * brokers, 2, start=1)
        for lost in range(brokers):
            heirs = Counter(replicas[1] for replicas in placed if replicas[0] == lost)
            assert heirs == {other: 2 for other in range(brokers) if other != lost}


@pytest.mark.gate
def test_with_three_racks_each_partition_spans_three() -> None:
    racks = ("a", "b", "c")
    for brokers in (3, 4, 6, 7, 9):
        with KafkaCluster(brokers=brokers, racks=racks) as cluster:
            cluster.create_topic("t", partitions=4 * brokers, replication_factor=3)
            image = cluster.controller.image
            for partition in image.topics["t"].partitions:
                assert {image.brokers[replica].rack for replica in partition.replicas} == set(racks)
            leaders = Counter(partition.leader for partition in image.topics["t"].partitions)
            assert spread(leaders, brokers) <= 1


def test_live_brokers_come_first() -> None:
    hosts = [Host(broker, is_live=broker != 1) for broker in range(4)]
    assert {replica for replicas in place(hosts, 30, 3, start=0) for replica in replicas} == {0, 2, 3}
    wide = place(hosts, 30, 4, start=0)
    assert all(replicas[-1] == 1 for replicas in wide)
    # A rack whose only broker is down still gets its share: it may come back.
    racked = [Host(0, "a"), Host(1, "a"), Host(2, "b", is_live=False)]
    assert all(replicas[0] != 2 and 2 in replicas for replicas in place(racked, 10, 2, start=0))


def test_seed_decides_the_first_replica_and_explicit_assignments_are_kept() -> None:
    def first_leader(seed: int) -> int:
        with KafkaCluster(brokers=3, seed=seed, topics={"t": 1}) as cluster:
            return cluster.partition("t", 0).leader

    assert [first_leader(seed) for seed in (0, 1, 2, 3, 1)] == [0, 1, 2, 0, 1]
    with (
        KafkaCluster(brokers=3, racks=["a", "a", "b"]) as cluster,
        RawClient(cluster.brokers[2].address) as wire,
    ):
        assert outcome(create(wire, topic_of("t", assignment={0: [1, 0], 1: [0, 1]}))[0]) == ("NONE", None)
        partitions = cluster.controller.image.topics["t"].partitions
    assert [partition.replicas for partition in partitions] == [(1, 0), (0, 1)]
