"""Logs on disk: written by Apache Kafka and opened by ours, and the other way."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from pykafka2 import KafkaAdminClient, KafkaConsumer, KafkaProducer, NewTopic, TopicPartition
from pykafka2.broker.log.disk.producer_snapshots import SNAPSHOT
from pykafka2.testing import KafkaCluster

from .brokers import eventually
from .maven import KafkaJars
from .real_kafka import RealKafka

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TOPICS = ("plain", "compacted")
PARTITIONS = [TopicPartition(topic, 0) for topic in TOPICS]
# The gate runs test_data_directories.py, which compares the same kinds of records through clients.
pytestmark = pytest.mark.long
CONFIG: dict[str, object] = {"group.initial.rebalance.delay.ms": 0, "log.cleaner.backoff.ms": 50}


def apache_on(jars: KafkaJars, folder: Path) -> RealKafka:
    return RealKafka(jars, brokers=2, log_dirs=[folder / f"broker-{number}" for number in (0, 1)])


def write_logs(servers: str) -> None:
    """Write with every codec, transactions of both ends, an open transaction, and rolled segments."""
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        small = {"segment.bytes": str(1 << 20), "index.interval.bytes": "1000"}
        compact = {**small, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
        plain = NewTopic("plain", 1, 2, configs=small)
        admin.create_topics([plain, NewTopic("compacted", 1, 2, configs=compact)])
        admin.wait_for_topics([*TOPICS])
    for codec in CODECS:
        with KafkaProducer(bootstrap_servers=servers, compression_type=codec, batch_size=5000) as producer:
            for number in range(300):
                value = (f"{codec} {number} ".encode() * 200)[: 1000 + number]
                producer.send("plain", value, key=b"%d" % number, headers=[("h", b"v")])
                producer.send("compacted", value, key=b"%d" % (number % 7))
    for name, commits in (("one", True), ("two", False), ("three", True)):
        with KafkaProducer(bootstrap_servers=servers, transactional_id=name) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            for topic in TOPICS:
                producer.send(topic, name.encode(), key=name.encode(), partition=0)
            producer.flush()
            if commits:
                producer.commit_transaction()
            else:
                producer.abort_transaction()


def read_logs(servers: str) -> dict[str, list[tuple[Any, ...]]]:
    """Read everything as both kinds of consumers."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for level in ("read_uncommitted", "read_committed"):
        with KafkaConsumer(bootstrap_servers=servers, isolation_level=level) as consumer:
            consumer.assign(PARTITIONS)
            consumer.seek_to_beginning(*PARTITIONS)
            ends = consumer.end_offsets(PARTITIONS)
            while any(consumer.position(one) < ends[one] for one in PARTITIONS):
                for place, records in consumer.poll(1000).items():
                    found.setdefault(f"{level} {place.topic}", []).extend(
                        (
                            one.offset,
                            one.timestamp,
                            one.leader_epoch,
                            one.key,
                            one.value,
                            list(one.headers),
                        )
                        for one in records
                    )
    return found


def producers(servers: str) -> list[tuple[int, ...]]:
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        described = admin.describe_producers([TopicPartition("plain", 0)])
    return sorted(
        (one.producer_id, one.producer_epoch, one.last_sequence, one.last_timestamp)
        for state in described.values()
        for one in state
    )


def dumped(jars: KafkaJars, files: list[Path], *options: str) -> str:
    """Return what `kafka-dump-log` prints about these files."""
    names = ",".join(map(str, files))
    command = jars.java("org.apache.kafka.tools.DumpLogSegments", *options, "--files", names)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_logs_of_ours_are_read_the_same_by_apache_kafka(jars: KafkaJars, tmp_path: Path) -> None:
    with KafkaCluster(2, config=CONFIG, data_dir=tmp_path) as cluster:
        servers = cluster.bootstrap_servers
        write_logs(servers)
        cluster.controls.move_leader(("plain", 0), 1 - cluster.partition("plain", 0).leader)
        with KafkaProducer(bootstrap_servers=servers) as producer:
            producer.send("plain", b"in another leader epoch").result(timeout=30)
        cluster.controls.compact("compacted")
        before, states = read_logs(servers), producers(servers)
        assert len({one[2] for one in before["read_committed plain"]}) > 1
        assert len(before["read_committed compacted"]) < 100
    files = [one for topic in TOPICS for one in sorted(tmp_path.glob(f"broker-0/{topic}-0/0*"))]
    assert {one.suffix for one in files} == {".log", ".index", ".timeindex", ".txnindex", SNAPSHOT}
    text = dumped(jars, files)
    for sign in ("rror", "ismatch", "isvalid: false", "rrupt"):
        assert sign not in text, text
    with apache_on(jars, tmp_path) as apache:
        eventually(lambda: read_logs(apache.bootstrap_servers) == before, "Apache Kafka reads other records")
        assert producers(apache.bootstrap_servers) == states
        assert "orrupt" not in apache.log()
        assert "Rebuilding" not in apache.log()


def test_logs_of_apache_kafka_are_read_the_same_by_ours(jars: KafkaJars, tmp_path: Path) -> None:
    with apache_on(jars, tmp_path) as apache:
        write_logs(apache.bootstrap_servers)
        before, states = read_logs(apache.bootstrap_servers), producers(apache.bootstrap_servers)
    for _ in range(2):
        with KafkaCluster(2, config=CONFIG, data_dir=tmp_path) as cluster:
            assert read_logs(cluster.bootstrap_servers) == before
            assert producers(cluster.bootstrap_servers) == states
