"""The log on disk over files in memory with faults: what survives, in virtual time."""

from __future__ import annotations

import pytest

from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.errors import KafkaError
from pykafka2.testing import KafkaCluster, Topic
from pykafka2.testing.simulation import Simulation
from tests.gate import rest_in_gate

CONFIG: dict[str, object] = {
    "min.insync.replicas": 2,
    "log.segment.bytes": 1 << 20,
    "log.index.interval.bytes": 200,
    "offsets.topic.num.partitions": 1,
}
KEY = ("orders", 0)


def values(cluster: KafkaCluster, broker: int | None = None) -> list[bytes]:
    return [record.value or b"" for record in cluster.log(*KEY, broker).records()]


def is_whole(cluster: KafkaCluster) -> bool:
    return set(cluster.partition(*KEY).isr) == {0, 1, 2}


@pytest.mark.parametrize("seed", rest_in_gate(range(12)))
def test_acknowledged_records_survive_crashes_that_lose_unflushed_pages(seed: int) -> None:
    with Simulation(seed) as simulation:
        cluster = simulation.cluster(3, {"orders": Topic(1, 3)}, config=CONFIG, data_dir="/data")
        producer = simulation.producer(cluster, linger_ms=0, delivery_timeout_ms=120_000)
        acknowledged: list[bytes] = []

        def produce() -> None:
            for number in range(300):
                value = b"%d" % number
                producer.send("orders", value + b" " * (number % 50), partition=0).result(timeout=120)
                acknowledged.append(value)

        writer = simulation.spawn(produce)
        for round_number in range(6):
            simulation.sleep(0.2)
            victim = (seed + round_number) % 3
            if round_number % 2:
                cluster.controls.roll_segments(KEY)
            cluster.controls.crash_broker(victim, lose_unreplicated=False)
            simulation.files.crash(f"/data/broker-{victim}")
            cluster.controls.restart_broker(victim)
            assert simulation.wait_until(lambda: is_whole(cluster), 60)
        writer.result()
        assert simulation.wait_until(lambda: is_whole(cluster), 60)
        found = [one.rstrip() for one in values(cluster)]
        assert found == acknowledged
        assert simulation.wait_until(
            lambda: values(cluster, 0) == values(cluster, 1) == values(cluster, 2), 60
        )


def test_kill_loses_exactly_the_records_past_the_recovery_point() -> None:
    with Simulation(3) as simulation:
        cluster = simulation.cluster(1, {"orders": 1}, data_dir="/data")
        producer = simulation.producer(cluster, linger_ms=0)
        for number in range(10):
            producer.send("orders", b"%d" % number).result(timeout=10)
            if number == 6:
                cluster.controls.flush_logs(KEY)
        cluster.controls.crash_broker(0, lose_unreplicated=False)
        simulation.files.lose_unflushed("/data/broker-0/orders-0")
        cluster.controls.restart_broker(0)
        assert simulation.wait_until(lambda: cluster.partition(*KEY).leader == 0, 30)
        assert values(cluster) == [b"%d" % number for number in range(7)]


@pytest.mark.gate
def test_producers_that_expired_while_the_broker_was_down_are_forgotten_at_the_start() -> None:
    with Simulation(8) as simulation:
        config = {"producer.id.expiration.ms": 60_000}
        cluster = simulation.cluster(1, {"orders": 1}, config=config, data_dir="/data")
        for client in ("old", "open"):
            producer = simulation.producer(
                cluster,
                transactional_id=client,
                transaction_timeout_ms=900_000,
                linger_ms=0,
            )
            producer.init_transactions()
            producer.begin_transaction()
            producer.send("orders", b"x").result(timeout=10)
            if client == "old":
                producer.commit_transaction()
        log = cluster.broker(0).replicas.log_of(KEY)
        assert len(list(log.producers)) == 2
        cluster.controls.crash_broker(0, lose_unreplicated=False)
        simulation.sleep(120)
        cluster.controls.delay_metadata(0, 1.0)
        cluster.controls.restart_broker(0)
        assert simulation.wait_until(lambda: KEY in cluster.broker(0).replicas.replicas, 30)
        # An open transaction keeps its producer, as in Kafka.
        [left] = cluster.broker(0).replicas.log_of(KEY).producers
        assert cluster.broker(0).replicas.log_of(KEY).producers.transactions.first_offset_of(left.producer_id)


def test_full_disk_takes_the_directory_offline_and_loses_no_acknowledged_record() -> None:
    with Simulation(4) as simulation:
        cluster = simulation.cluster(1, {"orders": 1}, data_dir="/data")
        producer = simulation.producer(
            cluster, linger_ms=0, delivery_timeout_ms=4000, request_timeout_ms=1000
        )
        producer.send("orders", b"kept").result(timeout=10)
        simulation.files.full.add("/data/broker-0/orders-0")
        with pytest.raises(KafkaError):
            producer.send("orders", b"refused" * 100).result(timeout=20)
        simulation.files.full.clear()
        cluster.controls.crash_broker(0, lose_unreplicated=False)
        cluster.controls.restart_broker(0)
        assert simulation.wait_until(lambda: cluster.partition(*KEY).leader == 0, 30)
        assert values(cluster) == [b"kept"]


def test_slow_flush_in_the_background_delays_no_produce() -> None:
    with Simulation(5) as simulation:
        cluster = simulation.cluster(1, {"orders": 1}, data_dir="/data")
        producer = simulation.producer(cluster, linger_ms=0)
        simulation.files.flush_delay = 30.0
        producer.send("orders", b"0").result(timeout=10)
        cluster.controls.roll_segments(KEY)
        before = simulation.now
        producer.send("orders", b"1").result(timeout=10)
        assert simulation.now - before < 1
        log = cluster.broker(0).replicas.log_of(KEY)
        simulation.sleep(29 - simulation.now + before)
        assert log.recovery_point == 0
        simulation.sleep(2)
        assert log.recovery_point == 1


@pytest.mark.gate
@pytest.mark.parametrize("seed", rest_in_gate(range(3)))
def test_same_seed_gives_the_same_run_with_logs_on_disk(seed: int) -> None:
    def run() -> str:
        with Simulation(seed) as simulation:
            cluster = simulation.cluster(3, {"orders": Topic(1, 3)}, config=CONFIG, data_dir="/data")
            producer = simulation.producer(cluster)
            for number in range(20):
                producer.send("orders", b"%d" % number).result(timeout=10)
            cluster.controls.crash_broker(1, lose_unreplicated=False)
            simulation.files.crash("/data/broker-1")
            cluster.controls.restart_broker(1)
            assert simulation.wait_until(lambda: is_whole(cluster), 60)
            return simulation.trace_hash

    assert run() == run()


def test_broker_with_a_failed_disk_is_fenced_and_another_one_leads() -> None:
    with Simulation(6) as simulation:
        cluster = simulation.cluster(3, {"orders": Topic(1, 3)}, config=CONFIG, data_dir="/data")
        producer = simulation.producer(cluster, linger_ms=0)
        for number in range(5):
            producer.send("orders", b"%d" % number).result(timeout=30)
        leader = cluster.partition(*KEY).leader
        simulation.files.broken.add(f"/data/broker-{leader}/orders-0")
        for number in range(5, 10):
            producer.send("orders", b"%d" % number).result(timeout=60)
        assert cluster.partition(*KEY).leader != leader
        assert cluster.controller.image.brokers[leader].is_fenced
        assert values(cluster) == [b"%d" % number for number in range(10)]
        simulation.files.broken.clear()
        cluster.controls.crash_broker(leader, lose_unreplicated=False)
        cluster.controls.restart_broker(leader)
        assert simulation.wait_until(lambda: is_whole(cluster), 60)
        assert simulation.wait_until(lambda: values(cluster, leader) == values(cluster), 60)


def test_failed_disk_of_a_follower_that_restarts_at_the_leaders_log_start_is_logged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Simulation(7) as simulation:
        cluster = simulation.cluster(2, {"orders": Topic(1, 2)}, data_dir="/data")
        producer = simulation.producer(cluster, linger_ms=0)
        producer.send("orders", b"0").result(timeout=30)
        leader = cluster.partition(*KEY).leader
        follower = 1 - leader
        cluster.controls.stop_broker(follower)
        for number in range(1, 4):
            producer.send("orders", b"%d" % number).result(timeout=30)
        with cluster.lock:
            assert cluster.broker(leader).replicas.log_of(KEY).advance_log_start(3)
        truncate = PartitionLog.truncate_fully_and_start_at

        def truncate_on_a_broken_disk(log: PartitionLog, offset: int) -> None:
            simulation.files.broken.add(f"/data/broker-{follower}/orders-0")
            truncate(log, offset)

        monkeypatch.setattr(PartitionLog, "truncate_fully_and_start_at", truncate_on_a_broken_disk)
        cluster.controls.restart_broker(follower)
        assert simulation.wait_until(lambda: simulation.files.broken != set(), 60)
        simulation.sleep(5)
        assert list(cluster.problems) == []
