"""Each library of each codec on the wire: Kafka, Java's clients and librdkafka read it, and the reverse."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from pykafka2 import KafkaConsumer, KafkaProducer, TopicPartition
from pykafka2.compression import libraries
from tests.compression.using import CASES, using

from .brokers import Cluster, eventually
from .peers import TIMEOUT, Peer, Row

BATCH_BYTES = 300_000
"""Batches of several blocks of each format."""


PREFERRED = {(name, next(iter(packages))) for name, packages in libraries.CANDIDATES.items()}
IN_GATE = [case if case not in PREFERRED else pytest.param(*case, marks=pytest.mark.long) for case in CASES]
"""test_real_kafka.py has the preferred libraries in the gate."""


def rows_of(seed: str, count: int = 250) -> list[Row]:
    """Records that compress well and records that do not; about half a megabyte."""
    rng = random.Random(seed)
    return [
        (
            1_790_000_000_000 + number,
            b"key-%d" % number,
            rng.randbytes(2000) if number // 50 % 2 else b'{"order": %d, "paid": true}' % number * 70,
            [],
        )
        for number in range(count)
    ]


def produce(cluster: Cluster, topic: str, rows: list[Row], codec: str, level: int | None = None) -> None:
    levels = {} if level is None else {f"compression_{codec}_level": level}
    with KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers,
        compression_type=codec,
        batch_size=BATCH_BYTES,
        linger_ms=1000,
        **levels,  # type: ignore[arg-type]
    ) as producer:
        deliveries = [
            producer.send(topic, value, key=key, partition=0, timestamp_ms=timestamp)
            for timestamp, key, value, _ in rows
        ]
        producer.flush(timeout=TIMEOUT)
        for delivery in deliveries:
            delivery.result(timeout=TIMEOUT)


def consume(cluster: Cluster, topic: str, count: int) -> list[Row]:
    rows: list[Row] = []
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])

        def has_all() -> bool:
            for records in consumer.poll(timeout_ms=200).values():
                rows.extend((one.timestamp, one.key, one.value, list(one.headers)) for one in records)
            return len(rows) >= count

        eventually(has_all, f"only {len(rows)} of {count} records arrived")
    return rows


def readers(cluster: Cluster) -> list[str]:
    return ["java", "confluent"] if cluster.kind == "apache" else ["confluent"]


@pytest.mark.parametrize(("codec", "package"), IN_GATE)
def test_other_clients_read_batches_of_each_library(
    cluster: Cluster, peer_of: Callable[[str], Peer], codec: str, package: str
) -> None:
    topic, rows = cluster.new_topic(), rows_of(package)
    with using(codec, package):
        produce(cluster, topic, rows, codec)
    for reader in readers(cluster):
        assert peer_of(reader).consume(cluster.bootstrap_servers, topic, len(rows)) == rows, reader


@pytest.mark.parametrize("level", [1, 12])
def test_other_clients_read_each_lz4_level_of_cramjam(
    cluster: Cluster, peer_of: Callable[[str], Peer], level: int
) -> None:
    topic, rows = cluster.new_topic(), rows_of("levels")
    with using("lz4", "cramjam"):
        produce(cluster, topic, rows, "lz4", level)
    for reader in readers(cluster):
        assert peer_of(reader).consume(cluster.bootstrap_servers, topic, len(rows)) == rows, reader


@pytest.mark.parametrize(("codec", "package"), CASES)
def test_a_broker_recompresses_batches_of_each_library(cluster: Cluster, codec: str, package: str) -> None:
    """A topic with another codec: the broker decompresses each batch before it appends it."""
    recompressed = "gzip" if codec != "gzip" else "lz4"
    topic, rows = cluster.new_topic(compression_type=recompressed), rows_of(package)
    with using(codec, package):
        produce(cluster, topic, rows, codec)
    assert consume(cluster, topic, len(rows)) == rows


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_each_library_reads_batches_of_other_clients(
    cluster: Cluster, peer_of: Callable[[str], Peer], codec: str
) -> None:
    for writer in readers(cluster):
        topic, rows = cluster.new_topic(), rows_of(writer)
        peer_of(writer).produce(cluster.bootstrap_servers, topic, rows, codec)
        for name, package in CASES:
            if name == codec and package != "compression.zstd":
                with using(codec, package):
                    assert consume(cluster, topic, len(rows)) == rows, (writer, package)


@pytest.mark.long  # the same compressors as those of Java's producer
@pytest.mark.parametrize(("codec", "package"), CASES)
def test_each_library_reads_batches_that_a_broker_recompressed(
    cluster: Cluster, codec: str, package: str
) -> None:
    topic, rows = cluster.new_topic(compression_type=codec), rows_of(package)
    produce(cluster, topic, rows, "none")
    with using(codec, package):
        assert consume(cluster, topic, len(rows)) == rows
