"""Scans have the records that confluent-kafka and kcat read: plain, transactional, trimmed and compacted."""

from __future__ import annotations

import shutil
import subprocess
import time

import pytest

import pykafka2
from pykafka2 import KafkaAdminClient, KafkaProducer, TopicPartition
from pykafka2.testing import KafkaCluster
from tests.broker.support.admin_requests import BROKER, DELETE, SET, alter
from tests.broker.support.raw_client import RawClient

from .brokers import TIMEOUT, Cluster, eventually
from .real_kafka import RealKafka

LEVELS = ("read_committed", "read_uncommitted")


def read_by_confluent(servers: str, topic: str, level: str) -> list[tuple[int, int]]:
    """Return partition and offset of all records up to the end of each partition."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "counts",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": level,
        }
    )
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in (0, 1)])
    found, ended = [], set()
    deadline = time.monotonic() + TIMEOUT
    while len(ended) < 2:
        assert time.monotonic() < deadline, "the ends of the partitions did not come"
        for message in consumer.consume(1000, timeout=0.2):  # waits for 1,000 messages or so long
            if message.error() is None:
                found.append((message.partition(), message.offset()))
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF
                ended.add(message.partition())
    consumer.close()
    return sorted(found)


def read_by_kcat(servers: str, topic: str, level: str) -> list[tuple[int, int]]:
    """Return partition and offset of all records up to the end of each partition."""
    command = ["kcat", "-b", servers, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", "%p %o\\n"]
    done = subprocess.run(
        [*command, "-X", f"isolation.level={level}"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=True,
    )
    rows = (line.split() for line in done.stdout.splitlines())
    return sorted((int(partition), int(offset)) for partition, offset in rows)


def scanned(servers: str, topic: str, level: str, order: str = "arrival") -> list[tuple[int, int]]:
    scan = pykafka2.scan(
        topic,
        bootstrap_servers=servers,
        isolation_level=level,
        columns=["partition", "offset"],
        order=order,
    )
    table = scan.to_arrow()
    return sorted(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))


def compare(servers: str, topic: str) -> int:
    """Check the records of both isolation levels; return their number with read_uncommitted."""
    for level in LEVELS:
        expected = read_by_confluent(servers, topic, level)
        if shutil.which("kcat"):  # test_kcat.py reports it if it is missing
            assert read_by_kcat(servers, topic, level) == expected
        assert scanned(servers, topic, level) == expected
        assert scanned(servers, topic, level, "timestamp") == expected
    return len(expected)


def fill(servers: str, topic: str, count: int = 5000, **options: object) -> None:
    with KafkaProducer(bootstrap_servers=servers, **options) as producer:
        for partition in (0, 1):
            rows = range(partition, count, 2)
            keys = [b"%d" % (row % 50) for row in rows]
            producer.send_many(topic, [b"%d" % row for row in rows], keys=keys, partition=partition).result(
                60
            )


def test_plain_transactional_and_trimmed_topics_have_the_records_that_others_read(cluster: Cluster) -> None:
    servers, topic = cluster.bootstrap_servers, cluster.new_topic(2)
    fill(servers, topic, bulk_batch_size=4000)
    assert compare(servers, topic) == 5000
    with KafkaProducer(bootstrap_servers=servers, transactional_id=topic) as producer:
        producer.init_transactions()
        for number in range(6):
            producer.begin_transaction()
            for partition in (0, 1):
                producer.send_many(topic, [b"%d" % number] * 100, partition=partition)
            producer.flush()
            producer.abort_transaction() if number % 2 else producer.commit_transaction()
    assert compare(servers, topic) == 6200
    assert len(scanned(servers, topic, "read_committed")) == 5600
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        admin.delete_records({TopicPartition(topic, number): 1234 for number in (0, 1)})
    assert compare(servers, topic) == 6200 - 2 * 1234


def is_clean(kafka: RealKafka, topic: str, partition: int) -> bool:
    """Return whether the cleaner has nothing left to do: it compacts all segments but the last one."""
    folder = kafka.log_folder(topic, partition)
    last = max(int(path.stem) for path in folder.glob("*.log"))
    checkpoint = folder.parent / "cleaner-offset-checkpoint"
    return checkpoint.exists() and f"{topic} {partition} {last}" in checkpoint.read_text().splitlines()


def test_topic_that_apache_kafka_has_compacted_has_the_records_that_others_read(
    real_kafka: RealKafka,
) -> None:
    servers = real_kafka.bootstrap_servers
    topic = Cluster("apache", servers, 1).new_topic(
        2, cleanup_policy="compact", segment_ms="1000", min_cleanable_dirty_ratio="0.0"
    )
    fill(servers, topic)
    time.sleep(1.1)  # so that the next record begins a segment
    fill(servers, topic, 100)
    with RawClient(servers.split(",")[0]) as wire:
        alter(wire, BROKER, "", ("log.cleaner.backoff.ms", SET, "100"))
        try:
            eventually(lambda: all(is_clean(real_kafka, topic, number) for number in (0, 1)))
        finally:
            alter(wire, BROKER, "", ("log.cleaner.backoff.ms", DELETE, None))
    assert compare(servers, topic) < 1200
    scan = pykafka2.scan(topic, bootstrap_servers=servers, last_per_partition=20)
    assert scan.to_arrow().num_rows == 40


@pytest.mark.kafka(brokers=1, topics={})
def test_topic_that_the_bundled_broker_has_compacted_has_the_records_that_others_read(
    fresh_kafka_cluster: KafkaCluster,
) -> None:
    fresh_kafka_cluster.create_topic("compacted", partitions=2, configs={"cleanup.policy": "compact"})
    fill(fresh_kafka_cluster.bootstrap_servers, "compacted")
    fresh_kafka_cluster.controls.roll_segments()
    fill(fresh_kafka_cluster.bootstrap_servers, "compacted", 2)
    fresh_kafka_cluster.controls.compact("compacted")
    assert compare(fresh_kafka_cluster.bootstrap_servers, "compacted") < 200
