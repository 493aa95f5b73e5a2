"""Our commits on Apache Kafka, and, by the same tests, on the bundled broker."""

from __future__ import annotations

import time
from itertools import count
from typing import Any

import pytest

from pykafka2 import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from pykafka2.errors import OffsetMetadataTooLarge, RetriableCommitFailed

from .brokers import Cluster
from .peers import TIMEOUT

GROUPS = count(1)


@pytest.fixture
def group() -> str:
    return f"commits-{next(GROUPS)}"


@pytest.fixture
def partition(cluster: Cluster) -> TopicPartition:
    """A partition with the records 0 to 19."""
    topic = cluster.new_topic()
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(20):
            producer.send(topic, b"%d" % number)
    return TopicPartition(topic, 0)


def reader(cluster: Cluster, group: str, partition: TopicPartition, **options: Any) -> KafkaConsumer:
    consumer = KafkaConsumer(
        **{
            "bootstrap_servers": cluster.bootstrap_servers,
            "group_id": group,
            "auto_offset_reset": "earliest",
            "max_poll_records": 5,
            **options,
        }
    )
    consumer.assign([partition])
    return consumer


def next_offsets(consumer: KafkaConsumer, partition: TopicPartition) -> list[int]:
    """Those of one poll that brings something."""
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        records = consumer.poll(timeout_ms=500)
        if records:
            return [record.offset for record in records[partition]]
    pytest.fail("nothing came")


def test_committed_and_resumed_without_automatic_commits(
    cluster: Cluster, group: str, partition: TopicPartition
) -> None:
    with reader(cluster, group, partition, enable_auto_commit=False) as consumer:
        assert consumer.committed(partition) is None
        assert next_offsets(consumer, partition) == [0, 1, 2, 3, 4]
        consumer.commit()
        assert next_offsets(consumer, partition) == [5, 6, 7, 8, 9]
    with reader(cluster, group, partition, enable_auto_commit=False) as consumer:
        assert consumer.committed(partition) == 5
        assert next_offsets(consumer, partition) == [5, 6, 7, 8, 9]


def test_committed_and_resumed_with_automatic_commits(
    cluster: Cluster, group: str, partition: TopicPartition
) -> None:
    with reader(cluster, group, partition, auto_commit_interval_ms=50) as consumer:
        assert next_offsets(consumer, partition) == [0, 1, 2, 3, 4]
        time.sleep(0.1)
        assert next_offsets(consumer, partition) == [5, 6, 7, 8, 9]
        consumer.pause(partition)
        deadline = time.monotonic() + TIMEOUT
        while consumer.committed(partition) != 10:
            consumer.poll(timeout_ms=20)
            assert time.monotonic() < deadline
    with reader(cluster, group, partition) as consumer:
        assert consumer.position(partition) == 10, "close has committed"
        for record in consumer:
            if record.offset == 12:
                break
    with reader(cluster, group, partition) as consumer:
        assert consumer.position(partition) == 13, "only what iteration has handed out"


def test_metadata_and_leader_epoch_are_kept(cluster: Cluster, group: str, partition: TopicPartition) -> None:
    with reader(cluster, group, partition, enable_auto_commit=False) as consumer:
        next_offsets(consumer, partition)
        consumer.commit()
        assert consumer.committed(partition, metadata=True) == OffsetAndMetadata(5, "", 0)
        consumer.commit({partition: OffsetAndMetadata(7, "half past two", 0)})
        assert consumer.committed(partition, metadata=True) == OffsetAndMetadata(7, "half past two", 0)
        consumer.commit({partition: OffsetAndMetadata(6, "back", -1)})
        assert consumer.committed([partition]) == {partition: OffsetAndMetadata(6, "back", -1)}
        with pytest.raises(OffsetMetadataTooLarge, match=str(partition)):
            consumer.commit({partition: OffsetAndMetadata(7, "x" * 5000)})
        assert consumer.group_metadata().generation_id == -1


def test_asynchronous_commits_come_in_order(cluster: Cluster, group: str, partition: TopicPartition) -> None:
    calls: list[tuple[int, Any]] = []
    with reader(cluster, group, partition, enable_auto_commit=False) as consumer:
        consumer.commit({partition: 0})
        for offset in range(1, 21):
            consumer.commit_async(
                {partition: offset}, lambda offsets, error: calls.append((offsets[partition].offset, error))
            )
        consumer.commit({partition: 3})
        assert calls == [(offset, None) for offset in range(1, 21)]
        assert consumer.committed(partition) == 3


def test_confluents_client_and_ours_read_one_anothers_commits(
    cluster: Cluster, group: str, partition: TopicPartition
) -> None:
    from confluent_kafka import Consumer
    from confluent_kafka import TopicPartition as Theirs

    theirs: Any = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group})
    with reader(cluster, group, partition, enable_auto_commit=False) as consumer:
        # Without metadata: confluent-kafka shows bytes that lie behind it in memory.
        consumer.commit({partition: 7})
        [read] = theirs.committed([Theirs(*partition)], timeout=TIMEOUT)
        assert read.offset == 7
        theirs.commit(offsets=[Theirs(*partition, 9)], asynchronous=False)
        found = consumer.committed(partition, metadata=True)
        assert found is not None
        assert found.offset == 9
    theirs.close()


def test_an_unknown_topic_is_a_failure_that_may_pass(cluster: Cluster, group: str) -> None:
    nowhere = TopicPartition("conformance-nowhere", 0)
    calls: list[Any] = []
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, group_id=group) as consumer:
        consumer.commit_async({nowhere: 1}, lambda offsets, error: calls.append(error))
        consumer.commit({})
    assert isinstance(calls[0], RetriableCommitFailed)
