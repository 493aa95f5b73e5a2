"""A log directory of several fails (KIP-858): other brokers lead its partitions, and no record is lost."""

from __future__ import annotations

from contextlib import suppress

import pytest

from pykafka2.errors import KafkaStorageError
from pykafka2.testing import KafkaCluster, Topic
from pykafka2.testing.simulation import Simulation
from tests.gate import rest_in_gate

PARTITIONS = 6
CONFIG: dict[str, object] = {
    "log.dirs": "a,b",
    "min.insync.replicas": 2,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
}
FAILED = 1
"""The broker of the failed directory; the metadata log is in a directory of broker 0."""


def led_in(cluster: KafkaCluster, directory: str) -> list[int]:
    """Return the partitions that the broker leads and holds in this directory."""
    replicas = cluster.broker(FAILED).replicas.replicas
    return [
        number
        for number in range(PARTITIONS)
        if cluster.partition("orders", number).leader == FAILED
        and replicas["orders", number].log.files.volume.path.endswith(directory)  # type: ignore[attr-defined]
    ]


def values(cluster: KafkaCluster, broker: int | None = None) -> list[bytes]:
    return [
        record.value or b""
        for number in range(PARTITIONS)
        for record in cluster.log("orders", number, broker).records()
    ]


def isrs(cluster: KafkaCluster) -> list[set[int]]:
    return [set(cluster.partition("orders", number).isr) for number in range(PARTITIONS)]


@pytest.mark.gate
@pytest.mark.parametrize("seed", rest_in_gate(range(6)))
def test_failed_directory_moves_its_leaders_and_loses_no_acknowledged_record(seed: int) -> None:
    with Simulation(seed) as simulation:
        cluster = simulation.cluster(3, {"orders": Topic(PARTITIONS, 3)}, config=CONFIG, data_dir="/data")
        producer = simulation.producer(cluster, linger_ms=0, delivery_timeout_ms=60_000)
        consumer = simulation.consumer(cluster, "orders", group_id="g", auto_offset_reset="earliest")
        acknowledged: list[bytes] = []
        read: list[bytes] = []

        def produce() -> None:
            for number in range(300):
                value = b"%d" % number
                producer.send("orders", value, partition=number % PARTITIONS).result(timeout=60)
                acknowledged.append(value)

        def consume() -> None:
            while len(read) < 300:
                for records in consumer.poll(timeout_ms=1000).values():
                    read.extend(record.value for record in records)

        writer, reader = simulation.spawn(produce), simulation.spawn(consume)
        simulation.sleep(0.5)
        failed, kept = led_in(cluster, "a"), led_in(cluster, "b")
        assert failed
        assert kept
        simulation.files.broken.add(f"/data/broker-{FAILED}/a")
        writer.result()
        reader.result()
        image = cluster.controller.image
        assert not image.brokers[FAILED].is_fenced
        assert len(image.brokers[FAILED].directories) == 1
        assert all(cluster.partition("orders", number).leader not in (FAILED, -1) for number in failed)
        assert all(cluster.partition("orders", number).leader == FAILED for number in kept)
        assert [FAILED in isr for isr in isrs(cluster)].count(True) == PARTITIONS // 2
        assert sorted(values(cluster)) == sorted(acknowledged)
        assert sorted(read) == sorted(acknowledged)

        simulation.files.broken.clear()
        cluster.controls.crash_broker(FAILED, lose_unreplicated=False)
        cluster.controls.restart_broker(FAILED)
        assert simulation.wait_until(lambda: isrs(cluster) == [{0, 1, 2}] * PARTITIONS, 60)
        assert simulation.wait_until(lambda: values(cluster, FAILED) == values(cluster), 60)
        assert len(cluster.controller.image.brokers[FAILED].directories) == 2


@pytest.mark.gate
def test_replica_of_a_failed_directory_stays_out_of_the_isr_until_the_broker_registers_with_it() -> None:
    with Simulation(11) as simulation:
        cluster = simulation.cluster(3, {"orders": Topic(PARTITIONS, 3)}, config=CONFIG, data_dir="/data")
        producer = simulation.producer(cluster, linger_ms=0)
        for number in range(60):
            producer.send("orders", b"%d" % number, partition=number % PARTITIONS).result(timeout=30)
        before = values(cluster)
        simulation.files.broken.add(f"/data/broker-{FAILED}/a")
        cluster.controls.crash_broker(FAILED, lose_unreplicated=False)
        cluster.controls.restart_broker(FAILED)
        assert simulation.wait_until(lambda: cluster.controller.image.is_alive(FAILED), 60)
        simulation.sleep(60)  # longer than replica.lag.time.max.ms
        assert [FAILED in isr for isr in isrs(cluster)].count(True) == PARTITIONS // 2
        hosted = cluster.broker(FAILED).replicas.replicas
        # No empty log is created in the other directory.
        assert {
            key for key, replica in hosted.items() if key[0] == "orders" and not replica.log.is_offline
        } == {("orders", number) for number in range(PARTITIONS) if FAILED in isrs(cluster)[number]}

        simulation.files.broken.clear()
        cluster.controls.crash_broker(FAILED, lose_unreplicated=False)
        cluster.controls.restart_broker(FAILED)
        assert simulation.wait_until(lambda: isrs(cluster) == [{0, 1, 2}] * PARTITIONS, 60)
        assert values(cluster, FAILED) == values(cluster) == before


def test_last_replica_in_sync_keeps_its_partition_until_its_directory_is_back() -> None:
    config = {**CONFIG, "min.insync.replicas": 1}
    with Simulation(12) as simulation:
        cluster = simulation.cluster(2, {"orders": Topic(4, 2)}, config=config, data_dir="/data")
        producer = simulation.producer(cluster, linger_ms=0)
        other = 1 - FAILED
        cluster.controls.kill_broker(other)
        for number in range(40):
            producer.send("orders", b"%d" % number, partition=number % 4).result(timeout=60)
        held = [cluster.log("orders", number).values() for number in range(4)]
        simulation.files.broken.add(f"/data/broker-{FAILED}/a")
        with suppress(KafkaStorageError):
            cluster.controls.roll_segments()
        cluster.controls.restart_broker(other)

        def lost() -> list[int]:
            return [number for number in range(4) if cluster.partition("orders", number).leader == -1]

        assert simulation.wait_until(lambda: len(lost()) == 2, 60)
        simulation.sleep(60)
        assert all(cluster.partition("orders", number).isr == () for number in lost())
        simulation.files.broken.clear()
        cluster.controls.crash_broker(FAILED, lose_unreplicated=False)
        cluster.controls.restart_broker(FAILED)
        assert simulation.wait_until(lambda: not lost(), 60)
        assert [cluster.log("orders", number).values() for number in range(4)] == held
