"""Compaction on running brokers: in the background and on demand, on leaders and followers."""

from __future__ import annotations

import pytest

from pykafka2 import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from pykafka2.errors import PolicyViolation
from pykafka2.testing.cluster import KafkaCluster, Topic
from pykafka2.testing.simulation import Simulation
from tests.broker.support.batches import batch

COMPACTED = {"cleanup.policy": "compact"}
QUICK = {**COMPACTED, "segment.ms": "1000", "min.cleanable.dirty.ratio": "0.1"}
KEYS = [("first", 0), ("first", 1), ("second", 0), ("second", 1)]
T0 = 1_767_225_600_000


def append(
    cluster: KafkaCluster, key: tuple[str, int], *pairs: tuple[bytes, bytes | None], at: int = T0
) -> None:
    leader = cluster.broker(cluster.partition(*key).leader)
    now = cluster.runtime.clock.monotonic()
    data = batch([value for _, value in pairs], keys=[name for name, _ in pairs], timestamp=at)
    with cluster.lock:
        now_ms = cluster.runtime.clock.wall_ms()
        result = leader.replicas.append(key, data, acks=1, version=12, client_id=None, now=now, now_ms=now_ms)
        leader.replicas.complete_delayed(now)
    assert result.error is None, result.error


def left(cluster: KafkaCluster, key: tuple[str, int], broker: int) -> list[tuple[int, bytes | None]]:
    return [(one.offset, one.value) for one in cluster.log(*key, broker=broker).records()]


def test_background_cleaner_compacts_every_replica() -> None:
    with Simulation(seed=27) as simulation:
        topics = {name: Topic(2, 2, configs=QUICK) for name in ("first", "second")}
        cluster = simulation.cluster(brokers=2, topics=topics, config={"log.cleaner.backoff.ms": 500})
        for number in range(4):
            for key in KEYS:
                append(cluster, key, (b"a", b"%d" % number), (b"b", b"x"), at=T0 + 2000 * number)
        simulation.run_for(5)
        for key in KEYS:
            for broker in range(2):
                # The last segment is active.
                assert left(cluster, key, broker) == [(4, b"2"), (5, b"x"), (6, b"3"), (7, b"x")]


def test_follower_that_is_behind_gets_the_remaining_records() -> None:
    with Simulation(seed=28) as simulation:
        cluster = simulation.cluster(brokers=2, topics={"t": Topic(1, 2, configs=COMPACTED)})
        key = ("t", 0)
        append(cluster, key, (b"a", b"1"))
        simulation.run_for(1)
        follower = 1 - cluster.partition(*key).leader
        cluster.controls.kill_broker(follower)
        simulation.run_for(40)
        append(cluster, key, (b"a", b"2"), (b"b", b"3"))
        append(cluster, key, (b"a", b"4"))
        assert cluster.controls.compact("t") == 2
        cluster.controls.restart_broker(follower)
        simulation.run_for(10)
        for broker in range(2):
            assert [row for row in left(cluster, key, broker) if row[0]] == [(2, b"3"), (3, b"4")]
            assert cluster.log(*key, broker=broker).log_end_offset == 4
        cluster.controls.compact("t")
        assert left(cluster, key, follower) == [(2, b"3"), (3, b"4")]
        # The former follower can lead, although its log had other segments.
        cluster.controls.move_leader(key, follower)
        simulation.run_for(1)
        append(cluster, key, (b"a", b"5"))
        simulation.run_for(2)
        assert [left(cluster, key, broker)[-1] for broker in range(2)] == [(4, b"5")] * 2


def test_compact_leaves_out_stopped_brokers() -> None:
    with Simulation(seed=29) as simulation:
        cluster = simulation.cluster(brokers=2, topics={"t": Topic(1, 2, configs=COMPACTED)})
        key = ("t", 0)
        for value in (b"1", b"2"):
            append(cluster, key, (b"a", value))
        simulation.run_for(1)
        follower = 1 - cluster.partition(*key).leader
        cluster.controls.stop_broker(follower)
        assert cluster.controls.compact("t") == 1
        cluster.controls.restart_broker(follower)
        assert left(cluster, key, follower) == [(0, b"1"), (1, b"2")]


@pytest.mark.kafka(brokers=1, topics={"t": Topic(2, configs=COMPACTED), "plain": 1})
def test_compact_rolls_segments_by_default_and_rejects_other_topics(kafka_cluster: KafkaCluster) -> None:
    for value in (b"1", b"2"):
        append(kafka_cluster, ("t", 0), (b"a", value))
        append(kafka_cluster, ("t", 1), (b"a", value))
    compact = kafka_cluster.controls.compact
    assert compact("t", roll_segments=False) == 0
    assert compact(("t", 1)) == 1
    assert left(kafka_cluster, ("t", 0), 0) == [(0, b"1"), (1, b"2")]
    assert compact("t") == 1
    assert left(kafka_cluster, ("t", 0), 0) == [(1, b"2")]
    with pytest.raises(PolicyViolation, match=r"'plain' has cleanup.policy=delete.*'compact,delete'"):
        compact("plain")


@pytest.mark.kafka(brokers=1, topics={"t": Topic(configs={**COMPACTED, "delete.retention.ms": "0"})})
def test_second_compact_removes_tombstones_after_delete_retention_ms(kafka_cluster: KafkaCluster) -> None:
    key = ("t", 0)
    append(kafka_cluster, key, (b"a", b"1"), (b"b", b"2"), (b"a", None))
    assert kafka_cluster.controls.compact(key) == 1
    assert left(kafka_cluster, key, 0) == [(1, b"2"), (2, None)]
    kafka_cluster.wait_until(lambda: kafka_cluster.controls.compact(key) == 1)
    assert left(kafka_cluster, key, 0) == [(1, b"2")]
    assert kafka_cluster.log(*key).log_end_offset == 3


@pytest.mark.kafka(brokers=1, topics={"t": 1}, config={"offsets.topic.num.partitions": 1})
def test_internal_topics_are_compacted_and_loaded_again(kafka_cluster: KafkaCluster) -> None:
    servers, partition = kafka_cluster.bootstrap_servers, TopicPartition("t", 0)
    with KafkaConsumer(bootstrap_servers=servers, group_id="g") as consumer:
        consumer.assign([partition])
        for offset in (1, 5, 8):
            consumer.commit({partition: OffsetAndMetadata(offset)})
    with KafkaProducer(bootstrap_servers=servers, transactional_id="app") as producer:
        producer.init_transactions()
        for value in (b"1", b"2"):
            with producer.transaction():
                producer.send("t", value)
    kafka_cluster.wait_until(lambda: kafka_cluster.transaction("app").state == "CompleteCommit")
    assert kafka_cluster.controls.compact("__consumer_offsets") == 2
    assert kafka_cluster.controls.compact("__transaction_state") > 0
    kafka_cluster.controls.restart_broker(0)
    with KafkaConsumer(bootstrap_servers=kafka_cluster.bootstrap_servers, group_id="g") as consumer:
        assert consumer.committed(partition) == 8
    kafka_cluster.wait_until(lambda: kafka_cluster.transaction("app").state == "CompleteCommit")


@pytest.mark.kafka(brokers=1, topics={"t": Topic(configs=COMPACTED)})
def test_consumer_reads_compacted_records_from_the_start(kafka_cluster: KafkaCluster) -> None:
    servers, partition = kafka_cluster.bootstrap_servers, TopicPartition("t", 0)
    with KafkaProducer(bootstrap_servers=servers, compression_type="gzip") as producer:
        for number in range(300):
            producer.send("t", b"%d" % number, key=b"%d" % (number % 7))
        producer.flush()
    assert kafka_cluster.controls.compact("t") == 293
    with KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        found: list[tuple[int, bytes | None]] = []
        while consumer.position(partition) < 300:
            for records in consumer.poll(timeout_ms=200).values():
                found += [(record.offset, record.value) for record in records]
        assert found == [(number, b"%d" % number) for number in range(293, 300)]
        consumer.seek(partition, 5)
        assert consumer.poll(timeout_ms=5000)[partition][0].offset == 293
