"""Partitions that move about while they are written to and brokers crash: nothing acknowledged is lost."""

from __future__ import annotations

import random

import pytest

from pykafka2.broker.controller.controller import Controller
from pykafka2.broker.controller.partition_changes import reassigned
from pykafka2.errors import InvalidReplicaAssignment
from pykafka2.testing import KafkaCluster
from pykafka2.testing.cluster import Topic
from pykafka2.testing.simulation import Simulation
from tests.gate import rest_in_gate

BROKERS = 4
ROUNDS = 12


def move(cluster: KafkaCluster, topic: str, number: int, target: list[int] | None) -> None:
    """Begin a move, or with None take one back."""

    def change(active: Controller) -> None:
        record = reassigned(active.state, topic, number, target)
        if record is not None:
            active.write([record])

    cluster.controller.run(f"move {topic}-{number} to {target}", change)


def hosts(cluster: KafkaCluster, topic: str, number: int) -> list[int]:
    return [broker.id for broker in cluster.brokers if (topic, number) in broker.replicas.replicas]


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("seed", rest_in_gate(range(4)))
def test_reassignments_lose_no_record_despite_crashes(seed: int) -> None:
    rng = random.Random(seed)
    with Simulation(seed) as simulation:
        cluster = simulation.cluster(brokers=BROKERS, topics={"t": Topic(2, 2)})
        producer = simulation.producer(cluster, delivery_timeout_ms=600_000)
        is_moving = True
        sent: list[tuple[int, bytes]] = []

        def produce() -> None:
            while is_moving:
                partition, value = len(sent) % 2, str(len(sent)).encode()
                producer.send("t", value, partition=partition)
                sent.append((partition, value))
                simulation.sleep(0.05)
            producer.flush(timeout=300)

        producing = simulation.spawn(produce)
        for _ in range(ROUNDS):
            number = rng.randrange(2)
            target = rng.sample(range(BROKERS), rng.randint(1, 3))
            try:
                move(cluster, "t", number, target)
                simulation.sleep(rng.choice((0.0, 0.02, 0.3)))
                if rng.random() < 0.3 and cluster.controller.partition("t", number).is_reassigned:
                    move(cluster, "t", number, None)
            except InvalidReplicaAssignment:
                pass  # only those to come are in sync by now: there is no way back
            if rng.random() < 0.5:
                victim = rng.randrange(BROKERS)
                cluster.controls.crash_broker(victim)
                simulation.sleep(rng.uniform(0.0, 2.0))
                cluster.controls.restart_broker(victim)
            simulation.sleep(0.5)
        is_moving = False
        producing.result()

        def is_at_rest(number: int) -> bool:
            image = cluster.controller.partition("t", number)
            return not image.is_reassigned and sorted(image.isr) == sorted(image.replicas)

        for number in range(2):
            assert simulation.wait_until(lambda number=number: is_at_rest(number), timeout=120)
        simulation.sleep(1.0)  # followers learn of the last high watermark one fetch later
        for number in range(2):
            expected = [value for partition, value in sent if partition == number]
            replicas = cluster.controller.partition("t", number).replicas
            assert hosts(cluster, "t", number) == sorted(replicas)
            for replica in replicas:
                assert cluster.log("t", number, broker=replica).values() == expected
