"""Compaction leaves the same records at the same offsets as Apache Kafka's log cleaner.

Twenty generated topics: duplicate keys, tombstones, headers, every codec, batches of one and of many records,
idempotent producers, committed and aborted transactions, compact and compact,delete.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from pykafka2 import KafkaAdminClient, KafkaConsumer, KafkaProducer, NewTopic, TopicPartition
from pykafka2.testing import KafkaCluster
from tests.broker.support.admin_requests import BROKER, DELETE, SET, alter
from tests.broker.support.raw_client import RawClient

from .real_kafka import RealKafka

TOPICS = 20
ROUNDS = 8
CODECS = (None, "gzip", "snappy", "lz4", "zstd")
CONFIGS = {"segment.ms": "1000", "min.cleanable.dirty.ratio": "0.0"}
PATIENCE = 120.0
Rows = dict[str, list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes]]]]]


def name_of(number: int) -> str:
    return f"compacted-{number}"


def create(bootstrap_servers: str) -> None:
    with KafkaAdminClient(bootstrap_servers=bootstrap_servers) as admin:
        admin.create_topics(
            [
                NewTopic(
                    name_of(number),
                    partitions=1,
                    replication_factor=1,
                    configs={**CONFIGS, "cleanup.policy": "compact,delete" if number % 4 == 3 else "compact"},
                )
                for number in range(TOPICS)
            ]
        )


def fill(bootstrap_servers: str, base_ms: int) -> None:
    """Send the same records to each cluster; the times of the rounds begin new segments."""
    dice = random.Random(27)
    producers = [
        KafkaProducer(
            bootstrap_servers=bootstrap_servers,
            compression_type=codec,
            enable_idempotence=codec in (None, "lz4"),
        )
        for codec in CODECS
    ]
    transactional = KafkaProducer(bootstrap_servers=bootstrap_servers, transactional_id="compaction")
    transactional.init_transactions()

    def send(producer: KafkaProducer, number: int, at_ms: int) -> None:
        for delta in range(dice.choice((1, 3, 40))):
            key = b"key-%d" % dice.randrange(12)
            value = None if dice.random() < 0.2 else b"%d" % dice.randrange(1000)
            headers = [("h", b"x")] if dice.random() < 0.3 else []
            producer.send(
                name_of(number), value, key=key, headers=headers, partition=0, timestamp_ms=at_ms + delta
            )

    for turn in range(ROUNDS):
        is_transaction = turn % 2 == 1
        if is_transaction:
            transactional.begin_transaction()
        for number in range(TOPICS):
            producer = transactional if is_transaction else producers[(number + turn) % len(CODECS)]
            send(producer, number, base_ms + 10_000 * turn)
        for producer in producers:
            producer.flush()
        if is_transaction:
            transactional.flush()
            if turn % 4 == 1:
                transactional.commit_transaction()
            else:
                transactional.abort_transaction()
            await_markers(bootstrap_servers)
    # Markers have the time of now: two later records begin the active segment in any case.
    for later in (600_000, 1_200_000):
        for number in range(TOPICS):
            producers[0].send(
                name_of(number), b"last", key=b"last", partition=0, timestamp_ms=base_ms + 1_000_000 + later
            )
        producers[0].flush()
    for producer in (*producers, transactional):
        producer.close()


def await_markers(bootstrap_servers: str) -> None:
    """Wait until no transaction is open: the broker commits before it writes the markers."""
    partitions = [TopicPartition(name_of(number), 0) for number in range(TOPICS)]
    with (
        KafkaConsumer(bootstrap_servers=bootstrap_servers, isolation_level="read_committed") as stable,
        KafkaConsumer(bootstrap_servers=bootstrap_servers, isolation_level="read_uncommitted") as all_of_it,
    ):
        deadline = time.monotonic() + PATIENCE
        while stable.end_offsets(partitions) != all_of_it.end_offsets(partitions):
            assert time.monotonic() < deadline, "a marker is missing"
            time.sleep(0.01)


def read(bootstrap_servers: str, isolation_level: str = "read_uncommitted") -> Rows:
    partitions = [TopicPartition(name_of(number), 0) for number in range(TOPICS)]
    rows: Rows = {one.topic: [] for one in partitions}
    with KafkaConsumer(
        bootstrap_servers=bootstrap_servers, isolation_level=isolation_level, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(one) < ends[one] for one in partitions):
            for records in consumer.poll(timeout_ms=200).values():
                for record in records:
                    row = (record.offset, record.key, record.value, list(record.headers))
                    rows[record.topic].append(row)
    return rows


def until_equal(expected: Rows, look: Callable[[], Rows]) -> Rows:
    """Look again until Apache Kafka's cleaner has reached every topic."""
    deadline = time.monotonic() + PATIENCE
    while (got := look()) != expected and time.monotonic() < deadline:
        time.sleep(0.5)
    return got


def test_same_records_stay_as_after_apache_kafkas_log_cleaner(real_kafka: RealKafka) -> None:
    theirs = real_kafka.bootstrap_servers
    with RawClient(theirs.split(",")[0]) as wire:
        alter(wire, BROKER, "", ("log.cleaner.backoff.ms", SET, "100"))
        try:
            compare(theirs)
        finally:
            alter(wire, BROKER, "", ("log.cleaner.backoff.ms", DELETE, None))


def compare(theirs: str) -> None:
    base_ms = int(time.time() * 1000) - 1_000_000
    with KafkaCluster(brokers=1, config={"log.cleaner.enable": False}) as cluster:
        ours = cluster.bootstrap_servers
        for servers in (theirs, ours):
            create(servers)
            fill(servers, base_ms)
        written = read(ours)
        for number in range(TOPICS):
            cluster.controls.compact(name_of(number), roll_segments=False)
        compacted = read(ours)
        assert compacted != written
        assert all(set(offsets(compacted, name)) < set(offsets(written, name)) for name in written)
        assert until_equal(compacted, lambda: read(theirs)) == compacted
        assert read(theirs, "read_committed") == read(ours, "read_committed")


def offsets(rows: Rows, name: str) -> list[int]:
    return [row[0] for row in rows[name]]
