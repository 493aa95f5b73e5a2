"""Eligible leader replicas (KIP-966) in random failures of brokers: no acknowledged record is lost."""

from __future__ import annotations

import random

import pytest

from pykafka2.errors import KafkaError
from pykafka2.testing import QUICK, Simulation, Topic
from tests.gate import rest_in_gate

BROKERS = (0, 1, 2)
CONFIG = {**QUICK, "min.insync.replicas": 2}
QUICK_FAILURE = {"request_timeout_ms": 2000, "delivery_timeout_ms": 4000}


@pytest.mark.parametrize("seed", rest_in_gate(range(12)))
def test_acknowledged_records_survive_the_failure_of_all_brokers_in_any_order(seed: int) -> None:
    chance = random.Random(seed)
    with Simulation(seed) as simulation:
        cluster = simulation.cluster(3, {"orders": Topic(2, 3)}, config=CONFIG)
        producer = simulation.producer(cluster, acks="all", linger_ms=0, **QUICK_FAILURE)
        acknowledged: list[set[bytes]] = [set(), set()]
        for turn in range(4):
            for broker in chance.sample(BROKERS, 3):
                for number in range(4):
                    value, partition = b"%d-%d-%d" % (turn, broker, number), number % 2
                    try:
                        producer.send("orders", value, partition=partition).result(timeout=10)
                    except KafkaError:
                        continue  # too few replicas are in sync
                    acknowledged[partition].add(value)
                if chance.random() < 0.5:
                    cluster.controls.crash_broker(broker, lose_unreplicated=False)
                else:
                    cluster.controls.stop_broker(broker)
            for broker in chance.sample(BROKERS, 3):
                cluster.controls.restart_broker(broker)
                simulation.sleep(chance.uniform(0.0, 3.0))
            assert simulation.wait_until(
                lambda: all(len(cluster.partition("orders", number).isr) == 3 for number in range(2)), 60
            )
        for number in range(2):
            assert acknowledged[number] <= set(cluster.log("orders", number).values())
        assert len(acknowledged[0]) > 8
