"""Records, groups and transactions of two brokers survive restarts and crashes with a data directory."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pykafka2 import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from pykafka2.errors import ProducerFenced
from pykafka2.testing import KafkaCluster

CONFIG = {
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 100,
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
}
TOPICS = {"orders": 2, "audit": 1}
COUNT = 30


@contextmanager
def running(folder: Path) -> Iterator[KafkaCluster]:
    with KafkaCluster(2, TOPICS, config=CONFIG, data_dir=folder) as cluster:
        yield cluster


def produce_both(cluster: KafkaCluster, start: int) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, compression_type="gzip") as producer:
        for number in range(start, start + COUNT):
            producer.send("orders", str(number).encode(), partition=number % 2)
            producer.send("audit", str(number).encode())


def values_of(cluster: KafkaCluster, topic: str, **options: Any) -> list[str]:
    """Return all values of a topic, partition by partition."""
    values: list[str] = []
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, group_id=None, **options) as consumer:
        for partition in range(TOPICS[topic]):
            place = TopicPartition(topic, partition)
            end = consumer.end_offsets([place])[place]
            consumer.assign([place])
            consumer.seek(place, 0)
            while consumer.position(place) < end:
                for records in consumer.poll(timeout_ms=1000).values():
                    values += [record.value.decode() for record in records if record.value is not None]
    return values


def expected(topic: str, count: int) -> list[str]:
    partitions = TOPICS[topic]
    return [str(number) for place in range(partitions) for number in range(place, count, partitions)]


def crashed(folder: Path, copy: Path) -> Path:
    """Return a copy of the files of a running cluster: what kill -9 of all brokers leaves."""
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns(".lock"))
    return copy


def test_records_and_idempotent_producers_survive_restarts(tmp_path: Path) -> None:
    for number in range(2):
        with running(tmp_path) as cluster:
            produce_both(cluster, number * COUNT)
            for topic in TOPICS:
                assert values_of(cluster, topic) == expected(topic, (number + 1) * COUNT)
            for partition in (0, 1):
                view = cluster.partition("orders", partition)
                assert view.leader in (0, 1)


@pytest.mark.gate
def test_records_survive_a_crash_of_both_brokers(tmp_path: Path) -> None:
    with running(tmp_path / "first") as cluster:
        produce_both(cluster, 0)
        copy = crashed(tmp_path / "first", tmp_path / "copy")
    with running(copy) as cluster:
        for topic in TOPICS:
            assert values_of(cluster, topic) == expected(topic, COUNT)


@pytest.mark.gate
@pytest.mark.parametrize(
    ("protocol", "crashes"),
    [
        ("classic", True),
        ("consumer", False),
        pytest.param("classic", False, marks=pytest.mark.gate),
        pytest.param("consumer", True, marks=pytest.mark.gate),
    ],
)
def test_group_continues_at_its_committed_offsets(tmp_path: Path, protocol: str, crashes: bool) -> None:
    options: dict[str, Any] = {
        "group_id": "readers",
        "group_protocol": protocol,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
    }
    folder = tmp_path / "first"
    with running(folder) as cluster:
        produce_both(cluster, 0)
        with KafkaConsumer("audit", bootstrap_servers=cluster.bootstrap_servers, **options) as consumer:
            seen = [record.value for record, _ in zip(consumer, range(20), strict=False)]
            consumer.commit({TopicPartition("audit", 0): 20})
        with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            before = admin.list_group_offsets("readers")
        if crashes:
            folder = crashed(folder, tmp_path / "copy")
    assert seen == [str(number).encode() for number in range(20)]
    with running(folder) as cluster:
        with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            assert admin.list_group_offsets("readers") == before
            assert before[TopicPartition("audit", 0)].offset == 20
        with KafkaConsumer("audit", bootstrap_servers=cluster.bootstrap_servers, **options) as consumer:
            record = next(iter(consumer))
            assert (record.offset, record.value) == (20, b"20")


@pytest.mark.gate
@pytest.mark.parametrize("crashes", [pytest.param(False, marks=pytest.mark.gate), True])
def test_transactions_end_after_a_restart_as_they_would_have(tmp_path: Path, crashes: bool) -> None:
    folder = tmp_path / "first"
    with running(folder) as cluster:
        with transactional(cluster, "ended") as producer:
            for number in range(4):
                producer.begin_transaction()
                for partition in (0, 1):
                    producer.send("orders", str(number).encode(), partition=partition)
                producer.flush()
                if number % 2:
                    producer.abort_transaction()
                else:
                    producer.commit_transaction()
        left_open = transactional(cluster, "open")
        left_open.begin_transaction()
        left_open.send("orders", b"open", partition=0).get(10)
        left_open.send("audit", b"open").get(10)
        if crashes:
            folder = crashed(folder, tmp_path / "copy")
    ports = [broker.port for broker in cluster.brokers]
    with KafkaCluster(2, config=CONFIG, data_dir=folder, ports=ports) as cluster:
        [view] = [one for one in cluster.transactions() if one.transactional_id == "open"]
        assert view.state == "Ongoing"
        # The producer's successor aborts the transaction, and the old producer is fenced.
        with transactional(cluster, "open") as successor:
            committed = values_of(cluster, "orders", isolation_level="read_committed")
            assert committed == ["0", "2", "0", "2"]
            with pytest.raises(ProducerFenced):
                left_open.commit_transaction()
            successor.begin_transaction()
            successor.send("audit", b"new").get(10)
            successor.commit_transaction()
        assert values_of(cluster, "audit", isolation_level="read_committed") == ["new"]
        left_open.close(timeout=1.0)


def transactional(cluster: KafkaCluster, transactional_id: str) -> KafkaProducer:
    producer = KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers,
        transactional_id=transactional_id,
        transaction_timeout_ms=60_000,
    )
    producer.init_transactions()
    return producer
