"""Replicas move between the data directories of their broker while clients use them (AlterReplicaLogDirs)."""

from __future__ import annotations

import pytest

from pykafka2.admin import KafkaAdminClient
from pykafka2.broker.replication import directory_assignments as log_moves
from pykafka2.structs import TopicPartition, TopicPartitionReplica
from pykafka2.testing import KafkaCluster, Topic
from pykafka2.testing.simulation import Simulation
from tests.gate import rest_in_gate

CONFIG: dict[str, object] = {"log.dirs": "a,b", "min.insync.replicas": 2}
PARTITIONS = 4
MOVED = 1
"""The broker whose replicas move."""


def place_of(cluster: KafkaCluster, number: int) -> str:
    log = cluster.broker(MOVED).replicas.log_of(("orders", number))
    return log.files.volume.path  # type: ignore[attr-defined, no-any-return]


def other(path: str) -> str:
    return path[:-1] + ("b" if path.endswith("a") else "a")


def move_all(simulation: Simulation, cluster: KafkaCluster) -> dict[int, str]:
    """Begin to move all replicas of the broker. Return their new directories."""
    targets = {number: other(place_of(cluster, number)) for number in range(PARTITIONS)}
    move(simulation, cluster, targets)
    return targets


def move(simulation: Simulation, cluster: KafkaCluster, targets: dict[int, str]) -> None:
    with admin_of(simulation, cluster) as admin:
        admin.alter_replica_log_dirs(
            {TopicPartitionReplica("orders", number, MOVED): path for number, path in targets.items()}
        )


def admin_of(simulation: Simulation, cluster: KafkaCluster) -> KafkaAdminClient:
    return KafkaAdminClient(
        bootstrap_servers=cluster.bootstrap_servers, runtime=simulation.runtime.at("admin")
    )


def directories(cluster: KafkaCluster) -> list[bytes]:
    """Return the directory of each replica of the broker in the metadata."""
    topic = cluster.controller.image.topics["orders"]
    return [partition.directory_of(MOVED) for partition in topic.partitions]


@pytest.mark.gate
@pytest.mark.parametrize("seed", rest_in_gate(range(6)))
def test_replicas_move_under_load_without_a_lost_record(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_moves, "STEP_BYTES", 2000)
    with Simulation(seed) as simulation:
        cluster = simulation.cluster(3, {"orders": Topic(PARTITIONS, 3)}, config=CONFIG, data_dir="/data")
        producer = simulation.producer(cluster, linger_ms=0, delivery_timeout_ms=60_000)
        consumer = simulation.consumer(cluster, "orders", group_id="g", auto_offset_reset="earliest")
        acknowledged: list[bytes] = []
        read: list[bytes] = []
        count = 400

        def produce() -> None:
            for number in range(count):
                value = b"%d " % number + b"x" * (number % 300)
                producer.send("orders", value, partition=number % PARTITIONS).result(timeout=60)
                acknowledged.append(value)

        def consume() -> None:
            while len(read) < count:
                for records in consumer.poll(timeout_ms=1000).values():
                    read.extend(record.value for record in records)

        writer, reader = simulation.spawn(produce), simulation.spawn(consume)
        assert simulation.wait_until(lambda: len(acknowledged) >= 100, 60)
        before = directories(cluster)
        targets = move_all(simulation, cluster)
        if seed % 2:
            cluster.controls.crash_broker(MOVED, lose_unreplicated=False)
            simulation.files.crash(f"/data/broker-{MOVED}")
            cluster.controls.restart_broker(MOVED)
            assert simulation.wait_until(lambda: ("orders", 0) in cluster.broker(MOVED).replicas.replicas, 60)
            move(simulation, cluster, targets)  # the crash has lost unflushed copies
        assert simulation.wait_until(
            lambda: all(place_of(cluster, number) == path for number, path in targets.items()), 60
        )
        writer.result()
        reader.result()
        assert all(new not in (old, bytes(16)) for old, new in zip(before, directories(cluster), strict=True))
        isrs = [cluster.partition("orders", number).isr for number in range(PARTITIONS)]
        assert simulation.wait_until(lambda: all(len(isr) == 3 for isr in isrs), 60)
        for broker in range(3):
            values = [
                record.value or b""
                for number in range(PARTITIONS)
                for record in cluster.log("orders", number, broker).records()
            ]
            assert sorted(values) == sorted(acknowledged)
        assert sorted(read) == sorted(acknowledged)
        names = simulation.files.names(f"/data/broker-{MOVED}/a") + simulation.files.names(
            f"/data/broker-{MOVED}/b"
        )
        assert not [name for name in names if name.endswith("-future")]


@pytest.mark.gate
def test_copy_is_described_as_a_future_replica_until_it_is_flushed() -> None:
    with Simulation(21) as simulation:
        cluster = simulation.cluster(3, {"orders": Topic(PARTITIONS, 3)}, config=CONFIG, data_dir="/data")
        producer = simulation.producer(cluster, linger_ms=0)
        for number in range(40):
            producer.send("orders", b"%d" % number, partition=number % PARTITIONS).result(timeout=30)
        simulation.files.flush_delay = 30.0
        targets = move_all(simulation, cluster)
        simulation.sleep(5)
        before = simulation.now
        producer.send("orders", b"meanwhile", partition=0).result(timeout=30)
        assert simulation.now - before < 1
        with admin_of(simulation, cluster) as admin:
            described = admin.describe_log_dirs([MOVED])[MOVED]
            for number, path in targets.items():
                partition = TopicPartition("orders", number)
                assert described[path].replicas[partition].is_future
                assert not described[other(path)].replicas[partition].is_future
        simulation.sleep(60)
        assert {number: place_of(cluster, number) for number in range(PARTITIONS)} == targets


@pytest.mark.gate
def test_directory_that_fails_during_a_move_takes_only_its_own_replicas_offline() -> None:
    with Simulation(22) as simulation:
        cluster = simulation.cluster(3, {"orders": Topic(PARTITIONS, 3)}, config=CONFIG, data_dir="/data")
        producer = simulation.producer(cluster, linger_ms=0, delivery_timeout_ms=60_000)
        for number in range(40):
            producer.send("orders", b"%d" % number, partition=number % PARTITIONS).result(timeout=30)
        simulation.files.flush_delay = 10.0
        where = {number: place_of(cluster, number) for number in range(PARTITIONS)}
        move_all(simulation, cluster)
        simulation.sleep(2)
        failed = f"/data/broker-{MOVED}/b"
        simulation.files.broken.add(failed)
        for number in range(40, 80):
            producer.send("orders", b"%d" % number, partition=number % PARTITIONS).result(timeout=60)
        simulation.sleep(30)
        assert {number: place_of(cluster, number) for number in range(PARTITIONS)} == where
        for number, path in where.items():
            assert (MOVED in cluster.partition("orders", number).isr) is (path != failed)

        simulation.files.broken.clear()
        cluster.controls.crash_broker(MOVED, lose_unreplicated=False)
        cluster.controls.restart_broker(MOVED)
        assert simulation.wait_until(
            lambda: all(place_of(cluster, number) == other(path) for number, path in where.items()), 120
        )
        assert simulation.wait_until(
            lambda: all(len(cluster.partition("orders", number).isr) == 3 for number in range(PARTITIONS)), 60
        )
        for number in range(PARTITIONS):
            assert cluster.log("orders", number, MOVED).values() == cluster.log("orders", number).values()
